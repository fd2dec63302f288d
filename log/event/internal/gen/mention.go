package main

import (
	"fmt"
	"strings"
)

// Names returns the statements that call each with the names in an event: the numbers of messages
// in its fields and lists, and its slice if there are none. Where a message came from is in a
// separate struct and is not named.
func (s *schema) Names(k *structure) string {
	var one, many strings.Builder
	for _, f := range k.Fields {
		elem, isList := strings.CutPrefix(f.Type, "[]")
		switch {
		case f.Type == "SequenceNumber":
			fmt.Fprintf(&one, "each(s, ev.%s)\n", f.Name)
		case isList && elem == "SequenceNumber":
			fmt.Fprintf(&many, "for _, n := range ev.%s {\neach(s, n)\n}\n", f.Name)
		case isList && s.isStruct(elem):
			t := s.structure(s.types[elem])
			slice := "s"
			for _, m := range t.methods {
				if m == "slice" {
					slice = fmt.Sprintf("ev.%s[i].slice(s)", f.Name)
				}
			}
			for _, g := range t.Fields {
				if g.Type == "SequenceNumber" {
					fmt.Fprintf(&many, "for i := range ev.%s {\neach(%s, ev.%[1]s[i].%[3]s)\n}\n", f.Name, slice, g.Name)
				}
			}
		}
	}
	if one.Len() == 0 && many.Len() == 0 {
		return "" // only the slice
	}
	if one.Len() == 0 || k.OwnSlice {
		return strings.TrimSpace("each(s, 0)\n" + one.String() + many.String())
	}
	return strings.TrimSpace(one.String() + many.String())
}

// Having returns the events with a field of a name and a type.
func (s *schema) Having(name, typ string) (list []*structure) {
	for _, k := range s.Kinds {
		for _, f := range k.Fields {
			if f.Name == name && f.Type == typ {
				list = append(list, k)
			}
		}
	}
	return list
}
