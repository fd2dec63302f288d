package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// backUp makes a copy of a running broker, as a client would.
func (b *broker) backUp(t testing.TB) (dir string, id event.BackupID) {
	t.Helper()
	copied, err := b.Backup(t.Context(), &engine.Origin{Principal: "ops"}, event.ReasonGiven{Reason: "every night"})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	dir = filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	last := ""
	err = copied.Files(t.Context(), func(name string, size int64, contents io.Reader) error {
		if !log.MayBeCopied(name, contents == nil) {
			t.Errorf("%q is no name of a copy", name)
		}
		last = name
		path := filepath.Join(dir, filepath.FromSlash(name))
		if contents == nil {
			return os.Mkdir(path, 0o700)
		}
		p, err := io.ReadAll(contents)
		if err == nil && int64(len(p)) != size {
			err = fmt.Errorf("%s has %d bytes, not %d", name, len(p), size)
		}
		return errors.Join(err, os.WriteFile(path, p, 0o600))
	})
	if err != nil || last != "namespace.json" {
		t.Fatalf(`%+v %+v; want last == "namespace.json"`, err, last)
	}
	return dir, copied.ID()
}

// marks checks that each log of a copy ends with the mark of a backup, and returns how many
// messages were sent to each queue; messages moved there do not count.
func marks(t testing.TB, dir string, id event.BackupID) map[event.EntityID]int {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sent := map[event.EntityID]int{}
	for _, i := range store.Partitions() {
		p, err := store.Open(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Recovery().Clean {
			t.Errorf("log %d of the copy does not end in order", i)
		}
		var last *event.BackupMarked
		reasons := 0
		for rec, err := range replay.Records(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = nil
			for _, ev := range rec.Events {
				switch ev := ev.(type) {
				case *event.BackupMarked:
					last = &event.BackupMarked{ID: ev.ID, Logs: ev.Logs}
				case *event.ReasonGiven:
					reasons++
				case *event.MessageEnqueued:
					if ev.Arrival == nil {
						sent[ev.Slice.Entity]++
					}
				}
			}
		}
		if last == nil || last.ID != id || last.Logs != uint32(len(store.Partitions())) {
			t.Errorf("log %d ends with %+v, not with the mark %v", i, last, id)
		}
		if (i == 0) != (reasons > 0) {
			t.Errorf("log %d has %d reasons", i, reasons)
		}
	}
	return sent
}

// sendOne sends a message and waits for the answer.
func (b *broker) sendOne(q engine.Target, n int) error {
	in := newInbox()
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0),
		Messages: []engine.Message{{ID: fmt.Appendf(nil, "%016d", n), Body: fmt.Appendf(nil, "%016d", n)}}}}})
	return in.wait(1)[0].Err
}

// all receives n messages of a queue, sent or moved there, and counts them by body.
func (b *broker) all(t testing.TB, q engine.Target, n int) map[string]int {
	t.Helper()
	_, in := b.receiver(q, 1, uint32(n+10))
	ids := map[string]int{}
	for range n {
		d := in.wait(1)[0].Delivery()
		p, err := b.readBlob(q.Host(0), d.Body)
		if err != nil {
			t.Fatal(err)
		}
		ids[string(p)]++
	}
	return ids
}

func (b *broker) readBlob(p engine.PartitionID, blob event.Blob) ([]byte, error) {
	dst := make([]byte, blob.Size)
	_, err := b.ReadInto(p, blob, dst)
	return dst, err
}

// TestBackupFits: copies of a running broker under load are consistent. If a copy has what a client
// did, it also has what the client had seen before that, in whichever logs. Messages that move
// between logs are in it once: nothing is lost and nothing doubled, in a copy or in a copy of the
// copy.
func TestBackupFits(t *testing.T) {
	t.Parallel()
	b := moving(t, t.TempDir(), 2)
	defer b.close(t)
	first, second := b.queue(t, "first", testQueue()), b.queue(t, "second", testQueue())
	to := b.queue(t, "to", testQueue())
	from := b.queue(t, "from", forwardTo("to"))
	if first.Host(0) == second.Host(0) || from.Host(0) == to.Host(0) {
		t.Fatal("not where they should be")
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var accepted atomic.Int64
	load.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := errors.Join(b.sendOne(first, n), b.sendOne(second, n)); err != nil {
				t.Error(err)
			}
		}
	})
	load.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := b.sendOne(from, n); err != nil {
				t.Error(err)
			}
			accepted.Add(1)
		}
	})
	for range 4 {
		before := accepted.Load()
		dir, id := b.backUp(t)
		sent := marks(t, dir, id)
		if n, m := sent[first.Entity.ID], sent[second.Entity.ID]; n-m != 0 && n-m != 1 {
			t.Errorf("the copy has %d of the first and %d of the second, which were sent in turns", n, m)
		}
		moved := sent[from.Entity.ID]
		if int64(moved) < before {
			t.Errorf("%d messages had been accepted, the copy has %d", before, moved)
		}
		for range 2 { // a copy, and a copy of it
			c := moving(t, dir, 0)
			for i, r := range c.Recovered() {
				if r.Err != nil {
					t.Fatalf("partition %d: %v", i, r.Err)
				}
			}
			dir, _ = c.backUp(t)
			if target, err := c.Resolve("to"); err != nil {
				t.Error(err)
			} else if ids := c.all(t, target, moved); len(ids) != moved {
				t.Errorf("%d messages were sent, and there are %d different ones among %d", moved, len(ids), moved)
			}
			c.close(t)
		}
	}
	stop()
	load.Wait()
}

