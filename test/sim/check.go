package sim

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

var states = [...]index.State{model.Transferring: index.Transferring, model.Active: index.Active, model.Locked: index.Locked, model.Deferred: index.Deferred,
	model.DeferredLocked: index.DeferredLocked, model.Scheduled: index.Scheduled}

// equal compares the state of a partition with the model, message by message: each is in exactly
// one place (SM-112), after every crash, and the counters are those of the messages there are
// (SM-366). What says most about a difference comes first.
func (w *world) equal(p *part, x *index.Index) {
	w.stats.StateCompared++
	if int64(x.LastAt()) != p.model.LastAt {
		w.broken("I24", "partition %d: newest record is of %d, it must be of %d", p.id, x.LastAt(), p.model.LastAt)
	}
	if c := x.Clock(); int(c.Number) != p.model.Clock.Number || c.Shift != p.model.Clock.Shift {
		w.broken("I24", "partition %d: the newest decision about the clock is %+v, it must be %+v", p.id, c, p.model.Clock)
	}
	live := 0
	for _, mq := range p.model.Queues {
		live += len(mq.Live)
		w.equalMessages(w.queues[mq.ID], x)
	}
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		w.equalSessions(q, x)
		for id, e := range mq.Seen {
			first, ok := x.Duplicate(q.slice, event.Time(p.model.LastAt), identity(id))
			if must := e.Until > p.model.LastAt; ok != must || ok && uint64(first) != e.First {
				w.broken("I18", "%s: id %q is in the duplicate history: %v, as %d; it must: %v, as %d", q.path, id, ok, first, must, e.First)
			}
		}
		w.equalMoves(q, x)
		w.equalCounters(q, x)
	}
	if x.Live() != live || x.Locks() != p.model.Locks() {
		w.broken("I22", "partition %d: %d messages and %d locks, there must be %d and %d", p.id, x.Live(), x.Locks(), live, p.model.Locks())
	}
	w.stands(p)
}

// equalMoves compares what is in transfer, and what is known of what arrived.
func (w *world) equalMoves(q *queue, x *index.Index) {
	if n := uint64(x.NextTransfer(q.slice)); n != q.model.Transfers+1 {
		w.broken("I21", "%s: the next transfer is number %d, it must be %d", q.path, n, q.model.Transfers+1)
	}
	for _, m := range q.model.Live {
		if t := m.Transfer; t != nil {
			got, open, ok := x.Transfer(q.slice, event.TransferNumber(t.Number))
			if !ok || uint64(got.Sequence) != m.Seq || w.idOf(open.Destination) != t.To {
				w.broken("I21", "%s: transfer %d: found %v, of message %d to entity %d; it must be of %d", q.path, t.Number, ok, got.Sequence, open.Destination, m.Seq)
			}
		}
	}
	for source, a := range q.model.Arrived {
		from := w.queues[source-1]
		for n := uint64(1); n <= from.model.Transfers+1; n++ {
			if got := x.Arrived(q.slice, from.slice, event.TransferNumber(n)); got != a.Knows(n) {
				w.broken("I21", "%s: number %d of %s has arrived: %v, it must: %v (floor %d)", q.path, n, from.path, got, a.Knows(n), a.Floor)
			}
		}
	}
}

// subOf is the sub-queue that a message is in.
func subOf(m *model.Message) event.SubQueue {
	return event.SubQueue(m.Sub())
}

func (w *world) equalMessages(q *queue, x *index.Index) {
	var found []index.Message
	for _, s := range []event.SubQueue{event.Main, event.DeadLetter, event.TransferDeadLetter} {
		for m := range x.Browse(q.slice, s, 0) {
			found = append(found, m)
		}
	}
	for _, t := range x.Transfers() { // nobody sees those of the main queue
		m, _ := x.Message(q.slice, t.Sequence)
		if t.Slice == q.slice && m.SubQueue == event.Main {
			found = append(found, m)
		}
	}
	if q.model.Dropped && (len(found) > 0 || x.Has(q.slice)) {
		w.broken("I23", "%s was deleted, and %d messages are there", q.path, len(found))
	}
	if next := uint64(x.NextSequence(q.slice)); next != q.model.Last+1 {
		w.broken(q.number(), "%s: the next sequence number is %d, it must be %d", q.path, next, q.model.Last+1)
	}
	for _, m := range found {
		w.equalMessage(q, x, &m, q.model.Find(uint64(m.Sequence)))
	}
	if len(found) != len(q.model.Live) {
		w.broken("I1", "%s: there are %d messages, there must be %d: %v", q.path, len(found), len(q.model.Live), numbers(found))
	}
}

