// Package fifo has queues: first in, first out.
package fifo

// Queue is first in, first out, and nothing is shifted when something leaves: each push and pop
// takes constant time on average.
type Queue[T any] struct {
	items []T
	gone  int // how many at the front have left
}

// Len is how many have not left.
func (q *Queue[T]) Len() int { return len(q.items) - q.gone }

// Push adds one at the end.
func (q *Queue[T]) Push(v T) {
	// room at the front is as good as new room
	if q.gone > len(q.items)/2 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.gone:])
		clear(q.items[n:])
		q.items, q.gone = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// Front is what leaves next, until the next push; there must be something.
func (q *Queue[T]) Front() *T { return &q.items[q.gone] }

// All is what has not left, oldest first, until the next push.
func (q *Queue[T]) All() []T { return q.items[q.gone:] }

// Pop takes out what leaves next; there must be something.
func (q *Queue[T]) Pop() T {
	var none T
	v := q.items[q.gone]
	q.items[q.gone] = none
	if q.gone++; q.gone == len(q.items) {
		q.items, q.gone = q.items[:0], 0
	}
	return v
}

// Keep drops what keep is false for, wherever it stands.
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
