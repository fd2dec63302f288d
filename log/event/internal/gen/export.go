package main

import (
	"fmt"
	"strings"
)

// Columns returns the statements that set the columns of an event's row.
func (s *schema) Columns(k *structure) string {
	var b strings.Builder
	for _, f := range k.Fields {
		if f.Export == "" {
			continue
		}
		column, member, isMember := strings.Cut(f.Export, ":")
		x, typ := "ev."+f.Name, f.Type
		if isMember {
			x, typ = x+"."+member, s.member(typ, member)
		}
		to := "r." + inGo(column)
		switch t := s.types[typ]; {
		case typ == "EntityID":
			fmt.Fprintf(&b, "%s = x.path(%s)\n", to, x)
		case typ == "LockToken":
			fmt.Fprintf(&b, "%s = token(%s)\n", to, x)
		case t != nil && t.Words != nil:
			fmt.Fprintf(&b, "%s = %s.String()\n", to, x)
		case typ == "string" || typ == "[]byte":
			fmt.Fprintf(&b, "%s = text(%s)\n", to, x)
		default:
			fmt.Fprintf(&b, "put(&%s, %s)\n", to, x)
		}
	}
	return strings.TrimSpace(b.String())
}

// member returns the type of a field of a struct.
func (s *schema) member(of, name string) string {
	if t := s.types[of]; t != nil {
		if f := s.structure(t).field(name, ""); f != nil {
			return f.Type
		}
	}
	s.problem("%s has no field %s", of, name)
	return ""
}

// inGo returns the name of a column in Go: MessageID for message_id.
func inGo(column string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(column, "_") {
		if word == "id" {
			word = "ID"
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
