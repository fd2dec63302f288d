package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// kinds is above every kind of event.
const kinds = event.KindErasureFinished + 1

// walk makes random legal events of every kind, as the engine would decide them, and applies them
// to one or more indexes that should be the same.
type walk struct {
	rng    *rand.Rand
	x      *Index // is asked
	others []*Index
	now    event.Time
	tokens []event.LockToken // given out, some dead
	count  [kinds]int        // events by kind
	blobs  event.Position
	model  model
	moves  moveModel
	check  func() // after every event
	past   []decided

	reserved []reservation // unused numbers
	still    bool          // nothing moves, and there are no transactions
}

// decided is an event with its time.
type decided struct {
	at event.Time
	ev event.Event
}

// Two queues, and a topic with two subscriptions.
var (
	plain, inSessions = event.Slice{Entity: 7}, event.Slice{Entity: 9, Partition: 3}
	news              = event.Slice{Entity: 11, Partition: 3}
	// the second one in sessions
	copies, grouped = event.Slice{Entity: 12, Partition: 3}, event.Slice{Entity: 15, Partition: 3}
)

func newWalk(seed uint64, xs ...*Index) *walk {
	return &walk{rng: rand.New(rand.NewPCG(seed, 2)), x: xs[0], others: xs[1:], now: 1_000_000, model: newModel(), moves: newMoveModel(), check: func() {}}
}

func (w *walk) apply(ev event.Event) {
	w.count[ev.Kind()]++
	w.past = append(w.past, decided{w.now, ev})
	for _, x := range append([]*Index{w.x}, w.others...) {
		x.Apply(w.now, ev)
	}
	w.model.apply(w.now, ev)
	w.moves.apply(ev)
	w.check()
}

func (w *walk) token() (t event.LockToken) {
	for i := range t {
		t[i] = byte(w.rng.Uint32())
	}
	w.tokens = append(w.tokens, t)
	return t
}

func (w *walk) blob() event.Blob {
	w.blobs += 100
	return event.Blob{Position: w.blobs, Size: uint32(w.rng.IntN(90)), Sum: w.rng.Uint32()}
}

func (w *walk) session() []byte { return []byte(strconv.Itoa(w.rng.IntN(12))[1:]) } // "" among them

// pick is a message in a state, mostly one of the oldest, or none.
func (w *walk) pick(id event.Slice, q event.SubQueue, ok func(*Message) bool) (Message, bool) {
	skip := w.rng.IntN(4)
	for m := range w.x.Browse(id, q, 0) {
		if ok(&m) {
			if skip--; skip < 0 {
				return m, true
			}
		}
	}
	return Message{}, false
}

// lock is a live lock of a message, in random order.
func (w *walk) lock() (Lock, Message, bool) {
	for len(w.tokens) > 0 {
		i := w.rng.IntN(len(w.tokens))
		l, ok := w.x.Lock(w.tokens[i])
		if ok && !l.OfSession() {
			m, _ := w.x.Message(l.Slice, l.Sequence)
			return l, m, true
		}
		if ok {
			return Lock{}, Message{}, false
		}
		w.tokens = slices.Delete(w.tokens, i, i+1)
	}
	return Lock{}, Message{}, false
}

// turn is the data of one step of a walk.
type turn struct {
	id             event.Slice
	env            event.Envelope // of id
	sessions, sub  bool           // id has sessions; it is a subscription's
	q              event.SubQueue
	messageID      []byte
	idType         event.IDType
	duplicateUntil event.Time
	expires        event.Time
}

func (w *walk) step() {
	w.now += event.Time(w.rng.IntN(200))
	rng := w.rng
	id := []event.Slice{plain, inSessions, copies, grouped}[rng.IntN(4)]
	t := turn{id: id, env: event.Envelope{Slice: id}, sessions: id == inSessions || id == grouped, sub: id == copies || id == grouped,
		q: event.SubQueue(rng.IntN(2)), messageID: fmt.Appendf(nil, "%d", rng.IntN(300)), idType: event.IDType(rng.IntN(2))}
	if rng.IntN(2) == 0 && !t.sub {
		if original, twice := w.x.Duplicate(id, w.now, event.Identity{Type: t.idType, ID: t.messageID}); twice {
			w.apply(&event.DuplicateDropped{Envelope: t.env, MessageID: t.messageID, IDType: t.idType, Original: original, Arrival: w.maybeArrival(id)})
			return
		}
		t.duplicateUntil = w.now.Add(time.Duration(1+rng.IntN(20)) * time.Second) // windows change
	}
	if rng.IntN(3) == 0 {
		t.expires = w.now + event.Time(rng.IntN(5000))
	}
	n := rng.IntN(w.weights())
	for _, op := range operations {
		if n -= op.weight; n < 0 {
			op.do(w, &t)
			return
		}
	}
}

