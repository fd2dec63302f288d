package sim

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

var states = map[model.State]index.State{model.Active: index.Active, model.Locked: index.Locked, model.Deferred: index.Deferred}

// equal compares the state of a partition with the model, message by message.
func (w *world) equal(p *part, x *index.Index) {
	w.stats.StateCompared++
	if int64(x.LastAt()) != p.model.LastAt {
		w.broken("I24", "partition %d: newest record is of %d, it must be of %d", p.id, x.LastAt(), p.model.LastAt)
	}
	live := 0
	for _, mq := range p.model.Queues {
		q := w.queues[mq.ID]
		var found []index.Message
		for _, s := range []event.SubQueue{event.Main, event.DeadLetter, event.TransferDeadLetter} {
			for m := range x.Browse(q.slice, s, 0) {
				found = append(found, m)
			}
		}
		live += len(mq.Live)
		if len(found) != len(mq.Live) {
			w.broken("I1", "%s: there are %d messages, there must be %d: %v and %v", q.path, len(found), len(mq.Live), numbers(found), live)
		}
		for _, m := range found {
			w.equalMessage(q, x, &m, mq.Find(uint64(m.Sequence)))
		}
		if next := uint64(x.NextSequence(q.slice)); next != mq.Last+1 {
			w.broken("I12", "%s: the next sequence number is %d, it must be %d", q.path, next, mq.Last+1)
		}
		if n := x.Bytes(q.slice); n != mq.Bytes() {
			w.broken("I22", "%s: %d bytes are stored, it must be %d", q.path, n, mq.Bytes())
		}
		for _, dead := range []bool{false, true} {
			for st, real := range states {
				n := 0
				for _, m := range mq.Live {
					n += bit(m.State == st && m.Dead == dead)
				}
				if got := x.Count(q.slice, sub(dead), real); got != n {
					w.broken("I22", "%s: %d messages are %v, it must be %d", q.path, got, st, n)
				}
			}
		}
	}
	if x.Live() != live || x.Locks() != p.model.Locks() {
		w.broken("I22", "partition %d: %d messages and %d locks, there must be %d and %d", p.id, x.Live(), x.Locks(), live, p.model.Locks())
	}
}

func numbers(ms []index.Message) (out []event.SequenceNumber) {
	for _, m := range ms {
		out = append(out, m.Sequence)
	}
	return out
}

func (w *world) equalMessage(q *queue, x *index.Index, got *index.Message, want *model.Message) {
	if want == nil {
		w.broken("I2", "%s: there is a message %d, it must be gone or never have been", q.path, got.Sequence)
	}
	if got.State != states[want.State] || got.SubQueue != sub(want.Dead) {
		w.broken("I17", "%s: message %d is %v in %v, it must be %v, dead %v", q.path, want.Seq, got.State, got.SubQueue, want.State, want.Dead)
	}
	if got.DeliveryCount != want.Count {
		w.broken("I10", "%s: message %d has delivery count %d, it must be %d", q.path, want.Seq, got.DeliveryCount, want.Count)
	}
	if int64(got.EnqueuedAt) != want.EnqueuedAt || int64(got.ExpiresAt) != want.ExpiresAt || got.OwnTTL != (want.OwnTTL != 0) {
		w.broken("I14", "%s: message %d: times %d to %d, own %v; they must be %d to %d, %d ms", q.path, want.Seq, got.EnqueuedAt, got.ExpiresAt,
			got.OwnTTL, want.EnqueuedAt, want.ExpiresAt, want.OwnTTL)
	}
	if int(got.Body.Size) != len(want.Body) || got.Body.Size > 0 && got.Body.Sum != event.Sum(want.Body) || len(got.Changes) != len(want.Changes) {
		w.broken("I2", "%s: message %d: %d bytes and %d changes, they must be %d and %d, or their checksum is another", q.path, want.Seq,
			got.Body.Size, len(got.Changes), len(want.Body), len(want.Changes))
	}
	if want.State != model.Locked {
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
	}
}

// bare is a log without its checkpoints.
type bare struct{ log.Partition }

func (bare) Checkpoints() []log.CheckpointInfo { return nil }

