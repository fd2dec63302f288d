package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// column is a column of the table of events.
type column struct{ field, typ string }

// readColumns reads the columns of the struct eventRow in a file, by the names in its tags.
func readColumns(path string) (map[string]column, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	columns := map[string]column{}
	ast.Inspect(f, func(n ast.Node) bool {
		t, ok := n.(*ast.TypeSpec)
		if !ok || t.Name.Name != "eventRow" {
			return true
		}
		for _, f := range t.Type.(*ast.StructType).Fields.List {
			text, _ := strconv.Unquote(f.Tag.Value)
			name, _, _ := strings.Cut(reflect.StructTag(text).Get("parquet"), ",")
			columns[name] = column{f.Names[0].Name, typeOf(f.Type)}
		}
		return false
	})
	return columns, nil
}

// Columns returns the statements that set the columns of an event's row.
func (s *schema) Columns(k *structure) string {
	var b strings.Builder
	for _, f := range k.Fields {
		if f.Export == "" {
			continue
		}
		name, member, isMember := strings.Cut(f.Export, ":")
		c, ok := s.columns[name]
		if !ok {
			s.problem("%s.%s: there is no column %s", k.Name, f.Name, name)
		}
		x, typ := "ev."+f.Name, f.Type
		if isMember {
			x += "." + member
			typ = s.member(typ, member)
		}
		fmt.Fprintf(&b, "r.%s = %s\n", c.field, s.shown(x, typ, c.typ))
	}
	return strings.TrimSpace(b.String())
}

// member is the type of a field of a struct.
func (s *schema) member(of, name string) string {
	if t := s.types[of]; t != nil {
		for _, f := range s.structure(t).Fields {
			if f.Name == name {
				return f.Type
			}
		}
	}
	s.problem("%s has no field %s", of, name)
	return ""
}

// shown is a value as a column has it.
func (s *schema) shown(x, typ, column string) string {
	t := s.types[typ]
	switch {
	case column != "string":
		return fmt.Sprintf("%s(%s)", column, x)
	case typ == "EntityID":
		return fmt.Sprintf("x.path(%s)", x)
	case typ == "LockToken":
		return fmt.Sprintf("token(%s)", x)
	case t != nil && t.Words != nil:
		return x + ".String()"
	}
	return fmt.Sprintf("text(%s)", x)
}