func (w *world) equalCounters(q *queue, x *index.Index) {
	if n := x.Bytes(q.slice); n != q.model.Bytes() {
		w.broken("I22", "%s: %d bytes are stored, it must be %d", q.path, n, q.model.Bytes())
	}
	var counts [event.TransferDeadLetter + 1][len(states)]int
	for _, m := range q.model.Live {
		counts[subOf(m)][m.State]++
	}
	for at := range counts {
		for st := model.Active; int(st) < len(states); st++ {
			if got, n := x.Count(q.slice, event.SubQueue(at), states[st]), counts[at][st]; got != n {
				w.broken("I22", "%s: %d messages are %v in %v, it must be %d", q.path, got, st, event.SubQueue(at), n)
			}
		}
	}
}

// equalSessions compares the sessions of a queue: who holds them, their state, and that there are
// no others.
func (w *world) equalSessions(q *queue, x *index.Index) {
	for got := range x.Sessions(q.slice) {
		s, there := q.model.Sessions[got.ID]
		active, any := 0, false
		for _, m := range q.model.Live {
			if m.Session == got.ID && !m.Loose {
				any = true
				active += bit(m.State == model.Active && !m.Dead)
			}
		}
		if !there && !any || got.Active != active {
			w.broken("I9", "%s: session %q is there, with %d active messages; it must have %d", q.path, got.ID, got.Active, active)
		}
		if !there {
			s = &model.Session{}
		}
		if model.Token(got.Token) != s.Holder || int64(got.Until) != s.Until || got.Held != (s.Holder != model.Token{}) {
			w.broken("I9", "%s: session %q is held by %v until %d, it must be %x until %d", q.path, got.ID, got.Token, got.Until, s.Holder, s.Until)
		}
		if got.Set != s.HasState || int(got.State.Size) != len(s.State) || len(s.State) > 0 && got.State.Sum != event.Sum(s.State) || int64(got.SetAt) != s.SetAt {
			w.broken("I9", "%s: session %q has a state: %v, %d bytes of %d; it must: %v, %d bytes of %d", q.path, got.ID, got.Set, got.State.Size,
				got.SetAt, s.HasState, len(s.State), s.SetAt)
		}
	}
	for id := range q.model.Sessions {
		if _, ok := x.Session(q.slice, []byte(id)); !ok {
			w.broken("I9", "%s: there is no session %q", q.path, id)
		}
	}
}

// waiting compares the order in which sessions become the next available one. It uses up the index.
func (w *world) waiting(p *part, x *index.Index) {
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		for i, id := range mq.Waiting {
			s, ok := x.NextSession(q.slice)
			if !ok || s.ID != id {
				w.broken("I9", "%s: session %q (%v) is the next available, it must be %q of %q", q.path, s.ID, ok, id, mq.Waiting[i:])
			}
			ev := &event.SessionAccepted{Envelope: event.Envelope{Slice: q.slice}, SessionID: []byte(id), LockedUntil: 1}
			ev.Token[0], ev.Token[1], ev.Token[2] = 0xff, byte(q.n), byte(i)
			x.Apply(x.LastAt(), ev)
		}
		if s, ok := x.NextSession(q.slice); ok {
			w.broken("I9", "%s: session %q is available, nothing of it is", q.path, s.ID)
		}
	}
}

// number names the invariant that is broken when the index and the model differ in what numbers an
// entity has given out.
func (q *queue) number() string {
	if q.topic != nil {
		return "I20"
	}
	return "I12"
}

func numbers(ms []index.Message) (out []event.SequenceNumber) {
	for _, m := range ms {
		out = append(out, m.Sequence)
	}
	return out
}

