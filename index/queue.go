package index

// queue is a sequence of values with a stable number for each. Values are added at the end and
// removed at the front.
type queue[T any] struct {
	pages[T]
	before int // values before the first page, a whole number of pages
	head   int // number of the first value
	end    int // number of the next value
}

func (q *queue[T]) at(n int) *T { return q.pages.at(n - q.before) }

func (q *queue[T]) edit(v *versions, n int) *T { return q.pages.edit(v, n-q.before) }

// add appends a value and returns its number.
func (q *queue[T]) add(v *versions, value T) int {
	q.pages.add(v, q.end-q.before, value)
	q.end++
	return q.end - 1
}

// drop removes the first value.
func (q *queue[T]) drop(v *versions) {
	if q.head++; q.head-q.before < pageSize {
		return
	}
	q.ownList(v)
	q.list[0] = nil // so that the array of the list does not keep the page
	q.list = q.list[1:]
	q.before += pageSize
}
