package loop

import (
	"errors"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Rules cannot see a scheduled message whose body was erased: the partition stops with an internal
// fault rather than publish the message without them.
func TestErasedBodyOfAScheduledMessage(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	if r := h.ask(&engine.PutEntity{Kind: event.Topic, Path: "events", Properties: engine.DefaultProperties(event.Topic)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.configure()
	topic := event.Slice{Entity: 2}
	later := engine.Message{ID: []byte("s"), Body: []byte("s"), ScheduledFor: h.now.Add(time.Minute)}
	if r := h.ask(&engine.Send{Slice: topic, Messages: []engine.Message{later}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.loop.publisher.stored = erasedLog{h.plog}
	h.now = h.now.Add(2 * time.Minute)
	h.loop.Turn(nil)
	if err := h.loop.Err(); !errors.Is(err, ErrInternal) || !errors.Is(err, event.ErrErased) {
		t.Errorf("stopped with %v", err)
	}
	if n := h.loop.part.Index().Scheduled(topic); n != 1 {
		t.Errorf("%d messages are scheduled", n)
	}
}
