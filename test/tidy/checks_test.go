package tidy

import (
	"fmt"
	"maps"
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

// untested are the checks of docs/rules that no test names, each with the reason.
var untested = map[string]string{}

var (
	check      = regexp.MustCompile(`\b(SM|WP|MA)-(\d{3})([a-z]?)\b`)
	checkRange = regexp.MustCompile(`\b(SM|WP|MA)-(\d{3}) to (?:SM-|WP-|MA-)?(\d{3})\b`)
	// where a page says what a check is
	settled = regexp.MustCompile(`^(?:\| |- )((?:SM|WP|MA)-\d{3}[a-z]?)\b`)
)

// checksIn is the checks that a text names, singly or as a range.
func checksIn(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range check.FindAllString(text, -1) {
		all[m] = true
	}
	for _, m := range checkRange.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		for n := from; n <= to; n++ {
			all[fmt.Sprintf("%s-%03d", m[1], n)] = true
		}
	}
	return all
}

// settledChecks is the checks that the pages of docs/rules settle, and the page of each.
func settledChecks(t *testing.T, l library) map[string]string {
	t.Helper()
	all := map[string]string{}
	for p, d := range l.documents {
		if path.Dir(p) != "docs/rules" {
			continue
		}
		for _, line := range d.text {
			if m := settled.FindStringSubmatch(line); m != nil {
				if other, twice := all[m[1]]; twice {
					t.Errorf("%s is settled in %s and in %s", m[1], other, p)
				}
				all[m[1]] = p
			}
		}
	}
	return all
}

// tests is every text by which checks are tested: Go tests, the scripts of the rules, and the
// scenarios of the SDKs.
func tests(t *testing.T, l library) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for p := range l.paths {
		script, _ := path.Match("*/testdata/*.txt", p)
		if script || strings.HasSuffix(p, "_test.go") && path.Dir(p) != "test/tidy" || strings.HasPrefix(p, "test/sdk/") && path.Ext(p) != "" && path.Ext(p) != ".md" {
			text, err := os.ReadFile(filepath.Join(source.Root, p))
			if err != nil {
				t.Fatal(err)
			}
			texts[p] = string(text)
		}
	}
	return texts
}

// Every check that anything cites is settled in docs/rules, and every one that is settled there is
// named by a test, or says why not.
func TestChecks(t *testing.T) {
	t.Parallel()
	l := repository(t)
	known := settledChecks(t, l)
	for from, text := range citing(t, l) {
		if path.Dir(from) == "test/tidy" {
			continue
		}
		for name := range checksIn(text) {
			if known[name] == "" && !between(known, name) {
				t.Errorf("%s names %s, which no page of docs/rules has", from, name)
			}
		}
	}
	tested := map[string]bool{}
	for _, text := range tests(t, l) {
		maps.Copy(tested, checksIn(text))
	}
	excused := map[string]bool{}
	for names := range untested {
		maps.Copy(excused, checksIn(names))
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		switch {
		case !tested[name] && !excused[name]:
			t.Errorf("%s of %s has no test that names it; if it cannot have one yet, say why in untested of test/tidy/checks_test.go", name, known[name])
		case tested[name] && excused[name]:
			t.Errorf("%s has a test now: take it out of untested in test/tidy/checks_test.go", name)
		}
	}
}

// between reports that a check is one of the free numbers within a series: a range of checks may
// pass over it.
func between(known map[string]string, name string) bool {
	series := slices.Sorted(maps.Keys(known))
	i, _ := slices.BinarySearch(series, name)
	return i > 0 && i < len(series) && series[i-1][:2] == name[:2] && series[i][:2] == name[:2]
}

func TestChecksIn(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(checksIn("SM-001, WP-110a and MA-007 to MA-009, SM-020 to 022; SM-1 and XSM-002 are none")))
	want := []string{"MA-007", "MA-008", "MA-009", "SM-001", "SM-020", "SM-021", "SM-022", "WP-110a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var (
	statement = regexp.MustCompile(`^\| (S[0-4]-\d\d) \|`)
	stated    = regexp.MustCompile(`\bS[0-4]-\d\d\b`)
	// what asks for no check of the broker
	noStatement = []string{"client only", "client side", "out of core", "transport", "scenario", "superseded", "advice", "a figure", "none here"}
)

// Every statement of what was asked for is checked: it names a check, or another statement that
// does, or says that it puts no duty on the broker.
func TestStatements(t *testing.T) {
	t.Parallel()
	l := repository(t)
	known := settledChecks(t, l)
	rows := map[string]string{}
	for _, line := range l.documents["docs/rules/statements.md"].text {
		if m := statement.FindStringSubmatch(line); m != nil {
			if rows[m[1]] != "" {
				t.Errorf("%s stands twice in docs/rules/statements.md", m[1])
			}
			rows[m[1]] = strings.TrimPrefix(line, m[0])
		}
	}
	if len(rows) < 200 {
		t.Fatalf("docs/rules/statements.md has only %d statements", len(rows))
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		checked := slices.ContainsFunc(noStatement, func(word string) bool { return strings.Contains(strings.ToLower(row), word) })
		for c := range checksIn(row) {
			if known[c] == "" {
				t.Errorf("%s names %s, which no page of docs/rules has", name, c)
			}
			checked = true
		}
		for _, other := range stated.FindAllString(row, -1) {
			if rows[other] == "" {
				t.Errorf("%s names %s, which is no statement", name, other)
			}
			checked = checked || len(checksIn(rows[other])) > 0
		}
		if !checked {
			t.Errorf("%s names no check: say which of docs/rules it is, or why there is none", name)
		}
	}
}
