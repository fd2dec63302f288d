package budget

import "sync/atomic"

// Share is what one connection has, or one other user of memory. Its methods may be called by
// several goroutines; a nil one may have everything.
type Share struct {
	of       *Budget
	promised int64 // bytes that are never refused; 0: none
	has      atomic.Int64
}

// Account is the share of something that is no connection: nothing is promised to it, and it may
// have a quarter as much as is left. It need not be closed.
func (b *Budget) Account() *Share {
	if b == nil {
		return nil
	}
	return &Share{of: b}
}

// Open is the share of a connection that has come, with what is promised to it; false: there is not
// as much.
func (b *Budget) Open() (*Share, bool) {
	if b == nil {
		return nil, true
	}
	b.shares.Add(1)
	if b.shares.Load()*(Idle+Promised)+b.over.Load()+b.other.Load() > b.most {
		b.refuse()
		b.shares.Add(-1)
		return nil, false
	}
	return &Share{of: b, promised: Promised}, true
}

// Close gives back what is promised to the share. What it has taken is given back by who took it.
func (s *Share) Close() {
	if s != nil {
		s.of.shares.Add(-1)
	}
}

// Take takes bytes, and reports whether they may be taken.
func (s *Share) Take(bytes int) bool {
	if s == nil {
		return true
	}
	has := s.move(bytes)
	if has <= s.promised || has-s.promised <= s.of.free()/part {
		return true
	}
	s.move(-bytes)
	s.of.refuse()
	return false
}

// Owe takes bytes that are taken already, or cannot be refused.
func (s *Share) Owe(bytes int) {
	if s != nil {
		s.move(bytes)
	}
}

// Give gives bytes back.
func (s *Share) Give(bytes int) {
	if s != nil {
		s.move(-bytes)
	}
}

// Has is what was taken and not given back, in bytes.
func (s *Share) Has() int {
	if s == nil {
		return 0
	}
	return int(s.has.Load())
}

// Level is that of the budget.
func (s *Share) Level() Level {
	if s == nil {
		return Enough
	}
	return s.of.Level()
}

// Exceeds reports whether the share has more than it could take now, not counting fixed bytes that
// cannot be given back: it should give some back. It has done nothing wrong, for there was more
// memory when it took them.
func (s *Share) Exceeds(fixed int) bool {
	if s == nil {
		return false
	}
	beyond := s.has.Load() - int64(fixed) - s.promised
	return beyond > 0 && beyond > s.of.free()/part
}

// Beyond is how much the share has beyond what is promised to it, in bytes.
func (s *Share) Beyond() int64 {
	if s == nil {
		return 0
	}
	return max(0, s.has.Load()-s.promised)
}

// move takes bytes, negative ones are given back, and returns what the share has then.
func (s *Share) move(bytes int) (has int64) {
	n := int64(bytes)
	has = s.has.Add(n)
	s.of.taken.Add(n)
	if beyond := max(0, has-s.promised) - max(0, has-n-s.promised); beyond != 0 {
		s.of.over.Add(beyond)
	}
	return has
}

// refuse notes that something was refused.
func (b *Budget) refuse() {
	if !b.refused.Load() { // many may be refused, and all write to one place
		b.refused.Store(true)
	}
}
