package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// schema is the description of events in the source of package event.
type schema struct {
	Kinds  []*structure // events, by number
	Parts  []*structure // structs in events, by name, except those that are stored by hand
	Sets   []*namedType // types of constants that have words, by name
	types  map[string]*namedType
	stored map[string]codec // by type
	wrong  []string         // what cannot be generated, and why
}

// namedType is a type that the package declares.
type namedType struct {
	Name       string
	Constants  []string // in the following block
	Words      []string // of the constants
	under      ast.Expr
	directives map[string]string // by their names
	methods    []string
}

// structure is a struct of an event, or one in it.
type structure struct {
	*namedType
	Number     int // of an event, like the next four
	Verb, With string
	Fact       bool
	OwnSlice   bool // it names its slice besides a message
	Fields     []*field
}

// field is a field of a struct.
type field struct {
	Name, Type string
	Version    int    // version of the event that added the field
	With       string // capability that the field needs
	Export     string // column, and after a colon the member of the field for it
	in         string // the field with the flags among which this one is stored
	after      string // the field after which this one is stored
	low, high  string // values that a decoder accepts; "": those of the type
}

// codec is how the encoder and the decoder handle values of a type.
type codec struct {
	method   string // name of both methods
	pointer  bool   // the encoder's method takes a pointer
	readInto bool   // the decoder's method takes a pointer as well, and returns nothing
}

// problem records why something cannot be generated.
func (s *schema) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.wrong, text) {
		s.wrong = append(s.wrong, text)
	}
}

func (s *schema) err() error {
	if len(s.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.wrong, "\n"))
}

// read reads the handwritten source of the package in a directory.
func read(dir string) (*schema, error) {
	s := &schema{types: map[string]*namedType{}, stored: map[string]codec{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var methods []*ast.FuncDecl
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(f) {
			continue
		}
		s.readTypes(f)
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
				methods = append(methods, d)
			}
		}
	}
	s.readMethods(methods)
	s.readSets()
	s.readEvents()
	return s, nil
}

// readTypes reads the types of a file, each with the constants in the following block.
func (s *schema) readTypes(f *ast.File) {
	var last *namedType
	for _, d := range f.Decls {
		d, ok := d.(*ast.GenDecl)
		switch {
		case ok && d.Tok == token.TYPE:
			for _, spec := range d.Specs {
				spec := spec.(*ast.TypeSpec)
				last = &namedType{Name: spec.Name.Name, under: spec.Type, directives: directives(d.Doc)}
				s.types[last.Name] = last
			}
			continue
		case ok && d.Tok == token.CONST && last != nil:
			if first := d.Specs[0].(*ast.ValueSpec); first.Type != nil && typeOf(first.Type) == last.Name {
				for _, spec := range d.Specs {
					last.Constants = append(last.Constants, spec.(*ast.ValueSpec).Names[0].Name)
				}
			}
		}
		last = nil
	}
}

// directives returns the lines of a comment that begin with //event: and a name, by that name.
func directives(doc *ast.CommentGroup) map[string]string {
	found := map[string]string{}
	if doc == nil {
		return found
	}
	for _, c := range doc.List {
		if text, ok := strings.CutPrefix(c.Text, "//event:"); ok {
			name, rest, _ := strings.Cut(text, " ")
			found[name] = rest
		}
	}
	return found
}

// readMethods reads the signatures of methods: which types have methods, and which types encoder
// and decoder handle.
func (s *schema) readMethods(methods []*ast.FuncDecl) {
	encodes, decodes := map[string]string{}, map[string]string{} // types by methods
	for _, d := range methods {
		name, of := d.Name.Name, strings.TrimPrefix(typeOf(d.Recv.List[0].Type), "*")
		if t := s.types[of]; t != nil {
			t.methods = append(t.methods, name)
		}
		params, results := typesOf(d.Type.Params), typesOf(d.Type.Results)
		switch {
		case of == "encoder" && len(params) == 1 && len(results) == 0:
			encodes[name] = params[0]
		case of == "decoder" && len(params) == 0 && len(results) == 1:
			decodes[name] = results[0]
		case of == "decoder" && len(params) == 1 && len(results) == 0 && params[0][0] == '*':
			decodes[name] = params[0]
		}
	}
	for name, given := range encodes {
		typ, pointer := strings.CutPrefix(given, "*")
		if got := decodes[name]; got == typ || pointer && got == given {
			s.stored[typ] = codec{name, pointer, pointer && got == given}
		}
	}
}

