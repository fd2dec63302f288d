package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// sealedLog is a stopped log with some sealed files, and their names.
func sealedLog(t *testing.T, seed uint64) (*world, []string) {
	t.Helper()
	w := sealing(t, t.Name(), seed)
	w.opts.ChapterBytes = 4_000
	if err := w.script(); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range w.fs.Files(simDir) {
		if strings.HasSuffix(name, ".lbs") {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		t.Fatalf("sealed files are %q", names)
	}
	return w, names
}

// wantSealed reads a stopped log as tools do, whole: everything except the newest chapter is
// sealed, and no removed file is left.
func (w *world) wantSealed() {
	w.t.Helper()
	o := w.opts
	o.ReadOnly, o.Thorough = true, true
	s, err := log.Open(ctx, simDir, o)
	if err != nil {
		w.failf("a thorough look: %v", err)
	}
	p, err := s.Open(ctx, 0)
	if err != nil {
		w.failf("a thorough look: %v", err)
	}
	chapters, listed := map[uint32]bool{}, map[string]bool{}
	newest := uint32(0)
	for _, s := range p.Segments() {
		listed[filepath.Join(simDir, s.File)] = true
		if !strings.HasSuffix(s.File, ".lbs") {
			chapters[s.Chapter] = true
		}
		newest = max(newest, s.Chapter)
	}
	wal, err := w.fs.ReadDir(filepath.Join(simDir, "partitions/00/wal"))
	if err != nil || len(wal) != 1 || len(chapters) != 1 || !chapters[newest] || newest == 1 {
		w.failf("%d directories of chapters, %v; %v are not sealed: %v", len(wal), err, chapters, p.Segments())
	}
	for _, dir := range []string{"wal", "sealed"} {
		for _, name := range w.fs.Files(filepath.Join(simDir, "partitions/00", dir)) {
			if !listed[name] {
				w.failf("%s is left", name)
			}
		}
	}
	if err := s.Close(); err != nil {
		w.failf("a thorough look: %v", err)
	}
}

// seal seals the closed chapters, and then reads the log. An error that ends sealing ends nothing
// else.
func (w *world) seal() error {
	if w.opts.SealAfter == 0 {
		return nil
	}
	for {
		more, err := w.part.(log.Sealer).Seal(ctx)
		if errors.Is(err, faultfs.ErrCrashed) || errors.Is(err, log.ErrPoisoned) {
			return err
		}
		if !more {
			if err := w.drop(); err != nil {
				return err
			}
			n, err := w.read()
			if errors.Is(err, log.ErrChecksum) || err == nil && n < w.acked {
				w.failf("%d messages can be read, %d were acknowledged: %v", n, w.acked, err)
			}
			return err
		}
	}
}

// sealing is a world in which chapters are sealed as soon as they are closed.
func sealing(t testing.TB, name string, seed uint64) *world {
	w := newWorld(t, name, seed)
	w.opts.SealAfter = -1
	return w
}

// Whatever is wrong in a sealed file, a thorough start and a survey name the file. A start refuses
// wrong ends. No read ever returns other bytes than were written.
func TestSealedDamage(t *testing.T) {
	t.Parallel()
	w, names := sealedLog(t, 3)
	rng := rand.New(rand.NewPCG(1, 46))
	refused := 0
	for i := range 150 {
		name := names[rng.IntN(len(names))]
		whole, err := w.fs.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimPrefix(name, simDir+"/")
		p := bytes.Clone(whole)
		how := ""
		switch at := rng.IntN(len(p)); i % 10 {
		case 0:
			how, p = fmt.Sprintf("cut at %d", at), p[:at]
		case 1:
			how, p = "a byte more", append(p, 0)
		case 2, 3, 4: // in the part that a start reads
			if at %= 704; at >= 64 {
				at += len(p) - 704
			}
			fallthrough
		default:
			how = fmt.Sprintf("flip at %d of %d", at, len(p))
			p[at] ^= byte(1 + rng.IntN(255))
		}
		if err := w.fs.WriteFile(name, p); err != nil {
			t.Fatal(err)
		}
		var c *log.CorruptError
		o := w.opts
		o.ReadOnly = true
		err = openOne(t, w, o)
		if errors.As(err, &c) {
			refused++
			if c.File != file {
				t.Errorf("%s of %s: a start names %s", how, file, c.File)
			}
		} else if err != nil {
			t.Errorf("%s of %s: %v", how, file, err)
		}
		if i%10 < 5 && err == nil {
			t.Errorf("%s of %s: a start believes it", how, file)
		}
		o.Thorough = true
		if err := openOne(t, w, o); !errors.As(err, &c) || c.File != file {
			t.Errorf("%s of %s: a thorough look says %v", how, file, err)
		}
		places := survey(t, w)
		if len(places) == 0 {
			t.Errorf("%s of %s: a survey finds nothing", how, file)
		}
		for _, c := range places {
			if c.File != file && c.LSN == 0 {
				t.Errorf("%s of %s: a survey names %v", how, file, c)
			}
		}
		if err := w.fs.WriteFile(name, whole); err != nil {
			t.Fatal(err)
		}
	}
	if refused < 50 || refused > 140 {
		t.Errorf("%d of 150 were refused", refused)
	}
	if places := survey(t, w); len(places) > 0 {
		t.Errorf("a survey of a good log: %v", places)
	}
}

// openOne opens partition 0 and reads all of it. Unreadable data is not an error; readable data
// must be right.
func openOne(t *testing.T, w *world, o log.Options) error {
	t.Helper()
	o.FS, o.BootID = w.fs, "another"
	s, err := log.Open(t.Context(), simDir, o)
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		return err
	}
	was := w.part
	w.part = p
	defer func() { w.part = was }()
	var c *log.CorruptError
	if _, err := w.read(); err != nil && !errors.As(err, &c) && !errors.Is(err, log.ErrChecksum) && !strings.Contains(err.Error(), "damaged") {
		t.Errorf("reading: %v", err)
	}
	return nil
}

