package index

import "testing"

func TestSlots(t *testing.T) {
	t.Parallel()
	s := newSlots[string]()
	a, b := s.add("a"), s.add("b")
	s.remove(a)
	if a != 1 || b != 2 || s.table[a] != "" || s.table[b] != "b" {
		t.Errorf("slots %d and %d: %q", a, b, s.table)
	}
	if c, d := s.add("c"), s.add("d"); c != a || d != 3 {
		t.Errorf("the next slots are %d and %d, want %d and 3", c, d, a)
	}
}