func (w *world) equalMessage(q *queue, x *index.Index, got *index.Message, want *model.Message) {
	if want == nil {
		id := ended[q.model.Gone[uint64(got.Sequence)]]
		if id == "I2" && q.topic != nil {
			id = "I20"
		}
		w.broken(id, "%s: there is a message %d, it must be gone or never have been", q.path, got.Sequence)
	}
	if got.State != states[want.State] || got.SubQueue != subOf(want) {
		id := "I17"
		if want.Dead && got.SubQueue == event.Main && want.ExpiresAt != 0 && want.ExpiresAt <= w.newest {
			id = "I14"
		}
		w.broken(id, "%s: message %d is %v in %v, it must be %v, dead %v", q.path, want.Seq, got.State, got.SubQueue, want.State, want.Dead)
	}
	if got.DeliveryCount != want.Count {
		w.broken("I10", "%s: message %d has delivery count %d, it must be %d", q.path, want.Seq, got.DeliveryCount, want.Count)
	}
	if int64(got.EnqueuedAt) != want.EnqueuedAt || int64(got.ExpiresAt) != want.ExpiresAt || got.OwnTTL != (want.OwnTTL != 0) {
		w.broken("I14", "%s: message %d: times %d to %d, own %v; they must be %d to %d, %d ms", q.path, want.Seq, got.EnqueuedAt, got.ExpiresAt,
			got.OwnTTL, want.EnqueuedAt, want.ExpiresAt, want.OwnTTL)
	}
	if int64(got.ScheduledFor) != want.For || want.State == model.Scheduled && got.TimeToLive.Milliseconds() != want.OwnTTL ||
		got.InSession != (q.model.Settings.Sessions && !want.Loose) || got.SessionID != want.Session || got.WasScheduled != want.Waited {
		w.broken("I15", "%s: message %d is scheduled for %d, was scheduled: %v, in session %q (%v); it must be %d, %v, %q", q.path, want.Seq,
			got.ScheduledFor, got.WasScheduled, got.SessionID, got.InSession, want.For, want.Waited, want.Session)
	}
	if uint64(got.EnqueuedSequence) != want.From {
		w.broken("I20", "%s: message %d was number %d in its topic, it must have been %d", q.path, want.Seq, got.EnqueuedSequence, want.From)
	}
	if int(got.Hops) != want.Hops || got.DeadLetterSource != want.Source {
		w.broken("I21", "%s: message %d has moved %d times and was a dead letter of %q; it must %d and %q", q.path, want.Seq, got.Hops, got.DeadLetterSource, want.Hops, want.Source)
	}
	if int(got.Body.Size) != len(want.Body) || got.Body.Size > 0 && got.Body.Sum != event.Sum(want.Body) || len(got.Changes) != len(want.Changes) {
		w.broken("I2", "%s: message %d: %d bytes and %d changes, they must be %d and %d, or their checksum is another", q.path, want.Seq,
			got.Body.Size, len(got.Changes), len(want.Body), len(want.Changes))
	}
	for i, c := range got.Changes {
		if b := want.Changes[i]; int(c.Size) != len(b) || c.Size > 0 && c.Sum != event.Sum(b) {
			w.broken("I17", "%s: message %d: what was changed in it is not what it must be: %d bytes, it must be %d: %q", q.path, want.Seq, c.Size, len(b), b)
		}
	}
	if want.State != model.Locked && want.State != model.DeferredLocked {
		return
	}
	l, ok := x.Lock(event.LockToken(want.Token))
	if !ok || l.Slice != q.slice || uint64(l.Sequence) != want.Seq || int64(l.Until) != want.Until {
		w.broken("I5", "%s: message %d must be locked by %x until %d; found %v: %+v", q.path, want.Seq, want.Token, want.Until, ok, l)
	}
}

// contents reads every body and every property change back.
func (w *world) contents(p *part, x *index.Index) {
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		for _, want := range mq.Live {
			m, _ := x.Message(q.slice, event.SequenceNumber(want.Seq))
			p.bytes(m.Body, want.Body, q, want.Seq, "body")
			for i, c := range m.Changes {
				p.bytes(c, want.Changes[i], q, want.Seq, "property changes")
			}
			if w.gone() {
				return
			}
		}
		for id, want := range mq.Sessions {
			s, _ := x.Session(q.slice, []byte(id))
			p.bytes(s.State, want.State, q, 0, "session state")
		}
	}
}

