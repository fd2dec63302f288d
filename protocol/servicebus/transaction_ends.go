package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// ask has the partition end a transaction, and books p for its answer. The transaction's id is
// unknown from now on.
func (t *transactions) ask(x *transaction, cmd engine.Command, p pending) {
	t.end(x)
	t.c.batch.add(x.host, engine.Request{Command: cmd, Sink: t.c.outbox, Tag: t.c.pendings.add(p)})
}

// askRollback has the partition roll a transaction back, and books p for its answer.
func (t *transactions) askRollback(x *transaction, cause event.AbortCause, p pending) {
	t.ask(x, &engine.Rollback{Transaction: x.id, Slice: x.slice, Origin: x.coordinator.origin, Cause: cause}, p)
}

// rollBack ends a transaction that its client has not discharged.
func (t *transactions) rollBack(x *transaction, cause event.AbortCause) {
	if x.entity == 0 { // no partition knows of it
		t.end(x)
		return
	}
	t.askRollback(x, cause, pending{kind: pendingRollback, in: x})
}

// coordinatorGone rolls back what was declared on a coordinator that is no more. Where other links
// go with it this is called first: a message session that is released takes its locks with it, and
// then a message does not count as failed.
func (t *transactions) coordinatorGone(coordinator *sender) {
	for _, x := range coordinator.declared {
		t.rollBack(x, event.AbortLost)
	}
}

// over lets go of what was kept for a transaction, once the partition has answered. When the answer
// is an error the partition may still look at what was staged: a loop that stops refuses new
// commands before it has handled all that came earlier. What the peer has given an outcome in the
// transaction went with the commit, and is settled now. Otherwise it is locked as before: the peer
// may settle it again, as long as its lock holds, and hears nothing.
func (t *transactions) over(x *transaction, committed bool, said error) {
	if said == nil {
		x.memory.free()
	}
	for _, at := range x.settled {
		of := at.s.unsettled.find(at.id)
		switch {
		case of == nil || of.in != x:
			// its link is gone, or it was settled otherwise once the transaction had ended by time
		case committed:
			if u := at.s.drop(of); !u.link.detached {
				t.c.answers.settleIn(x.id, at.s, amqp.RoleSender, at.id, u.verdict)
			}
		default:
			of.in = nil
		}
	}
	if committed && len(x.tokens) > 0 {
		t.c.outstanding.settledByToken(t.c.sessions, x.tokens)
	}
	x.settled, x.tokens = nil, nil
	t.release(x)
}

// overtime is the longest time for which a transaction is open after its first operation. The
// partition ends it after two minutes, by its own clock, and says so when it is asked next, which
// may never be.
const overtime = 2*time.Minute + 10*time.Second

// next is when the first transaction will have been open for too long, zero when none can be.
func (t *transactions) next() (at time.Time) {
	if first := t.line.Front(); first != nil {
		at = first.Value.(*transaction).began.Add(overtime)
	}
	return at
}

// expire gives up those that have been open for too long.
func (t *transactions) expire(now time.Time) {
	for at := t.next(); !at.IsZero() && !now.Before(at); at = t.next() {
		t.rollBack(t.line.Front().Value.(*transaction), event.AbortTimedOut)
	}
}
