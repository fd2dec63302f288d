package host

// fifo is first in, first out, and nothing is shifted when something leaves: each push and pop takes constant time on average.
type fifo[T any] struct {
	items []T
	gone  int // how many at the front have left
}

func (q *fifo[T]) len() int { return len(q.items) - q.gone }

func (q *fifo[T]) push(v T) {
	if q.gone > len(q.items)/2 && len(q.items) == cap(q.items) { // room at the front is as good as new room
		n := copy(q.items, q.items[q.gone:])
		clear(q.items[n:])
		q.items, q.gone = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// front is what leaves next, until the next push; there must be something.
func (q *fifo[T]) front() *T { return &q.items[q.gone] }

// all is what has not left, oldest first, until the next push.
func (q *fifo[T]) all() []T { return q.items[q.gone:] }

func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.gone]
	q.items[q.gone] = none
	if q.gone++; q.gone == len(q.items) {
		q.items, q.gone = q.items[:0], 0
	}
	return v
}

// keep drops what keep is false for, wherever it stands.
func (q *fifo[T]) keep(keep func(T) bool) {
	kept := q.items[:0]
	for _, v := range q.all() {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.gone = kept, 0
}
