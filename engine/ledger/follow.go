package ledger

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// follower finds the numbers that a message has had, each from the previous or the next one.
type follower struct {
	*story
	seen map[node]bool
	todo []node
}

func (f *follower) add(x node) {
	if f.seen[x] || x.number == 0 {
		return
	}
	if len(f.seen) >= maxNodes {
		f.more = true
		return
	}
	f.seen[x] = true
	f.todo = append(f.todo, x)
}

func (f *follower) run(ctx context.Context) error {
	for len(f.todo) > 0 {
		x := f.todo[0]
		f.todo = f.todo[1:]
		if err := f.follow(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// withID finds the messages that were sent with an id, in all logs.
func (f *follower) withID(ctx context.Context, id []byte) error {
	for _, p := range f.l.src.Partitions() {
		b, err := f.l.book(ctx, p)
		if err != nil {
			f.missing = errors.Join(f.missing, err)
			if err := f.l.unread(p, err); err != nil {
				return err
			}
			continue
		}
		for rec, err := range replay.Found(ctx, b, log.Search{MessageID: id}) {
			if err != nil {
				return err
			}
			for _, ev := range rec.Events {
				b.see(ev)
				if !bytes.Equal(event.MessageIDOf(ev), id) {
					continue
				}
				event.Named(ev, func(s event.Slice, number event.SequenceNumber) {
					if f.first.number == 0 {
						f.first = node{s, number}
					}
					f.add(node{s, number})
				})
			}
		}
	}
	return nil
}

// follow collects the events and states of a message under one number in a log.
func (f *follower) follow(ctx context.Context, x node) error {
	host, ok := f.n.host(x.slice)
	if !ok {
		return nil
	}
	b, err := f.l.book(ctx, host)
	if err != nil {
		return err
	}
	if err := f.l.names.lookUpClocks(ctx, b); err != nil {
		return err
	}
	v := visit{follower: f, node: x, book: b}
	for rec, err := range replay.Found(ctx, b, log.Search{Named: true, Slice: x.slice, Number: x.number}) {
		if err != nil {
			return err
		}
		for i, ev := range rec.Events {
			b.see(ev)
			named := false
			event.Named(ev, func(s event.Slice, number event.SequenceNumber) { named = named || s == x.slice && number == x.number })
			if named {
				v.event(rec, i, ev)
			}
		}
	}
	if !v.born {
		if err := v.restore(ctx); err != nil {
			return err
		}
	}
	return v.rest(ctx)
}

// visit looks at one number of a message.
type visit struct {
	*follower
	node
	book *book
	born bool // history tells how it got the number
	// of the first event that cannot be found by the number
	started event.Time
	moving  event.TransferNumber // open transfer; 0: none
	to      event.EntityID
	id      []byte
	back    []origin
}

// origin tells where a message moved from, by the number of its transfer there.
type origin struct {
	source event.Slice
	number event.TransferNumber
	at     event.Time // time of the arrival
}

// note adds an event.
func (v *visit) note(rec *replay.Record, i int, ev event.Event) *moment {
	v.moments = append(v.moments, moment{node: v.node, book: v.book, tick: v.book.tick(rec.LSN, rec.At), lsn: rec.LSN, seq: rec.Number<<20 + i, origin: ev.Common().Origin,
		kind: ev.Kind(), verb: verb(ev), detail: v.n.detail(rec.At, ev)})
	return &v.moments[len(v.moments)-1]
}

func (v *visit) event(rec *replay.Record, i int, ev event.Event) {
	if p, ok := ev.(*event.MessagePublished); ok && v.slice != p.Slice {
		v.notePublished(rec, i, p.Slice, p.Sequence, p.Copies, ev)
		return
	}
	if p, ok := ev.(*event.ScheduledPublished); ok && v.slice != p.Slice {
		v.notePublished(rec, i, p.Slice, p.NewSequence, p.Copies, ev)
		return
	}
	m := v.note(rec, i, ev)
	if a := event.ArrivalOf(ev); a != nil {
		m.move, m.step = move{a.Source, a.Number}, arrives
	}
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		m.session = sessionOf(ev.InSession, ev.SessionID)
		m.about = v.noteStored(rec.At, ev.MessageID, &ev.Details, ev.Body.Size, ev.Arrival)
	case *event.MessageScheduled:
		m.session = sessionOf(ev.InSession, ev.SessionID)
		m.about = v.noteStored(rec.At, ev.MessageID, &ev.Details, ev.Body.Size, ev.Arrival)
	case *event.MessagePublished:
		m.about = v.noteStored(rec.At, ev.MessageID, &ev.Details, ev.Body.Size, ev.Arrival)
		v.addCopies(ev.Slice, ev.Copies)
	case *event.MessageHandedOver:
		m.about = v.noteStored(rec.At, ev.MessageID, &ev.Details, ev.Body.Size, nil)
		v.depart(m, ev.Number, ev.Destination)
	case *event.ScheduledActivated:
		v.born = v.born || v.number == ev.NewSequence
		v.add(node{v.slice, ev.NewSequence})
		v.add(node{v.slice, ev.Sequence})
	case *event.ScheduledPublished:
		v.born = v.born || v.number == ev.NewSequence
		v.add(node{v.slice, ev.NewSequence})
		v.add(node{v.slice, ev.Sequence})
		v.addCopies(ev.Slice, ev.Copies)
	case *event.MessageLocked:
		m.token, m.until, m.count = ev.Token, ev.LockedUntil, ev.DeliveryCount
		v.tokens[ev.Token] = true
	case *event.LockExpired:
		m.token, m.count = ev.Token, ev.DeliveryCount
		v.look(rec.At)
	case *event.LockRenewed:
		m.token, m.until = ev.Token, ev.LockedUntil
	case *event.MessageAbandoned:
		m.count = ev.DeliveryCount
	case *event.MessageDeadLettered:
		m.cause, m.reason = ev.Cause, because(ev.Cause.String(), ev.Reason, ev.Description)
	case *event.SessionReleased:
		for i := range ev.Returned {
			if ev.Returned[i].Sequence == v.number {
				m.count = ev.Returned[i].DeliveryCount
			}
		}
	case *event.MessageDeferred:
		m.count = ev.DeliveryCount
	case *event.SettlementRefused:
		m.token, m.wanted = ev.Token, ev.Wanted
	case *event.TransferStarted:
		k, _ := slices.BinarySearch(ev.Sequences, v.number)
		v.depart(m, ev.First+event.TransferNumber(k), ev.Destination)
	case *event.TransferFailed:
		m.move, m.step = move{v.slice, ev.Number}, leaves
		v.moving, m.reason = 0, because(ev.Why.String(), ev.Reason, ev.Description)
	}
}

// notePublished notes that a topic's message became the copy that the visit is about.
func (v *visit) notePublished(rec *replay.Record, i int, topic event.Slice, number event.SequenceNumber, copies []event.Copy, ev event.Event) {
	m := v.note(rec, i, ev)
	v.born = true
	m.verb, m.detail = "copied", "from "+v.n.message(topic, number)
	for k := range copies {
		if c := &copies[k]; c.Subscription == v.slice.Entity && c.Sequence == v.number {
			m.session = sessionOf(c.InSession, c.SessionID)
			if c.Rule != "" {
				m.detail += ", by rule " + word(c.Rule)
			}
			if c.Cause != 0 {
				m.verb, m.cause, m.reason = "dead", c.Cause, because(c.Cause.String(), c.Reason, c.Description)
				m.detail += ": " + m.reason
			}
		}
	}
	v.add(node{topic, number})
}

// sessionOf returns a message's session, if it has one.
func sessionOf(in bool, id []byte) *string {
	if !in {
		return nil
	}
	s := string(id)
	return &s
}

// addCopies follows the copies of a topic's message, unless the question is about one copy.
func (v *visit) addCopies(topic event.Slice, copies []event.Copy) {
	if e := v.n.byID[v.first.slice.Entity]; e != nil && e.topic == topic.Entity {
		return
	}
	for i := range copies {
		v.add(node{event.Slice{Entity: copies[i].Subscription, Partition: topic.Partition}, copies[i].Sequence})
	}
}

// noteStored returns a description of the message, and follows it back to where it moved from.
func (v *visit) noteStored(at event.Time, id []byte, d *event.Details, size uint32, a *event.Arrival) string {
	if a != nil {
		v.back = append(v.back, origin{a.Source, a.Number, at})
	}
	v.id, v.born = bytes.Clone(id), true
	return sent(id, d, size)
}

// depart notes that the message is on its way to another entity.
func (v *visit) depart(m *moment, number event.TransferNumber, to event.EntityID) {
	m.move, m.step = move{v.slice, number}, departs
	v.moving, v.to = number, to
	v.look(m.at)
}

// from returns the time from which a search for later events begins. It is 0, which covers all
// events, if a clock was set and later events may have earlier times.
func (v *visit) from() event.Time {
	if v.n.steady() {
		return v.started
	}
	return 0
}

// look notes the time from which a further search begins.
func (v *visit) look(at event.Time) {
	if v.started == 0 {
		v.started = at
	}
}

// rest looks for events that do not have the message's number: the end of a transfer, settlements
// that came too late for a forgotten lock, the source of the message, and its destination.
func (v *visit) rest(ctx context.Context) error {
	if v.started != 0 {
		if err := v.late(ctx); err != nil {
			return err
		}
	}
	for _, o := range v.back {
		if err := v.backwards(ctx, o); err != nil {
			return err
		}
	}
	if v.moving != 0 {
		return v.forwards(ctx)
	}
	return nil
}

func (v *visit) late(ctx context.Context) error {
	kinds := []event.Kind{event.KindTransfersFinished, event.KindSettlementRefused}
	for rec, err := range replay.Found(ctx, v.book, log.Search{Named: true, Slice: v.slice, From: v.from(), Kinds: kinds}) {
		if err != nil {
			return err
		}
		for i, ev := range rec.Events {
			v.book.see(ev)
			if ev.Common().Slice != v.slice {
				continue
			}
			switch ev := ev.(type) {
			case *event.TransfersFinished:
				if v.moving != 0 && slices.Contains(ev.Numbers, v.moving) {
					m := v.note(rec, i, ev)
					m.move, m.step = move{v.slice, v.moving}, leaves
				}
			case *event.SettlementRefused:
				if ev.Sequence == 0 && v.tokens[ev.Token] {
					m := v.note(rec, i, ev)
					m.token, m.wanted = ev.Token, ev.Wanted
				}
			}
		}
	}
	return nil
}

// backwards finds the message that another one was before it moved.
func (v *visit) backwards(ctx context.Context, o origin) error {
	host, ok := v.n.host(o.source)
	if !ok {
		return v.l.note("its origin is unknown: the history of entity %d was removed", o.source.Entity)
	}
	b, err := v.l.book(ctx, host)
	if err != nil {
		return err
	}
	kinds := []event.Kind{event.KindTransferStarted, event.KindMessageHandedOver}
	for rec, err := range replay.Found(ctx, b, log.Search{Named: true, Slice: o.source, Kinds: kinds}) {
		if err != nil {
			return err
		}
		for _, ev := range rec.Events {
			b.see(ev)
			if ev.Common().Slice != o.source {
				continue
			}
			switch ev := ev.(type) {
			case *event.TransferStarted:
				if k := o.number - ev.First; o.number >= ev.First && k < event.TransferNumber(len(ev.Sequences)) {
					v.add(node{o.source, ev.Sequences[k]})
					return nil
				}
			case *event.MessageHandedOver:
				if ev.Number == o.number {
					v.add(node{o.source, ev.Sequence})
					return nil
				}
			}
		}
	}
	if _, _, gone := horizon(b); !gone {
		return nil
	}
	begin, err := v.begin(ctx, b)
	if err != nil {
		return err
	}
	v.cut(b, begin.tick)
	if _, t, ok := begin.Transfer(o.source, o.number); ok { // it was in transfer
		v.add(node{o.source, t.Sequence})
		return nil
	}
	return v.l.note("it came from %s, whose history no longer has it", v.n.path(o.source.Entity))
}

// forwards finds the message that this one became at its destination.
func (v *visit) forwards(ctx context.Context) error {
	e := v.n.byID[v.to]
	if e == nil {
		return nil
	}
	for _, id := range v.n.logs(e) {
		b, err := v.l.book(ctx, id)
		if err == nil {
			err = v.l.names.lookUpClocks(ctx, b)
		}
		if err != nil {
			return err
		}
		for rec, err := range replay.Found(ctx, b, log.Search{MessageID: v.id, From: v.from()}) {
			if err != nil {
				return err
			}
			for i, ev := range rec.Events {
				b.see(ev)
				a := event.ArrivalOf(ev)
				if a == nil || a.Source != v.slice || a.Number != v.moving {
					continue
				}
				if d, ok := ev.(*event.DuplicateDropped); ok {
					v.moments = append(v.moments, moment{node: node{d.Slice, d.Original}, tick: b.tick(rec.LSN, rec.At), book: b, lsn: rec.LSN, seq: rec.Number<<20 + i,
						kind: ev.Kind(), verb: verb(ev), detail: v.n.detail(rec.At, ev), move: move{a.Source, a.Number}, step: arrives})
					return nil
				}
				event.Named(ev, func(s event.Slice, number event.SequenceNumber) {
					if s == ev.Common().Slice {
						v.add(node{s, number})
					}
				})
				return nil
			}
		}
	}
	return v.lose(ctx, e)
}
