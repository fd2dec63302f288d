package loop

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sized returns changes that take that many bytes of log.
func sized(size int) event.Changes {
	text := string(make([]byte, size))
	c := event.Changes{{Name: "p", Value: event.Value{Type: event.Encoded, Text: text}}}
	c[0].Value.Text = text[c.Size()-size:]
	return c
}

// SM-113: if settlements add properties of over 64 KiB together, the message moves to the
// dead-letter queue without the last of them. (The properties it was sent with do not count.)
func TestHeaderSizeExceeded(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		h := byHand(t, testQueue())
		h.fill(1, 0)
		r := h.receiver(1, event.Main)
		h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
		abandon := func(size int) {
			t.Helper()
			token := h.got[0].Delivery().Token
			h.got = nil
			if got := h.ask(&engine.Settle{Slice: handEntity, Token: token, Outcome: engine.Abandon, Changes: sized(size)}); got.Err != nil {
				t.Fatal(got.Err)
			}
		}
		abandon(40 << 10)
		h.turn(&engine.Flow{Receiver: r, Limit: 2})
		if !over {
			abandon(24 << 10)
			if h.count(event.Main, index.Active) != 1 {
				t.Error("64 KiB are too much")
			}
			continue
		}
		abandon(24<<10 + 1)
		m, ok := h.loop.part.Index().Message(handEntity, 1)
		if !ok || m.SubQueue != event.DeadLetter || len(m.Changes) != 2 || m.Changes[0].Size != 40<<10 {
			t.Fatalf("%+v; want ok && m.SubQueue == event.DeadLetter && len(m.Changes) == 2 && m.Changes[0].Size == 40 << 10", m)
		}
		why, err := h.plog.ReadBlob(m.Changes[1], nil)
		if err != nil || !strings.Contains(string(why), "HeaderSizeExceeded") {
			t.Errorf("dead-lettered with %q, %v", why, err)
		}
	}
}
