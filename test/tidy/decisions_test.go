package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var decisionPage = regexp.MustCompile(`^docs/decisions/(\d{4})-[a-z0-9-]+\.md$`)

// wrongDecisions says which pages of docs/decisions are not named and headed by a number of their
// own.
func (l library) wrongDecisions() (problems []string) {
	pages := map[string]string{}
	for p, d := range l.documents {
		if path.Dir(p) != "docs/decisions" || path.Base(p) == "README.md" {
			continue
		}
		m := decisionPage.FindStringSubmatch(p)
		if m == nil {
			problems = append(problems, p+": a decision is a page NNNN-what-it-is-about.md")
			continue
		}
		if other := pages[m[1]]; other != "" {
			problems = append(problems, fmt.Sprintf("%s and %s have one number", min(p, other), max(p, other)))
		}
		pages[m[1]] = p
		if want := "# " + strings.TrimLeft(m[1], "0") + ". "; len(d.text) == 0 || !strings.HasPrefix(d.text[0], want) {
			problems = append(problems, fmt.Sprintf("%s: its heading begins with %q", p, want))
		}
	}
	slices.Sort(problems)
	return problems
}

// Every decision has a number of its own, in its name and in its heading.
func TestDecisions(t *testing.T) {
	t.Parallel()
	report(t, repository(t).wrongDecisions())
}

func TestWrongDecisions(t *testing.T) {
	t.Parallel()
	page := func(p, text string) document { return newDocument("docs/decisions/"+p, text) }
	got := newLibrary(nil, page("README.md", "# Decisions\n"), page("0007-good.md", "# 7. Good\n"), page("0008-a.md", "# 8. A\n"), page("0008-b.md", "# 8. B\n"),
		page("0009-c.md", "# Ten\n"), page("notes.md", "# 1. N\n")).wrongDecisions()
	want := []string{
		"docs/decisions/0008-a.md and docs/decisions/0008-b.md have one number",
		`docs/decisions/0009-c.md: its heading begins with "# 9. "`,
		"docs/decisions/notes.md: a decision is a page NNNN-what-it-is-about.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
