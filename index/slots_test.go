package index

import "testing"

func TestSlots(t *testing.T) {
	t.Parallel()
	var s slots[string]
	v := &versions{now: 1}
	a, b := s.add(v, "a"), s.add(v, "b")
	s.remove(v, a)
	if a != 1 || b != 2 || *s.at(a) != "" || *s.at(b) != "b" {
		t.Errorf("slots %d and %d: %q and %q", a, b, *s.at(a), *s.at(b))
	}
	if c, d := s.add(v, "c"), s.add(v, "d"); c != a || d != 3 {
		t.Errorf("the next slots are %d and %d, want %d and 3", c, d, a)
	}
}