// readSets reads the words of constants.
func (s *schema) readSets() {
	for _, t := range s.byName() {
		for name := range t.directives {
			if !slices.Contains([]string{"kind", "words", "closed"}, name) || name == "closed" && len(t.Constants) == 0 {
				s.problem("%s: directive %s has no effect", t.Name, name)
			}
		}
		if words, ok := t.directives["words"]; ok {
			if t.Words = strings.Fields(words); len(t.Words) != len(t.Constants) {
				s.problem("%s has %d words for %d constants", t.Name, len(t.Words), len(t.Constants))
			}
			s.Sets = append(s.Sets, t)
		}
	}
}

func (s *schema) byName() []*namedType {
	return slices.SortedFunc(maps.Values(s.types), func(a, b *namedType) int { return cmp.Compare(a.Name, b.Name) })
}

// readEvents reads the events, and the structs in them.
func (s *schema) readEvents() {
	numbers, seen := map[int]bool{}, map[string]bool{}
	for _, t := range s.byName() {
		if kind, ok := t.directives["kind"]; ok {
			k := s.event(t, kind)
			if numbers[k.Number] {
				s.problem("%s has number %d, which another event has", k.Name, k.Number)
			}
			numbers[k.Number] = true
			s.Kinds = append(s.Kinds, k)
			s.readParts(k, seen)
		}
	}
	slices.SortFunc(s.Kinds, func(a, b *structure) int { return a.Number - b.Number })
	slices.SortFunc(s.Parts, func(a, b *structure) int { return cmp.Compare(a.Name, b.Name) })
}

// event reads an event and its directive.
func (s *schema) event(t *namedType, directive string) *structure {
	k := s.structure(t)
	number, rest, _ := strings.Cut(directive, " ")
	n, err := strconv.ParseUint(number, 10, 8)
	if err != nil || n == 0 {
		s.problem("%s: %q is not the number of a kind", t.Name, number)
	}
	k.Number = int(n)
	for _, word := range strings.Fields(rest) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "verb":
			k.Verb = value
		case "with":
			k.With = value
		case "fact":
			k.Fact = true
		case "slice":
			k.OwnSlice = true
		default:
			s.problem("%s: unknown word %q", t.Name, word)
		}
	}
	return k
}

// readParts reads the structs in a struct.
func (s *schema) readParts(of *structure, seen map[string]bool) {
	for _, f := range of.Fields {
		if _, ok := s.stored[f.Type]; ok {
			continue
		}
		t := s.types[elementOf(f.Type)]
		if t == nil || seen[t.Name] {
			continue
		}
		if _, ok := t.under.(*ast.StructType); !ok {
			continue
		}
		seen[t.Name] = true
		p := s.structure(t)
		s.readParts(p, seen)
		if !p.ByHand() {
			s.Parts = append(s.Parts, p)
		}
	}
}

