package index

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Snapshot is the state at one moment. Taking one costs the same at any size of the state: it
// shares everything with the index, whose owner copies each part that changes from then on. Any
// number of goroutines may read it. Several may be open.
type Snapshot struct {
	view
	version version
	removed Removals
	closed  atomic.Bool
	copied  *atomic.Int64                     // see [versions]
	before  int64                             // its value when the snapshot was taken
	byID    func() map[event.Slice]*keptSlice // made for the first query
}

// view is the data of a state: everything from which a canonical encoding is made.
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

// Snapshot returns the current state. Only the owner takes one. It must be closed: until then
// changed parts are kept twice.
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

// Close tells the owner that the snapshot is no longer read, and frees the parts that only it still
// has. Any goroutine may call it, and more than once.
func (s *Snapshot) Close() {
	if !s.closed.Swap(true) {
		// the owner has the snapshot itself on its list until the next event
		s.view, s.byID = view{}, nil
	}
}

// Copied returns about how many bytes of the state were kept twice because of open snapshots since
// this one was taken. Any goroutine may call it.
func (s *Snapshot) Copied() int64 { return s.copied.Load() - s.before }

// snapshots are the open ones, by age.
type snapshots struct{ list []*Snapshot }

// release makes the parts that only closed snapshots see changeable again.
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

// Encode writes the canonical encoding of the state, as [Index.Encode] makes it, and returns its
// length in bytes. It needs little memory: besides the pieces that it writes, a few bytes for each
// entity, slice and session.
func (s *Snapshot) Encode(w io.Writer) (size int64, err error) {
	e := &stateEncoder{view: &s.view, w: w, dst: make([]byte, 0, pieceSize+pieceSize/16)}
	e.state()
	e.flush()
	return e.written, e.err
}

// sortedSlices returns the kept part of each slice, by id.
func (v *view) sortedSlices() (all []*keptSlice) {
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

// sortedSlots returns the slots of the sessions, by id.
func (t *keptSessions) sortedSlots() (all []uint32) {
	for slot, r := range t.records.all() {
		if r.there {
			all = append(all, slot)
		}
	}
	slices.SortFunc(all, func(a, b uint32) int { return cmp.Compare(t.records.at(a).id, t.records.at(b).id) })
	return all
}
