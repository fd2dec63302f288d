package tidy

import (
	"go/ast"
	"go/token"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/test/source"
)

// exportedNames is how many names each product package exports, so that one more is a decision.
// Packages that export none are not listed. The goal for the types of engine is 60.
var exportedNames = ratchet{
	list: "exportedNames in test/tidy/exported_test.go", unit: "exported names",
	why: "Does another package use every new one? Then write the new number there, and a docstring at the name; else begin the name with a small letter.",
	known: map[string]int{
		"cmd/broker":   6,
		"cmd/settings": 62,
		// seven for what an operator is told of receivers, which partitions and connections say and
		// protocol/ledger joins; seven for how long history is kept; StepBack, which
		// protocol/servicebus sends
		"engine":            168,
		"engine/background": 15,
		"engine/host":       18,
		// commands of host 13, what a courier and a loop tell each other 4, ports for the
		// simulation 3, what happened in slices 2
		"engine/loop": 32,
		// four for explanations; Properties, by which ledger finds columns that there are not
		"engine/filter": 43,
		"index":         33, // what a tally is made from
		// Current, by which a loop and background find checkpoints of use; Cut gives history back;
		// two for states that are put away; a base is written for slices, too
		"index/replay":    15,
		"internal/budget": 9,
		// columns and questions of the verbs; one for an instant that has been; three for where
		// following begins; two for a message to trace; three for the debugger
		"engine/ledger":         43,
		"engine/present":        15,
		"engine/present/rows":   30,
		"tools/offline":         2,
		"engine/ledger/address": 4,
		// four to print events and rows without an allocation for each field
		"engine/ledger/print": 10,
		"internal/fifo":       1,
		"internal/jsontext":   2,
		"internal/private":    2,
		"internal/program":    6, // what the two binaries share
		"internal/quantity":   8,
		// the lock of a directory alone 1, the word for finished erasures 1, a part of a directory
		// 7, scrubbing 4, memory 2, bases 4, search 3, what a segment has 1, the room of a disk 7
		// (engine and /health)
		"log":      93,
		"log/disk": 29,
		// the word for finished erasures 1, four for how far a log was scrubbed
		"log/format": 89,
		// what a footer and the indexes say, which tools print; counting events, which log does for
		// chapters
		"log/sealed": 42,
		// most are the values of the facts, which have names for people who read a dump; 19 for
		// bases. Generated ones, the kinds, are not counted
		"log/event":              270,
		"protocol/access":        25,
		"protocol/amqp":          228, // RawDecimal, which protocol/message and tools/client need
		"protocol/atom":          2,
		"protocol/atom/document": 67,
		// a key that others can read, which atom and ledger refuse in their own words
		"protocol/caller":      9,
		"protocol/ledger":      3,
		"protocol/ledger/wire": 27,
		"protocol/listen":      12,
		"protocol/message":     31,
		"protocol/servicebus":  4,
		"tools/mirror":         8,
		"tools/doctor":         7,
		"tools":                16, // five for the census, which the command line prints
		"tools/bench":          15,
		"tools/excerpt":        10, // four for what becomes of bodies
		"tools/export":         10, // three for the formats
		"tools/output":         12, // three for the formats
		"tools/bench/floor":    5,
		"tools/client":         26, // one reads messages in JSON, for the command line
		"tools/client/admin":   13, // one for the health of a broker
		"types of engine":      90,
	},
}

func TestExportedNames(t *testing.T) {
	t.Parallel()
	report(t, exportedNames.compare(exported(product(t))))
}

// exported counts, by package, the exported names declared at the top level. Methods are not
// counted, and a name that files for different systems declare counts once. The types of engine,
// the package that all others meet in, are counted once more by themselves.
func exported(files []*source.File) map[string]int {
	seen := map[[2]string]bool{}
	for _, f := range files {
		for _, d := range f.Tree.Decls {
			for _, name := range declared(d) {
				if !ast.IsExported(name) {
					continue
				}
				seen[[2]string{f.Package(), name}] = true
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && f.Package() == "engine" {
					seen[[2]string{"types of engine", name}] = true
				}
			}
		}
	}
	found := map[string]int{}
	for of := range seen {
		found[of[0]]++
	}
	return found
}

// declared is the names that a declaration declares.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func TestExported(t *testing.T) {
	t.Parallel()
	got := exported([]*source.File{
		parse(t, "engine/a.go", "package engine\ntype A struct{}\nfunc (A) Method() {}\nfunc F() {}\nfunc g() {}\nconst (\n\tB, c = 1, 2\n\tD    = 3\n)\n"),
		parse(t, "engine/b.go", "package engine\nvar E, f int\ntype h int\n"),
		parse(t, "log/b.go", "package log\nvar e int\n"),
		parse(t, "log/f_linux.go", "package log\nfunc F() {}\n"),
		parse(t, "log/f_other.go", "//go:build !linux\n\npackage log\nfunc F() {}\n"),
	})
	if want := map[string]int{"engine": 5, "types of engine": 1, "log": 1}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
}
