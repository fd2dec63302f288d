package index

import "github.com/ledgerbus/ledgerbus/log/event"

const (
	states    = int(Transferring) + 1
	subQueues = int(event.TransferDeadLetter) + 1
)

// row is the data of a live message. Keep it at 48 bytes, without pointers: there may be tens of
// millions.
type row struct {
	position   event.Position // of the body
	enqueuedAt event.Time
	expiresAt  event.Time
	size       uint32 // bytes of the body
	sum        uint32 // checksum of the body
	count      uint32 // failed deliveries
	// slot in the lock table, 0 when not locked; while scheduled, slot in the schedule; while in
	// transfer, slot in the transfers
	lock    uint32
	session uint32 // slot in the slice's sessions, 0 if it belongs to none
	marks   marks
}

// marks are the state and the sub-queue of a message, and its flags. Bits 12 to 15 are free.
type marks uint16

const (
	stateBits          = 3
	subQueueBits       = 2
	stateMask    marks = 1<<stateBits - 1
	subQueueMask marks = (1<<subQueueBits - 1) << stateBits
	ownTTL       marks = 1 << (stateBits + subQueueBits) // the sender set a time to live
	changed            = ownTTL << 1                     // there are property changes
	wasScheduled       = changed << 1                    // it was scheduled before it became active
	// it is not forwarded from its dead-letter queue
	stays = wasScheduled << 1

	hopShift = stateBits + subQueueBits + 4 // the number of moves begins at this bit
	hopMask  = 7 << hopShift
)

// class selects the set of a sub-queue in which a message is. There is a set for each state, and
// one more for the active messages that stay in the dead-letter queue.
type class uint8

const (
	staying = class(states)
	classes = states + 1
)

func (m marks) class() class {
	if m&(stateMask|subQueueMask) == in(event.DeadLetter, Active) && (m.has(stays) || m.hops() >= event.MaxHops) {
		return staying
	}
	return class(m.state())
}

func (m marks) hops() uint8 { return uint8(m & hopMask >> hopShift) }

func (m marks) moves(hops uint8) marks { return m&^hopMask | marks(hops)<<hopShift&hopMask }

func in(q event.SubQueue, st State) marks { return marks(q)<<stateBits | marks(st) }

func (m marks) state() State { return State(m & stateMask) }

func (m marks) subQueue() event.SubQueue { return event.SubQueue(m & subQueueMask >> stateBits) }

func (m marks) has(mark marks) bool { return m&mark != 0 }

// with sets or clears a mark.
func (m marks) with(mark marks, set bool) marks {
	if set {
		return m | mark
	}
	return m &^ mark
}

// withState returns the marks of a message after a change to another state, or sub-queue.
func (m marks) withState(q event.SubQueue, st State) marks {
	return m&^(stateMask|subQueueMask) | in(q, st)
}

// deliverable reports whether a receiver of the main queue may get the message.
func (r *row) deliverable() bool { return r.marks&(stateMask|subQueueMask) == in(event.Main, Active) }

// locked reports whether the message is locked in the main queue.
func (r *row) locked() bool {
	st := r.marks.state()
	return r.marks.subQueue() == event.Main && (st == Locked || st == DeferredLocked)
}

// isShown reports whether messages of a state are shown in a sub-queue. A message that is leaving
// the main queue is no longer shown. One that is leaving a dead-letter queue may wait there for
// long, and is shown.
func isShown(q event.SubQueue, st State) bool { return q != event.Main || st != Transferring }

// isShownIn reports whether the message is shown in a sub-queue.
func (r *row) isShownIn(q event.SubQueue) bool {
	return r.marks.subQueue() == q && isShown(q, r.marks.state())
}
