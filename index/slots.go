package index

// slots is a table of values with a stable number for each; numbers are used again. Slot 0 is never used.
type slots[T any] struct {
	table []T
	free  []uint32
}

func newSlots[T any]() slots[T] { return slots[T]{table: make([]T, 1)} }

func (t *slots[T]) add(v T) uint32 {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free, t.table[slot] = t.free[:n-1], v
		return slot
	}
	t.table = append(t.table, v)
	return uint32(len(t.table) - 1)
}

func (t *slots[T]) remove(slot uint32) {
	clear(t.table[slot : slot+1])
	t.free = append(t.free, slot)
}
