package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// transfer is the data of a message in transfer besides its row.
type transfer struct {
	slice       event.Slice
	sequence    event.SequenceNumber
	number      event.TransferNumber
	destination event.EntityID
	trigger     event.Trigger
}

const triggers = int(event.TriggerVia) + 1

// openTransfers finds the messages in transfer of one slice. It follows from the rows and is not
// encoded.
type openTransfers struct {
	slots map[event.TransferNumber]uint32
	to    map[event.EntityID]*destinationTransfers
	open  [triggers]int
	bytes [triggers]int64 // including property changes
}

// destinationTransfers has the numbers of the open transfers to one destination.
type destinationTransfers struct {
	numbers set
	count   uint32
}

func newMoving() *openTransfers {
	return &openTransfers{slots: map[event.TransferNumber]uint32{}, to: map[event.EntityID]*destinationTransfers{}}
}

// find returns the slot of an open transfer; 0: there is none.
func (m *openTransfers) find(n event.TransferNumber) uint32 {
	if m == nil {
		return 0
	}
	return m.slots[n]
}

// departures applies events about messages that leave a slice.
type departures struct{ *slice }

// openTransfer records that a message is in transfer under a number that was given out, and returns
// its slot.
func (s departures) openTransfer(t transfer, size int64) uint32 {
	if s.moving == nil {
		s.moving = newMoving()
	}
	m, slot := s.moving, s.shared.transfers.add(&s.shared.versions, t)
	m.slots[t.number] = slot
	b := m.to[t.destination]
	if b == nil {
		b = new(destinationTransfers)
		m.to[t.destination] = b
	}
	b.numbers.add(event.SequenceNumber(t.number))
	b.count++
	m.open[t.trigger]++
	m.bytes[t.trigger] += size
	return slot
}

// closeTransfer records that a transfer is settled.
func (s departures) closeTransfer(slot uint32, size int64) {
	m, t := s.moving, *s.shared.transfers.at(slot)
	delete(m.slots, t.number)
	b := m.to[t.destination]
	b.count--
	if b.numbers.remove(event.SequenceNumber(t.number), b.count); b.count == 0 {
		delete(m.to, t.destination)
	}
	m.open[t.trigger]--
	m.bytes[t.trigger] -= size
	s.shared.transfers.remove(&s.shared.versions, slot)
	if len(m.slots) == 0 {
		s.moving = nil // maps do not free memory
	}
}

// takeTransferNumber records that a transfer number is given out.
func (s departures) takeTransferNumber(n event.TransferNumber, ev event.Event) {
	if n != s.given+1 {
		panic(fmt.Sprintf("index: %T with transfer %d in slice %v after %d", ev, n, s.id, s.given))
	}
	s.given = n
}

// storedBytes returns the size of a message with its property changes, bytes.
func (s departures) storedBytes(seq event.SequenceNumber, r *row) int64 {
	n := int64(r.size)
	if r.marks.has(changed) {
		for _, b := range s.rows.find(seq).changes() {
			n += int64(b.Size)
		}
	}
	return n
}

// start puts messages in transfer at their place.
func (s departures) start(ev *event.TransferStarted) {
	from := event.Main
	if ev.Trigger == event.TriggerDeadLetter {
		from = event.DeadLetter
	}
	for i, seq := range ev.Sequences {
		r := s.must(seq, ev)
		if m := r.marks; m.class() != class(Active) || m.subQueue() != from || m.hops() >= event.MaxHops {
			panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v in %v after %d moves", ev, seq, s.id, m.state(), m.subQueue(), m.hops()))
		}
		n := ev.First + event.TransferNumber(i)
		s.takeTransferNumber(n, ev)
		r.lock = s.openTransfer(transfer{s.id, seq, n, ev.Destination, ev.Trigger}, s.storedBytes(seq, r))
		s.move(seq, r, Transferring)
	}
}

// handOver stores a message that is in transfer from the beginning.
func (s departures) handOver(ev *event.MessageHandedOver) {
	s.takeNumber(ev.Sequence)
	s.takeTransferNumber(ev.Number, ev)
	s.store(ev.Sequence, row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum, enqueuedAt: ev.EnqueuedAt,
		marks: in(event.Main, Transferring).with(ownTTL, ev.TimeToLive != 0),
		lock:  s.openTransfer(transfer{s.id, ev.Sequence, ev.Number, ev.Destination, event.TriggerVia}, int64(ev.Body.Size)),
	})
}

// end ends an open transfer and returns it with the row of its message, whose state the caller
// changes.
func (s departures) end(n event.TransferNumber, ev event.Event) (transfer, *row) {
	slot := s.moving.find(n)
	if slot == 0 {
		panic(fmt.Sprintf("index: %T of transfer %d in slice %v, which is not open", ev, n, s.id))
	}
	t := *s.shared.transfers.at(slot)
	r := s.must(t.sequence, ev)
	s.closeTransfer(slot, s.storedBytes(t.sequence, r))
	r.lock = 0
	return t, r
}

func (s departures) finish(ev *event.TransfersFinished) {
	for _, n := range ev.Numbers {
		t, r := s.end(n, ev)
		s.remove(t.sequence, r)
	}
}

// fail puts a message into a dead-letter queue. A message that was leaving that queue stays there
// from now on, because the destination would not accept it the next time either. If the destination
// was deleted, it does not stay, because the next destination may accept it.
func (s departures) fail(ev *event.TransferFailed) {
	t, r := s.end(ev.Number, ev)
	if ev.Sequence != 0 && ev.Sequence != t.sequence {
		panic(fmt.Sprintf("index: %T of transfer %d in slice %v names message %d and not %d", ev, ev.Number, s.id, ev.Sequence, t.sequence))
	}
	s.change(t.sequence, r, ev.Changes)
	s.shift(t.sequence, r, r.marks.withState(ev.SubQueue, Active).with(stays, t.trigger == event.TriggerDeadLetter && ev.Why != event.RefusedGone || r.marks.has(stays)))
}

// rowAtRest returns the row of a message that is not in transfer.
func rowAtRest(s *slice, seq event.SequenceNumber, ev event.Event) *row {
	r := s.must(seq, ev)
	if r.marks.state() == Transferring {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is in transfer", ev, seq, s.id))
	}
	return r
}
