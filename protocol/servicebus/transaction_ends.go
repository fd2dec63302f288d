package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// ask asks the partition to end a transaction, and registers p for its answer. The transaction's id
// is unknown from now on.
func (t *transactions) ask(x *transaction, cmd engine.Command, p pendingEntry) {
	t.end(x)
	t.c.batch.add(x.host, engine.Request{Command: cmd, Sink: t.c.outbox, Tag: t.c.pendings.add(p)})
}

// askRollback asks the partition to roll a transaction back, and registers p for its answer.
func (t *transactions) askRollback(x *transaction, cause event.AbortCause, p pendingEntry) {
	t.ask(x, &engine.Rollback{Transaction: x.id, Slice: x.slice, Origin: x.coordinator.origin, Cause: cause}, p)
}

// rollBack ends a transaction that its client has not discharged.
func (t *transactions) rollBack(x *transaction, cause event.AbortCause) {
	if x.entity == 0 { // no partition has operations of it
		t.end(x)
		return
	}
	t.askRollback(x, cause, pendingEntry{kind: pendingRollback, in: x})
}

// coordinatorGone rolls back the transactions declared on a coordinator that is gone. If other
// links end with it, this is called first: a released message session takes its locks with it, and
// then a message does not count as failed.
func (t *transactions) coordinatorGone(coordinator *sender) {
	for _, x := range coordinator.declared {
		t.rollBack(x, event.AbortLost)
	}
}

// over frees what was kept for a transaction, once the partition has answered. If the answer is an
// error, the partition may still read the staged data: a loop that stops refuses new commands
// before it has handled all earlier ones. After a commit the deliveries that the peer gave an
// outcome to are settled. Otherwise they are locked as before: the peer may settle them again while
// the lock holds, and is not told.
func (t *transactions) over(x *transaction, committed bool, said error) {
	if said == nil {
		x.memory.free()
	}
	for _, at := range x.settled {
		of := at.s.unsettled.find(at.id)
		switch {
		case of == nil || of.in != x:
			// its link is gone, or it was settled otherwise after the transaction had timed out
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

// overtime is the longest time that a transaction is open after its first operation. The partition
// ends it after two minutes, by its own clock, and reports that with its next answer, which may
// never come.
const overtime = 2*time.Minute + 10*time.Second

// next returns when the first transaction will have been open for too long, zero if there is none.
func (t *transactions) next() (at time.Time) {
	if first := t.line.Front(); first != nil {
		at = first.Value.(*transaction).began.Add(overtime)
	}
	return at
}

// expire ends transactions that have been open for too long.
func (t *transactions) expire(now time.Time) {
	for at := t.next(); !at.IsZero() && !now.Before(at); at = t.next() {
		t.rollBack(t.line.Front().Value.(*transaction), event.AbortTimedOut)
	}
}
