package tidy

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/test/source"
)

const maxMethods = 40

// methodCounts are the product types with more methods than the limit, counted as methods does.
var methodCounts = ratchet{
	list: "methodCounts in test/tidy/methods_test.go", unit: "methods",
	why: "40 are the limit, and a type over it may not grow. Embedded types, wrappers and functions that take the type first count as well: " +
		"give what belongs together a small type with state of its own, as with timers or answers in protocol/servicebus.",
	known: map[string]int{
		"cmd/ledgerbus.administration": 55,
		"engine.acceptDecision":        56,
		"engine.catalogueDecision":     52,
		"engine.decision":              51,
		"engine.deferredDecision":      58,
		"engine.duplicateCheck":        57,
		"engine.importDecision":        56,
		"engine.publishDecision":       65,
		"engine.receiveDecision":       57,
		"engine.sendDecision":          65,
		"engine.settleDecision":        64,
		"engine.slice":                 54,
		"engine/host.Namespace":        94,
		"engine/ledger.Debugger":       49,
		"engine/ledger.Ledger":         47,
		"engine/ledger.baseState":      52,
		"engine/loop.Loop":             49,
		"index.Index":                  53,
		"index.slice":                  66,
		"log.partition":                86,
		"log.writer":                   42,
		"protocol/ledger.lineAnswer":   42,
		"protocol/amqp.fields":         71,
		"protocol/atom.entityRequest":  44,
		"protocol/servicebus.conn":     46,
		"protocol/servicebus.link":     41,
		"protocol/servicebus.request":  51,
		"tools/client/admin.Client":    46,
	},
}

func TestMethodCount(t *testing.T) {
	t.Parallel()
	found := methods(product(t))
	maps.DeleteFunc(found, func(_ string, n int) bool { return n <= maxMethods })
	report(t, methodCounts.compare(found))
}

// methods counts what belongs to each type, by package and name:
//
//   - its methods, and those of its wrappers: types of the package that hold a pointer to it, or
//     it, and nothing else. A wrapper is not counted by itself.
//   - the functions of the package that could be methods of one of these.
//   - the methods of the types of this module that one of these embeds, and so on.
//
// Everything counts once, also where files for different systems declare it.
func methods(files []*source.File) map[string]int {
	types := readTypes(files)
	found := map[string]int{}
	for name, info := range types {
		if n := len(types.members(name)); n > 0 && !info.isWrapper {
			found[name] = n
		}
	}
	return found
}

// typeInfo is what the files say of a type.
type typeInfo struct {
	methods, functions []string
	embeds, wrappers   []string // types
	isWrapper          bool
	// isMutable: a method has a pointer receiver, or the type wraps a pointer. Other types are
	// plain data when they are no pointers: functions that take them are no methods in disguise.
	isMutable bool
}

// typeTable is the types by package and name: "log.walk".
type typeTable map[string]*typeInfo

// at returns a type, which is added when nothing was said of it before.
func (types typeTable) at(name string) *typeInfo {
	if types[name] == nil {
		types[name] = &typeInfo{}
	}
	return types[name]
}

// readTypes reads methods first: they say which types are mutable.
func readTypes(files []*source.File) typeTable {
	types := typeTable{}
	for _, f := range files {
		for name, d := range f.Declarations() {
			if of, _, isMethod := strings.Cut(name, "."); isMethod {
				info := types.at(f.Package() + "." + of)
				info.methods = append(info.methods, f.Package()+"."+name)
				info.isMutable = info.isMutable || isPointer(d.(*ast.FuncDecl).Recv.List[0].Type)
			}
		}
		for _, spec := range typeSpecs(f) {
			if only := onlyField(spec.Type); only != nil && isPointer(only) {
				types.at(f.Package() + "." + spec.Name.Name).isMutable = true
			}
		}
	}
	for _, f := range files {
		for _, spec := range typeSpecs(f) {
			types.addFields(f, spec)
		}
		for name, d := range f.Declarations() {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				types.addFunction(f, name, fn.Type)
			}
		}
	}
	return types
}

// addFields notes what a type embeds, and what it wraps.
func (types typeTable) addFields(f *source.File, spec *ast.TypeSpec) {
	name := f.Package() + "." + spec.Name.Name
	if s, ok := spec.Type.(*ast.StructType); ok {
		for _, field := range s.Fields.List {
			if of := qualified(f, field.Type); len(field.Names) == 0 && of != "" {
				types.at(name).embeds = append(types.at(name).embeds, of)
			}
		}
	}
	if wrapped := types.mutable(f, onlyField(spec.Type)); wrapped != nil {
		wrapped.wrappers = append(wrapped.wrappers, name)
		types.at(name).isWrapper = true
	}
}

// addFunction notes a function that could be a method of the type that it takes first, or behind a
// context. A constructor could not: newWriter, or a function that returns the type that it takes.
func (types typeTable) addFunction(f *source.File, name string, fn *ast.FuncType) {
	params := fn.Params.List
	if len(params) > 1 && source.TypeName(params[0].Type) == "context.Context" {
		params = params[1:]
	}
	if len(params) == 0 {
		return
	}
	of := types.mutable(f, params[0].Type)
	if of == nil {
		return
	}
	if fn.Results != nil {
		for _, r := range fn.Results.List {
			made := source.TypeName(r.Type)
			if made == source.TypeName(params[0].Type) || strings.EqualFold(name, "new"+made) {
				return
			}
		}
	}
	of.functions = append(of.functions, f.Package()+"."+name)
}

