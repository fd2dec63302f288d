package tidy

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/test/source"
)

const (
	maxFunctionLines = 70  // from func to the closing brace: more than a screen is not read at once
	maxFileLines     = 600 // more is two subjects
)

var functionLengths = ratchet{
	list: "longFunctions in test/tidy/lengths_test.go", known: longFunctions, unit: "lines",
	why: "70 lines are the limit: move a step that can be named into a function of its own.",
}

var fileLengths = ratchet{
	list: "longFiles in test/tidy/lengths_test.go", known: longFiles, unit: "lines",
	why: "600 lines are the limit: move one of its subjects into a file of its own.",
}

// longFunctions are the functions over the limit, by file and name, with their lines.
var longFunctions = map[string]int{}

// longFiles are the files over the limit, with their lines.
var longFiles = map[string]int{}

func TestFunctionLength(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, f := range files(t) {
		maps.Copy(found, functionsOver(maxFunctionLines, f))
	}
	report(t, functionLengths.compare(found))
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, f := range files(t) {
		if f.Lines > maxFileLines {
			found[f.Path] = f.Lines
		}
	}
	report(t, fileLengths.compare(found))
}

// functionsOver is the lines of the functions of a file that have more than limit.
func functionsOver(limit int, f *source.File) map[string]int {
	found := map[string]int{}
	for name, d := range f.Declarations() {
		if n := f.Line(d.End()) - f.Line(d.Pos()) + 1; name != "" && n > limit {
			found[f.Path+" "+name] = n
		}
	}
	return found
}

func TestFunctionsOver(t *testing.T) {
	t.Parallel()
	f := parse(t, "a/b.go", "package a\n\n// A comment does not count.\nfunc (r *ring[T]) fill() {\n"+strings.Repeat("\tg()\n", 9)+"}\n\nfunc g() {\n}\n")
	if got, want := functionsOver(10, f), map[string]int{"a/b.go ring.fill": 11}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
	if got := functionsOver(11, f); len(got) != 0 {
		t.Errorf("11 lines are not more than 11: %v", got)
	}
}
