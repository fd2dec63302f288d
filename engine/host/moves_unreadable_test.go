package host

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-271: a message whose bytes are damaged when it should leave goes to a dead-letter queue with the reason, whatever it was moving for; the others arrive, its
// damage is reported, and nothing is left in transfer that would take their places.
func TestUnreadableInTransfer(t *testing.T) {
	t.Parallel()
	for trigger, at := range map[string]string{"forward": "a/dead", "dead": "a/dead", "via": "a/transfer-dead"} {
		t.Run(trigger, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3, 2)
			f.put(event.Queue, "filler", testQueue()) // so that a and b are of two logs
			f.put(event.Queue, "b", testQueue())
			var reported []string
			for i, c := range f.couriers {
				read := c.Read
				c.Read = func(b event.Blob, dst []byte) (int, error) {
					n, err := read(b, dst)
					if err == nil && bytes.Contains(dst[:n], []byte("bad")) {
						err = fmt.Errorf("log: partition %d: %w", i, log.ErrChecksum)
					}
					return n, err
				}
				c.Damaged = func(err error) { reported = append(reported, err.Error()) }
			}
			f.put(event.Queue, "a", testQueue())
			want := map[string]string{"good1": "b", "bad": at, "good2": "b"}
			for _, id := range []string{"good1", "bad", "good2"} {
				if trigger == "via" {
					f.must(f.via("a", "b", id).Err)
				} else {
					f.send("a", id)
				}
			}
			if trigger == "dead" {
				f.deadLetters("a")
			}
			f.put(event.Queue, "a", f.moving(trigger))
			f.settle()
			f.are(want)
			f.says(at, trigger, "MessagingException: The stored bytes of the message cannot be read.")
			if len(reported) != 1 || !strings.Contains(reported[0], "message 2 of ") {
				t.Errorf("reported: %q", reported)
			}
			for _, l := range f.loops {
				if l.transfers.outstanding != 0 {
					t.Errorf("the courier of a log has %d transfers", l.transfers.outstanding)
				}
			}
		})
	}
}

// moving is the properties of a queue whose messages go to b for the reason given.
func (f *fleet) moving(trigger string) event.Properties {
	p := testQueue()
	switch trigger {
	case "forward":
		p.ForwardTo = "b"
	case "dead":
		p.ForwardDeadLetteredMessagesTo = "b"
	}
	return p
}

// F4: what the disk cannot read now may still be whole: the stream waits, and the message is not taken for damaged. Bytes that are whole but are no
// message are taken for damaged.
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

// SM-268: a dead letter says where it died even if that entity is deleted before the courier has read it.
func TestDeadLetterSourceOfDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, 2)
	f.put(event.Queue, "filler", testQueue())
	f.put(event.Queue, "b", testQueue())
	f.sets("dead", "1")
	for len(f.couriers[0].mail.letters)+len(f.couriers[1].mail.letters) == 0 { // until it is durable that the message is in transfer; no courier has looked
		for _, l := range f.loops {
			l.Turn(nil)
			l.frames.writer.(log.ManualWriter).Work()
			l.Committed()
		}
	}
	f.directory.remove(f.directory.find("a")) // its slice goes behind that
	f.settle()
	if m, _, _ := f.first("b", event.Main); m.DeadLetterSource != "a" {
		t.Errorf("it says that it died in %q", m.DeadLetterSource)
	}
}

// Decision 35: a slice does not remember the floors of destinations that no longer exist for long, however many there have been.
func TestFloorsOfDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9, 1)
	a := f.put(event.Queue, "a", testQueue())
	f.put(event.Queue, "kept", testQueue())
	for i := range 3 * manyFloors {
		to := fmt.Sprint("b", i)
		f.put(event.Queue, to, testQueue())
		f.must(f.via("a", to, "1").Err)
		f.must(f.via("a", "kept", "2").Err)
		f.settle()
		f.remove(to)
	}
	d := f.loops[0].transfers.sources[event.Slice{Entity: a.ID}]
	if kept := f.directory.find("kept"); len(d.floors) > manyFloors+1 || d.floors[kept.ID] == 0 {
		t.Errorf("%d floors are remembered, %d of the queue that is there", len(d.floors), d.floors[kept.ID])
	}
}

// A loop without a courier has no orders to carry out: it sleeps.
func TestOrdersWithoutCourier(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 11, 1)
	f.put(event.Queue, "b", testQueue())
	l := f.loops[0]
	l.transfers.courier = nil
	f.put(event.Queue, "a", forwardTo("b"))
	f.send("a", "1")
	for l.Busy() {
		l.Turn(nil)
		l.frames.writer.(log.ManualWriter).Work()
		l.Committed()
	}
	if l.Turn(nil); l.unfinished() {
		t.Error("it wants the next turn at once")
	}
	f.are(map[string]string{"1": "a"})
}
