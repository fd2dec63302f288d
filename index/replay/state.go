package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// State is the state of a partition at a place in its log. It only moves forward, and belongs to
// one goroutine. After an [*Error] it contains part of a record and must not be used.
type State struct {
	Index  *index.Index
	From   event.LSN // of the checkpoint or base that it began with; 0: it began at the first byte
	Events int       // number of events applied since then

	log     log.Reader
	next    event.LSN // all frames below are in the state
	applied int       // records of the frame at next that are in the state
	stepped int       // events of the following record that are in the state
	encoded []byte    // by the last Hash, for reuse
	broken  error     // why there is no state to begin with
}

// Begin returns the state that a log begins with: that of its base, or the empty one at the first
// byte. If the base cannot be read, the next call of [State.Records] or [State.Run] fails.
func Begin(r log.Reader) *State {
	s := &State{log: r}
	if s.Index, s.From, s.broken = loadBase(context.Background(), r, nil); s.broken != nil {
		s.Index = index.New()
	}
	s.next = s.From
	return s
}

// Newest returns the state of the newest usable checkpoint that contains nothing from limit on, an
// LSN; 0: no limit. Without such a checkpoint it returns the state of [Begin]. unusable, unless
// nil, is called with each checkpoint that it skipped, and the reason.
func Newest(p log.Partition, limit event.LSN, unusable func(log.CheckpointInfo, error)) *State {
	for _, c := range p.Checkpoints() {
		if limit != 0 && c.LSN > limit {
			continue
		}
		x, err := load(p, c)
		if err == nil {
			return &State{Index: x, From: c.LSN, log: p, next: c.LSN}
		}
		if unusable != nil {
			unusable(c, err)
		}
	}
	return Begin(p)
}

// At returns the place of the state: all frames below it are in the state, and none from there on.
// Only if the state stopped between two records of a frame, it contains the first records of the
// frame at this LSN.
func (s *State) At() event.LSN { return s.next }

// Hash returns the SHA-256 of the state's encoding, which a checkpoint of it has as its hash. It
// encodes the whole state.
func (s *State) Hash() [sha256.Size]byte {
	s.encoded = s.Index.Encode(s.encoded[:0])
	return sha256.Sum256(s.encoded)
}

// SavedState is an encoded state and its place.
type SavedState struct {
	Encoded []byte // the state; it is only read

	from             event.LSN
	next             event.LSN
	applied, stepped int
	events           int
}

// Save encodes the current state, even between two events of a record. It encodes the whole state.
func (s *State) Save() SavedState {
	return SavedState{s.Index.Encode(nil), s.From, s.next, s.applied, s.stepped, s.Events}
}

// Resume returns a saved state of the same log.
func Resume(r log.Reader, saved *SavedState) (*State, error) {
	x, err := index.Decode(saved.Encoded)
	if err != nil {
		return nil, err
	}
	return &State{Index: x, From: saved.from, Events: saved.events, log: r, next: saved.next, applied: saved.applied, stepped: saved.stepped}, nil
}

// Inside returns how many events of the next record are applied.
func (s *State) Inside() int { return s.stepped }

// Records yields the records after the state's place, as the function Records does. It applies
// nothing: the caller applies each record with Apply or Step. After a break it can be called again,
// and continues with the first record that was not applied.
func (s *State) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if s.broken != nil {
			yield(nil, s.broken)
			return
		}
		walk(ctx, s.log, s.next, s.applied, yield)
	}
}

// Found yields the records after the state's place in the stretches that any of some searches
// selects. A caller that applies them applies only a part of the log. It must know that the rest
// does not affect what it reads from the state.
func (s *State) Found(ctx context.Context, searches []log.Search) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if s.broken != nil {
			yield(nil, s.broken)
			return
		}
		list, err := stretches(s.log, s.next, searches)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, st := range list {
			from, done := st.From, 0
			if st.To <= s.next {
				continue
			}
			if from <= s.next {
				from, done = s.next, s.applied
			}
			more := true
			walk(ctx, s.log, from, done, func(rec *Record, err error) bool {
				if err == nil && rec.LSN >= st.To {
					return false
				}
				more = yield(rec, err) && err == nil
				return more
			})
			if !more {
				return
			}
		}
	}
}

// stretches returns the combined stretches of several searches, as far as they have frames at or
// after an LSN.
func stretches(r log.Reader, from event.LSN, searches []log.Search) (all []log.Stretch, err error) {
	first, end := r.Bounds()
	finder, ok := r.(log.Finder)
	if !ok {
		return []log.Stretch{{From: first, To: end}}, nil
	}
	for _, q := range searches {
		q.Begin = max(q.Begin, from)
		list, err := finder.Find(q)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b log.Stretch) int { return cmp.Compare(a.From, b.From) })
	merged := all[:0]
	for _, st := range all {
		if n := len(merged); n > 0 && merged[n-1].To >= st.From {
			merged[n-1].To = max(merged[n-1].To, st.To)
			continue
		}
		merged = append(merged, log.Stretch{From: st.From, To: st.To})
	}
	return merged, nil
}

