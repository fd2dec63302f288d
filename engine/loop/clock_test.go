package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-373, R4: even if the loop's clock went back, the times of records would not.
func TestTimeOfRecordsStandsStill(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.now = h.now.Add(time.Hour)
	h.fill(1, 0)
	newest := h.now
	h.now = h.now.Add(-time.Hour)
	h.fill(1, 0)
	for _, n := range []event.SequenceNumber{1, 2} {
		if m, ok := h.loop.part.Index().Message(handEntity, n); !ok || m.EnqueuedAt != newest {
			t.Errorf("message %d is of %v, not of %v", n, m.EnqueuedAt, newest)
		}
	}
}
