package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// under returns the underlying type of a type of the package; for another type it returns the type
// itself.
func (s *schema) under(typ string) string {
	if t := s.types[typ]; t != nil {
		return s.under(typeOf(t.under))
	}
	return typ
}

func (s *schema) isStruct(typ string) bool { return s.under(typ) == "*ast.StructType" }

// isAscending reports whether a type is a list of numbers, which are stored as distances.
func (s *schema) isAscending(typ string) bool {
	elem, isList := strings.CutPrefix(typ, "[]")
	return isList && s.under(elem) == "uint64"
}

// code is the code that stores and reads a struct.
type code struct{ Name, Encode, Decode string }

// Code makes the code that stores and reads a struct.
func (s *schema) Code(p *structure) code { return code{p.Name, s.encodeFields(p), s.decodeFields(p)} }

// encodeFields returns the statements that store the fields of a struct.
func (s *schema) encodeFields(p *structure) string {
	var b strings.Builder
	version, optional := 1, p.optional()
	if n := len(optional); n > 0 && (p.Number == 0 || optional[n-1].Version < s.Newest(p)) {
		s.problem("%s.%s: only the newest fields of an event itself can need a capability", p.Name, optional[0].Name)
	}
	for _, f := range p.Stored() {
		if f.Version < version {
			s.problem("%s.%s of version %d follows a field of version %d", p.Name, f.Name, f.Version, version)
		}
		version = f.Version
		var set []string // if one of these is true, the field is written
		for i, g := range optional {
			if slices.Contains(optional[:i+1], f) {
				set = append(set, g.IsSet("x"))
			}
		}
		if len(optional) > 0 && set == nil && version >= optional[0].Version {
			s.problem("%s.%s needs no capability but follows a field that needs one", p.Name, f.Name)
		}
		switch x := "x." + f.Name; {
		case f.Type == "Details":
			fmt.Fprintf(&b, "%s.encode(e, extras{%s})\n", x, s.extras(p, "%[1]s: x.%[1]s", ", "))
		case set != nil:
			fmt.Fprintf(&b, "if %s {\n%s}\n", strings.Join(set, " || "), s.encode(x, f.Type))
		default:
			b.WriteString(s.encode(x, f.Type))
		}
	}
	return b.String()
}

// decodeFields returns the statements that read the fields of a struct.
func (s *schema) decodeFields(p *structure) string {
	var b strings.Builder
	version := 1
	for _, f := range p.Stored() {
		if f.Version > version {
			if version > 1 {
				b.WriteString("}\n")
			}
			version = f.Version
			fmt.Fprintf(&b, "if d.version >= %d {\n", version)
		}
		x := "x." + f.Name
		if f.Type != "Details" {
			b.WriteString(s.decode(x, f.Type, f))
			continue
		}
		if extras := s.extras(p, "detail%s", "|"); extras == "" {
			fmt.Fprintf(&b, "%s.decode(d, 0)\n", x)
		} else {
			fmt.Fprintf(&b, "also := %s.decode(d, %s)\n%s\n", x, extras, s.extras(p, "x.%[1]s = also.%[1]s", "\n"))
		}
	}
	if version > 1 {
		b.WriteString("}\n")
	}
	for _, m := range p.methods {
		if m == "decoded" {
			b.WriteString("x.decoded(d)\n")
		}
	}
	return b.String()
}

// extras formats each field that is stored among the flags of details.
func (s *schema) extras(p *structure, format, sep string) string {
	var words []string
	for _, f := range p.Fields {
		if f.in != "" {
			words = append(words, fmt.Sprintf(format, f.Name))
		}
	}
	return strings.Join(words, sep)
}

// optional returns the fields of an event with a capability and a version of their own. If none of
// them from one on is set, the event is written in the version before that one.
func (p *structure) optional() (list []*field) {
	for _, f := range p.Stored() {
		if f.Version > 1 && f.With != "" {
			list = append(list, f)
		}
	}
	return list
}

// Version returns the statements that return the version in which an event is written, if it
// depends on the event's contents.
func (s *schema) Version(k *structure) string {
	list := k.optional()
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range slices.Backward(list) {
		fmt.Fprintf(&b, "if %s {\nreturn %d\n}\n", f.IsSet("ev"), f.Version)
	}
	return b.String() + fmt.Sprintf("return %d", list[0].Version-1)
}

