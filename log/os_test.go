package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// TestReadWhileAppending reads bodies and frames and saves checkpoints from several goroutines
// while one appends: for the race detector. A body can be read as soon as its ticket is done.
func TestReadWhileAppending(t *testing.T) {
	t.Parallel()
	s := must(log.Open(ctx, t.TempDir(), log.Options{Partitions: 1, SegmentBytes: 10 << 10, ChapterBytes: 100 << 10}))(t)
	p := must(s.Open(ctx, 0))(t)
	w := must(p.Lead(ctx))(t)
	type stored struct {
		blob event.Blob
		n    int
	}
	ready := make(chan stored, 4096)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var buf []byte
			var err error
			for m := range ready {
				if buf, err = p.ReadBlob(m.blob, buf[:0]); err != nil {
					t.Error(err)
				} else if want := fmt.Appendf(nil, "message %d.", m.n); !bytes.HasPrefix(buf, want) {
					t.Errorf("%q, want %q", buf[:20], want)
				}
			}
		})
	}
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, at := p.Bounds()
			if err := p.SaveCheckpoint(at, func(w io.Writer) error { _, err := w.Write([]byte("state")); return err }); err != nil {
				t.Error(err)
			}
			for _, err := range p.Read(ctx, at/2) {
				if err != nil {
					t.Error(err)
				}
			}
			p.Segments()
		}
	})
	n := 0
	for range 300 {
		b := w.Batch()
		var batch []stored
		for range 1 + rand.IntN(4) {
			n++
			m := message(n, rand.IntN(3000))
			b.AppendRecord(event.Time(n), []event.Event{m}, log.Durability(rand.IntN(2)))
			batch = append(batch, stored{m.Body, n})
		}
		tk := w.Append(b)
		<-tk.Done()
		if tk.Err() != nil {
			t.Fatal(tk.Err())
		}
		for _, m := range batch {
			ready <- m
		}
	}
	close(ready)
	close(stop)
	wg.Wait()
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestTicketOrder appends without waiting: an Ordered ticket completes when its frame is written, a
// Durable one with a sync.
func TestTicketOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	done := func(i int) bool {
		select {
		case <-w.wait[i].Done():
			return true
		default:
			return false
		}
	}
	w.send(1, 10, log.Ordered)
	w.send(1, 10, log.Durable)
	w.send(1, 10, log.Ordered)
	empty := w.w.Append(w.w.Batch())
	for i, want := range [][3]bool{{true, false, false}, {true, false, false}, {true, false, true}, {true, false, true}, {true, true, true}} {
		if !w.w.Work() {
			t.Fatal("no work")
		}
		if got := [3]bool{done(0), done(1), done(2)}; got != want {
			t.Fatalf("step %d: %v, want %v", i, got, want)
		}
	}
	<-empty.Done()
	if w.w.Work() || empty.Err() != nil || empty.LSN() != empty.End() || w.w.Durable() != w.wait[2].End() {
		t.Fatal("work is left, or the empty batch took place")
	}
	if w.wait[0].End() != w.wait[1].LSN() {
		t.Fatal("LSNs have gaps")
	}
}

// TestTick: a Skip frame after a second without traffic, not a second one, and none while a batch
// has its place.
func TestTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 1)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	tick := func() log.Frame {
		w.w.Tick()
		if err := w.work(); err != nil {
			t.Fatal(err)
		}
		return w.lastFrame()
	}
	if f := tick(); f.Kind != log.EpochStart {
		t.Fatalf("%v, want %v", f.Kind, log.EpochStart)
	}
	w.send(1, 10, log.Ordered)
	w.w.Work()
	if w.w.Durable() == w.wait[0].End() {
		t.Fatal("synced too early")
	}
	if f := tick(); f.Kind != log.Events || w.w.Durable() != f.Next {
		t.Fatalf("%v: what nobody waits for is synced by the first tick", f.Kind)
	}
	at := w.w.Batch().LSN()
	if f := tick(); f.Kind != log.Events || at != f.Next {
		t.Fatalf("%v before a batch that has its place", f.Kind)
	}
	w.w.Append(w.w.Batch()) // gives it back
	if f := tick(); f.Kind != log.Skip || f.DurableUpTo != f.LSN {
		t.Fatalf("%v; want f.Kind == log.Skip && f.DurableUpTo == f.LSN", f.Kind)
	}
	end := w.w.Durable()
	tick()
	if w.w.Durable() != end {
		t.Fatal("second Skip frame")
	}
}