func survey(t *testing.T, w *world) (places []*log.CorruptError) {
	t.Helper()
	s, err := log.OpenSurvey(simDir, log.Options{FS: w.fs})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Partition(t.Context(), 0, func(c *log.CorruptError) error { places = append(places, c); return nil }); err != nil {
		t.Fatal(err)
	}
	return places
}

// Sealed files that are missing, are those of another chapter, or that nothing names are refused by
// name.
func TestSealedFilesThatDoNotBelong(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(fs *faultfs.FS, names []string) error{
		"is missing":                      func(fs *faultfs.FS, names []string) error { return fs.RemoveAll(names[1]) },
		"place differs from the manifest": func(fs *faultfs.FS, names []string) error { return fs.Swap(names[0], names[1]) },
		"does not belong to this log":     func(fs *faultfs.FS, names []string) error { return fs.WriteFile(filepath.Dir(names[0])+"/x", nil) },
		"sealed/0000000099-0001.lbs at byte 0": func(fs *faultfs.FS, names []string) error {
			return fs.WriteFile(filepath.Dir(names[0])+"/0000000099-0001.lbs", nil)
		},
		"wal/0000000001/x at byte 0 (LSN 0): do": func(fs *faultfs.FS, names []string) error { return remains(fs, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, names := sealedLog(t, 4)
			if err := harm(w.fs, names); err != nil {
				t.Fatal(err)
			}
			o := w.opts
			o.ReadOnly = true
			if err := openOne(t, w, o); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
			if places := survey(t, w); len(places) == 0 {
				t.Error("a survey finds nothing")
			}
		})
	}
	w, names := sealedLog(t, 5)
	err := errors.Join(remains(w.fs, "00000000000000000001"), w.fs.WriteFile(filepath.Dir(names[0])+"/0000000001-0002.lbs", []byte("half")), w.fs.WriteFile(filepath.Dir(names[0])+"/0000000009-0001.lbs.tmp", nil))
	if err != nil {
		t.Fatal(err)
	}
	if places := survey(t, w); len(places) > 0 {
		t.Errorf("what sealing leaves behind is no damage: %v", places)
	}
	w.after()
}

// remains makes a directory of the first chapter again, with a file in it.
func remains(fs *faultfs.FS, file string) error {
	dir := simDir + "/partitions/00/wal/0000000001"
	return errors.Join(fs.Mkdir(dir), fs.WriteFile(dir+"/"+file, []byte("old")))
}