// IsSet returns the condition under which a field of x is set.
func (f *field) IsSet(x string) string {
	switch {
	case strings.HasPrefix(f.Type, "*"):
		return x + "." + f.Name + " != nil"
	case f.Type == "bool":
		return x + "." + f.Name
	case f.low != "" && f.low == f.high:
		return x + "." + f.Name + " == " + f.low
	}
	return x + "." + f.Name + " != 0"
}

// encode returns the statements that store a value.
func (s *schema) encode(x, typ string) string {
	if c, ok := s.stored[typ]; ok {
		if c.pointer {
			x = "&" + x
		}
		return fmt.Sprintf("e.%s(%s)\n", c.method, x)
	}
	under := s.under(typ)
	elem, isList := strings.CutPrefix(under, "[]")
	switch c, isBasic := s.stored[under]; {
	case s.isAscending(under):
		return fmt.Sprintf("encodeAscending(e, %s)\n", x)
	case isList:
		return fmt.Sprintf("e.count(len(%[1]s))\nfor i := range %[1]s {\n%[2]s}\n", x, s.encode(x+"[i]", elem))
	case strings.HasSuffix(under, "]byte"):
		return fmt.Sprintf("e.fixed(%s[:])\n", x)
	case s.isStruct(strings.TrimPrefix(typ, "*")):
		return x + ".encode(e)\n"
	case isBasic:
		return fmt.Sprintf("e.%s(%s(%s))\n", c.method, under, x)
	}
	s.problem("%s: cannot store a %s", x, typ)
	return ""
}

// decode returns the statements that read a value.
func (s *schema) decode(x, typ string, f *field) string {
	set := s.types[typ]
	what, isClosed := "", false
	if set != nil {
		what, isClosed = set.directives["closed"], set.directives["closed"] != ""
	}
	switch {
	case isClosed && f.low == "":
		return fmt.Sprintf("%s = %s(d.among(%q, byte(%s), byte(%s)))\n", x, typ, what, set.Constants[0], set.Constants[len(set.Constants)-1])
	case isClosed:
		return fmt.Sprintf("%s = %s(d.among(%q, byte(%s), byte(%s)))\n", x, typ, what, f.low, f.high)
	case f.low != "":
		return fmt.Sprintf("%s = d.among(%q, %s, %s)\n", x, "value of "+f.Name, f.low, f.high)
	}
	if c, ok := s.stored[typ]; ok {
		if c.readInto {
			return fmt.Sprintf("d.%s(&%s)\n", c.method, x)
		}
		return fmt.Sprintf("%s = d.%s()\n", x, c.method)
	}
	under := s.under(typ)
	elem, isList := strings.CutPrefix(under, "[]")
	to, isPointer := strings.CutPrefix(typ, "*")
	switch c, isBasic := s.stored[under]; {
	case s.isAscending(under):
		return fmt.Sprintf("%s = decodeAscending[%s](d)\n", x, elem)
	case isList:
		return fmt.Sprintf("if n := d.count(%s); n > 0 {\n%s = make(%s, n)\nfor i := range %[2]s {\n%[4]s}\n}\n", s.least(elem), x, typ, s.decode(x+"[i]", elem, &field{}))
	case strings.HasSuffix(under, "]byte"):
		return fmt.Sprintf("d.fixed(%s[:])\n", x)
	case isPointer && s.isStruct(to):
		return fmt.Sprintf("%s = new(%s)\n%[1]s.decode(d)\n", x, to)
	case s.isStruct(typ):
		return x + ".decode(d)\n"
	case isBasic:
		return fmt.Sprintf("%s = %s(d.%s())\n", x, typ, c.method)
	}
	s.problem("%s: cannot read a %s", x, typ)
	return ""
}

// least returns the smallest size of a value, as code. A list with more values than there can be is
// refused before memory is allocated for it.
func (s *schema) least(typ string) string {
	if _, ok := s.stored[typ]; ok || !s.isStruct(typ) {
		n := 1
		fmt.Sscanf(s.under(typ), "[%d]byte", &n)
		return strconv.Itoa(n)
	}
	p := s.structure(s.types[typ])
	if p.ByHand() {
		return "min" + typ
	}
	sum := 0
	for _, f := range p.Stored() {
		if f.Version == 1 {
			n, _ := strconv.Atoi(s.least(f.Type))
			sum += max(n, 1)
		}
	}
	return strconv.Itoa(sum)
}
