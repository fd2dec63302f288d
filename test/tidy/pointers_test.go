package tidy

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// acyclic are the packages whose types must not point to each other, directly or by way of others
// (decision 89): who reads one of them has to know only those below it.
var acyclic = []string{"engine/loop"}

func TestTypesPointOneWay(t *testing.T) {
	t.Parallel()
	for _, name := range acyclic {
		report(t, rings(name, product(t)))
	}
}

// rings says which types of a package point to each other.
func rings(name string, files []*source.File) (problems []string) {
	points := pointers(name, files)
	for _, from := range slices.Sorted(maps.Keys(points)) {
		if path := wayBack(points, from); path != nil && from == slices.Min(path) {
			problems = append(problems, name+": these types point to each other: "+strings.Join(append(path, from), " → "))
		}
	}
	return problems
}

// pointers are the types of a package that each of its types mentions: as a field, an element, a
// type argument, in the signature of a function, or embedded.
func pointers(name string, files []*source.File) map[string][]string {
	points := map[string][]string{}
	specs := map[string]ast.Expr{}
	for _, f := range files {
		if f.Package() != name {
			continue
		}
		for _, spec := range typeSpecs(f) {
			specs[spec.Name.Name] = spec.Type
		}
	}
	for from, typ := range specs {
		points[from] = nil
		var look func(n ast.Node) bool
		look = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr: // of another package
				return false
			case *ast.Field: // its name is not that of a type
				ast.Inspect(n.Type, look)
				return false
			case *ast.Ident:
				if _, ours := specs[n.Name]; ours && n.Name != from && !slices.Contains(points[from], n.Name) {
					points[from] = append(points[from], n.Name)
				}
			}
			return true
		}
		ast.Inspect(typ, look)
		slices.Sort(points[from])
	}
	return points
}

// wayBack is a shortest way from a type over others to itself, without its end; nil: there is none.
func wayBack(points map[string][]string, from string) []string {
	before := map[string]string{}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, to := range points[next[0]] {
			if to == from {
				path := []string{next[0]}
				for path[0] != from {
					path = slices.Insert(path, 0, before[path[0]])
				}
				return path
			}
			if _, seen := before[to]; !seen {
				before[to] = next[0]
				next = append(next, to)
			}
		}
	}
	return nil
}

func TestRings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"none":              {"type a struct{ b *b; c map[int]*c }\ntype b struct{ c c }\ntype c struct{ c *c; a int; x other.a }", ""},
		"two pointers":      {"type a struct{ b *b }\ntype b struct{ a *a }", "a → b → a"},
		"by way of a third": {"type a struct{ b []*b }\ntype b struct{ c }\ntype c struct{ f func(*a) }", "a → b → c → a"},
		"a type argument":   {"type a struct{ q fifo.Queue[*b] }\ntype b struct{ a map[string]a }", "a → b → a"},
		"an interface":      {"type a struct{ i i }\ntype i interface{ take(*a) }", "a → i → a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.want != "" {
				want = []string{"x/y: these types point to each other: " + c.want}
			}
			if got := rings("x/y", []*source.File{parse(t, "x/y/z.go", "package y\n\n"+c.text+"\n")}); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestOneFilePosts checks that replies leave a loop from one place: no other file of the package
// hands any to a sink.
func TestOneFilePosts(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		if f.Package() != "engine/loop" || f.Path == "engine/loop/replies.go" {
			continue
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Post" {
				t.Errorf("%s posts replies; that is for engine/loop/replies.go", f.Path)
			}
			return true
		})
	}
}
