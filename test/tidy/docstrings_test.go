package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/source"
)

// plain are the methods that need no comment, because an interface of the standard library says
// what they do.
var plain = []string{"String", "Error", "Unwrap", "Is", "Len", "Less", "Swap", "MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON"}

// undocumented says which exported names of a file have no comment. Members of an enumeration need
// none where its type, or the group, has one.
func undocumented(f *source.File) (problems []string) {
	missing := func(name string) {
		problems = append(problems, fmt.Sprintf("%s: %s has no doc comment. Say what it means, in which unit, which errors there are, and which rule it follows.", f.Path, name))
	}
	for _, d := range f.Tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !d.Name.IsExported() || d.Recv != nil && (!receiverExported(d) || slices.Contains(plain, d.Name.Name)):
			case d.Doc == nil:
				missing(d.Name.Name)
			case !strings.HasPrefix(d.Doc.Text(), d.Name.Name):
				problems = append(problems, fmt.Sprintf("%s: the doc comment of %s does not begin with its name", f.Path, d.Name.Name))
			}
		case *ast.GenDecl:
			enumeration := false
			for i, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil {
						missing(s.Name.Name)
					}
				case *ast.ValueSpec:
					enumeration = enumeration || d.Tok == token.CONST && i == 0 && s.Type != nil
					if s.Doc != nil || s.Comment != nil || d.Doc != nil || enumeration || d.Tok == token.CONST && s.Type != nil {
						continue
					}
					for _, name := range s.Names {
						if name.IsExported() {
							missing(name.Name)
						}
					}
				}
			}
		}
	}
	return problems
}

// receiverExported reports whether a method is one of an exported type.
func receiverExported(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			id, ok := t.(*ast.Ident)
			return ok && id.IsExported()
		}
	}
}

// Every exported name of the product says what it means.
func TestDocComments(t *testing.T) {
	t.Parallel()
	for _, f := range product(t) {
		report(t, undocumented(f))
	}
}

func TestUndocumented(t *testing.T) {
	t.Parallel()
	got := undocumented(parse(t, "log/a.go", `package log

// A is one.
type A int

type B int

const (
	One A = iota
	Two
)

var C = 1

func (A) String() string { return "" }
func (A) Do()           {}
func (b) Do()           {}

// It does.
func D() {}

// E does.
func E() {}
`))
	want := []string{"B", "C", "Do", "D"}
	for i, problem := range got {
		if i >= len(want) || !strings.Contains(problem, " "+want[i]+" ") {
			t.Errorf("got %q, want problems of %q", got, want)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q, want problems of %q", got, want)
	}
}