// of all, and of those without moves, which come first
const operationWeights, stillWeights = 38, 28

// operations are the possible steps; the sum of their weights is operationWeights.
var operations = []struct {
	weight int
	do     func(*walk, *turn)
}{
	{5, (*walk).send}, {2, (*walk).schedule}, {1, (*walk).activate}, {1, (*walk).cancel},
	{2, (*walk).lockFirst}, {1, (*walk).lockDeferred}, {3, (*walk).endLock}, {1, (*walk).removeFree}, {1, (*walk).deleteBatch},
	{3, (*walk).holdSession}, {2, (*walk).releaseSession},
	{1, (*walk).dropSlice}, {1, (*walk).origin}, {4, (*walk).catalogueTurn},
	{2, (*walk).depart}, {2, (*walk).handOver}, {3, (*walk).land}, {1, (*walk).forgetSource}, {1, (*walk).reserve}, {1, (*walk).commit},
}

func (w *walk) send(t *turn) {
	if t.sub {
		w.publish()
		return
	}
	w.apply(&event.MessageEnqueued{Envelope: t.env, Sequence: w.x.NextSequence(t.id), MessageID: t.messageID, IDType: t.idType,
		SessionID: w.session(), HasSession: t.sessions, InSession: t.sessions, EnqueuedAt: w.now, ExpiresAt: t.expires,
		TimeToLive: time.Duration(t.expires), DuplicateUntil: t.duplicateUntil, Body: w.blob(), Arrival: w.maybeArrival(t.id)})
}

func (w *walk) schedule(t *turn) {
	if t.sub {
		w.apply(&event.MessageScheduled{Envelope: event.Envelope{Slice: news}, Sequence: w.x.NextSequence(news), MessageID: t.messageID,
			ScheduledFor: w.now + event.Time(w.rng.IntN(3000)), TimeToLive: time.Duration(w.rng.IntN(2)) * time.Hour, Body: w.blob(), Arrival: w.maybeArrival(news)})
		return
	}
	w.apply(&event.MessageScheduled{Envelope: t.env, Sequence: w.x.NextSequence(t.id), MessageID: t.messageID, IDType: t.idType,
		SessionID: w.session(), HasSession: t.sessions, InSession: t.sessions, ScheduledFor: w.now + event.Time(w.rng.IntN(3000)),
		TimeToLive: time.Duration(w.rng.IntN(2)) * time.Hour, DuplicateUntil: t.duplicateUntil, Body: w.blob(), Arrival: w.maybeArrival(t.id)})
}

func (w *walk) activate(t *turn) {
	s, ok := w.x.DueScheduled(w.now)
	switch {
	case !ok:
	case s.Slice == news:
		w.publishScheduled(s.Sequence)
	default:
		w.apply(&event.ScheduledActivated{Envelope: event.Envelope{Slice: s.Slice}, Sequence: s.Sequence,
			NewSequence: w.x.NextSequence(s.Slice), TimeToLive: s.TimeToLive, EnqueuedAt: w.now, ExpiresAt: t.expires})
	}
}

func (w *walk) cancel(t *turn) {
	id := t.id
	if t.sub {
		id = news
	}
	if m, ok := w.pick(id, event.Main, func(m *Message) bool { return m.State == Scheduled }); ok {
		w.apply(&event.ScheduleCancelled{Envelope: event.Envelope{Slice: id}, Sequence: m.Sequence})
	}
}

func (w *walk) lockFirst(t *turn) {
	if m, ok := w.x.First(t.id, t.q); ok && !(t.sessions && t.q == event.Main) {
		w.apply(&event.MessageLocked{Envelope: t.env, Sequence: m.Sequence, Token: w.token(), DeliveryCount: m.DeliveryCount,
			LockedUntil: w.now + event.Time(w.rng.IntN(10_000))})
	}
}

