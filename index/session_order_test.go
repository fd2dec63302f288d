package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// check returns what is wrong with the order of sessions.
func (o *sessionOrder) check(t *testing.T, byID map[string]uint32) {
	t.Helper()
	n, before := 0, ""
	for i, b := range o.blocks {
		listed := 0
		for _, s := range b.sessions {
			if _, there := byID[s.id]; !there || s.block != b || n > 0 && s.id <= before || s.counted != s.listed() {
				t.Fatalf("session %q behind %q in block %d: %+v", s.id, before, i, s)
			}
			n, before = n+1, s.id
			if s.counted {
				listed++
			}
		}
		if len(b.sessions) == 0 || len(b.sessions) > maxBlock || listed != b.listed {
			t.Fatalf("block %d of %d sessions has %d listed, not %d", i, len(b.sessions), listed, b.listed)
		}
	}
	if n != len(byID) {
		t.Fatalf("%d sessions stand in order, there are %d", n, len(byID))
	}
}

// naive returns the result of an enumeration, found by a full scan.
func naive(x *Index, w Listing) (ids []string) {
	for s := range x.Sessions(w.Slice) {
		if w.All && (s.Active > 0 || s.Locked > 0 || s.Set) || !w.All && s.Set && s.SetAt > w.Since {
			ids = append(ids, s.ID)
		}
	}
	ids = ids[min(w.Skip, len(ids)):]
	return ids[:min(w.Top, len(ids))]
}

// list walks to the end in steps of size step, and reports how many were looked at.
func (x *Index) list(t *testing.T, w *Listing, step int) (looked int) {
	t.Helper()
	for {
		n, done := x.List(w, step)
		if looked += n; n > step+1 {
			t.Fatalf("a step of %d looked at %d", step, n)
		}
		if done {
			return looked
		}
	}
}

// SM-193: sessions come and go in any order, and every page in steps of any length is the one that
// looking at everything finds.
func TestOrderOfSessions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := New()
		var now event.Time = 1000
		live := map[string][]event.SequenceNumber{}
		for round := range 15_000 {
			now++
			id := fmt.Sprintf("s%d", rng.IntN(4000))
			if seed == 1 { // in order
				id = fmt.Sprintf("s%06d", round)
			}
			grows := round/5000 != 1 // then it shrinks, and grows again
			env := event.Envelope{Slice: q1.Slice}
			switch seqs := live[id]; {
			case rng.IntN(8) == 0:
				x.Apply(now, &event.SessionAccepted{Envelope: env, SessionID: []byte(id), Token: event.LockToken{1}, LockedUntil: now})
				ev := &event.SessionStateSet{Envelope: env, SessionID: []byte(id), Cleared: !grows || rng.IntN(3) == 0}
				if !ev.Cleared {
					ev.State.Size = 5
				}
				x.Apply(now, ev)
				x.Apply(now, &event.SessionReleased{Envelope: env, SessionID: []byte(id), Cause: event.ReleaseClosed})
			case grows && len(seqs) < 3:
				ev := enqueued(x.NextSequence(q1.Slice))
				ev.InSession, ev.SessionID = true, []byte(id)
				x.Apply(now, ev)
				live[id] = append(seqs, ev.Sequence)
			case len(seqs) > 0 && rng.IntN(4) == 0: // it is there, and not listed for it
				if m, _ := x.Message(q1.Slice, seqs[0]); m.SubQueue == event.Main {
					x.Apply(now, &event.MessageDeadLettered{Envelope: env, Sequence: seqs[0], Cause: event.CauseExpired})
				}
			case len(seqs) > 0:
				x.Apply(now, &event.MessageExpired{Envelope: env, Sequence: seqs[0]})
				live[id] = seqs[1:]
			}
			if round%501 != 500 {
				continue
			}
			s := x.slices.byID[q1.Slice].sessions
			s.order.check(t, s.byID)
			for range 5 {
				w := Listing{Slice: q1.Slice, All: rng.IntN(2) == 0, Since: now - event.Time(rng.IntN(9000)), Skip: rng.IntN(3000), Top: rng.IntN(300)}
				want := naive(x, w)
				if x.list(t, &w, 1+rng.IntN(1000)); !slices.Equal(w.IDs, want) {
					t.Fatalf("seed %d, round %d: %d sessions, not %d", seed, round, len(w.IDs), len(want))
				}
			}
			y, err := Decode(x.Encode(nil))
			if err != nil {
				t.Fatal(err)
			}
			s = y.slices.byID[q1.Slice].sessions
			s.order.check(t, s.byID)
		}
	}
}

// A page somewhere among many sessions costs what it shows and the blocks before it; one of states
// is cut into steps.
func TestPageOfManySessions(t *testing.T) {
	t.Parallel()
	const n = 100_000
	x := New()
	for i := range event.SequenceNumber(n) {
		ev := enqueued(i + 1)
		ev.InSession, ev.SessionID = true, fmt.Appendf(nil, "%d", (i*7919)%n) // in no order
		x.Apply(1000, ev)
	}
	blocks := len(x.slices.byID[q1.Slice].sessions.order.blocks)
	if blocks > 4*n/maxBlock {
		t.Errorf("%d blocks", blocks)
	}
	for _, skip := range []int{0, n / 2, n - 100, 2 * n} {
		w := Listing{Slice: q1.Slice, All: true, Skip: skip, Top: 100}
		want := naive(x, w)
		if looked := x.list(t, &w, 1<<20); looked > blocks+maxBlock+200 || !slices.Equal(w.IDs, want) {
			t.Errorf("skip %d: %d shown, %d looked at in %d blocks", skip, len(w.IDs), looked, blocks)
		}
	}
	w := Listing{Slice: q1.Slice, Top: 100}
	if looked, done := x.List(&w, 1000); done || looked > 1001 {
		t.Errorf("looked at %d, at its end: %v", looked, done)
	}
}

