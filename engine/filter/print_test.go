package filter

import "strings"

// String prints the statement so that parsing it gives the same.
func (s *statement) String() string {
	var b strings.Builder
	if s.value == nil {
		b.WriteString("REMOVE ")
		s.target.print(&b, levelPrimary)
		return b.String()
	}
	b.WriteString("SET ")
	s.target.print(&b, levelPrimary)
	b.WriteString(" = ")
	s.value.print(&b, levelSum)
	return b.String()
}