// replays compares replays of the log, with and without checkpoints, with each other and with the
// state, unless that is nil because the log does not hold all of it yet (I24). A state that was
// just replayed from the newest checkpoint stands for that replay.
func (w *world) replays(p *part, x *index.Index, replayed bool) {
	ctx := context.Background()
	whole := replay.Begin(p.plog)
	err := whole.Run(ctx, replay.Watch{Checkpoints: p.plog.Checkpoints(), Differs: func(c log.CheckpointInfo) error {
		w.broken("I24", "partition %d: the state of %s differs from the replay of the log up to there", p.id, c.File)
		return nil
	}})
	if w.gone() {
		return
	}
	if err != nil {
		w.broken("I24", "partition %d: replay of the whole log: %v", p.id, err)
	}
	want := whole.Index.Encode(nil)
	w.stats.ReplaysCompared++
	if !replayed {
		short := replay.Newest(p.plog, 0, nil)
		err := short.Run(ctx, replay.Watch{})
		if w.gone() {
			return
		}
		if err != nil {
			w.broken("I24", "partition %d: replay from the newest checkpoint: %v", p.id, err)
		}
		if !bytes.Equal(short.Index.Encode(nil), want) {
			w.broken("I24", "partition %d: replay from the newest checkpoint differs from replay of the whole log", p.id)
		}
	}
	if x != nil && !bytes.Equal(x.Encode(nil), want) {
		w.broken("I24", "partition %d: the state differs from the replay of its log", p.id)
	}
	again, err := index.Decode(want)
	if err != nil || !bytes.Equal(again.Encode(nil), want) {
		w.broken("I24", "partition %d: the encoded state does not survive decoding: %v", p.id, err)
	}
	w.throughBase(p, whole.Index, want)
	if x != nil {
		w.waiting(p, again)
	}
}

func encoded(x *index.Index) func(io.Writer) error {
	return func(out io.Writer) error {
		_, err := out.Write(x.Encode(nil))
		return err
	}
}

// compare looks at a running partition.
func (w *world) compare(p *part) {
	x := p.state.Index()
	w.equal(p, x)
	if w.books(p); p.id == 0 {
		w.ruled(x)
	}
	if _, end := p.plog.Bounds(); p.writer.Batch().Count() > 0 || end != p.writer.Batch().LSN() {
		x = nil
	}
	w.replays(p, x, false)
}

// finish ends the faults and lets a client drain everything: each message comes to its end in
// bounded time (I26).
func (w *world) finish() {
	w.draining = true
	w.relieve()
	w.armed, w.failing, w.o.power = 0, 0, 50
	for _, p := range w.running() { // a sync that is under way may still fail
		if p.crank != nil {
			p.work()
		}
	}
	if w.ifStopped(); !w.crashed && len(w.running()) < len(w.parts) {
		w.stop()
	}
	if w.crashed {
		w.reborn()
	}
	if w.ended {
		return
	}
	// before everything is received: what is left after that says little
	for _, p := range w.parts {
		w.last.Write(p.state.Index().Encode(nil))
	}
	w.step = -1
	w.note("draining")
	w.pump()
	w.endTransactions()
	longest := time.Second
	for _, q := range w.living() {
		longest = max(longest, q.lockEver)
		props, exists := w.decided(q)
		// those that forward to each other when they are full wait for room for ever
		full := w.o.moves && props.MaxSizeMegabytes == 1
		if exists && (props.Status != event.Active || full) {
			if props.Status = event.Active; full {
				props.MaxSizeMegabytes = 1024
			}
			w.submit(w.put(q, props))
			w.pump()
		}
	}
	w.pump()
	for _, q := range w.living() {
		for sub := range model.TransferDeadQueue + 1 {
			if q.kind == event.Topic && sub != model.TransferDeadQueue || sub == model.TransferDeadQueue && !w.o.moves {
				continue
			}
			if at := (&ask{op: opAttach, q: q, sub: sub, tag: w.tag()}); sub != model.Main || !q.entity.Properties.RequiresSession {
				w.attach(at, false)
				w.submit(at)
			}
		}
	}
	w.drainAll(longest)
	for _, p := range w.parts {
		w.nothingCarried(p)
		w.books(p)
		w.second(p) // retries what found no room before the faults ended
	}
	w.stop()
	if w.crashed {
		w.broken("I26", "the last stop failed")
	}
	w.accounts()
	w.ask()
	if !w.o.moves { // where messages move, one may reach a place in many ways
		w.hist.duplicates()
		w.hist.fannedOut()
	}
	w.count()
}

