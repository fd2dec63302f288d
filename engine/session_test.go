package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A subscription has no limit of its own (management-api.md 3.4): a session state may be as large
// as a message of its topic.
func TestMessageLimit(t *testing.T) {
	t.Parallel()
	topic := &Entity{ID: 1, Kind: event.Topic, Properties: event.Properties{MaxMessageSizeKilobytes: 256}}
	p := NewPartition(0, 1, index.New())
	p.Configure(topic)
	for _, e := range []*Entity{topic, {ID: 2, Kind: event.Subscription, Topic: 1}} {
		s := slice{decision: &p.decision, entity: e}
		if limit := s.messageLimit(); limit != 256<<10 {
			t.Errorf("%s: %d, want %d", e.Kind, limit, 256<<10)
		}
	}
}
