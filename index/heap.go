package index

// heapOf is a heap: its first element is before all others.
type heapOf[T interface{ Before(T) bool }] []T

func (h *heapOf[T]) push(v T) {
	*h = append(*h, v)
	for i := len(*h) - 1; i > 0; {
		above := (i - 1) / 2
		if !(*h)[i].Before((*h)[above]) {
			break
		}
		(*h)[i], (*h)[above] = (*h)[above], (*h)[i]
		i = above
	}
}

// pop removes and returns the first element.
func (h *heapOf[T]) pop() T {
	first, last := (*h)[0], len(*h)-1
	(*h)[0] = (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	h.sink(0)
	return first
}

// order makes a heap of elements in any order.
func (h heapOf[T]) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// sink moves an element below those that are before it.
func (h heapOf[T]) sink(i int) {
	for {
		below := 2*i + 1
		if below+1 < len(h) && h[below+1].Before(h[below]) {
			below++
		}
		if below >= len(h) || !h[below].Before(h[i]) {
			return
		}
		h[i], h[below] = h[below], h[i]
		i = below
	}
}