// share is what a receiver asks for at a time, at the end.
const share = 50

// count adds up what the logs hold at the end.
func (w *world) count() {
	for _, p := range w.parts {
		w.stats.ReasonsCut, w.stats.HeadersTooLarge = w.stats.ReasonsCut+int64(p.model.Cut), w.stats.HeadersTooLarge+int64(p.model.TooLarge)
		first, _ := p.plog.Bounds()
		record := p.before(first)
		segments := p.plog.Segments()
		defined := map[event.OriginID]uint32{} // the newest chapter that defines it
		for rec, err := range replay.Records(context.Background(), p.plog, first) {
			if err != nil {
				w.broken("F4", "%v", err)
			}
			for rec.LSN >= segments[0].End {
				segments = segments[1:]
			}
			w.stats.Records++
			w.stats.Events += int64(len(rec.Events))
			record++
			p.factsOf(record, rec.Events)
			for _, ev := range rec.Events {
				w.stats.Kinds[ev.Kind()]++
				w.counted(ev)
				if def, ok := ev.(*event.OriginDefined); ok {
					defined[def.ID] = segments[0].Chapter
				} else if by := ev.Common().Origin; by != 0 && defined[by] != segments[0].Chapter {
					w.broken("I25", "partition %d: frame %d names origin %d, which its chapter does not define", p.id, rec.LSN, by)
				}
			}
		}
	}
}

// pump serves until nothing is waiting.
func (w *world) pump() {
	for _, p := range w.parts {
		w.carry(p)
		for first := true; first || len(p.inbox) > 0 || p.shadow.more(); first = false {
			asks := p.inbox
			p.inbox = nil
			w.turn(p, asks)
			w.settle(p)
			if p.failed() || w.gone() {
				w.broken("I26", "partition %d stopped after the faults were over", p.id)
			}
		}
	}
}

// left counts the messages that a client can still get.
func (w *world) left() (n int) {
	for _, q := range w.living() {
		for _, part := range q.whole.parts {
			n += len(part.model.Live)
		}
	}
	return n
}

// accounts closes the books: every acknowledged send is where it may be (I1), every number is that
// of one message.
func (w *world) accounts() {
	for l := range w.hist.lives {
		if !l.ok || l.seq == 0 || l.q.model.Dropped {
			continue
		}
		_, gone := l.q.model.Gone[l.seq]
		if m := l.q.model.Find(l.seq); m == nil && !gone {
			w.broken("I1", "%s: message %d (%d) was acknowledged and is nowhere", l.q.path, l.id, l.seq)
		} else if m != nil && l.done {
			w.broken("I4", "%s: message %d (%d) was done and is there", l.q.path, l.id, l.seq)
		}
	}
	ok := make([]int, len(w.queues))
	for _, l := range w.hist.all {
		ok[l.q.n] += bit(l.ok)
	}
	for i, q := range w.queues {
		if q.model == nil || q.model.Dropped {
			continue
		}
		stored := len(q.model.Gone) + len(q.model.Live)
		if uint64(stored) != q.model.Last-q.model.Base {
			w.broken("I1", "%s: %d messages were stored, the last is %d", q.path, stored, q.model.Last)
		}
		if q.model.Settings.Window == 0 && stored < ok[i] {
			w.broken("I1", "%s: %d sends were acknowledged, %d messages were stored", q.path, ok[i], stored)
		}
	}
}
