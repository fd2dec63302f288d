package replay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

const cutDir = "/data"

// cutting is a log on a simulated disk whose history is cut again and again, and every state that
// it went through.
type cutting struct {
	t    testing.TB
	name string
	fs   *faultfs.FS
	opts log.Options
	boot int
	rng  *rand.Rand

	x      *index.Index
	now    event.Time
	live   []event.SequenceNumber
	states []hash // after each record
	acked  int    // records that last
	bodies map[event.Position]string
	freed  int64
	raw    bool // chapters are mostly not sealed when history is cut
	few    bool // chapters are long, and few messages stay in each
	alone  int  // number of files of bodies seen after cuts
	// number of files kept for their bodies, some of which were dropped
	dropped int
	rounds  int

	store log.Store
	part  log.Partition
	w     log.ManualWriter
}

func newCutting(t testing.TB, name string, seed uint64) *cutting {
	return &cutting{
		t: t, name: name, fs: faultfs.New(), rng: rand.New(rand.NewPCG(seed, 48)), x: index.New(), now: 1000, bodies: map[event.Position]string{},
		states: []hash{sha256.Sum256(index.New().Encode(nil))},
		opts: log.Options{
			Partitions: 1, SegmentBytes: 1500, RoomBytes: 512, ChapterBytes: 3000, Manual: true, SealAfter: -1,
			NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Now: func() time.Time { return time.Unix(1e9, 0) },
		},
	}
}

func (c *cutting) failf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s: %s", c.name, fmt.Sprintf(format, args...))
}

// open opens the log, and checks its contents.
func (c *cutting) open() (err error) {
	c.opts.FS, c.opts.BootID = c.fs, fmt.Sprint("boot-", c.boot)
	if c.store, err = log.Open(c.t.Context(), cutDir, c.opts); err != nil {
		return err
	}
	if c.part, err = c.store.Open(c.t.Context(), 0); err != nil {
		return err
	}
	return c.check()
}

// check compares the states that the log yields, from its newest checkpoint and from its beginning,
// with the recorded ones. It continues from there.
func (c *cutting) check() error {
	var n int
	for i, s := range []*replay.State{replay.Newest(c.part, 0, nil), replay.Begin(c.part)} {
		if err := s.Run(c.t.Context(), replay.Watch{}); err != nil {
			return err
		}
		at := slices.Index(c.states, s.Hash())
		if at < c.acked || i > 0 && at != n {
			c.failf("state %d of %d, %d last; from %d on", at, len(c.states)-1, c.acked, s.From)
		}
		n, c.x = at, s.Index
	}
	c.states, c.live = c.states[:n+1], nil
	for seq := event.SequenceNumber(1); seq < c.x.NextSequence(plainSlice); seq++ {
		m, ok := c.x.Message(plainSlice, seq)
		if !ok {
			continue
		}
		c.live = append(c.live, seq)
		body, err := c.part.ReadBlob(m.Body, nil)
		if err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		if string(body) != c.bodies[m.Body.Position] {
			c.failf("message %d has the body %.30q", seq, body)
		}
	}
	return nil
}

var plainSlice = event.Slice{Entity: 4}

// write writes records, each in a frame of its own. One message in twenty stays for long.
func (c *cutting) write(n int) error {
	for range n {
		env := event.Envelope{Slice: plainSlice}
		c.now += event.Time(c.rng.IntN(500))
		var events []event.Event
		if len(c.live) > 3 && c.rng.IntN(2) == 0 {
			i := 0
			for c.live[i]%20 == 0 && i < len(c.live)-1 && c.rng.IntN(10) > 0 {
				i++
			}
			seq := c.live[i]
			c.live = slices.Delete(c.live, i, i+1)
			events = append(events, &event.MessageReceivedAndDeleted{Envelope: env, Sequence: seq})
		} else {
			seq := c.x.NextSequence(plainSlice)
			c.live = append(c.live, seq)
			events = append(events, &event.MessageEnqueued{Envelope: env, Sequence: seq, EnqueuedAt: c.now, MessageID: fmt.Append(nil, seq), DuplicateUntil: c.now + 5000,
				Body: event.Blob{Data: fmt.Append(nil, seq, strings.Repeat(".", c.rng.IntN(300)))}})
		}
		b := c.w.Batch()
		b.AppendRecord(c.now, events, log.Durable)
		for _, ev := range events {
			if m, ok := ev.(*event.MessageEnqueued); ok {
				c.bodies[m.Body.Position] = string(m.Body.Data)
			}
			c.x.Apply(c.now, ev)
		}
		c.states = append(c.states, sha256.Sum256(c.x.Encode(nil)))
		ticket := c.w.Append(b)
		for c.w.Work() {
		}
		<-ticket.Done()
		if err := ticket.Err(); err != nil {
			return err
		}
		c.acked = len(c.states) - 1
	}
	return nil
}

