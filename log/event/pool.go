package event

// Pool hands out events to be filled in and takes all of them back at once, so that deciding and
// replaying allocate nothing once they have run for a while. Not safe for concurrent use.
type Pool struct{ shelves shelves }

// New returns an empty event of the kind, or nil for a kind that does not exist. It is valid until
// Reset.
func (p *Pool) New(k Kind) Event { return p.shelves.next(k) }

// Reset takes back every event handed out.
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
