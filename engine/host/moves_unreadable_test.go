package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-271: a message whose bytes are damaged when it should leave moves to a dead-letter queue with
// the reason, for every kind of move; the others arrive, its damage is reported, and nothing is
// left in transfer that would take their places.
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
			if n := f.outstanding(); n != 0 {
				t.Errorf("couriers have %d transfers", n)
			}
		})
	}
}

// moving returns the properties of a queue whose messages move to b for the reason given.
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

// SM-268: a dead letter says where it died even if that entity is deleted before the courier has
// read it.
func TestDeadLetterSourceOfDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, 2)
	f.put(event.Queue, "filler", testQueue())
	f.put(event.Queue, "b", testQueue())
	f.sets("dead", "1")
	// until it is durable that the message is in transfer; no courier has read it
	for f.couriers[0].letters+f.couriers[1].letters == 0 {
		for i, l := range f.loops {
			l.Turn(nil)
			f.writers[i].Work()
			l.Committed()
		}
	}
	f.directory.remove(f.directory.find("a")) // its slice is dropped after that
	f.settle()
	if m, _, _ := f.first("b", event.Main); m.DeadLetterSource != "a" {
		t.Errorf("it says that it died in %q", m.DeadLetterSource)
	}
}