// longSession returns an index with one held session, and a model of its expected messages.
type longSession struct {
	x        *Index
	rng      *rand.Rand
	state    map[event.SequenceNumber]State
	tokens   map[event.SequenceNumber]event.LockToken
	locked   []event.SequenceNumber
	deferred []event.SequenceNumber
}

var (
	longName     = []byte("long")
	longEnvelope = event.Envelope{Slice: q1.Slice}
)

func newLongSession() *longSession {
	s := &longSession{x: New(), rng: rand.New(rand.NewPCG(7, 7)),
		state: map[event.SequenceNumber]State{}, tokens: map[event.SequenceNumber]event.LockToken{}}
	s.x.Apply(1000, &event.SessionAccepted{Envelope: longEnvelope, SessionID: longName, Token: event.LockToken{1}, LockedUntil: 1 << 40})
	return s
}

func (s *longSession) send() {
	ev := enqueued(s.x.NextSequence(q1.Slice))
	ev.InSession, ev.SessionID = true, longName
	if s.rng.IntN(2) == 0 {
		ev.ExpiresAt = 1500
	}
	s.x.Apply(1000, ev)
	s.state[ev.Sequence] = Active
}

// lock locks the first message, or now and then a deferred one.
func (s *longSession) lock(token event.LockToken) {
	seq := event.SequenceNumber(0)
	if m, ok := s.x.FirstOf(q1.Slice, longName); ok {
		seq = m.Sequence
	}
	if len(s.deferred) > 0 && s.rng.IntN(10) == 0 {
		seq, s.deferred = s.deferred[0], s.deferred[1:]
	}
	if seq == 0 {
		return
	}
	s.x.Apply(1000, &event.MessageLocked{Envelope: longEnvelope, Sequence: seq, Token: token})
	if s.tokens[seq] = token; s.state[seq] == Deferred {
		s.state[seq] = DeferredLocked
	} else {
		s.state[seq] = Locked
	}
	s.locked = append(s.locked, seq)
}

// unlock gives a locked message back, or defers it while the session grows, or completes it.
func (s *longSession) unlock(grows bool) {
	i := s.rng.IntN(len(s.locked))
	seq := s.locked[i]
	s.locked = slices.Delete(s.locked, i, i+1)
	switch {
	case s.rng.IntN(2) == 0:
		s.x.Apply(1000, &event.MessageReleased{Envelope: longEnvelope, Sequence: seq, Token: s.tokens[seq]})
		if s.state[seq] == DeferredLocked {
			s.deferred = append(s.deferred, seq)
			s.state[seq] = Deferred
		} else {
			s.state[seq] = Active
		}
	case grows:
		s.x.Apply(1000, &event.MessageDeferred{Envelope: longEnvelope, Sequence: seq, Token: s.tokens[seq]})
		s.deferred = append(s.deferred, seq)
		s.state[seq] = Deferred
	default:
		s.x.Apply(1000, &event.MessageCompleted{Envelope: longEnvelope, Sequence: seq, Token: s.tokens[seq]})
		delete(s.state, seq)
	}
}

func (s *longSession) check(t *testing.T, round int) {
	t.Helper()
	var first event.SequenceNumber
	var under []event.SequenceNumber
	for seq, st := range s.state {
		if st == Active && (first == 0 || seq < first) {
			first = seq
		}
		if st == Locked || st == DeferredLocked {
			under = append(under, seq)
		}
	}
	slices.Sort(under)
	m, ok := s.x.FirstOf(q1.Slice, longName)
	if ok != (first != 0) || m.Sequence != first {
		t.Fatalf("round %d: message %d is the first, not %d", round, m.Sequence, first)
	}
	if front := s.x.FrontOf(q1.Slice, longName, 2000, 1); len(front) > 0 && front[0].Sequence != first {
		t.Fatalf("round %d: message %d has expired, the first is %d", round, front[0].Sequence, first)
	}
	var got []event.SequenceNumber
	for m := range s.x.LockedOf(q1.Slice, longName) {
		got = append(got, m.Sequence)
	}
	if ses := s.x.slices.byID[q1.Slice].sessions.table[1]; !slices.Equal(got, under) || len(ses.under) > 64+2*len(under) ||
		ses.ready != nil && int(ses.ready.GetCardinality()) != ses.active {
		t.Fatalf("round %d: %d are locked, not %d", round, len(got), len(under))
	}
}

// Undeliverable messages of a long session are not examined again and again, neither for the next
// message nor for the locked ones. The results are the same as without this.
func TestLongSession(t *testing.T) {
	t.Parallel()
	s := newLongSession()
	for round := range 12_000 {
		grows := round < 6000
		switch op := s.rng.IntN(10); {
		case op < 5 && grows:
			s.send()
		case op < 8:
			s.lock(event.LockToken{2, byte(round), byte(round >> 8)})
		case len(s.locked) > 0:
			s.unlock(grows)
		}
		if round%197 == 0 {
			s.check(t, round)
		}
		if round%3001 == 3000 {
			y, err := Decode(s.x.Encode(nil))
			if err != nil {
				t.Fatal(err)
			}
			s.x = y
			s.check(t, round)
		}
	}
}