func (w *walk) lockDeferred(*turn) {
	id := []event.Slice{plain, copies}[w.rng.IntN(2)]
	if m, ok := w.pick(id, event.Main, func(m *Message) bool { return m.State == Deferred }); ok {
		w.apply(&event.MessageLocked{Envelope: event.Envelope{Slice: id}, Sequence: m.Sequence, Token: w.token(), LockedUntil: w.now + 3000})
	}
}

// endLock ends or renews the lock of a message.
func (w *walk) endLock(*turn) {
	l, m, ok := w.lock()
	if !ok {
		return
	}
	env := event.Envelope{Slice: l.Slice}
	switch op := w.rng.IntN(8); {
	case op == 0:
		w.apply(&event.MessageCompleted{Envelope: env, Sequence: m.Sequence, Token: l.Token})
	case op == 1:
		w.apply(&event.MessageAbandoned{Envelope: env, Sequence: m.Sequence, Token: l.Token, DeliveryCount: m.DeliveryCount + 1, Changes: w.blob()})
	case op == 2 && l.Until != 0:
		w.apply(&event.LockRenewed{Envelope: env, Sequence: m.Sequence, Token: l.Token, LockedUntil: l.Until + 500})
	case op == 3 || op == 4:
		w.apply(&event.MessageDeferred{Envelope: env, Sequence: m.Sequence, Token: l.Token, DeliveryCount: m.DeliveryCount + 1, Changes: w.blob()})
	case op == 5:
		w.apply(&event.MessageReleased{Envelope: env, Sequence: m.Sequence, Token: l.Token})
	case op == 6 && m.SubQueue == event.Main:
		w.apply(&event.MessageDeadLettered{Envelope: env, Sequence: m.Sequence, Token: l.Token, Cause: event.CauseApplication, Changes: w.blob()})
	case op == 7 && l.Until != 0:
		w.apply(&event.LockExpired{Envelope: env, Sequence: m.Sequence, Token: l.Token, DeliveryCount: m.DeliveryCount + 1})
	}
}

// removeFree removes an unlocked message from the main queue.
func (w *walk) removeFree(t *turn) {
	m, ok := w.pick(t.id, event.Main, func(m *Message) bool { return m.State == Active || m.State == Deferred })
	if !ok {
		return
	}
	switch w.rng.IntN(3) {
	case 0:
		w.apply(&event.MessageExpired{Envelope: t.env, Sequence: m.Sequence})
	case 1:
		w.apply(&event.MessageDeadLettered{Envelope: t.env, Sequence: m.Sequence, Cause: event.CauseExpired, Changes: w.blob()})
	case 2:
		w.apply(&event.MessageReceivedAndDeleted{Envelope: t.env, Sequence: m.Sequence})
	}
}

func (w *walk) deleteBatch(t *turn) {
	var doomed []event.SequenceNumber
	for m := range w.x.BrowseActive(t.id, t.q) {
		if len(doomed) == w.rng.IntN(10) {
			break
		}
		doomed = append(doomed, m.Sequence)
	}
	w.apply(&event.MessagesBatchDeleted{Envelope: t.env, Before: w.now, Sequences: doomed})
}

// holdSession acts as a client of a session: it accepts the session, locks some of its messages,
// renews it, and sets its state.
func (w *walk) holdSession(*turn) {
	rng := w.rng
	held := []event.Slice{inSessions, grouped}[rng.IntN(2)]
	env := event.Envelope{Slice: held}
	name := w.session()
	s, ok := w.x.NextSession(held)
	if rng.IntN(2) == 0 && ok {
		name = []byte(s.ID)
	}
	if s, _ := w.x.Session(held, name); !s.Held {
		w.apply(&event.SessionAccepted{Envelope: env, SessionID: name, Token: w.token(), LockedUntil: w.now + event.Time(rng.IntN(9000))})
	}
	for range rng.IntN(4) {
		if m, ok := w.x.FirstOf(held, name); ok {
			w.apply(&event.MessageLocked{Envelope: env, Sequence: m.Sequence, Token: w.token(), DeliveryCount: m.DeliveryCount})
		}
	}
	if m, ok := w.pick(held, event.Main, func(m *Message) bool { return m.State == Deferred && m.SessionID == string(name) }); ok {
		w.apply(&event.MessageLocked{Envelope: env, Sequence: m.Sequence, Token: w.token(), DeliveryCount: m.DeliveryCount})
	}
	if rng.IntN(3) == 0 {
		w.apply(&event.SessionLockRenewed{Envelope: env, SessionID: name, LockedUntil: w.now + 20_000})
	}
	if rng.IntN(3) == 0 {
		ev := &event.SessionStateSet{Envelope: env, SessionID: name, Cleared: rng.IntN(2) == 0}
		if !ev.Cleared {
			ev.State = w.blob()
		}
		w.apply(ev)
	}
}

