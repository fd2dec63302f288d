package index

import "iter"

// slots is a table of values with a stable number for each. Numbers are reused. Slot 0 is never
// used.
type slots[T any] struct {
	pages[T]
	end  uint32   // number of slots, used or free, including slot 0
	free []uint32 // for the owner; a snapshot does not use it
}

func (t *slots[T]) at(slot uint32) *T { return t.pages.at(int(slot)) }

func (t *slots[T]) edit(v *versions, slot uint32) *T { return t.pages.edit(v, int(slot)) }

func (t *slots[T]) add(v *versions, value T) uint32 {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		*t.edit(v, slot) = value
		return slot
	}
	if t.end == 0 {
		var none T
		t.pages.add(v, 0, none)
		t.end = 1
	}
	t.pages.add(v, int(t.end), value)
	t.end++
	return t.end - 1
}

// remove clears a slot.
func (t *slots[T]) remove(v *versions, slot uint32) {
	var none T
	*t.edit(v, slot) = none
	t.free = append(t.free, slot)
}

// all yields every slot, including free ones.
func (t *slots[T]) all() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for slot := uint32(1); slot < t.end; slot++ {
			if !yield(slot, t.at(slot)) {
				return
			}
		}
	}
}
