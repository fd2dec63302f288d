package budget

import "sync/atomic"

// Share is the memory of one connection, or of one other user. Its methods may be called by several
// goroutines; a nil share is unlimited.
type Share struct {
	of       *Budget
	promised int64 // guaranteed bytes, which are never refused; 0: none
	has      atomic.Int64
}

// Account returns a share for something other than a connection. It has no guaranteed bytes, and
// may have a quarter of what is left. It need not be closed.
func (b *Budget) Account() *Share {
	if b == nil {
		return nil
	}
	return &Share{of: b}
}

// Open returns a share for a new connection, with its guaranteed bytes; false: there are not
// enough.
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

// Close releases the guaranteed bytes of the share. The taker releases the bytes that it has taken.
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

// Owe takes bytes that are already in use, or cannot be refused.
func (s *Share) Owe(bytes int) {
	if s != nil {
		s.move(bytes)
	}
}

// Give returns bytes.
func (s *Share) Give(bytes int) {
	if s != nil {
		s.move(-bytes)
	}
}

// Has returns how many bytes were taken and not returned.
func (s *Share) Has() int {
	if s == nil {
		return 0
	}
	return int(s.has.Load())
}

// Level returns the level of the budget.
func (s *Share) Level() Level {
	if s == nil {
		return Enough
	}
	return s.of.Level()
}

// Exceeds reports whether the share has more than it could take now, without fixed bytes that
// cannot be freed. Then it should free some. It could take them because there was more memory at
// that time.
func (s *Share) Exceeds(fixed int) bool {
	if s == nil {
		return false
	}
	beyond := s.has.Load() - int64(fixed) - s.promised
	return beyond > 0 && beyond > s.of.free()/part
}

// Beyond returns how many bytes the share has beyond its guaranteed ones.
func (s *Share) Beyond() int64 {
	if s == nil {
		return 0
	}
	return max(0, s.has.Load()-s.promised)
}

// move takes bytes, or returns negative ones, and returns what the share has afterwards.
func (s *Share) move(bytes int) (has int64) {
	n := int64(bytes)
	has = s.has.Add(n)
	s.of.taken.Add(n)
	if beyond := max(0, has-s.promised) - max(0, has-n-s.promised); beyond != 0 {
		s.of.over.Add(beyond)
	}
	return has
}

// refuse records that a request was refused.
func (b *Budget) refuse() {
	if !b.refused.Load() { // many may be refused, and all write to one place
		b.refused.Store(true)
	}
}