func (w *walk) releaseSession(*turn) {
	locks := w.x.HeldSessions()
	if len(locks) == 0 {
		return
	}
	l := locks[w.rng.IntN(len(locks))]
	ev := &event.SessionReleased{Envelope: event.Envelope{Slice: l.Slice}, SessionID: []byte(l.Session), Cause: event.ReleaseCause(1 + w.rng.IntN(4))}
	for m := range w.x.LockedOf(l.Slice, ev.SessionID) {
		ev.Returned = append(ev.Returned, event.Returned{Sequence: m.Sequence, DeliveryCount: m.DeliveryCount + uint32(w.rng.IntN(2))})
	}
	w.apply(ev)
}

// dropSlice, now and then: a topic goes before its subscriptions, or after them.
func (w *walk) dropSlice(*turn) {
	if w.rng.IntN(80) == 0 {
		all := []event.Slice{plain, inSessions, news, copies, grouped}
		gone := all[w.rng.IntN(len(all))]
		w.apply(&event.SliceDropped{Envelope: event.Envelope{Slice: gone}})
		w.reserved = slices.DeleteFunc(w.reserved, func(r reservation) bool { return r.id == gone })
	}
}

func (w *walk) origin(*turn) { w.apply(&event.OriginDefined{ID: w.x.NextOrigin()}) }

func (w *walk) catalogueTurn(*turn) { w.catalogue() }

// answers is everything the engine asks an index on the way, as text.
func answers(x *Index, now event.Time) string {
	var b bytes.Buffer
	for _, id := range x.Slices() {
		next, ok := x.NextSession(id)
		fmt.Fprintln(&b, id, x.NextSequence(id), x.Bytes(id), x.Remembered(id), x.Forgettable(id, now, 5), next, ok)
		for s := range x.Sessions(id) {
			first, _ := x.FirstOf(id, []byte(s.ID))
			fmt.Fprint(&b, s, first.Sequence, x.LockedUnder(id, []byte(s.ID)), " ")
		}
		for q := range event.SubQueue(subQueues) {
			m, _ := x.First(id, q)
			fmt.Fprint(&b, m, " ")
			for st := Active; st <= Transferring; st++ {
				fmt.Fprint(&b, x.Count(id, q, st), " ")
			}
		}
		fmt.Fprintln(&b)
		movesOf(&b, x, id)
	}
	s, ok := x.DueScheduled(event.EndOfTime)
	fmt.Fprintln(&b, s, ok, x.NextDeadline(), x.LockDeadline(), x.Locks(), x.Live(), x.NextOrigin(), x.LastAt())
	due := x.Due(event.EndOfTime, 1<<20)
	// slots may differ
	slices.SortFunc(due, func(a, b Lock) int { return bytes.Compare(a.Token[:], b.Token[:]) })
	fmt.Fprintln(&b, due)
	b.WriteString(describe(&x.Catalogue))
	if h := x.Catalogue.History(); h != nil {
		fmt.Fprintln(&b, h.Since, h.Namespace != nil, h.Whole(), h.Patterns)
	}
	return b.String()
}

