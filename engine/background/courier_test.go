package background

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// courierHarness is a courier whose loops are this test: it sees what the courier offers, and
// decides when to answer.
type courierHarness struct {
	t       *testing.T
	courier *Courier
	now     event.Time
	offered []engine.Request // imports that have not been answered
	over    []*loop.TransferResults
	closed  map[engine.PartitionID]bool // partitions that accept nothing
	busy    bool                        // nothing can be read now
}

func newHarness(t *testing.T) *courierHarness {
	d := &courierHarness{t: t, now: 1_000_000, closed: map[engine.PartitionID]bool{}}
	d.courier = NewCourier(CourierOptions{Home: 0, Reread: rereads, Logger: slog.New(slog.DiscardHandler),
		Read: func(b event.Blob, dst []byte) (int, error) {
			if d.busy {
				return 0, engine.Refuse(engine.Busy, "later")
			}
			copy(dst, fmt.Sprint(b.Position))
			return len(dst), nil
		},
		Entity: func(id event.EntityID) *engine.Entity {
			if id == 0 || id > 9 {
				return nil
			}
			return &engine.Entity{ID: id, Path: fmt.Sprint("e", id), Hosts: []engine.PartitionID{engine.PartitionID(id)}}
		},
		Damaged: func(err error) { t.Error(err) },
		Offer: func(p engine.PartitionID, req engine.Request) bool {
			if over, ok := req.Command.(*loop.TransferResults); ok {
				d.over = append(d.over, over)
				return true
			}
			if d.closed[p] {
				return false
			}
			d.offered = append(d.offered, req)
			return true
		}})
	return d
}

// rereads makes a message of its stored bytes.
func rereads(stored []byte, _ [][]byte, ttl time.Duration, _ *filter.Message) (engine.Message, []byte, error) {
	return engine.Message{Body: stored, ID: stored[:min(len(stored), 16)], TimeToLive: max(ttl, 0)}, nil, nil
}

// hand gives the courier transfers of messages with that many bytes.
func (d *courierHarness) hand(trigger event.Trigger, to event.EntityID, first event.TransferNumber, n, size int, floors ...loop.Floor) {
	told := &loop.TransferBatch{Source: event.Slice{Entity: 1}, Floors: floors}
	for i := range n {
		number := first + event.TransferNumber(i)
		told.Transfers = append(told.Transfers, engine.Transfer{Number: number, Trigger: trigger, Destination: to,
			Body: event.Blob{Position: event.Position(number), Size: uint32(size)}})
	}
	d.courier.Post([]engine.Reply{{Answer: told}})
	d.courier.Turn(d.now)
}

// batches returns the numbers in flight, by destination.
func (d *courierHarness) batches() (all []string) {
	for _, req := range d.offered {
		cmd := req.Command.(*engine.Import)
		first, last := cmd.Items[0].Number, cmd.Items[len(cmd.Items)-1].Number
		all = append(all, fmt.Sprintf("%d: %d-%d floor %d", cmd.Slice.Entity, first, last, cmd.Floor))
	}
	return all
}

func (d *courierHarness) expect(want ...string) {
	d.t.Helper()
	if got := d.batches(); !slices.Equal(got, want) {
		d.t.Fatalf("on their way are %q, want %q", got, want)
	}
}

// answer answers the oldest batch, and returns when the courier wants its next turn.
func (d *courierHarness) answer(reply engine.Reply) event.Time {
	reply.Tag = d.offered[0].Tag
	d.offered = d.offered[1:]
	d.courier.Post([]engine.Reply{reply})
	return d.courier.Turn(d.now)
}

func taken(n int) engine.Reply { return engine.Reply{Answer: make(engine.Arrivals, n)} }