// mutable returns the type of the file's package that an expression is, or points to. It returns
// nil for plain data, for other types, and without an expression.
func (types typeTable) mutable(f *source.File, x ast.Expr) *typeInfo {
	info := types[f.Package()+"."+source.TypeName(x)]
	if info == nil || !isPointer(x) && !info.isMutable {
		return nil
	}
	return info
}

// members is the methods and functions that belong to a type.
func (types typeTable) members(name string) map[string]bool {
	all := map[string]bool{}
	family := []string{name}
	for i := 0; i < len(family); i++ {
		info := types.at(family[i])
		for _, f := range info.functions {
			all[f] = true
		}
		family = appendNew(family, info.wrappers)
	}
	for i := 0; i < len(family); i++ {
		info := types.at(family[i])
		for _, m := range info.methods {
			all[m] = true
		}
		family = appendNew(family, info.embeds)
	}
	return all
}

// appendNew appends the names that are not there yet.
func appendNew(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// typeSpecs is the types that a file declares at its top level.
func typeSpecs(f *source.File) (specs []*ast.TypeSpec) {
	for _, d := range f.Tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					specs = append(specs, s)
				}
			}
		}
	}
	return specs
}

// onlyField is the type of a struct's only field. A type that is no struct has itself for one; a
// struct with more fields, or none, has no such type.
func onlyField(x ast.Expr) ast.Expr {
	s, ok := x.(*ast.StructType)
	switch {
	case !ok:
		return x
	case s.Fields.NumFields() == 1:
		return s.Fields.List[0].Type
	default:
		return nil
	}
}

func isPointer(x ast.Expr) bool {
	_, ok := x.(*ast.StarExpr)
	return ok
}

const module = "github.com/ledgerbus/ledgerbus/"

// qualified is the name of a type of this module with the directory of its package, "" for others.
func qualified(f *source.File, x ast.Expr) string {
	of, name, foreign := strings.Cut(source.TypeName(x), ".")
	if !foreign {
		return f.Package() + "." + of
	}
	for _, imp := range f.Tree.Imports {
		dir, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
		if as := imp.Name; ours && (as == nil && path.Base(dir) == of || as != nil && as.Name == of) {
			return dir + "." + name
		}
	}
	return ""
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

const walkText = `package a

import (
	"context"
	"log"
	b "github.com/ledgerbus/ledgerbus/other"
)

type walk struct {
	*b.Reader
	log.Logger
	part
	n int
}

func (w *walk) own() {}

func first(w *walk)                          {}
func behind(ctx context.Context, w *walk)    {}
func ofWrapper(w sealedWalk)                 {}
func second(n int, w *walk)                  {}
func newCursor(w *walk) (*cursor, error)     { return nil, nil }
func grown(w *walk) *walk                    { return w }
func context1(ctx context.Context)           {}
func size(m Mark) int                        { return 0 }
`

const wrappersText = `package a

type sealedWalk struct{ *walk }
type named struct{ w sealedWalk }
type defined walk
type cursor struct {
	*walk
	at int
}
type part struct{ w *walk }
type Mark struct{ LSN int }
type noted struct{ Mark }

func (sealedWalk) sealed() {}
func (named) named()       {}
func (*defined) defined()  {}
func (cursor) next()       {}
func (part) part()         {}
func (Mark) String() string { return "" }
func (noted) note()        {}
`

func TestMembers(t *testing.T) {
	t.Parallel()
	types := readTypes([]*source.File{
		parse(t, "a/walk.go", walkText),
		parse(t, "a/wrappers.go", wrappersText),
		parse(t, "other/b.go", "package other\ntype Reader struct{ inner }\ntype inner struct{}\nfunc (*Reader) Read() {}\nfunc (inner) deep() {}\nfunc take(r *Reader) {}\n"),
		parse(t, "log/b.go", "package log\ntype Logger struct{}\nfunc (*Logger) Print() {}\n"),
	})
	walk := []string{
		"a.behind", "a.defined.defined", "a.first", "a.named.named", "a.ofWrapper", "a.part.part",
		"a.sealedWalk.sealed", "a.walk.own", "other.Reader.Read", "other.inner.deep",
	}
	for name, want := range map[string][]string{
		"a.walk":       walk,
		"a.Mark":       {"a.Mark.String"},
		"other.Reader": {"other.Reader.Read", "other.inner.deep", "other.take"},
		"a.noted":      {"a.Mark.String", "a.noted.note"},
		"a.cursor":     {"a.cursor.next", "a.part.part", "a.walk.own", "other.Reader.Read", "other.inner.deep"},
	} {
		if got := slices.Sorted(maps.Keys(types.members(name))); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"a.sealedWalk": true, "a.part": true, "a.noted": false, "a.cursor": false} {
		if got := types[name].isWrapper; got != want {
			t.Errorf("%s is a wrapper: %v, want %v", name, got, want)
		}
	}
}
