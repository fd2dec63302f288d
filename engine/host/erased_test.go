package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// erasedLog is a log that no longer keeps any body.
type erasedLog struct{ log.Partition }

func (erasedLog) ReadInto(event.Blob, []byte) (int, error)          { return 0, event.ErrErased }
func (erasedLog) ReadBlob(_ event.Blob, dst []byte) ([]byte, error) { return dst, event.ErrErased }

// History erases no body that is still needed: a body that is missing at its delivery is an
// internal fault, and is reported as one.
func TestErasedBodyOfADelivery(t *testing.T) {
	t.Parallel()
	ps := partitions{slots: make([]slot, 1)}
	var plog log.Partition = erasedLog{}
	ps.slots[0].log.Store(&plog)
	n, err := ps.ReadInto(0, event.Blob{Position: 8, Size: 3}, make([]byte, 3))
	if n != 0 || !errors.Is(err, ErrInternal) || !errors.Is(err, event.ErrErased) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A body that a connection finds erased is a fault, and stops sends, if the message is still locked
// for it; if the message was settled in between it is no fault, because the body was not needed.
func TestReportOfAnErasedBody(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		b := open(t, t.TempDir())
		q := b.queue(t, "orders", testQueue())
		b.send(t, q, 1)
		_, deliveries := b.receiver(q, 1, 1)
		token := deliveries.wait(1)[0].Delivery().Token
		if ended {
			in := newInbox()
			b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: token, Outcome: engine.Complete}}})
			if err := in.wait(1)[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		b.ReportDamage(q.Host(0), token, fmt.Errorf("message 1 of 'orders': %w", event.ErrErased))
		if err := b.sendOne(q, 2); isBusy(err) == ended || ended && err != nil {
			t.Errorf("ended %t: a send is answered %v", ended, err)
		}
		if s := b.status(q.Host(0)); (s.Cause == "") != ended || !ended && !strings.Contains(s.Cause, "message 1 of 'orders'") {
			t.Errorf("ended %t: %+v", ended, s)
		}
		b.close(t)
	}
}