// life is a run: records, a checkpoint, sealed files, and history is cut in between.
func (c *cutting) life(rounds int) error {
	if err := c.open(); err != nil {
		return err
	}
	w, err := c.part.Lead(c.t.Context())
	if err != nil {
		return err
	}
	c.w = w.(log.ManualWriter)
	for range rounds {
		if err := c.round(); err != nil {
			return err
		}
		if c.few { // first by a round of compaction
			if err := c.drop(); err != nil {
				return err
			}
		}
		freed, err := replay.Cut(c.t.Context(), c.part, c.w.Durable(), true)
		if err != nil && !errors.Is(err, log.ErrTooLittle) {
			return err
		}
		if c.freed += freed; err == nil && freed == 0 {
			c.failf("nothing was freed, and nothing said of it")
		}
		c.countAlone()
		x := c.x
		if err := c.check(); err != nil {
			return err
		}
		c.x = x
	}
	if err := c.w.Close(); err != nil {
		return err
	}
	return c.store.Close()
}

// round writes records and a checkpoint, and seals closed chapters.
func (c *cutting) round() error {
	n := 25
	if c.few {
		n = 70
	}
	if err := c.write(n); err != nil {
		return err
	}
	err := c.part.SaveCheckpoint(c.w.Durable(), func(w io.Writer) error {
		_, err := w.Write(c.x.Encode(nil))
		return err
	})
	if c.rounds++; err != nil || c.raw && c.rounds%3 != 0 {
		return err
	}
	return c.seal()
}

func (c *cutting) seal() error {
	for more := true; more; {
		var err error
		if more, err = c.part.(log.Sealer).Seal(c.t.Context()); err != nil {
			return err
		}
	}
	return nil
}

func (c *cutting) lives() error {
	for range 2 {
		if err := c.life(3); err != nil {
			return err
		}
		c.boot++
	}
	return nil
}

// tidy reads a stopped log as tools do: all of it is good, and no removed file is left.
func (c *cutting) tidy() {
	c.t.Helper()
	o := c.opts
	o.ReadOnly, o.Thorough = true, true
	s, err := log.Open(c.t.Context(), cutDir, o)
	if err != nil {
		c.failf("a thorough look: %v", err)
	}
	defer s.Close()
	p, err := s.Open(c.t.Context(), 0)
	if err != nil {
		c.failf("a thorough look: %v", err)
	}
	listed := map[string]bool{}
	for _, s := range p.Segments() {
		listed[filepath.Join(cutDir, s.File)] = true
	}
	if b, ok := p.(log.Bases).Base(); ok {
		listed[filepath.Join(cutDir, b.File)] = true
	} else if c.freed > 0 {
		c.failf("%d bytes were freed, and there is no base", c.freed)
	}
	for _, dir := range []string{"wal", "sealed", "base"} {
		for _, name := range c.fs.Files(filepath.Join(cutDir, "partitions/00", dir)) {
			if !listed[name] {
				c.failf("%s is left", name)
			}
		}
	}
}

// Cut frees the files before a base and keeps needed bodies, and everything else is unchanged.
func TestCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		c := newCutting(t, fmt.Sprint("seed ", seed), seed)
		c.as(cutKind{raw: seed%2 == 1, few: seed%4 >= 2})
		if err := c.lives(); err != nil {
			c.failf("%v", err)
		}
		if c.few && c.alone == 0 {
			c.failf("there was no file of bodies")
		}
		if c.freed == 0 {
			c.failf("nothing was freed")
		}
		c.tidy()
		o := c.opts
		o.ReadOnly = true
		s, _ := log.Open(t.Context(), cutDir, o)
		p, _ := s.Open(t.Context(), 0)
		first, _ := p.Bounds()
		base, _ := p.(log.Bases).Base()
		if segments := p.Segments(); first <= 8 || base.LSN < first || segments[0].First > first {
			c.failf("begins at %d, with a base at %d; %v", first, base.LSN, segments)
		}
		s.Close()
	}
}