// Decision 35: a stream has one batch at a time, of a bounded number of messages and bytes;
// messages that the destination did not process are in the next one; each batch carries the floor
// that the courier was told.
func TestCourierBatches(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.hand(event.TriggerForward, 2, 1, 300, 10)
	d.expect("2: 1-256 floor 0")
	d.answer(taken(100))
	d.expect("2: 101-300 floor 0")
	d.hand(event.TriggerForward, 2, 301, 3, 200<<10, loop.Floor{Destination: 2, Number: 101})
	d.answer(taken(200))
	d.expect("2: 301-301 floor 101")
	d.answer(taken(1))
	d.expect("2: 302-302 floor 101")
	d.answer(taken(1))
	d.answer(taken(1))
	d.expect()
	n := 0
	for _, over := range d.over {
		n += len(over.Arrived)
	}
	if n != 303 || len(d.courier.streams) != 0 || d.courier.bytes != 0 {
		t.Errorf("%d arrived, %d streams and %d bytes are left", n, len(d.courier.streams), d.courier.bytes)
	}
}

// Decision 35: if a destination cannot accept anything now, its stream waits, 100 ms doubling to 5
// s, and the others continue; once something arrives, the wait begins at 100 ms again. A partition
// that has stopped is no refusal.
func TestCourierWaits(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.hand(event.TriggerForward, 2, 1, 2, 10)
	var waits []time.Duration
	for _, reply := range []engine.Reply{{Err: engine.Refuse(engine.Busy, "")}, {Err: engine.ErrUnknown},
		{Answer: engine.Arrivals{engine.Refuse(engine.Busy, "")}}, {Err: engine.ErrUnknown}, {Err: engine.ErrUnknown}, {Err: engine.ErrUnknown}, {Err: engine.ErrUnknown}, {Err: engine.ErrUnknown}} {
		next := d.answer(reply)
		waits = append(waits, next.Sub(d.now))
		d.hand(event.TriggerForward, 3, 10, 1, 10)
		d.expect("3: 10-10 floor 0")
		d.answer(taken(1))
		d.now = next - 1
		if d.courier.Turn(d.now); len(d.offered) > 0 {
			t.Fatal("too early")
		}
		d.now = next
		d.courier.Turn(d.now)
		d.expect("2: 1-2 floor 0")
	}
	if got := fmt.Sprint(waits); got != "[100ms 200ms 400ms 800ms 1.6s 3.2s 5s 5s]" {
		t.Errorf(`%+v, want "[100ms 200ms 400ms 800ms 1.6s 3.2s 5s 5s]"`, got)
	}
	d.closed[2] = true
	next := d.answer(taken(1))
	d.now = next
	if next = d.courier.Turn(d.now); next.Sub(d.now) != 200*time.Millisecond {
		t.Errorf("waits %v", next.Sub(d.now))
	}
	d.closed[2], d.busy, d.now = false, true, next
	if next = d.courier.Turn(d.now); next.Sub(d.now) != 400*time.Millisecond || len(d.offered) > 0 {
		t.Errorf("waits %v for what it cannot read", next.Sub(d.now))
	}
	d.busy, d.now = false, next
	d.courier.Turn(d.now)
	d.expect("2: 2-2 floor 0")
}

// Decision 35: the memory of a courier is bounded, however many streams there are; a source that no
// longer exists is forgotten, with its messages in flight.
func TestCourierBounds(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	for to := event.EntityID(2); to <= 9; to++ {
		d.hand(event.TriggerForward, to, event.TransferNumber(to), 1, 10<<20)
	}
	if d.courier.bytes > maxInFlight+10<<20 || len(d.offered) != 2 {
		t.Fatalf("%d bytes in %d batches", d.courier.bytes, len(d.offered))
	}
	d.answer(taken(1))
	d.expect("3: 3-3 floor 0", "4: 4-4 floor 0")
	d.courier.Post([]engine.Reply{{Answer: &loop.SliceGone{Source: event.Slice{Entity: 1}}}})
	d.answer(taken(1))
	d.answer(engine.Reply{Err: engine.ErrUnknown})
	if next := d.courier.Turn(d.now); len(d.offered) != 0 || len(d.courier.streams) != 0 || d.courier.bytes != 0 || next != 0 {
		t.Errorf("%d batches, %d streams, %d bytes, next turn %v", len(d.offered), len(d.courier.streams), d.courier.bytes, next)
	}
}