// structure reads a struct.
func (s *schema) structure(t *namedType) *structure {
	p := &structure{namedType: t}
	list, ok := t.under.(*ast.StructType)
	if !ok {
		s.problem("%s is not a struct", t.Name)
		return p
	}
	for _, f := range list.Fields.List {
		if typ := typeOf(f.Type); len(f.Names) == 0 && typ != "Envelope" {
			s.problem("%s embeds %s: only an envelope may be embedded", t.Name, typ)
		}
		for _, name := range f.Names {
			p.Fields = append(p.Fields, s.field(t.Name, name.Name, f))
		}
	}
	for _, f := range p.Fields {
		if f.after != "" && p.field(f.after, "") == nil {
			s.problem("%s.%s: the field %s to store it after does not exist", t.Name, f.Name, f.after)
		}
		if f.in != "" && p.field(f.in, "Details") == nil {
			s.problem("%s.%s: the details %s to store it in do not exist", t.Name, f.Name, f.in)
		}
	}
	return p
}

// field returns a field by its name and type, of any type if typ is empty, if it is stored at its
// own place.
func (p *structure) field(name, typ string) *field {
	for _, f := range p.Fields {
		if f.Name == name && (typ == "" || f.Type == typ) && f.after == "" && f.in == "" {
			return f
		}
	}
	return nil
}

// field reads a field and its tags.
func (s *schema) field(of, name string, f *ast.Field) *field {
	x := &field{Name: name, Type: typeOf(f.Type), Version: 1}
	if f.Tag == nil {
		return x
	}
	text, _ := strconv.Unquote(f.Tag.Value)
	tag := reflect.StructTag(text)
	x.Export = tag.Get("export")
	for word := range strings.SplitSeq(tag.Get("log"), ",") {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "":
		case key == "with":
			x.With = value
		case key == "in":
			x.in = value
		case key == "after":
			x.after = value
		case key == "only":
			x.low, x.high = value, value
		case key == "among":
			x.low, x.high, _ = strings.Cut(value, "..")
		default:
			n, err := strconv.Atoi(strings.TrimPrefix(word, "v"))
			if err != nil || n < 2 {
				s.problem("%s.%s: unknown word %q", of, name, word)
			}
			x.Version = n
		}
	}
	return x
}

// NeedsCapability reports whether an event needs a capability for one of its fields.
func (p *structure) NeedsCapability() bool {
	return slices.ContainsFunc(p.Fields, func(f *field) bool { return f.With != "" })
}

// Variable returns the name of the variable with the words of constants.
func (t *namedType) Variable() string {
	return strings.ToLower(t.Name[:1]) + t.Name[1:] + "Words"
}

// ByHand reports whether the code that stores the struct is written by hand.
func (p *structure) ByHand() bool { return slices.Contains(p.methods, "encode") }

// Newest returns the newest version of an event.
func (s *schema) Newest(k *structure) int {
	n := 1
	for _, f := range k.Fields {
		n = max(n, f.Version)
		for _, part := range s.Parts {
			if part.Name == elementOf(f.Type) && !k.ByHand() {
				n = max(n, s.Newest(part))
			}
		}
	}
	return n
}

// Stored returns the fields in the order in which they are stored, except those among the flags of
// another one.
func (p *structure) Stored() (list []*field) {
	for _, f := range p.Fields {
		if f.after == "" && f.in == "" {
			list = append(list, f)
		}
		for _, g := range p.Fields {
			if g.after == f.Name {
				list = append(list, g)
			}
		}
	}
	return list
}

// typeOf returns a type as it is written, with byte for uint8.
func typeOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Name == "uint8" {
			return "byte"
		}
		return e.Name
	case *ast.StarExpr:
		return "*" + typeOf(e.X)
	case *ast.SelectorExpr:
		return typeOf(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		if n, ok := e.Len.(*ast.BasicLit); ok {
			return "[" + n.Value + "]" + typeOf(e.Elt)
		}
		return "[]" + typeOf(e.Elt)
	case *ast.IndexExpr:
		return typeOf(e.X)
	}
	return fmt.Sprintf("%T", e)
}

func typesOf(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			names = append(names, typeOf(f.Type))
		}
	}
	return names
}

// elementOf returns the type of a list's elements, or of a pointer's target; other types are
// returned as they are.
func elementOf(typ string) string { return strings.TrimPrefix(strings.TrimPrefix(typ, "[]"), "*") }
