package servicebus

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// What is handed out again has nothing of the send before.
func TestPublishedAgain(t *testing.T) {
	t.Parallel()
	c := &conn{environment: &environment{newUUID: newUUID, limits: Limits{}.withDefaults()}}
	topic := &engine.Send{Entity: &engine.Entity{Kind: event.Topic}}
	if seen := newFilterInput(&engine.Send{Entity: &engine.Entity{Kind: event.Queue}}, 1); seen != nil || seen.with(nil) != nil || seen.size() != 0 {
		t.Errorf("%+v; want seen == nil && seen.with(nil) == nil && seen.size() == 0", seen)
	}
	full := amqp.AppendProperties(nil, &amqp.Properties{MessageID: amqp.UUID{1}, Subject: amqp.Some("label")})
	full = amqp.AppendSection(full, amqp.SectionApplicationProperties, amqp.Map{
		{Key: "color", Value: "blue"}, {Key: "n", Value: int32(1)}, {Key: "bytes", Value: []byte("z")}, {Key: "", Value: nil},
	})
	for range 100 {
		for _, m := range [][]byte{amqp.AppendData(full, []byte("body")), amqp.AppendData(nil, []byte("x"))} {
			seen := newFilterInput(topic, 2)
			for range 2 {
				in, e := c.inspect(m)
				if e != nil {
					t.Fatal(e)
				}
				c.complete(&in, nil, nil, seen)
				p := in.Message.Properties
				if p.System[filter.MessageID].Text != string(in.Message.ID) || len(p.User) != 4*len(p.System[filter.Label].Text)/5 {
					t.Fatalf("%+v; want p.System[filter.MessageID].Text == string(in.Message.ID) && len(p.User) == 4 * len(p.System[filter.Label].Text) / 5", p)
				}
			}
			if seen.size() < 2*messageSize {
				t.Errorf("%+v, want at least %+v", seen.size(), 2*messageSize)
			}
			seen.with(newChunk(1)).Release()
		}
	}
}

// What is only handed over by a topic is looked at by no filter there.
func TestPublishedElsewhere(t *testing.T) {
	t.Parallel()
	if seen := newFilterInput(&engine.Send{Entity: &engine.Entity{Kind: event.Topic}, Destination: &engine.Entity{}}, 1); seen != nil {
		t.Errorf("%+v, want nil", seen)
	}
}