func TestReadInto(t *testing.T) {
	t.Parallel()
	for _, room := range []int{-1, 1024} {
		w := newWorld(t, fmt.Sprintf("room %d", room), 4)
		w.opts.RoomBytes = room
		if err := w.life(); err != nil {
			t.Fatal(err)
		}
		list := w.part.Segments()
		var all []byte
		for i, s := range list {
			p, err := w.fs.ReadFile(simDir + "/" + s.File)
			n := int(s.End - s.First)
			if err != nil || len(p) < n || len(p) > n && i < len(list)-1 {
				w.failf("%v: %d bytes, %v", s, len(p), err)
			}
			if hasRoom := len(p) > n; i == len(list)-1 && hasRoom != (room > 0) {
				w.failf("%d bytes of entries in a file of %d", n, len(p))
			}
			all = append(all, p[:n]...)
		}
		first, end := list[0].First, list[len(list)-1].End
		for range 2000 {
			seg := list[w.rng.IntN(len(list))]
			if seg.First == seg.End {
				continue
			}
			rest := all[seg.First-first:][:seg.End-seg.First][w.rng.IntN(int(seg.End-seg.First)):]
			at := seg.End - event.LSN(len(rest))
			blob := rest[:1+w.rng.IntN(len(rest))]
			b := event.Blob{Position: event.Position(at), Size: uint32(len(blob)), Sum: event.Sum(blob)}
			dst := make([]byte, w.rng.IntN(3000))
			n, err := w.part.ReadInto(b, dst)
			if err != nil || !bytes.Equal(dst[:n], rest[:min(len(dst), len(rest))]) {
				w.failf("wrong bytes at %d: %d of %d, %v", at, n, len(dst), err)
			}
			if p, err := w.part.ReadBlob(b, nil); err != nil || !bytes.Equal(p, blob) {
				w.failf("wrong blob at %d: %d of %d, %v", at, len(p), len(blob), err)
			}
			b.Sum++
			if _, err := w.part.ReadInto(b, dst); errors.Is(err, log.ErrChecksum) != (len(dst) >= len(blob)) {
				w.failf("wrong sum at %d: %v", at, err)
			}
		}
		for _, bad := range []event.Position{0, 7, event.Position(end), event.Position(end) + 1, 1 << 60} {
			if n, err := w.part.ReadInto(event.Blob{Position: bad, Size: 1}, make([]byte, 1)); n != 0 || err == nil {
				w.failf("at %d: %d %v", bad, n, err)
			}
		}
		if _, err := w.part.ReadBlob(event.Blob{Position: 100, Size: 1 << 31}, nil); err == nil {
			w.failf("blob longer than its segment")
		}
		if n, err := w.part.ReadInto(event.Blob{Position: 1 << 60}, make([]byte, 1)); n != 0 || err != nil {
			w.failf("blob without bytes: %d, %v", n, err)
		}
	}
}

// TestF5RotFoundByRead: bytes that changed while running are not handed out, and the error names
// the place.
func TestF5RotFoundByRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs := fill(t, dir, 1)
	s := must(log.Open(ctx, dir, log.Options{}))(t)
	defer s.Close()
	p := must(s.Open(ctx, 0))(t)
	b := blobs[100]
	seg := p.Segments()[0]
	f := must(os.OpenFile(filepath.Join(dir, seg.File), os.O_RDWR, 0))(t)
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, int64(b.Position)-int64(seg.First)+5); err != nil {
		t.Fatal(err)
	}
	got, err := p.ReadBlob(b, []byte("kept"))
	if !errors.Is(err, log.ErrChecksum) || !strings.Contains(err.Error(), fmt.Sprint(b.Position)) || string(got) != "kept" {
		t.Fatalf(`%+v; want errors.Is(err, log.ErrChecksum) && strings.Contains(err.Error(), fmt.Sprint(b.Position)) && string(got) == "kept"`, err)
	}
	if _, err := p.ReadBlob(blobs[99], nil); err != nil {
		t.Fatal(err)
	}
}

