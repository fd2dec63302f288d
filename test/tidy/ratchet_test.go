// Package tidy keeps what is good about the shape of the repository, and lets what is not yet good only get better: decision 23. Each
// file of it is one check. Its list of known exceptions stands in it, with the number each has today: the test fails when a number
// grows, when an exception comes that is not listed, and when a listed one became smaller, so that the list follows.
package tidy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// ratchet is a list of numbers that may only shrink.
type ratchet struct {
	list  string // where it stands: file and variable
	known map[string]int
	unit  string // what is counted: "lines"
	why   string // said of what grew or is new: what to do
}

// compare says where the numbers found are not those of the list.
func (r ratchet) compare(found map[string]int) []string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch n, known := found[name], r.known[name]; {
		case n > known && known > 0:
			problems = append(problems, fmt.Sprintf("%s: %d %s, and %s allows %d. %s", name, n, r.unit, r.list, known, r.why))
		case n > known:
			problems = append(problems, fmt.Sprintf("%s: %d %s, and it is not in %s. %s", name, n, r.unit, r.list, r.why))
		case n < known:
			problems = append(problems, fmt.Sprintf("%s: only %d %s now, well done. Write %d in place of %d in %s, so that it stays so.", name, n, r.unit, n, known, r.list))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		if _, ok := found[name]; !ok {
			problems = append(problems, fmt.Sprintf("%s: gone, or within the limit now. Delete it from %s.", name, r.list))
		}
	}
	return problems
}

// difference says which names are found and not listed, or listed and not found. A name that is there twice has to be listed twice.
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
		"grows: 81 lines, and the list allows 80. Cut it.",
		"new: 71 lines, and it is not in the list. Cut it.",
		"shrinks: only 79 lines now, well done. Write 79 in place of 80 in the list, so that it stays so.",
		"gone: gone, or within the limit now. Delete it from the list.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	got := difference([]string{"a", "b", "b"}, []string{"a", "b", "c"}, "not listed", "not found")
	if want := []string{"b: not listed", "c: not found"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