// replays compares replays of the log, with and without checkpoints, with each other and with the state, unless that is
// nil because the log does not hold all of it yet (I24).
func (w *world) replays(p *part, x *index.Index) {
	ctx := context.Background()
	whole, _, _, err := engine.Replay(ctx, bare{p.plog}, w.logger())
	if w.gone() {
		return
	}
	if err != nil {
		w.broken("I24", "partition %d: replay of the whole log: %v", p.id, err)
	}
	want := whole.Encode(nil)
	short, _, _, err := engine.Replay(ctx, p.plog, w.logger())
	if w.gone() {
		return
	}
	if err != nil {
		w.broken("I24", "partition %d: replay from the newest checkpoint: %v", p.id, err)
	}
	w.stats.ReplaysCompared++
	if !bytes.Equal(short.Encode(nil), want) {
		w.broken("I24", "partition %d: replay from the newest checkpoint differs from replay of the whole log", p.id)
	}
	if x != nil && !bytes.Equal(x.Encode(nil), want) {
		w.broken("I24", "partition %d: the state differs from the replay of its log", p.id)
	}
	if again, err := index.Decode(want); err != nil || !bytes.Equal(again.Encode(nil), want) {
		w.broken("I24", "partition %d: the encoded state does not survive decoding: %v", p.id, err)
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
	w.equal(p, p.state.Index())
	x := p.state.Index()
	if _, end := p.plog.Bounds(); p.loop.Flight() != nil || end != p.writer.Batch().LSN() {
		x = nil
	}
	w.replays(p, x)
}

// finish ends the faults and lets a client drain everything: each message comes to its end in bounded time (I26).
func (w *world) finish() {
	w.draining = true
	w.armed, w.failing, w.o.power = 0, 0, 50
	if w.crashed {
		w.reborn()
	}
	if w.ended {
		return
	}
	w.step = -1
	w.note("draining")
	w.pump()
	longest := time.Second
	for _, q := range w.queues {
		longest = max(longest, q.lockEver)
		if w.decided(q).Status != event.Active {
			props := w.decided(q)
			props.Status = event.Active
			a := &ask{op: opUpdate, q: q, tag: w.tag()}
			w.update(a, props)
			w.submit(a)
		}
	}
	w.pump()
	for _, q := range w.queues {
		for _, dead := range []bool{false, true} {
			at := &ask{op: opAttach, q: q, dead: dead, tag: w.tag()}
			w.attach(at, false)
			w.submit(at)
		}
	}
	began := w.wall
	bound := 3*longest + 10*time.Second
	for w.left() > 0 {
		if w.wall.Sub(began) > bound {
			w.broken("I26", "%d messages are still there after %v of draining", w.left(), bound)
		}
		for _, r := range w.receivers {
			a := &ask{op: opFlow, q: r.q, dead: r.dead, tag: w.tag(), rcv: r, limit: r.got + 50}
			a.cmd = &engine.Flow{Receiver: r.real, Limit: a.limit}
			w.submit(a)
		}
		w.pump()
		for _, k := range w.hist.tokens {
			a := &ask{op: opSettle, q: k.q, dead: k.dead, tag: w.tag(), tokens: []model.Token{k.token}, how: model.Complete, asked: int64(w.clock.Now())}
			w.command(a)
			w.submit(a)
		}
		w.hist.tokens = nil
		w.pump()
		w.wall = w.wall.Add(longest / 20)
	}
	w.stop()
	if w.crashed {
		w.broken("I26", "the last stop failed")
	}
	w.accounts()
	w.count()
}

// count adds up what the logs hold at the end.
func (w *world) count() {
	var dec event.Decoder
	for _, p := range w.parts {
		for f, err := range p.plog.Read(context.Background(), 0) {
			if err != nil {
				w.broken("F4", "partition %d: %v", p.id, err)
			}
			w.stats.Records += int64(f.Count)
			rest := f.Records
			for range f.Count {
				var rec event.Record
				if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
					w.broken("F4", "partition %d: frame %d: %v", p.id, f.LSN, err)
				}
				w.stats.Events += int64(len(rec.Events))
				for _, ev := range rec.Events {
					w.stats.Kinds[ev.Kind()]++
				}
			}
		}
	}
}

// pump serves until nothing is waiting.
func (w *world) pump() {
	for _, p := range w.parts {
		for first := true; first || len(p.inbox) > 0; first = false {
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

// left counts the messages that a client can still get: all but the deferred ones, for which there is no command yet.
func (w *world) left() (n int) {
	for _, q := range w.queues {
		for _, m := range q.model.Live {
			n += bit(m.State != model.Deferred)
		}
	}
	return n
}

// accounts closes the books: every acknowledged send is where it may be (I1), every number is that of one message.
func (w *world) accounts() {
	for _, l := range w.hist.all {
		if !l.ok || l.seq == 0 {
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
		if stored := len(q.model.Gone) + len(q.model.Live); stored < ok[i] || uint64(stored) != q.model.Last {
			w.broken("I1", "%s: %d sends were acknowledged, %d messages were stored, the last is %d", q.path, ok[i], stored, q.model.Last)
		}
	}
}
