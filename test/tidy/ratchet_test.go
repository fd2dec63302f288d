// Package tidy keeps what is good about the shape of the repository, and lets what is not yet good
// only get better: decision 23. Each file of it is one check. Its list of known exceptions stands
// in it, with the number each has today: the test fails when a number grows, when an exception
// comes that is not listed, and when a listed one became smaller, so that the list follows.
package tidy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// ratchet is a list of numbers that may only shrink.
type ratchet struct {
	list  string // where it stands: file and variable
	known map[string]int
	unit  string // what is counted: "lines"
	why   string // said once where something grew or is new: what to do
}

// sayRaised is said where a number grew. TestRaises holds commits to it.
const sayRaised = "A commit that raises a number or adds a line needs a line in the body of its message that says why: " + raisesWord + " …"

// compare says where the numbers found are not those of the list, and then which lines the list
// needs.
func (r ratchet) compare(found map[string]int) []string {
	var problems []string
	var lines strings.Builder
	raised := false
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n, known := found[name], r.known[name]
		switch {
		case n == known:
			continue
		case n > known && known > 0:
			problems = append(problems, fmt.Sprintf("%s: %d %s, and %s allows %d", name, n, r.unit, r.list, known))
		case n > known:
			problems = append(problems, fmt.Sprintf("%s: %d %s, and it is not in %s", name, n, r.unit, r.list))
		default:
			problems = append(problems, fmt.Sprintf("%s: only %d %s now, well done. Write %d in place of %d in %s, so that it stays so.", name, n, r.unit, n, known, r.list))
		}
		raised = raised || n > known
		fmt.Fprintf(&lines, "\n\t\t%q: %d,", name, n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		if _, ok := found[name]; !ok {
			problems = append(problems, fmt.Sprintf("%s: gone, or within the limit now. Delete it from %s.", name, r.list))
		}
	}
	if raised {
		problems = append(problems, r.why+" "+sayRaised)
	}
	if lines.Len() > 0 {
		problems = append(problems, "The lines as they are now, for "+r.list+":"+lines.String())
	}
	return problems
}

// difference says which names are found and not listed, or listed and not found. A name that is
// there twice has to be listed twice.
func difference(found, listed []string, missing, stale string) []string {
	balance := map[string]int{}
	for _, name := range found {
		balance[name]++
	}
	for _, name := range listed {
		balance[name]--
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(balance)) {
		switch n := balance[name]; {
		case n > 0:
			problems = append(problems, name+": "+missing)
		case n < 0:
			problems = append(problems, name+": "+stale)
		}
	}
	return problems
}

// files is every Go file of the repository.
func files(t *testing.T) []*source.File {
	t.Helper()
	all, err := source.Go()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// product is the Go files of the repository that are built for users.
func product(t *testing.T) []*source.File {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(files(t)), func(f *source.File) bool { return !f.Product() })
}

// parse makes a file of a text, for the tests of the checks themselves.
func parse(t *testing.T, path, text string) *source.File {
	t.Helper()
	f, err := source.Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestRatchet(t *testing.T) {
	t.Parallel()
	r := ratchet{list: "the list", known: map[string]int{"same": 80, "grows": 80, "shrinks": 80, "gone": 80}, unit: "lines", why: "Cut it."}
	got := r.compare(map[string]int{"same": 80, "grows": 81, "shrinks": 79, "new": 71})
	want := []string{
		"grows: 81 lines, and the list allows 80",
		"new: 71 lines, and it is not in the list",
		"shrinks: only 79 lines now, well done. Write 79 in place of 80 in the list, so that it stays so.",
		"gone: gone, or within the limit now. Delete it from the list.",
		"Cut it. " + sayRaised,
		"The lines as they are now, for the list:\n\t\t\"grows\": 81,\n\t\t\"new\": 71,\n\t\t\"shrinks\": 79,",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := r.compare(map[string]int{"same": 80, "grows": 80, "shrinks": 79}); slices.Contains(got, "Cut it. "+sayRaised) {
		t.Errorf("nothing grew: %q", got)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	got := difference([]string{"a", "b", "b"}, []string{"a", "b", "c"}, "not listed", "not found")
	if want := []string{"b: not listed", "c: not found"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