// slowSink holds up the loop that posts to it.
type slowSink struct{ entered, leave chan struct{} }

func (s *slowSink) Post([]engine.Reply) {
	s.entered <- struct{}{}
	<-s.leave
}

// TestBackupWaits: no loop continues from its mark before all have written theirs. Here one loop is
// held up; a client sees its message stored in the log of the other, and only then sends to the
// late one: the copy has the second message only with the first (planted bug D2).
func TestBackupWaits(t *testing.T) {
	t.Parallel()
	b := moving(t, t.TempDir(), 2)
	defer b.close(t)
	late, early := b.queue(t, "late", testQueue()), b.queue(t, "early", testQueue())
	if late.Host(0) == early.Host(0) {
		t.Fatal("not where they should be")
	}
	if _, err := b.Backup(t.Context(), nil, event.ReasonGiven{Reason: "a\nb"}); err == nil {
		t.Error("a reason of two lines is taken")
	}
	for round := range 8 {
		slow := &slowSink{make(chan struct{}), make(chan struct{})}
		b.Submit(late.Host(0), []engine.Request{{Command: loop.Ping(), Sink: slow}})
		<-slow.entered
		writer := b.slots[early.Host(0)].running.Load().writer
		before := writer.Written()
		type made struct {
			dir string
			id  event.BackupID
		}
		done := make(chan made, 1)
		go func() {
			dir, id := b.backUp(t)
			done <- made{dir, id}
		}()
		for writer.Written() == before { // its mark
			runtime.Gosched()
		}
		if err := b.sendOne(early, round); err != nil {
			t.Fatal(err)
		}
		in := newInbox()
		b.Submit(late.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: late.Entity, Slice: late.Slice(0), Messages: []engine.Message{{Body: []byte("x")}}}}})
		close(slow.leave)
		c := <-done
		if in.wait(1)[0].Err != nil {
			t.Fatal("not sent")
		}
		sent := marks(t, c.dir, c.id)
		if sent[late.Entity.ID] > sent[early.Entity.ID] {
			t.Fatalf("round %d: the copy has what was sent after it had been answered that %d are stored, and only %d of these", round, round+1, sent[early.Entity.ID])
		}
	}
}

// A backup that cannot be made is refused with the reason: while another one is made, if a
// partition does not serve, or if the log is of another kind. Nothing is left.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	b := moving(t, t.TempDir(), 2)
	defer b.close(t)
	first, err := b.Backup(t.Context(), nil, event.ReasonGiven{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		_, err := b.Backup(t.Context(), nil, event.ReasonGiven{})
		var refusal *engine.Error
		if !errors.As(err, &refusal) || refusal.Code != engine.Busy || !strings.Contains(refusal.Text, want) {
			t.Errorf("%v; want errors.As(err, &refusal) && refusal.Code == engine.Busy && strings.Contains(refusal.Text, want)", err)
		}
	}
	says("Another backup is being made.")
	broken := errors.New("the client has gone")
	if err := first.Files(t.Context(), func(string, int64, io.Reader) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%+v; want errors.Is(err, broken)", err)
	}
	first.Close()
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := b.Backup(ended, nil, event.ReasonGiven{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v; want errors.Is(err, context.Canceled)", err)
	}
	if err := b.FencePartition(t.Context(), 1, &engine.Origin{}, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	says("Partition 1 does not serve")
	if _, err := b.RestartPartition(t.Context(), 1, &engine.Origin{}, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	dir, id := b.backUp(t)
	marks(t, dir, id)
	if p, err := os.ReadFile(filepath.Join(dir, "namespace.json")); err != nil || !bytes.Contains(p, []byte(`"backups"`)) {
		t.Errorf("%s %v", p, err)
	}
}

// A backup has a body that is no longer needed, even if history drops it while the backup is made
// and the chapter of the mark is closed, sealed and rewritten without it.
func TestBackupWhileBodiesGo(t *testing.T) {
	t.Parallel()
	b := leanBroker(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	b.sendMany(t, q, 20)
	copied, err := b.Backup(t.Context(), nil, event.ReasonGiven{})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	b.sendMany(t, q, 180)
	b.complete(t, q, 200)
	// so that the chapter with the mark, and the ends of its messages, is closed
	b.sendMany(t, q, 60)
	b.compactAsFarAsPossible(t)
	files := 0
	err = copied.Files(t.Context(), func(_ string, _ int64, contents io.Reader) error {
		if contents == nil {
			return nil
		}
		files++
		_, err := io.Copy(io.Discard, contents)
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files: %v", files, err)
	}
	copied.Close()
	if out, _ := b.compact(t, background.KeepRules{}); out.Files == 0 {
		t.Errorf("the backup is made, and no bodies go: %+v", out)
	}
}

// compactAsFarAsPossible seals and drops everything that may be sealed and dropped while a backup
// is made.
func (b *broker) compactAsFarAsPossible(t *testing.T) {
	t.Helper()
	p := b.slots[0].running.Load().log
	for more := true; more; {
		more, _ = p.(log.Sealer).Seal(t.Context())
	}
	if _, err := hasty(b).DropBodies(t.Context(), 0, background.KeepRules{}); err != nil {
		t.Fatal(err)
	}
}
