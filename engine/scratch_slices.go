package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// bySlice holds a value for each of some slices. Nearly always there are one or two slices, which
// are found without a map; a publish to a topic with many subscriptions has one for each of them.
type bySlice[V any] struct {
	few  []sliceValue[V]
	many map[event.Slice]V // all of them if there are more than maxFew; else empty
}

type sliceValue[V any] struct {
	slice event.Slice
	value V
}

// maxFew is the most slices that are searched one by one.
const maxFew = 16

// get returns the value of a slice; ok is false, and the value is zero, if there is none.
func (b *bySlice[V]) get(id event.Slice) (v V, ok bool) {
	if len(b.many) > 0 {
		v, ok = b.many[id]
		return v, ok
	}
	for i := range b.few {
		if b.few[i].slice == id {
			return b.few[i].value, true
		}
	}
	return v, false
}

// set sets the value of a slice.
func (b *bySlice[V]) set(id event.Slice, v V) {
	if len(b.many) > 0 {
		b.many[id] = v
		return
	}
	for i := range b.few {
		if b.few[i].slice == id {
			b.few[i].value = v
			return
		}
	}
	if b.few = append(b.few, sliceValue[V]{id, v}); len(b.few) <= maxFew {
		return
	}
	if b.many == nil {
		b.many = make(map[event.Slice]V, 2*len(b.few))
	}
	for _, e := range b.few {
		b.many[e.slice] = e.value
	}
}

// each yields all slices with their values, in no order.
func (b *bySlice[V]) each(yield func(event.Slice, V) bool) {
	if len(b.many) > 0 {
		for id, v := range b.many {
			if !yield(id, v) {
				return
			}
		}
		return
	}
	for _, e := range b.few {
		if !yield(e.slice, e.value) {
			return
		}
	}
}

// reset removes all values. Their memory is reused.
func (b *bySlice[V]) reset() {
	b.few = b.few[:0]
	empty(&b.many)
}
