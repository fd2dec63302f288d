package loop

import (
	"runtime"
	"testing"
	"weak"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// No part of the broker keeps the bytes of a message once the log has them. Otherwise the last
// large message that each partition has stored would stay in memory.
func TestBodiesAreLetGo(t *testing.T) {
	t.Parallel()
	large := testQueue()
	large.MaxMessageSizeKilobytes = 2048
	for name, command := range map[string]func(engine.Message) engine.Command{
		"send": func(m engine.Message) engine.Command {
			return &engine.Send{Slice: handEntity, Messages: []engine.Message{m}}
		},
		"schedule": func(m engine.Message) engine.Command {
			m.ScheduledFor = event.EndOfTime
			return &engine.Send{Slice: handEntity, Messages: []engine.Message{m}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := byHand(t, large)
			kept := func() weak.Pointer[byte] {
				body := make([]byte, 1<<20)
				if r := h.ask(command(engine.Message{ID: []byte("x"), Body: body})); r.Err != nil {
					t.Fatal(r.Err)
				}
				return weak.Make(&body[0])
			}()
			h.land()
			h.heard()
			runtime.GC()
			if kept.Value() != nil {
				t.Error("the body is still in memory")
			}
			runtime.KeepAlive(h)
		})
	}
}
