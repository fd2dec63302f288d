package host

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Decision 43: a ForwardTo that an older version only stored takes effect at the first start of a
// version that moves messages, which says so, once.
func TestForwardOfOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := moving(t, dir, 1)
	b.queue(t, "to", testQueue())
	from := b.queue(t, "from", testQueue())
	b.send(t, from, 3)
	b.queue(t, "from", testQueue()) // nothing changes
	b.close(t)
	asOlder(t, dir)
	starts := func(want int) {
		t.Helper()
		var told bytes.Buffer
		store, err := log.Open(context.Background(), dir, log.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(context.Background(), store, Options{Reread: rereads, Logger: slog.New(slog.NewTextHandler(&told, nil))})
		if err != nil {
			t.Fatal(err)
		}
		b := &broker{n, store}
		defer b.close(t)
		if got := strings.Count(told.String(), "entity=from forward_to=to"); got != want {
			t.Errorf("told %d times, not %d:\n%s", got, want, &told)
		}
	}
	starts(0)
	func() { // an older version accepts the property
		b := moving(t, dir, 1)
		defer b.close(t)
		b.queue(t, "from", forwardTo("to"))
	}()
	asOlder(t, dir)
	starts(1)
	starts(0)
	b = moving(t, dir, 1)
	defer b.close(t)
	to, err := b.Resolve("to")
	if err != nil {
		t.Fatal(err)
	}
	_, got := b.receiver(to, 1, 3)
	for i, r := range got.wait(3) {
		if d := r.Delivery(); d.EnqueuedSequence != event.SequenceNumber(i+1) {
			t.Errorf("message %d: %+v", i, d)
		}
	}
}

// asOlder makes a data directory say that no version that moves messages has opened it yet.
func asOlder(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, format.NamespaceName)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := format.DecodeNamespace(b, format.Capabilities)
	if err != nil {
		t.Fatal(err)
	}
	n.Capabilities = slices.DeleteFunc(n.Capabilities, func(word string) bool { return word == log.Moves })
	if err := os.WriteFile(file, format.EncodeNamespace(n), 0o600); err != nil {
		t.Fatal(err)
	}
}
