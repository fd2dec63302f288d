package sim

import (
	"fmt"
	"reflect"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// tokens are those with which the loop locked, or tried to lock, what had to be locked in this
// turn.
func (p *part) tokens(q *queue, n int) []model.Token {
	if n > len(p.issued) {
		p.w.differs(p)
		p.w.broken("P19", "partition %d: something is next for a receiver that waits, and was not looked at", p.id)
	}
	t := p.issued[:n:n]
	for i := range t {
		t[i] = model.Token(event.LockToken(t[i]).In(q.slice.Partition))
	}
	p.issued, p.taken = p.issued[n:], append(p.taken, t...)
	return t
}

// place is what a lock locks.
type place struct {
	slice   event.Slice
	seq     uint64
	session string
	until   int64
}

func (p *part) place(t model.Token) (place, bool) {
	l, ok := p.state.Index().Lock(event.LockToken(t))
	return place{l.Slice, uint64(l.Sequence), l.Session, int64(l.Until)}, ok
}

// locked compares the locks that were given in a turn with those that had to be.
func (p *part) locked(after string) {
	w := p.w
	for _, t := range p.issued {
		if l, ok := p.place(t); ok {
			w.broken(w.why(l), "partition %d: %+v is locked after %s, nobody was to get it", p.id, l, after)
		}
	}
	if len(p.issued) > 0 {
		w.differs(p)
		w.broken("I5", "partition %d: the loop looked for something to lock after %s, nobody was to get it", p.id, after)
	}
	want := map[model.Token]place{}
	if len(p.taken) > 0 {
		for _, mq := range p.model.Queues {
			q := w.queues[mq.ID]
			for _, m := range mq.Live {
				if m.Token != (model.Token{}) {
					want[m.Token] = place{q.slice, m.Seq, "", m.Until}
				}
			}
			for id, s := range mq.Sessions {
				want[s.Holder] = place{q.slice, 0, id, s.Until}
			}
		}
	}
	for _, t := range p.taken {
		got, is := p.place(t)
		x, must := want[t]
		if is != must || is && got != x {
			id := "P19"
			if is {
				id = w.why(got)
			}
			w.broken(id, "partition %d: token %x locks %v %+v after %s, it must %v %+v", p.id, t, is, got, after, must, x)
		}
	}
	p.taken = p.taken[:0]
}

// why names the invariant that is broken when something is locked and should not be.
func (w *world) why(l place) string {
	for _, q := range w.queues {
		if q.slice != l.slice || q.model == nil {
			continue
		}
		switch m := q.model.Find(l.seq); {
		case uint64(q.host.state.Index().NextSequence(q.slice)) != q.model.Last+1:
			return q.number()
		case l.seq == 0:
			return "I9"
		case m == nil:
			return ended[q.model.Gone[l.seq]]
		case m.State == model.Scheduled:
			return "I15"
		case m.State == model.Deferred:
			return "I16"
		case m.Dead && m.ExpiresAt != 0:
			return "I14"
		case q.model.Settings.Sessions && !m.Dead:
			return "I8"
		}
	}
	return "I5"
}

// ended are the invariants that are broken when a message is still there, by the reason for which
// it should be gone.
var ended = [...]string{0: "I2", model.Completed: "I4", model.ReceivedAndDeleted: "I4", model.Expired: "I14", model.Cancelled: "I15",
	model.Activated: "I15", model.Purged: "I17", model.Published: "I20", model.Forwarded: "I21", model.Reserved: "I12"}

// differs looks for what differs when the numbers of records do: that says more than the numbers.
func (w *world) differs(p *part) {
	if w.out != nil {
		p.dumpBatch("open")
	}
	w.equal(p, p.state.Index())
}

// agree compares what was posted with what must have been posted.
func (p *part) agree(after string) {
	w := p.w
	p.locked(after)
	got := p.appended + p.writer.Batch().Count()
	if got != p.model.Records {
		w.differs(p)
	}
	if got > p.model.Records {
		w.broken("I19", "partition %d: %d records after %s, there must be %d: one decision is one record", p.id, got, after, p.model.Records)
	} else if got < p.model.Records {
		w.broken("P21", "partition %d: %d records after %s, there must be %d", p.id, got, after, p.model.Records)
	}
	if s := p.shadow; s.m.Solid > s.handed && p.writer.Batch().Level() != log.Durable {
		w.broken("I1", "partition %d: after %s a frame waits for no sync, and holds what may not be lost to a power loss", p.id, after)
	}
	p.copied(after)
	posted, due := p.posted, p.shadow.due
	p.posted, p.shadow.due = nil, nil
	if len(p.looks) > 0 {
		w.broken("I26", "partition %d: %d looks at what others share after %s are not those that there must be", p.id, len(p.looks), after)
	}
	for i := range posted {
		r := &posted[i]
		at := -1
		for k, x := range due {
			if x != nil && x.tag == r.Tag && x.kind == r.Kind {
				at = k
				break
			}
		}
		if at < 0 {
			p.unexpected(r, after)
		}
		x := due[at]
		due[at] = nil
		p.needKill, p.needPower = max(p.needKill, x.upto), max(p.needPower, x.solid)
		w.stats.Replies++
		if x.joint != nil {
			w.joined(x, r)
		}
		p.reply(r, x)
	}
	for _, x := range due {
		if x != nil && x.joint != nil {
			if after == itsEnd { // nobody knows whether this port has said its part
				x.joint.joint.unsure = true
			}
			w.joined(x, nil)
		} else if x != nil {
			w.broken("I26", "partition %d: no reply of kind %d with tag %d after %s, what it stands for is in the log", p.id, x.kind, x.tag, after)
		}
	}
}

// copied compares how many copies each subscription got with how many its rules called for when the
// message had its turn (I20).
func (p *part) copied(after string) {
	w := p.w
	for _, mq := range p.model.Queues {
		if mq.Topic == nil || mq.Dropped {
			continue
		}
		q := w.queues[mq.ID]
		if n := uint64(p.state.Index().NextSequence(q.slice)) - 1; n != mq.Last {
			w.broken("I20", "%s: the last copy is number %d after %s, it must be %d", q.path, n, after, mq.Last)
		}
	}
}

// unexpected names what is wrong with a reply that should not have come.
func (p *part) unexpected(r *engine.Reply, after string) {
	for _, x := range p.shadow.waiting {
		if x.tag == r.Tag && x.kind == r.Kind {
			p.w.broken("I13", "partition %d: a reply of kind %d with tag %d left with %s; %d records had to be written before, and %d durable; it were %d and %d",
				p.id, r.Kind, r.Tag, after, x.upto, x.solid, p.shadow.written, p.shadow.durable)
		}
	}
	p.w.broken("I2", "partition %d: a reply of kind %d with tag %d after %s answers nothing: %v", p.id, r.Kind, r.Tag, after, r.Err)
}

// dump writes what the model holds to the readable trace.
func (w *world) dump() {
	for _, p := range w.running() {
		p.dumpBatch("open")
	}
	for _, q := range w.queues {
		if w.out == nil || q.model == nil {
			continue
		}
		w.say("queue", fmt.Sprintf("%s on partition %d, last %d, lines %+v, %+v", q.path, q.host.id, q.model.Last, q.lines, q.model.Settings))
		for _, m := range q.model.Live {
			w.say("  message", fmt.Sprintf("%d %v dead=%v count=%d until=%d expires=%d for=%d session=%q bytes=%d", m.Seq, m.State, m.Dead, m.Count, m.Until, m.ExpiresAt, m.For, m.Session, len(m.Body)))
		}
		for id, ses := range q.model.Sessions {
			w.say("  session", fmt.Sprintf("%q %+v", id, *ses))
		}
		w.say("  waiting", fmt.Sprintf("%q", q.model.Waiting))
	}
}

// dumpBatch writes the records that are in the frame being filled to the readable trace.
func (p *part) dumpBatch(what string) {
	if p.w.out == nil || p.writer == nil {
		return
	}
	b := p.writer.Batch()
	// for people only: nothing depends on it
	rest := reflect.ValueOf(b).Elem().FieldByName("records").Bytes()
	var dec event.Decoder
	for range b.Count() {
		rec, after, err := dec.Record(b.Base(), [2]uint32{0, 1 << 30}, rest)
		if err != nil {
			p.w.say("  record", err)
			return
		}
		rest = after
		for _, ev := range rec.Events {
			p.w.say("  "+what, fmt.Sprintf("partition %d at %d: %v %+v", p.id, rec.At, ev.Kind(), ev))
		}
	}
}

// ids is the next random number of the loop.
func (p *part) ids() model.Token {
	if len(p.issued) == 0 {
		p.w.broken("P19", "partition %d: a number was to be drawn, and was not", p.id)
	}
	t := p.issued[0]
	p.issued, p.taken = p.issued[1:], append(p.taken, t)
	return t
}
