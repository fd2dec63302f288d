package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// A request to erase a body is told as a request; the body is erased once the log says that it is
// gone.
func TestAuditOfErasures(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	of := event.Envelope{Slice: event.Slice{Entity: 1}}
	m := &event.MessageEnqueued{Envelope: of, Sequence: 1, EnqueuedAt: 2000, Body: event.Blob{Data: []byte("private")}}
	dir.Append(w, 1000, &event.EntityCreated{Envelope: of, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0},
		Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}})
	dir.Append(w, 2000, m)
	dir.Append(w, 3000, &event.MessageReceivedAndDeleted{Envelope: of, Sequence: 1})
	want := []string{"created"}
	for _, c := range []struct {
		word string
		fact event.Event
	}{
		{"erase-requested", &event.BodyErased{Envelope: of, Sequence: 1, Position: m.Body.Position, Size: 7}},
		{"erased", &event.ErasureFinished{Envelope: of, Sequence: 1, Position: m.Body.Position}},
	} {
		dir.Append(w, 4000, c.fact)
		want = append(want, c.word)
		for name, question := range map[string]func(*Ledger) error{
			"audit": func(l *Ledger) error { return l.Audit(t.Context(), Range{Entity: "orders"}) },
			"events": func(l *Ledger) error {
				return l.Events(t.Context(), Range{Entity: "orders", Types: []string{"created", "erase-requested", "erased"}})
			},
		} {
			var lines []Line
			if err := question(New(dir, keep(&lines))); err != nil || !slices.Equal(column(lines, "Type"), want) {
				t.Errorf("%s: %v, %v, want %v", name, fmt.Sprint(lines), err, want)
			}
		}
	}
}
