// Package fifo provides queues: first in, first out.
package fifo

// Queue is a first-in, first-out queue that shifts no items when one leaves. Each push and pop
// takes constant time on average.
type Queue[T any] struct {
	items []T
	gone  int // number of items at the front that have left
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return len(q.items) - q.gone }

// Push adds an item at the end.
func (q *Queue[T]) Push(v T) {
	// reuse the room at the front
	if q.gone > len(q.items)/2 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.gone:])
		clear(q.items[n:])
		q.items, q.gone = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// Front returns the next item to leave, valid until the next push. The queue must not be empty.
func (q *Queue[T]) Front() *T { return &q.items[q.gone] }

// All returns the items, oldest first, valid until the next push.
func (q *Queue[T]) All() []T { return q.items[q.gone:] }

// Pop removes and returns the next item. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var none T
	v := q.items[q.gone]
	q.items[q.gone] = none
	if q.gone++; q.gone == len(q.items) {
		q.items, q.gone = q.items[:0], 0
	}
	return v
}

// Keep drops the items for which keep is false, anywhere in the queue.
func (q *Queue[T]) Keep(keep func(T) bool) {
	kept := q.items[:0]
	for _, v := range q.All() {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.gone = kept, 0
}