// Apply applies the rest of the next record, usually all of it. An event that does not fit the
// state is an [*Error].
func (s *State) Apply(rec *Record) error { return s.ApplyOnly(rec, nil) }

// ApplyOnly does the same as Apply for the wanted events only; nil: for all.
func (s *State) ApplyOnly(rec *Record, wanted func(event.Event) bool) (err error) {
	s.expect(rec)
	defer func() {
		if v := recover(); v != nil {
			err = s.misfit(rec, v)
		}
	}()
	for _, ev := range rec.Events[s.stepped:] {
		if wanted == nil || wanted(ev) {
			s.Index.Apply(rec.At, ev)
		}
	}
	s.Events += len(rec.Events) - s.stepped
	s.noteApplied(rec)
	return nil
}

// Step applies the next event of the next record. With the last event the state is at the end of
// the record.
func (s *State) Step(rec *Record) (err error) {
	s.expect(rec)
	defer func() {
		if v := recover(); v != nil {
			err = s.misfit(rec, v)
		}
	}()
	if s.stepped < len(rec.Events) {
		s.Index.Apply(rec.At, rec.Events[s.stepped])
		s.stepped++
		s.Events++
	}
	if s.stepped == len(rec.Events) {
		s.noteApplied(rec)
	}
	return nil
}

// expect asserts that the record is the next one.
func (s *State) expect(rec *Record) {
	if rec.Number != s.applied+1 || rec.LSN < s.next || s.applied > 0 && rec.LSN != s.next {
		panic(fmt.Sprintf("replay: record %d of frame %d applied to the state at record %d of frame %d", rec.Number, rec.LSN, s.applied+1, s.next))
	}
}

// noteApplied records that a record is in the state.
func (s *State) noteApplied(rec *Record) {
	s.stepped = 0
	if s.next, s.applied = rec.LSN, rec.Number; rec.Last {
		s.next, s.applied = rec.Next, 0
	}
}

func (s *State) misfit(rec *Record, v any) *Error {
	e := rec.wrong(s.log, errPanic(v))
	e.Stack = debug.Stack()
	return e
}

// Watch observes a replay while it runs. The zero value observes nothing.
type Watch struct {
	// Checkpoints are compared with the state when it passes them. Differs must be set then. It is
	// called for each checkpoint with another state hash, and its error ends the replay.
	// Checkpoints below the first place of the state are ignored.
	Checkpoints []log.CheckpointInfo
	Differs     func(log.CheckpointInfo) error
	// Look, unless nil, is called with each record before it is applied. Its error ends the replay.
	Look func(*Record) error
	// Progress, unless nil, is called after each frame of events with an LSN below which all frames
	// are in the state.
	Progress func(event.LSN)
}

// Run applies all following records, up to the durable end at the time of the call.
func (s *State) Run(ctx context.Context, w Watch) error {
	_, end := s.log.Bounds()
	w.sort(s)
	for rec, err := range s.Records(ctx) {
		if err == nil && len(w.Checkpoints) > 0 {
			err = w.compare(s, rec.LSN)
		}
		if err == nil && w.Look != nil {
			err = w.Look(rec)
		}
		if err == nil {
			err = s.Apply(rec)
		}
		if err != nil {
			return err
		}
		if rec.Last && w.Progress != nil {
			w.Progress(rec.Next)
		}
	}
	s.next = max(s.next, end) // only frames without records follow
	return w.compare(s, s.next)
}

// sort sorts the comparable checkpoints in the order in which they are passed.
func (w *Watch) sort(s *State) {
	inside := s.applied+s.stepped > 0
	w.Checkpoints = slices.DeleteFunc(slices.Clone(w.Checkpoints), func(c log.CheckpointInfo) bool {
		return c.LSN < s.next || c.LSN == s.next && inside
	})
	slices.SortFunc(w.Checkpoints, func(a, b log.CheckpointInfo) int { return cmp.Compare(a.LSN, b.LSN) })
}

// compare compares the state, which contains everything below an LSN, with the checkpoints up to
// there. There is no record between them and the LSN, but there may be frames without records: a
// run that begins, or a second without traffic.
func (w *Watch) compare(s *State, at event.LSN) error {
	for len(w.Checkpoints) > 0 && w.Checkpoints[0].LSN <= at {
		c := w.Checkpoints[0]
		w.Checkpoints = w.Checkpoints[1:]
		if s.Hash() == c.Hash {
			continue
		}
		if err := w.Differs(c); err != nil {
			return err
		}
	}
	return nil
}