// Readers of frames and of bodies continue while chapters are sealed, by the goroutine of a store
// on a real disk; so do readers beside it.
func TestReadWhileSealing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := log.Open(t.Context(), dir, log.Options{Partitions: 1, SegmentBytes: 4000, ChapterBytes: 16_000, OpenFiles: 4, SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var written bodies
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, read := range []func(*rand.Rand) error{
		func(rng *rand.Rand) error { return written.check(p, rng.IntN(1+written.len())) },
		func(rng *rand.Rand) error {
			_, end := p.Bounds()
			return readFrames(t.Context(), p, event.LSN(rng.Uint64N(uint64(end))))
		},
		func(*rand.Rand) error { return readBeside(t, dir) },
	} {
		wg.Go(func() {
			for rng := rand.New(rand.NewPCG(1, 1)); t.Context().Err() == nil; {
				select {
				case <-stop:
					return
				default:
				}
				if err := read(rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 600 {
		if err := written.write(w); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; { // in parallel with the goroutine that does it
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if list := p.Segments(); len(list) < 10 || !strings.HasSuffix(lastBut(list).File, ".lbs") {
		t.Errorf("segments are %v", list)
	}
	for n := range written.len() {
		if err := written.check(p, n); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// bodies are the bodies of messages that were written.
type bodies struct {
	mu   sync.Mutex // guards the fields below
	list []event.Blob
}

func (b *bodies) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)
}

func bodyOf(n int) []byte { return bytes.Repeat([]byte(fmt.Sprint(n, ".")), 60) }

// write writes one more message.
func (b *bodies) write(w log.Writer) error {
	n := b.len()
	m := &event.MessageEnqueued{Sequence: event.SequenceNumber(n + 1), Body: event.Blob{Data: bodyOf(n)}}
	w.Batch().AppendRecord(event.Time(n), []event.Event{m}, log.Durable)
	ticket := w.Append(w.Batch())
	<-ticket.Done()
	m.Body.Data = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, m.Body)
	return ticket.Err()
}

// check reads a body, if it is there.
func (b *bodies) check(p log.Reader, n int) error {
	if n >= b.len() {
		return nil
	}
	b.mu.Lock()
	blob := b.list[n]
	b.mu.Unlock()
	if got, err := p.ReadBlob(blob, nil); err != nil || !bytes.Equal(got, bodyOf(n)) {
		return fmt.Errorf("body %d: %.20q, %v", n, got, err)
	}
	return nil
}

// readFrames reads frames from an address on, and checks that none is missing or there twice.
func readFrames(ctx context.Context, p log.Reader, from event.LSN) error {
	at := event.LSN(0)
	for f, err := range p.Read(ctx, from) {
		if err != nil || f.LSN < from || at != 0 && f.LSN != at {
			return fmt.Errorf("frame at %d behind %d, read from %d on: %w", f.LSN, at, from, err)
		}
		at = f.Next
	}
	return nil
}

// readBeside reads all frames of a log that another store writes.
func readBeside(t *testing.T, dir string) error {
	s, err := log.Open(t.Context(), dir, log.Options{Shared: true})
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		return err
	}
	return readFrames(t.Context(), p, 0)
}

// lastBut is the last segment that is not of the newest chapter.
func lastBut(list []log.SegmentInfo) log.SegmentInfo {
	newest := list[len(list)-1].Chapter
	for i := len(list) - 1; i > 0; i-- {
		if list[i].Chapter != newest {
			return list[i]
		}
	}
	return list[0]
}

// A chapter is sealed when it has been closed for as long as it is told to wait, oldest first, and
// never the last one.
func TestSealAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 6)
	now := time.Unix(1e9, 0)
	w.opts.Now = func() time.Time { return now }
	w.opts.SealAfter = 10 * time.Minute
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		for _, s := range w.part.Segments() {
			if strings.HasSuffix(s.File, ".lbs") {
				n++
			}
		}
		return n
	}
	now = now.Add(10*time.Minute - time.Millisecond)
	if err := w.seal(); err != nil || count() != 0 {
		t.Errorf("%d chapters are sealed too early, %v", count(), err)
	}
	now = now.Add(time.Millisecond)
	if err := w.seal(); err != nil || count() == 0 {
		t.Errorf("%d chapters are sealed when it is time, %v", count(), err)
	}
	last := w.part.Segments()
	if s := last[len(last)-1]; strings.HasSuffix(s.File, ".lbs") {
		t.Errorf("the last chapter is sealed: %v", s)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.wantCapabilities([]string{"sealed"}, nil)
}

// A chapter that differs from the bytes written stays as it is, with everything after it, and the
// log continues.
func TestDamagedChapterIsNotSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 7)
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(simDir, w.part.Segments()[0].File)
	if err := w.fs.Flip(name, 130, 4); err != nil {
		t.Fatal(err)
	}
	before := w.fs.Files(simDir + "/partitions/00/wal")
	w.opts.SealAfter = -1
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.fs.Flip(name, 130, 4); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.open(), w.lead(), w.fs.Flip(name, 130, 4)); err != nil {
		t.Fatal(err)
	}
	var c *log.CorruptError
	for range 2 {
		more, err := w.part.(log.Sealer).Seal(t.Context())
		if more || !errors.As(err, &c) || filepath.Join(simDir, c.File) != name {
			t.Errorf("sealed: %v, %v", more, err)
		}
	}
	for _, f := range before {
		if _, err := w.fs.ReadFile(f); err != nil {
			t.Error(err)
		}
	}
	w.send(1, 10, log.Durable)
	if err := w.work(); err != nil {
		t.Errorf("the log does not go on: %v", err)
	}
}
