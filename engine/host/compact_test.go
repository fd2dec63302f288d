package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// compact seals closed chapters of a log and drops the bodies that are not needed by a state which
// was taken some time before and is durable by now; then it takes another state.
func (f *fleet) compact(i int) error {
	for more := true; more; {
		var err error
		if more, err = f.parts[i].(log.Sealer).Seal(f.t.Context()); err != nil {
			return err
		}
	}
	if f.states[i] == nil {
		f.states[i], f.sealed[i] = &loop.Snapshot{}, nil
		for _, s := range f.parts[i].Segments() {
			if strings.HasSuffix(s.File, ".lbs") {
				f.sealed[i] = append(f.sealed[i], s.File)
			}
		}
		return f.states[i].Take(f.loops[i]).Err
	}
	_, committed := f.parts[i].Bounds()
	cmd := f.states[i]
	if !cmd.IsDurable(committed) {
		return nil
	}
	f.states[i] = nil
	defer cmd.Close()
	needed := map[event.Position]bool{}
	state, unread := cmd.State()
	for b := range state.Blobs() {
		needed[b.Position] = true
	}
	for _, b := range unread {
		needed[b.Position] = true
	}
	for _, name := range f.sealed[i] {
		_, err := f.parts[i].(log.Compactor).DropBodies(f.t.Context(), name, func(b *log.Body) bool { return needed[b.Position] }, 1)
		switch {
		case err == nil:
			f.freed++
		case errors.Is(err, faultfs.ErrCrashed), errors.Is(err, log.ErrPoisoned):
			return err
		case !errors.Is(err, log.ErrTooLittle):
			f.t.Errorf("log %d: %v", i, err)
		}
	}
	return nil
}

// C3: queues that forward, and forward their dead letters, and sends through other queues, over
// logs that die in the middle of a call and drop unneeded bodies all the time: every message that
// was accepted is in one place, whole.
func TestRandomMovesWithoutBodies(t *testing.T) {
	t.Parallel()
	freed := 0
	for seed := range uint64(120) {
		f := fleetAtRest(t, seed, 1+int(seed%3))
		f.lean = true
		f.must(f.start())
		randomMoves(t, f, seed)
		freed += f.freed
	}
	if freed < 100 {
		t.Errorf("%d files were written again", freed)
	}
}

// leanBroker returns a broker whose chapters are short and sealed at once.
func leanBroker(t *testing.T, dir string) *broker {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{Partitions: 1, SegmentBytes: 8 << 10, ChapterBytes: 16 << 10, SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{keepAllHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

// keepBodies keeps all bodies, including those that no state needs.
var keepBodies = background.KeepRules{File: func(s *log.Summary) int64 { return int64(s.BodyBytes) }, Body: func(*log.Body) bool { return true }}

// compact seals closed chapters and runs a round, and returns how much all sealed files take
// afterwards.
func (b *broker) compact(t *testing.T, keep background.KeepRules) (out background.CompactionResult, size int64) {
	t.Helper()
	p := b.slots[0].running.Load().log
	for more := true; more; {
		var err error
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	out, err := hasty(b).DropBodies(t.Context(), 0, keep)
	if err != nil {
		t.Fatal(err)
	}
	for s, err := range p.Summaries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Sealed {
			size += s.Stored
		}
	}
	return out, size
}

// sendMany sends some messages of 300 random bytes, in frames of 10.
func (b *broker) sendMany(t *testing.T, q engine.Target, n int) {
	t.Helper()
	rng, in := rand.New(rand.NewPCG(1, 50)), newInbox()
	for i := range n {
		body := make([]byte, 300)
		for j := range body {
			body[j] = byte(rng.Uint32())
		}
		copy(body, fmt.Sprintf("%06d", i))
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: body[:6], Body: body}}}}})
		if i%10 == 9 {
			for _, r := range in.wait(10) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
	}
}

// complete receives some messages, completes them, and waits until that is durable.
func (b *broker) complete(t *testing.T, q engine.Target, n int) {
	t.Helper()
	in := newInbox()
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 77}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: uint32(n)}}})
	for _, d := range in.wait(n) {
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: d.Delivery().Token, Outcome: engine.Complete}}})
	}
	for _, d := range in.wait(n) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Detach{Receiver: r}}})
	in.wait(1)
}

// whole reads every body that the state points to and returns how many there are.
func (b *broker) whole(t *testing.T) (n int) {
	t.Helper()
	err := b.surroundings().State(t.Context(), 0, func(s *index.Snapshot, _ []event.Blob) error {
		for blob := range s.Blobs() {
			n++
			if _, err := b.slots[0].running.Load().log.ReadBlob(blob, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The bodies of settled messages are deleted; those of waiting ones stay, and so does everything
// that history asks for. When an entity is deleted all its bodies are deleted.
func TestCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := leanBroker(t, dir)
	q := b.queue(t, "orders", testQueue())
	b.sendMany(t, q, 400)
	b.complete(t, q, 360)
	b.sendMany(t, q, 50) // so that the tested messages are in closed chapters
	out, before := b.compact(t, keepBodies)
	if out.Freed != 0 || out.Files != 0 || out.Kept < 100_000 {
		t.Errorf("all is to be kept: %+v", out)
	}
	early := background.KeepRules{Body: func(b *log.Body) bool {
		m, ok := b.Event.(*event.MessageEnqueued)
		return ok && m.Sequence <= 100
	}}
	out, some := b.compact(t, early)
	if out.Files == 0 || out.Freed != before-some || some > before*2/3 {
		t.Errorf("a part is to be kept: %+v, %d bytes of %d", out, some, before)
	}
	out, size := b.compact(t, background.KeepRules{})
	if out.Files == 0 || out.Held != nil || out.Freed != some-size || size > before/2 || out.Needed < 12_000 {
		t.Errorf("nothing is to be kept: %+v, %d bytes of %d", out, size, before)
	}
	if again, _ := b.compact(t, background.KeepRules{}); again.Files != 0 {
		t.Errorf("nothing has changed, and files are written again: %+v", again)
	}
	if n := b.whole(t); n != 90 {
		t.Errorf("%d messages wait", n)
	}
	b.close(t)
	b = leanBroker(t, dir)
	defer b.close(t)
	if n := b.whole(t); n != 90 {
		t.Errorf("%d messages wait after a restart", n)
	}
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "orders"}); err != nil {
		t.Fatal(err)
	}
	if out, left := b.compact(t, background.KeepRules{}); out.Files == 0 || left >= size || b.whole(t) != 0 {
		t.Errorf("the queue is gone: %+v, %d bytes of %d are left", out, left, size)
	}
}