// R9, SM-360, SM-361: an index that went through its encoding, or through the events of a base, is
// the same, answers the same and goes on the same way, at any point of any history.
func TestStateAtAnyPoint(t *testing.T) {
	t.Parallel()
	seeds, steps := uint64(20), 2500
	if testing.Short() {
		seeds = 6
	}
	var count [kinds]int
	for seed := range seeds {
		x := New()
		// one that goes through its encoding, and one through a base
		w := newWalk(seed, x, New(), New())
		n := 0
		w.check = func() {
			if n++; n%17 == 0 {
				for i, other := range w.others {
					if a, b := answers(x, w.now), answers(other, w.now); a != b {
						t.Fatalf("seed %d, event %d: answers of %d differ:\n%s\n%s", seed, n, i, a, b)
					}
				}
				if err := errors.Join(w.model.compare(x), w.moves.compare(x)); err != nil {
					t.Fatalf("seed %d, event %d: %v", seed, n, err)
				}
			}
			if n%97 != 0 {
				return
			}
			a := x.Encode(nil)
			for i, other := range w.others {
				if b := other.Encode(nil); !bytes.Equal(a, b) {
					t.Fatalf("seed %d, event %d: encodings of %d differ", seed, n, i)
				}
			}
			z, err := Decode(a)
			if err != nil {
				t.Fatalf("seed %d, event %d: %v", seed, n, err)
			}
			if b := z.Encode(nil); !bytes.Equal(a, b) {
				t.Fatalf("seed %d, event %d: encodings differ after a round trip", seed, n)
			}
			if seed%2 == 0 || n < 97*10 { // often, or once and then a long way
				w.others[0], w.others[1] = z, rebased(t, x)
			}
		}
		for i := range steps {
			if w.step(); i%50 == 0 && seed > 0 {
				w.policy()
			}
		}
		for k, n := range w.count {
			count[k] += n
		}
	}
	for k := range kinds {
		// the others are facts
		if k.String() != "" && count[k] == 0 && (k < event.KindSliceRestored || k == event.KindNumbersReserved) {
			t.Errorf("no %v in %d histories", k, seeds)
		}
	}
}

// rebased is the index that the base of another one gives, once it was written as records.
func rebased(t *testing.T, x *Index) *Index {
	t.Helper()
	r := Restore()
	var dec event.Decoder
	snap := x.Snapshot()
	defer snap.Close()
	for ev := range snap.Base() {
		rec, rest, err := dec.Record(0, [2]uint32{}, event.AppendRecord(nil, nil, x.LastAt(), []event.Event{ev}))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%+v %+v; want len(rest) <= 0", err, rest)
		}
		if err := r.Apply(rec.At, rec.Events[0]); err != nil {
			t.Fatal(err)
		}
	}
	y, err := r.Index()
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// The order of sessions that wait, of schedules and of the history lasts through an encoding
// (semantics.md 8.3, 7.6, 11).
func TestOrdersLast(t *testing.T) {
	t.Parallel()
	x := New()
	w := newWalk(5, x)
	for range 5000 {
		w.step()
	}
	y, err := Decode(x.Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	w.others = []*Index{y}
	for _, l := range x.HeldSessions() {
		ev := &event.SessionReleased{Envelope: event.Envelope{Slice: l.Slice}, SessionID: []byte(l.Session), Cause: event.ReleaseLinkLost}
		for m := range x.LockedOf(l.Slice, ev.SessionID) {
			ev.Returned = append(ev.Returned, event.Returned{Sequence: m.Sequence})
		}
		w.apply(ev)
	}
	for n := 0; ; n++ {
		a, more := x.NextSession(inSessions)
		b, _ := y.NextSession(inSessions)
		if a.ID != b.ID {
			t.Fatalf("session %d is %q and %q", n, a.ID, b.ID)
		}
		if !more {
			break
		}
		w.apply(&event.SessionAccepted{Envelope: event.Envelope{Slice: inSessions}, SessionID: []byte(a.ID), Token: w.token(), LockedUntil: w.now})
	}
	for {
		a, more := x.DueScheduled(event.EndOfTime)
		if b, _ := y.DueScheduled(event.EndOfTime); a != b {
			t.Fatalf("%+v and %+v are due", a, b)
		}
		if !more {
			break
		}
		if a.Slice == news {
			w.publishScheduled(a.Sequence)
		} else {
			w.apply(&event.ScheduledActivated{Envelope: event.Envelope{Slice: a.Slice}, Sequence: a.Sequence, NewSequence: x.NextSequence(a.Slice), EnqueuedAt: w.now})
		}
	}
	for x.Remembered(plain) > 1 { // a new one drops a few expired ones
		w.now += 5000
		w.apply(&event.MessageEnqueued{Envelope: event.Envelope{Slice: plain}, Sequence: x.NextSequence(plain), EnqueuedAt: w.now,
			MessageID: fmt.Appendf(nil, "new %d", w.now), DuplicateUntil: w.now + 1})
		if !bytes.Equal(x.Encode(nil), y.Encode(nil)) {
			t.Fatalf("histories of %d and %d ids differ", x.Remembered(plain), y.Remembered(plain))
		}
	}
}
