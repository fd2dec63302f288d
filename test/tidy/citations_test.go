package tidy

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

var (
	citedDocument = regexp.MustCompile(`(?i)\b([\w./-]*[\w-]\.md)\b(?: (\d+(?:\.\d+)*|[FIMPST]\d+)\b)?`)
	citedDecision = regexp.MustCompile(`(?i)\bdecisions?[ /](\d+)\b`)
	citedSource   = regexp.MustCompile(`\b([\w/-]+\.go)\b`)
	section       = regexp.MustCompile(`^#+ (\d+(?:\.\d+)*)\b`)
	// "| F9 |", "- **P16 Show", "### T1", "S22. Cookies"
	settledLetter = regexp.MustCompile(`(?:^\| |^- \*\*|^#+ |^|\. )([FIMPST]\d+)(?:[. ]|$)`)
)

// citation is a document that a text names, and a section of it, if there is one: "log-format.md
// 5.2".
type citation struct {
	from     string // the path of the text
	document string
	section  string
}

// citations finds the documents that a text names. Decisions are named by their numbers: "decision
// 12", "docs/decisions/0012".
func citations(from, text string) (all []citation) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, ".md") { // few lines have one, and the expression is slow
			for _, m := range citedDocument.FindAllStringSubmatch(line, -1) {
				all = append(all, citation{from, m[1], m[2]})
			}
		}
		if strings.Contains(line, "ecision") {
			for _, m := range citedDecision.FindAllStringSubmatch(line, -1) {
				number, _ := strconv.Atoi(m[1])
				all = append(all, citation{from, fmt.Sprintf("docs/decisions/%04d", number), ""})
			}
		}
	}
	return all
}

// check says what is wrong with a citation of a document of the repository. It reports false for a
// document of another repository.
func (l library) check(c citation) (problem string, ours bool) {
	if number, ok := strings.CutPrefix(c.document, "docs/decisions/"); ok && path.Ext(number) == "" {
		for p := range l.documents {
			if strings.HasPrefix(p, c.document+"-") {
				return "", true
			}
		}
		return fmt.Sprintf("%s cites decision %s, which docs/decisions does not have", c.from, number), true
	}
	if !l.has(c.from, c.document) {
		// it may begin a sentence
		if c.document = strings.ToLower(c.document); !l.has(c.from, c.document) {
			return "", false
		}
	}
	for p, d := range l.documents {
		if c.section != "" && path.Base(p) == path.Base(c.document) && !d.hasSection(c.section) {
			return fmt.Sprintf("%s cites %s %s, but %s has no section of that number", c.from, c.document, c.section, p), true
		}
	}
	return "", true
}

// hasSection reports whether a document has a section of a number, or settles what stands under a
// letter and a number: F9.
func (d document) hasSection(number string) bool {
	return slices.ContainsFunc(d.text, func(line string) bool {
		if m := section.FindStringSubmatch(line); m != nil && m[1] == number {
			return true
		}
		for _, m := range settledLetter.FindAllStringSubmatch(line, -1) {
			if m[1] == number {
				return true
			}
		}
		return false
	})
}

func TestCitations(t *testing.T) {
	t.Parallel()
	l := repository(t)
	for from, text := range citing(t, l) {
		for _, c := range citations(from, text) {
			problem, ours := l.check(c)
			if problem != "" {
				t.Error(problem)
			} else if !ours {
				t.Errorf("%s cites %s, which is not in the repository: say the reason itself, or cite a document or a decision that is", from, c.document)
			}
		}
	}
}

// Comments that send their reader to another Go file name one that is there.
func TestCitedSources(t *testing.T) {
	t.Parallel()
	l := repository(t)
	for _, f := range files(t) {
		report(t, l.deadSources(f.Path, comments(f)))
	}
}

// deadSources says which Go files a text of a package names that are not there. One without a
// folder is of the same package.
func (l library) deadSources(from, text string) (problems []string) {
	if !strings.Contains(text, ".go") {
		return nil
	}
	for _, m := range citedSource.FindAllStringSubmatch(text, -1) {
		beside := path.Join(path.Dir(from), m[1])
		if !l.paths[beside] && (!strings.Contains(m[1], "/") || !l.has(from, m[1])) {
			problems = append(problems, fmt.Sprintf("%s: a comment names %s, and there is no %s. Was it renamed? One of another package needs its folder.", from, m[1], beside))
		}
	}
	return problems
}

// citing is every text that may cite, by its path: documents, comments of Go files, and the scripts
// of the rules.
func citing(t *testing.T, l library) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for p, d := range l.documents {
		texts[p] = strings.Join(d.text, " ")
	}
	for _, f := range files(t) {
		texts[f.Path] = comments(f)
	}
	for p := range l.paths {
		if ok, _ := path.Match("engine/testdata/*.txt", p); ok {
			text, err := os.ReadFile(filepath.Join(source.Root, p))
			if err != nil {
				t.Fatal(err)
			}
			texts[p] = string(text)
		}
	}
	return texts
}

// comments is the text of a file's comments, a line each.
func comments(f *source.File) string {
	var b strings.Builder
	for _, group := range f.Tree.Comments {
		b.WriteString(strings.ReplaceAll(group.Text(), "\n", " ") + "\n")
	}
	return b.String()
}

func TestCheckCitations(t *testing.T) {
	t.Parallel()
	f := parse(t, "log/a.go", `package log

// See log-format.md 5.2 and docs/log-format.md 9, decision 12, docs/decisions/0013 and Semantics.md 8.3.
var name = "semantics.md in a text is no citation"
`)
	l := newLibrary([]string{"docs/log-format.md", "docs/decisions/0012-room.md"},
		newDocument("docs/log-format.md", "## 5. Start\n### 5.2 Writing\n"), newDocument("docs/decisions/0012-room.md", "# 12. Room\n"))
	var problems, foreign []string
	for _, c := range citations(f.Path, comments(f)) {
		problem, ours := l.check(c)
		if problem != "" {
			problems = append(problems, problem)
		}
		if !ours {
			foreign = append(foreign, c.document)
		}
	}
	want := []string{
		"log/a.go cites docs/log-format.md 9, but docs/log-format.md has no section of that number",
		"log/a.go cites decision 0013, which docs/decisions does not have",
	}
	if !slices.Equal(problems, want) || !slices.Equal(foreign, []string{"Semantics.md"}) {
		t.Errorf("got %q and, of others, %q\nwant %q and Semantics.md", problems, foreign, want)
	}
}

func TestDeadSources(t *testing.T) {
	t.Parallel()
	l := newLibrary([]string{"log/a.go", "protocol/amqp/b.go"})
	got := l.deadSources("log/a.go", "a.go writes what amqp/b.go reads, as b.go and amqp/a.go do")
	want := []string{
		"log/a.go: a comment names b.go, and there is no log/b.go. Was it renamed? One of another package needs its folder.",
		"log/a.go: a comment names amqp/a.go, and there is no log/amqp/a.go. Was it renamed? One of another package needs its folder.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