// F1, F2, F14 of a base and of the removal of files: the process dies, or the power fails, at every
// call of the file system, and the next start finds the state that a log gives whose history was
// never cut.
func TestCutCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAtEveryCall(t, kind)
		})
	}
}

func crashAtEveryCall(t *testing.T, kind cutKind) {
	t.Helper()
	c := newCutting(t, "", 1)
	c.as(kind)
	if err := c.lives(); err != nil {
		c.failf("%v", err)
	}
	total := c.fs.Calls()
	t.Logf("%d calls, %d files of bodies, bodies were dropped from %d", total, c.alone, c.dropped)
	if kind.few && (c.alone < 3 || c.dropped == 0) {
		t.Error("that is not what was to be tried")
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for k := 1; k <= total; k += step {
		for v := range 2 {
			mode := faultfs.PowerLoss
			if v == 0 {
				mode = faultfs.Kill
			}
			c := newCutting(t, fmt.Sprintf("%v at call %d, variant %d", mode, k, v), 1)
			c.as(kind)
			c.fs.CrashAt(k)
			if err := c.lives(); err == nil {
				break
			} else if !errors.Is(err, faultfs.ErrCrashed) && !errors.Is(err, log.ErrPoisoned) {
				c.failf("%v", err)
			}
			c.fs = c.fs.Crash(rand.New(rand.NewPCG(uint64(k), uint64(v))), mode)
			if mode != faultfs.Kill {
				c.boot++
			}
			if err := c.life(2); err != nil {
				c.failf("afterwards: %v", err)
			}
			c.tidy()
		}
	}
}

// A copy of a log that begins with a base also does.
func TestCutCopied(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 3)
	if err := c.lives(); err != nil {
		c.failf("%v", err)
	}
	if err := c.open(); err != nil {
		c.failf("%v", err)
	}
	_, end := c.part.Bounds()
	to := faultfs.New()
	if err := to.Mkdir(cutDir); err != nil {
		t.Fatal(err)
	}
	err := c.store.(log.Copier).Copy(t.Context(), []event.LSN{end}, func(f log.CopyEntry) error {
		name := filepath.Join(cutDir, f.Name)
		if !log.MayBeCopied(f.Name, f.Dir) {
			t.Errorf("%s may not be copied", f.Name)
		}
		if f.Dir {
			return to.Mkdir(name)
		}
		p, err := io.ReadAll(f.Contents)
		if err == nil {
			to.WriteFile(name, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.store.Close(); err != nil {
		t.Fatal(err)
	}
	c.fs = to
	if err := c.open(); err != nil {
		c.failf("the copy: %v", err)
	}
	if _, ok := c.part.(log.Bases).Base(); !ok {
		t.Error("the copy has no base")
	}
	if err := c.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A missing base and one of another log are refused, and so is one with other records as soon as it
// is needed.
func TestBaseDamage(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 2)
	if err := c.lives(); err != nil {
		c.failf("%v", err)
	}
	var name string
	for _, n := range c.fs.Files(filepath.Join(cutDir, "partitions/00/base")) {
		name = n
	}
	good, err := c.fs.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	o := c.opts
	o.ReadOnly = true
	open := func() error {
		s, err := log.Open(t.Context(), cutDir, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p, err := s.Open(t.Context(), 0)
		if err != nil {
			return err
		}
		return replay.Begin(p).Run(t.Context(), replay.Watch{})
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		c.fs.WriteFile(name, bad)
		if err := open(); err == nil || !strings.Contains(err.Error(), "base") {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	for _, short := range []int{0, 39, 150, len(good) - 1} {
		c.fs.WriteFile(name, good[:short])
		if err := open(); err == nil {
			t.Errorf("%d bytes: taken", short)
		}
	}
	if err := c.fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "base is missing") {
		t.Errorf("missing: %v", err)
	}
}

// A file that the base needs stays, at every cut, also when it is the only one before the base, as
// with a base from the checkpoint of a clean stop.
func TestCutKeepsTheOnlyFile(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 5)
	lead := func() {
		t.Helper()
		c.must(c.open())
		w, err := c.part.Lead(t.Context())
		c.must(err)
		c.w = w.(log.ManualWriter)
	}
	lead()
	c.must(c.write(8))
	at := c.w.Durable()
	c.must(c.part.SaveCheckpoint(at, func(w io.Writer) error {
		_, err := w.Write(c.x.Encode(nil))
		return err
	}))
	c.must(c.w.Close(), c.store.Close())
	lead()
	for len(c.fs.Files(filepath.Join(cutDir, "partitions/00/sealed"))) < 3 {
		c.must(c.write(1), c.seal())
	}
	for i := range 3 {
		if freed, err := replay.Cut(t.Context(), c.part, at, true); freed != 0 || !errors.Is(err, log.ErrTooLittle) {
			t.Errorf("look %d: %d bytes are freed, %v", i, freed, err)
		}
		if base, ok := c.part.(log.Bases).Base(); !ok || base.LSN != at {
			t.Fatalf("look %d: a base %+v, not at %d", i, base, at)
		}
		x := c.x
		c.must(c.check())
		c.x = x
	}
}

func (c *cutting) must(errs ...error) {
	c.t.Helper()
	if err := errors.Join(errs...); err != nil {
		c.failf("%v", err)
	}
}

// Reading a body that went with a file says that it is no longer kept; reading one that never was
// does not.
func TestCutBodiesAreErased(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 1)
	c.must(c.lives(), c.open())
	gone := 0
	for at, body := range c.bodies {
		got, err := c.part.ReadBlob(event.Blob{Position: at, Size: uint32(len(body)), Sum: event.Sum([]byte(body))}, nil)
		if errors.Is(err, event.ErrErased) {
			gone++
		} else if err != nil || string(got) != body {
			t.Errorf("position %d: %v, %.30q", at, err, got)
		}
	}
	_, end := c.part.Bounds()
	if _, err := c.part.ReadBlob(event.Blob{Position: event.Position(end), Size: 1}, nil); err == nil || errors.Is(err, event.ErrErased) {
		t.Errorf("behind the end: %v", err)
	}
	if gone == 0 {
		t.Error("none is gone")
	}
}

// Files before a base stay for the whole retention, even if the base was made with a shorter
// retention.
func TestCutKeepsWhatIsKeptNow(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 7)
	c.must(c.open())
	w, err := c.part.Lead(t.Context())
	c.must(err)
	c.w = w.(log.ManualWriter)
	for range 3 {
		c.must(c.write(25), c.seal())
	}
	at := c.w.Durable()
	c.must(c.part.SaveCheckpoint(at, func(w io.Writer) error {
		_, err := w.Write(c.x.Encode(nil))
		return err
	}))
	c.must(c.write(25), c.seal())
	var ends []event.LSN
	for _, s := range c.part.Segments() {
		if s.Sealed > 0 && s.End < at {
			ends = append(ends, s.End)
		}
	}
	if len(ends) < 3 {
		t.Fatalf("%d sealed files", len(ends))
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.fs.Hook(func(faultfs.Call) faultfs.Fault {
		// it is made, and nothing is removed yet
		if b, _ := c.part.(log.Bases).Base(); b.LSN == at {
			cancel()
		}
		return faultfs.Fault{}
	})
	if freed, err := replay.Cut(ctx, c.part, at, true); freed != 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%d bytes are freed, %v", freed, err)
	}
	c.fs.Hook(nil)
	for _, upTo := range ends {
		_, err := replay.Cut(t.Context(), c.part, upTo, true)
		if first, _ := c.part.Bounds(); first > upTo || err != nil && !errors.Is(err, log.ErrTooLittle) {
			t.Errorf("up to %d: the log begins at %d; %v", upTo, first, err)
		}
	}
	if first, _ := c.part.Bounds(); first <= 8 {
		t.Error("nothing went")
	}
}