// TestHuge writes frames that are longer than every window, and the limit.
func TestHuge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := log.Options{Partitions: 1, MaxFrameBytes: 8 << 20}
	s := must(log.Open(ctx, dir, opts))(t)
	w := must(must(s.Open(ctx, 0))(t).Lead(ctx))(t)
	for n := range 3 {
		b := w.Batch()
		b.AppendRecord(event.Time(n), []event.Event{message(n+1, 5<<20)}, log.Durable)
		w.Append(b)
		b = w.Batch()
		for i := range 9000 { // records over the window
			b.AppendRecord(event.Time(n), []event.Event{&event.EntityDeleted{Reason: strings.Repeat("r", i%100)}}, log.Durable)
		}
		w.Append(b)
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = must(log.Open(ctx, dir, opts))(t)
	p := must(s.Open(ctx, 0))(t)
	count := 0
	for f, err := range p.Read(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		count += int(f.Count)
	}
	if count != 3*9001 {
		t.Fatalf("%d records", count)
	}
	w = must(p.Lead(ctx))(t)
	b := w.Batch()
	b.AppendRecord(9, []event.Event{message(1, 9<<20)}, log.Durable)
	tk := w.Append(b)
	<-tk.Done()
	<-w.Lost()
	if !errors.Is(tk.Err(), log.ErrPoisoned) {
		t.Fatalf("%+v; want errors.Is(tk.Err(), log.ErrPoisoned)", tk.Err())
	}
	if err := w.Close(); !errors.Is(err, log.ErrPoisoned) {
		t.Fatalf("%+v; want errors.Is(err, log.ErrPoisoned)", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnly writes nothing, follows no link, and sees an unclean directory as recovery would.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, dir, 1)
	os.Remove(filepath.Join(dir, "clean"))
	names := func() (list []string) {
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error { list = append(list, p); return err })
		return list
	}
	before := names()
	opts := log.Options{ReadOnly: true}
	s := must(log.Open(ctx, dir, opts))(t)
	p := must(s.Open(ctx, 0))(t)
	if _, err := p.Lead(ctx); !errors.Is(err, log.ErrReadOnly) {
		t.Fatalf("%+v; want errors.Is(err, log.ErrReadOnly)", err)
	}
	if err := p.SaveCheckpoint(8, nil); !errors.Is(err, log.ErrReadOnly) {
		t.Fatalf("%+v; want errors.Is(err, log.ErrReadOnly)", err)
	}
	must(log.Open(ctx, dir, opts))(t).Close() // several may look
	if _, err := log.Open(ctx, dir, log.Options{}); !errors.Is(err, log.ErrInUse) {
		t.Fatalf("%+v; want errors.Is(err, log.ErrInUse)", err)
	}
	s.Close()
	if after := names(); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Fatalf(`%+v %+v; want strings.Join(before, " ") == strings.Join(after, " ")`, before, after)
	}
	seg := filepath.Join(dir, p.Segments()[0].File)
	os.Rename(seg, seg+".real")
	os.Symlink(seg+".real", seg)
	s = must(log.Open(ctx, dir, opts))(t)
	defer s.Close()
	var c *log.CorruptError
	if _, err := s.Open(ctx, 0); !errors.As(err, &c) {
		t.Fatalf("%+v; want errors.As(err, &c)", err)
	}
	if _, err := log.Open(ctx, filepath.Join(dir, "nothing"), opts); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%+v; want errors.Is(err, os.ErrNotExist)", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, dir, 1)
	c, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := log.Open(c, dir, log.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v; want errors.Is(err, context.Canceled)", err)
	}
	must(log.Open(ctx, dir, log.Options{}))(t).Close()
}

// TestNewRunInOneProcess leads, closes and leads again: chapters follow each other, epochs grow.
func TestNewRunInOneProcess(t *testing.T) {
	t.Parallel()
	s := must(log.Open(ctx, t.TempDir(), log.Options{Partitions: 1}))(t)
	p := must(s.Open(ctx, 0))(t)
	for run := range 3 {
		w := must(p.Lead(ctx))(t)
		if w.Epoch() != log.Epoch(run+1) {
			t.Fatalf("epoch %d", w.Epoch())
		}
		if _, err := p.Lead(ctx); err == nil {
			t.Fatal("two writers")
		}
		b := w.Batch()
		b.AppendRecord(1, []event.Event{message(run+1, 10)}, log.Durable)
		w.Append(b)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		tk := w.Append(w.Batch())
		if <-tk.Done(); !errors.Is(tk.Err(), log.ErrClosed) {
			t.Fatalf("%+v; want errors.Is(tk.Err(), log.ErrClosed)", tk.Err())
		}
	}
	if got := replay(t, p, 0); len(got) != 3 {
		t.Fatalf("%+v; want len(got) == 3", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestF21Panic: a bug in the writer's goroutine, or while a log is read, is an error of its own
// kind, and does not end the process.
func TestF21Panic(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	opts := log.Options{FS: disk, Partitions: 2}
	breaks := func(op faultfs.Op) {
		disk.Hook(func(c faultfs.Call) faultfs.Fault {
			if c.Op == op && strings.Contains(c.Name, "/wal/") {
				panic("a bug")
			}
			return faultfs.Fault{}
		})
	}
	s := must(log.Open(ctx, simDir, opts))(t)
	w := must(must(s.Open(ctx, 0))(t).Lead(ctx))(t)
	breaks(faultfs.OpDatasync)
	b := w.Batch()
	b.AppendRecord(1, []event.Event{message(1, 100)}, log.Durable)
	ticket := w.Append(b)
	<-w.Lost()
	<-ticket.Done()
	for _, err := range []error{w.Err(), ticket.Err(), w.Close()} {
		if !errors.Is(err, log.ErrInternal) || !errors.Is(err, log.ErrPoisoned) {
			t.Errorf("%v; want errors.Is(err, log.ErrInternal) && errors.Is(err, log.ErrPoisoned)", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	breaks(faultfs.OpRead)
	if _, err := log.Open(ctx, simDir, opts); !errors.Is(err, log.ErrInternal) {
		t.Errorf("open: %v", err)
	}
}
