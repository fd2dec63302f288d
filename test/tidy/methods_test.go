package tidy

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/test/source"
)

const maxMethods = 40

// methodCounts are the product types with more methods than the limit.
var methodCounts = ratchet{
	list: "methodCounts in test/tidy/methods_test.go", unit: "methods",
	why:   "40 are the limit, and what is over it may not grow: give what belongs together a small type of its own, as with timers or answers in protocol/servicebus.",
	known: map[string]int{},
}

func TestMethodCount(t *testing.T) {
	t.Parallel()
	found := methods(product(t))
	maps.DeleteFunc(found, func(_ string, n int) bool { return n <= maxMethods })
	report(t, methodCounts.compare(found))
}

// methods is the number of methods of each type, by package and name. One that files for different systems declare counts once.
func methods(files []*source.File) map[string]int {
	found, seen := map[string]int{}, map[string]bool{}
	for _, f := range files {
		for name := range f.Declarations() {
			of, _, isMethod := strings.Cut(name, ".")
			if full := f.Package() + "." + name; isMethod && !seen[full] {
				seen[full] = true
				found[f.Package()+"."+of]++
			}
		}
	}
	return found
}

func TestMethods(t *testing.T) {
	t.Parallel()
	got := methods([]*source.File{
		parse(t, "a/b.go", "package a\ntype Ring struct{}\nfunc (Ring) One() {}\nfunc Two() {}\n"),
		parse(t, "a/c.go", "package a\nfunc (r *Ring) Three() {}\n"),
		parse(t, "a/c_linux.go", "package a\nfunc (r *Ring) Three() {}\n"),
		parse(t, "d/b.go", "package d\nfunc (r *Ring) Four() {}\n"),
	})
	if want := map[string]int{"a.Ring": 2, "d.Ring": 1}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
}
