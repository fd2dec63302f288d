package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sealing returns a namespace with the queue "orders", on a log of small chapters; all closed
// chapters have been sealed.
func openSealing(t *testing.T, said *strings.Builder) (*broker, engine.Target) {
	t.Helper()
	b := openSmall(t, t.TempDir(), said)
	q := b.queue(t, "orders", testQueue())
	in := newInbox()
	for i := range 20 {
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: fmt.Append(nil, i), Body: make([]byte, 1000)}}}}})
		if r := in.wait(1)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	b.seal(t)
	return b, q
}

// openSmall returns a namespace on a log of small chapters, which are sealed on request.
func openSmall(t *testing.T, dir string, said *strings.Builder) *broker {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{Partitions: 2, ChapterBytes: 4096, SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{Logger: slog.New(slog.NewTextHandler(said, nil)), keepAllHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

// seal seals all closed chapters.
func (b *broker) seal(t *testing.T) {
	t.Helper()
	for _, id := range b.store.Partitions() {
		p, err := b.store.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// waiting returns the numbers of the messages of a queue whose bodies can be read.
func (b *broker) waiting(t *testing.T, q engine.Target) (numbers []event.SequenceNumber) {
	t.Helper()
	reply, err := b.ask(t.Context(), q.Host(0), &engine.Peek{Slice: q.Slice(0), From: 1, Count: 1000, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range reply.Messages() {
		if _, err := b.readBlob(q.Host(0), m.Body); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, m.Sequence)
	}
	return numbers
}

// TestHistoryIsGone: history that no policy keeps is removed from the log, before a base. Waiting
// messages are still there, and the broker continues; so does the broker started next, which begins
// with the base. When the queue is empty, numbers still continue (SM-367, SM-368).
func TestHistoryIsGone(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	dir := t.TempDir()
	b := openSmall(t, dir, &said)
	q := b.queue(t, "orders", testQueue())
	b.send(t, q, 300)
	b.complete(t, q, 295)
	b.close(t) // which leaves a checkpoint

	b = openSmall(t, dir, &said)
	q = b.queue(t, "orders", testQueue())
	b.seal(t)
	none := event.HistoryPolicy{Events: event.KeepNone, Bodies: event.KeepNone, Undo: event.KeepNone}
	if err := b.PutHistoryPolicy(t.Context(), engine.PutHistoryPolicy{Policy: none}); err != nil {
		t.Fatal(err)
	}
	waits := b.waiting(t, q)
	background.NewRetention(b.surroundings()).Look(t.Context())
	first, _ := (*b.slots[q.Host(0)].log.Load()).Bounds()
	if first < 10_000 || !strings.Contains(said.String(), "history deleted") {
		t.Errorf("the log begins at %d:\n%s", first, said.String())
	}
	for range 2 {
		if got := b.waiting(t, q); len(got) != 5 || !slices.Equal(got, waits) {
			t.Errorf("%v wait, not %v", got, waits)
		}
		b.close(t)
		b = openSmall(t, dir, &said)
		q = b.queue(t, "orders", testQueue())
		if now, _ := (*b.slots[q.Host(0)].log.Load()).Bounds(); now != first {
			t.Errorf("the log begins at %d, not %d", now, first)
		}
	}
	b.complete(t, q, 5)
	b.close(t)
	b = openSmall(t, dir, &said)
	q = b.queue(t, "orders", testQueue())
	b.send(t, q, 1)
	if got, want := b.waiting(t, q), []event.SequenceNumber{301}; !slices.Equal(got, want) {
		t.Errorf("the next message has the number %d, want %d", got, want)
	}
	b.close(t)
}

// TestHistoryIsCut: history that no policy keeps is deleted up to the chapter being written, but
// nothing is deleted until a policy has been set. An obstacle to a cut is logged once, and the cut
// is tried again.
func TestHistoryIsCut(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	b, q := openSealing(t, &said)
	defer b.close(t)
	k := background.NewRetention(b.surroundings())
	var asked []string
	var answer error
	k.Cut = func(_ context.Context, p log.Partition, upTo event.LSN, forced bool) (int64, error) {
		asked = append(asked, fmt.Sprintf("%d up to %d, forced %v", p.ID(), upTo, forced))
		return 0, answer
	}
	look := func(want ...string) {
		t.Helper()
		asked = nil
		k.Look(t.Context())
		if got := strings.Join(asked, "; "); got != strings.Join(want, "; ") {
			t.Errorf("asked %q, not %q", got, want)
		}
	}
	put := func(cmd engine.PutHistoryPolicy) {
		t.Helper()
		if err := b.PutHistoryPolicy(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	p := *b.slots[q.Host(0)].log.Load()
	files := 0
	for _, s := range p.Segments() {
		if strings.HasSuffix(s.File, ".lbs") {
			files++
		}
	}
	if files < 3 {
		t.Fatalf("%d sealed files", files)
	}
	none := event.HistoryPolicy{Events: event.KeepNone, Bodies: event.KeepNone, Undo: event.KeepNone}
	all := func() string {
		list := p.Segments()
		i := slices.IndexFunc(list, func(s log.SegmentInfo) bool { return s.Chapter == list[len(list)-1].Chapter })
		return fmt.Sprintf("%d up to %d, forced false", q.Host(0), list[i].First)
	}

	look()
	put(engine.PutHistoryPolicy{Policy: none})
	look(all())
	put(engine.PutHistoryPolicy{Pattern: "ord*", Policy: event.HistoryPolicy{Events: event.KeepFor(1 << 50)}})
	look()
	put(engine.PutHistoryPolicy{Pattern: "ord*", Remove: true})
	answer = fmt.Errorf("%w: a reader", log.ErrHeld)
	look(all())
	look(all())
	if n := strings.Count(said.String(), "history not deleted yet"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
	if n := strings.Count(said.String(), "history that no policy keeps"); n != 1 {
		t.Errorf("how much would go was said %d times", n)
	}
	put(engine.PutHistoryPolicy{Policy: event.HistoryPolicy{Events: event.KeepForever, Bodies: event.KeepForever}})
	look()
}
