package host

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestUnreadDeliveriesKeepBodies: a message that was received and deleted has no row any more, and its body is read when the peer has room for it. Whatever policies
// say, the body is there until then, with its file and alone; then it goes; it also goes when the receiver does.
func TestUnreadDeliveriesKeepBodies(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"read": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := log.Open(t.Context(), t.TempDir(), log.Options{Partitions: 1, SegmentBytes: 8 << 10, ChapterBytes: 16 << 10, SealAfter: -1})
			if err != nil {
				t.Fatal(err)
			}
			n, err := Open(t.Context(), store, Options{CheckpointBytes: 4 << 10, keepsAll: true})
			if err != nil {
				t.Fatal(err)
			}
			b := &broker{n, store}
			defer b.close(t)
			q, in := b.queue(t, "orders", testQueue()), newInbox()
			b.sendMany(t, q, 1000)
			b.complete(t, q, 1000)
			b.sendMany(t, q, 100)
			r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 7, Mode: engine.ReceiveAndDelete}
			b.Submit(0, []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 100}}})
			var bodies []event.Blob
			for _, d := range in.wait(100) {
				bodies = append(bodies, d.Delivery().Body)
			}
			b.retain(t, event.KeepNone, event.KeepNone, event.KeepNone)
			k := newRetention(hasty{served{b.Namespace}})
			look := func() (there int) {
				t.Helper()
				for range 3 { // a checkpoint behind all of it
					b.sendMany(t, q, 100)
					b.complete(t, q, 100)
				}
				b.seal(t)
				k.look(t.Context())
				for _, body := range bodies {
					if got, err := b.readBlob(0, body); err == nil && strings.HasPrefix(string(got), "000") {
						there++
					}
				}
				return there
			}
			if there := look(); there != 100 {
				t.Fatalf("%d of 100 bodies are there that are still to be read", there)
			}
			r.Read[0].Add(40)
			if there := look(); there < 60 {
				t.Errorf("%d of 60 bodies are there that are still to be read", there)
			}
			if detached {
				b.Submit(0, []engine.Request{{Command: &engine.Detach{Receiver: r}, Sink: in}})
				in.wait(1)
			} else {
				r.Read[0].Add(60)
			}
			if there := look(); there != 0 {
				t.Errorf("%d bodies are there that nobody reads any more", there)
			}
		})
	}
}
