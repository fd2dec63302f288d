package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A subscription has no limit of its own (management-api.md 3.4): a session state may be as large as a message of its topic.
func TestMessageLimit(t *testing.T) {
	t.Parallel()
	topic := &Entity{ID: 1, Kind: event.Topic, Properties: event.Properties{MaxMessageSizeKilobytes: 256}}
	p := &Partition{entities: map[event.EntityID]*Entity{1: topic}}
	for _, e := range []*Entity{topic, {ID: 2, Kind: event.Subscription, Topic: 1}} {
		if limit := p.messageLimit(e); limit != 256<<10 {
			t.Errorf("%s: %d", e.Kind, limit)
		}
	}
}
