package event

// Pool provides empty events and takes all of them back at once, so that deciding and replaying
// allocate nothing after a while. Not safe for concurrent use.
type Pool struct{ shelves shelves }

// New returns an empty event of the kind, or nil for a kind that does not exist. It is valid until
// Reset.
func (p *Pool) New(k Kind) Event { return p.shelves.next(k) }

// Reset takes back every event that New has returned.
func (p *Pool) Reset() { p.shelves.reset() }

type shelf[T any] struct {
	items []*T
	used  int
}

func (s *shelf[T]) next() *T {
	if s.used == len(s.items) {
		s.items = append(s.items, new(T))
	}
	t := s.items[s.used]
	s.used++
	var zero T
	*t = zero
	return t
}
