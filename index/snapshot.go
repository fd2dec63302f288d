package index

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Snapshot is the state as it was at one moment. Taking one costs the same however large the state
// is: it shares everything with the index, whose owner copies what it changes from then on, part by
// part. Any number of goroutines may read it. Several may be open.
type Snapshot struct {
	view
	version version
	removed Removals
	closed  atomic.Bool
	copied  *atomic.Int64                     // see [versions]
	before  int64                             // what that was when the snapshot was taken
	byID    func() map[event.Slice]*keptSlice // made when the first question comes
}

// view is what the state consists of: all that a canonical encoding is made from.
type view struct {
	lastAt     event.Time
	nextOrigin event.OriginID
	clock      Clock
	lastEntity event.EntityID
	entities   slots[*Entity]
	policies   *History
	slices     slots[*keptSlice]
	locks      slots[lock]
	schedule   slots[scheduledEntry]
	transfers  slots[transfer]
}

func viewOf(x *Index) view {
	sh := x.shared
	return view{x.lastAt, x.nextOrigin, x.clock, x.Catalogue.last, x.Catalogue.kept, x.Catalogue.history, sh.kept, sh.locks.slots, sh.schedule.slots, sh.transfers}
}

// Snapshot is the state as it is now. Only the owner takes one. It has to be closed: until then
// what changes is kept twice.
func (x *Index) Snapshot() *Snapshot {
	v := &x.shared.versions
	x.open.release(v)
	s := &Snapshot{view: viewOf(x), version: v.now, removed: x.removals, copied: &v.copied, before: v.copied.Load()}
	s.byID = sync.OnceValue(s.view.byID)
	v.frozen = v.now
	v.now++
	x.open.list = append(x.open.list, s)
	return s
}

// Close tells the owner that nobody reads the snapshot any more, and lets go of what only it still
// has. Any goroutine may call it, and more than once.
func (s *Snapshot) Close() {
	if !s.closed.Swap(true) {
		// the owner has the snapshot itself on its list until the next event comes
		s.view, s.byID = view{}, nil
	}
}

// Copied is how much of the state was kept twice because of open snapshots since this one was
// taken, bytes, about. Any goroutine may ask.
func (s *Snapshot) Copied() int64 { return s.copied.Load() - s.before }

// snapshots are those that are open, by age.
type snapshots struct{ list []*Snapshot }

// release lets the owner change in place again what only closed snapshots see.
func (o *snapshots) release(v *versions) {
	n := len(o.list)
	o.list = slices.DeleteFunc(o.list, func(s *Snapshot) bool { return s.closed.Load() })
	if len(o.list) == n {
		return
	}
	v.frozen = 0
	if n = len(o.list); n > 0 {
		v.frozen = o.list[n-1].version
	}
}

// Encode writes the canonical encoding of the state, as [Index.Encode] makes it, and returns how
// many bytes that were. It needs little memory: besides the pieces that it writes, some bytes for
// each entity, slice and session.
func (s *Snapshot) Encode(w io.Writer) (size int64, err error) {
	e := &stateEncoder{view: &s.view, w: w, dst: make([]byte, 0, pieceSize+pieceSize/16)}
	e.state()
	e.flush()
	return e.written, e.err
}

// sorted is what is kept of each slice, by id.
func (v *view) sorted() (all []*keptSlice) {
	for _, k := range v.slices.all() {
		if *k != nil {
			all = append(all, *k)
		}
	}
	slices.SortFunc(all, func(a, b *keptSlice) int { return compareSlices(a.id, b.id) })
	return all
}

func (v *view) byID() map[event.Slice]*keptSlice {
	all := map[event.Slice]*keptSlice{}
	for _, k := range v.slices.all() {
		if *k != nil {
			all[(*k).id] = *k
		}
	}
	return all
}

// sorted is the slots of the sessions, by id.
func (t *keptSessions) sorted() (all []uint32) {
	for slot, r := range t.records.all() {
		if r.there {
			all = append(all, slot)
		}
	}
	slices.SortFunc(all, func(a, b uint32) int { return cmp.Compare(t.records.at(a).id, t.records.at(b).id) })
	return all
}
