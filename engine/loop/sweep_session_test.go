package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// 7.4: a message that returns with its session and expires later is swept like any other, although
// nothing else happens.
func TestSweepAfterSessionReleased(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	r := h.accepts(1, "A")
	h.activate(h.accepts(2, "B"))
	h.send(10*time.Second, "A")
	h.turn(&engine.Flow{Receiver: r, Limit: 1})
	h.hears("1:A", "2:B", "1:1")
	h.send(time.Second, "C")
	h.after(2 * time.Second) // a pass, while the message of A is locked
	h.turn(&engine.Detach{Receiver: r})
	if got := h.count(event.Main, index.Active); got != 1 {
		t.Fatalf("%d active messages", got)
	}
	h.after(10 * time.Second)
	if got := h.count(event.Main, index.Active); got != 0 {
		t.Fatalf("%d messages that have expired, while a session is held", got)
	}
}
