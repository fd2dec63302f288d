package index

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxBlock is the largest number of sessions in a block.
const maxBlock = 512

// sessionOrder has the sessions of a slice by id, in blocks that count their listed sessions. So
// the cost of a page depends on the sessions that it shows and on the number of blocks before it.
// It follows from the sessions and is not encoded.
type sessionOrder struct {
	blocks []*sessionBlock // none is empty
}

// sessionBlock has up to maxBlock consecutive sessions.
type sessionBlock struct {
	sessions []*session // by id
	listed   int        // number of listed ones
}

// listed reports whether an enumeration of all sessions includes it: it has active or locked
// messages, or a state (semantics.md 8.6, 16.2).
func (s *session) listed() bool { return s.active > 0 || s.locked > 0 || s.set }

// place returns the number of the block for an id, existing or not.
func (o *sessionOrder) place(id string) int {
	return max(0, sort.Search(len(o.blocks), func(i int) bool { return o.blocks[i].sessions[0].id > id })-1)
}

// place returns the place of an id in a block, existing or not.
func (b *sessionBlock) place(id string) int {
	i, _ := slices.BinarySearchFunc(b.sessions, id, func(s *session, id string) int { return cmp.Compare(s.id, id) })
	return i
}

// add adds a new session.
func (o *sessionOrder) add(s *session) {
	var b *sessionBlock
	if len(o.blocks) == 0 {
		b = &sessionBlock{}
		o.blocks = append(o.blocks, b)
	} else if n := o.place(s.id); len(o.blocks[n].sessions) == maxBlock {
		b = o.split(n, s.id)
	} else {
		b = o.blocks[n]
	}
	b.sessions = slices.Insert(b.sessions, b.place(s.id), s)
	s.block, s.counted = b, false
	s.count()
}

// split makes room in a full block and returns the block with room for an id. Ids in ascending
// order leave full blocks behind them.
func (o *sessionOrder) split(n int, id string) *sessionBlock {
	b, next := o.blocks[n], &sessionBlock{}
	o.blocks = slices.Insert(o.blocks, n+1, next)
	half := maxBlock / 2
	if last := b.sessions[maxBlock-1]; last.id < id {
		return next
	}
	next.take(b.sessions[half:])
	clear(b.sessions[half:])
	b.sessions = b.sessions[:half]
	if next.sessions[0].id < id {
		return next
	}
	return b
}

// take appends sessions of another block.
func (b *sessionBlock) take(moved []*session) {
	b.sessions = append(b.sessions, moved...)
	for _, s := range moved {
		if s.counted {
			s.block.listed--
			b.listed++
		}
		s.block = b
	}
}

// remove removes a session. A block that has become small is merged with a neighbor.
func (o *sessionOrder) remove(s *session) {
	b := s.block
	if s.counted {
		b.listed--
	}
	n := -1
	if len(b.sessions) <= maxBlock/8 {
		n = o.place(s.id) // before the session is removed: the block may be known by it
	}
	i := b.place(s.id)
	b.sessions = slices.Delete(b.sessions, i, i+1)
	s.block = nil
	switch {
	case n < 0:
	case n > 0 && len(o.blocks[n-1].sessions)+len(b.sessions) <= maxBlock/2:
		o.blocks[n-1].take(b.sessions)
		o.blocks = slices.Delete(o.blocks, n, n+1)
	case len(b.sessions) == 0:
		o.blocks = slices.Delete(o.blocks, n, n+1)
	case n+1 < len(o.blocks) && len(o.blocks[n+1].sessions)+len(b.sessions) <= maxBlock/2:
		b.take(o.blocks[n+1].sessions)
		o.blocks = slices.Delete(o.blocks, n+1, n+2)
	}
}

// count updates whether the session's block counts it as listed.
func (s *session) count() {
	if is := s.listed(); is != s.counted {
		s.counted = is
		if is {
			s.block.listed++
		} else {
			s.block.listed--
		}
	}
}

// all yields every session by id.
func (o *sessionOrder) all(yield func(*session) bool) {
	for _, b := range o.blocks {
		for _, s := range b.sessions {
			if !yield(s) {
				return
			}
		}
	}
}

// Listing is an enumeration of the sessions of a slice by id, in steps (semantics.md 8.6): of those
// with active messages or a state, or, without All, of those whose state was set after a time.
type Listing struct {
	Slice event.Slice
	All   bool
	Since event.Time
	Skip  int      // how many are still to be skipped
	Top   int      // largest number to show
	IDs   []string // shown so far

	after string // the last session examined
	begun bool
}

// List continues an enumeration: it examines up to limit sessions or blocks of them, and reports
// how many those were and whether it has reached the end. Sessions may be added and removed between
// two steps.
func (x *Index) List(w *Listing, limit int) (looked int, done bool) {
	s := x.slices.find(w.Slice)
	if s == nil || s.sessions == nil {
		return 0, true
	}
	o := &s.sessions.order
	n, i := 0, 0
	if w.begun && len(o.blocks) > 0 {
		n = o.place(w.after)
		if i = o.blocks[n].place(w.after); i < len(o.blocks[n].sessions) && o.blocks[n].sessions[i].id == w.after {
			i++
		}
	}
	w.begun = true
	for ; n < len(o.blocks); n, i = n+1, 0 {
		b := o.blocks[n]
		if looked++; w.All && i == 0 && w.Skip >= b.listed {
			w.Skip -= b.listed
			w.after = b.sessions[len(b.sessions)-1].id
			if looked >= limit {
				return looked, false
			}
			continue
		}
		for ; i < len(b.sessions); i++ {
			if len(w.IDs) == w.Top {
				return looked, true
			}
			if looked >= limit {
				return looked, false
			}
			looked++
			ses := b.sessions[i]
			w.after = ses.id
			if w.All && !ses.listed() || !w.All && (!ses.set || s.sessions.record(ses.slot).setAt <= w.Since) {
				continue
			}
			if w.Skip--; w.Skip < 0 {
				w.IDs = append(w.IDs, ses.id)
			}
		}
	}
	return looked, true
}
