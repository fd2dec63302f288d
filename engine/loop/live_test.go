package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// looks returns what the loop knows about the receivers of its main queue now.
func (h *drivenLoop) looks() LookAnswer {
	e := &engine.Entity{ID: handEntity.Entity}
	return (&lookCommand{of: engine.Target{Entity: e}}).tell(h.loop).Answer.(LookAnswer)
}

// A receiver whose session has as many locked messages as it may is distinguished from one whose
// session has no messages.
func TestLookAtFullSession(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.send(0, make([]string, maxUnderSession+1)...)
	r := h.accepts(1, "")
	if p := h.looks().Ports; len(p) != 1 || !p[0].HasSession || p[0].SessionFull || p[0].Queued != 0 {
		t.Errorf("%+v", p)
	}
	h.turn(&engine.Flow{Receiver: r, Limit: 2 * maxUnderSession})
	if p := h.looks().Ports; len(p) != 1 || !p[0].SessionFull || p[0].Queued != maxUnderSession {
		t.Errorf("%+v", p)
	}
}

// The answer counts the requests of the connection that come first, and the allowed receivers.
func TestLookAtLateRequests(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.turn(&engine.Attach{Receiver: h.receiver(1, event.Main)})
	h.loop.late.add(engine.Request{Sink: h, Command: &engine.Peek{Slice: handEntity, Count: 1}})
	said := h.looks()
	if p := said.Ports; said.Late != 1 || len(p) != 1 || p[0].Late != 1 || said.Attached != 1 || said.MaxAttached != h.loop.receivers.limit {
		t.Errorf("%+v", said)
	}
	h.after(time.Second)
}