// P17: a log that fails before the start of a transfer is durable tells every waiting caller,
// including its courier, which does not mistake that for the answer of a destination.
func TestCourierOfAFailedLog(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.hand(event.TriggerForward, 2, 1, 1, 10)
	d.courier.Post([]engine.Reply{{Err: engine.ErrUnknown}})
	d.courier.Turn(d.now)
	d.expect("2: 1-1 floor 0")
}

// SM-210, S4-58: a partition of the destination that accepts nothing holds back only its own
// messages, in order. The others remember little of what arrives in the meantime: when too many
// numbers lie after the oldest that waits, the other partitions wait as well (P6).
func TestMovesPastAPartitionThatIsAway(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	d.courier.Entity = func(id event.EntityID) *engine.Entity {
		e := &engine.Entity{ID: id, Path: "wide"}
		for i := range event.MaxEntityPartitions {
			e.Hosts = append(e.Hosts, engine.PartitionID(i))
		}
		return e
	}
	d.closed[7] = true
	d.hand(event.TriggerForward, 2, 1, 64, 10)
	d.courier.Turn(d.now)
	there := map[event.TransferNumber]uint8{}
	for len(d.offered) > 0 {
		cmd := d.offered[0].Command.(*engine.Import)
		for _, item := range cmd.Items {
			there[item.Number] = cmd.Slice.Partition
		}
		d.answer(taken(len(cmd.Items)))
	}
	if len(there) != 60 {
		t.Errorf("%d of 64 messages have gone, want 60", len(there))
	}
	for n, p := range there {
		if p == 7 || p != uint8(n%16) {
			t.Errorf("transfer %d went to partition %d", n, p)
		}
	}
	d.closed[7] = false
	d.now = d.now.Add(firstRest)
	d.courier.Turn(d.now)
	cmd := d.offered[0].Command.(*engine.Import)
	for i, want := range []event.TransferNumber{7, 23, 39, 55} {
		if cmd.Slice.Partition != 7 || cmd.Items[i].Number != want {
			t.Errorf("item %d of %d in partition %d is transfer %d, want %d", i, len(cmd.Items), cmd.Slice.Partition, cmd.Items[i].Number, want)
		}
	}
	d.answer(taken(4))
	if len(d.courier.streams) != 0 || d.courier.bytes != 0 {
		t.Errorf("%d streams and %d bytes are left", len(d.courier.streams), d.courier.bytes)
	}
}

// F4: a message that the disk cannot read now may still be intact: the stream waits, and the
// message does not count as damaged. Intact bytes that are no message count as damaged.
func TestCourierReadsLater(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	var reported []error
	var fault error
	d.courier.Damaged = func(err error) { reported = append(reported, err) }
	whole := d.courier.Read
	d.courier.Read = func(b event.Blob, dst []byte) (int, error) {
		if fault != nil && b.Position == 2 {
			return 0, fault
		}
		return whole(b, dst)
	}
	fault = errors.New("input/output error")
	d.hand(event.TriggerForward, 2, 1, 3, 10)
	d.expect("2: 1-1 floor 0")
	next := d.answer(taken(1))
	if d.expect(); next == 0 || len(d.over) != 1 || len(reported) == 0 {
		t.Fatalf("the next turn is at %v, %d reports to the log, %v", next, len(d.over), reported)
	}
	fault, d.now = nil, next
	d.courier.Turn(d.now)
	d.expect("2: 2-3 floor 0")
	d.answer(taken(2))

	d.courier.Reread = func([]byte, [][]byte, time.Duration, *filter.Message) (engine.Message, []byte, error) {
		return engine.Message{}, nil, errors.New("no sections")
	}
	d.hand(event.TriggerForward, 2, 4, 1, 10)
	d.expect()
	last := d.over[len(d.over)-1]
	if len(last.Failed) != 1 || last.Failed[0].Number != 4 || last.Failed[0].Refusal.Code != engine.Unreadable || last.Bytes != 10 || len(d.courier.streams) != 0 {
		t.Errorf("the log is told %+v, and %d streams are left", last, len(d.courier.streams))
	}
}
