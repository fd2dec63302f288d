package replay_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// cutKind is a way in which chapters go.
type cutKind struct{ raw, few bool }

// kinds are sealed files, unsealed files, and each of the two reduced to a few bodies.
var kinds = map[string]cutKind{"sealed": {}, "unsealed": {raw: true}, "sealed, but for bodies": {few: true}, "unsealed, but for bodies": {raw: true, few: true}}

// as makes it one of the kinds.
func (c *cutting) as(k cutKind) {
	if c.raw, c.few = k.raw, k.few; c.few {
		c.opts.SegmentBytes, c.opts.ChapterBytes = 4000, 9000
	}
}

// countAlone counts the files of bodies that there are.
func (c *cutting) countAlone() {
	for _, name := range c.fs.Files(filepath.Join(cutDir, "partitions/00/sealed")) {
		if p, err := c.fs.ReadFile(name); err == nil && len(p) > 5 && p[4] == 2 {
			c.alone++
		}
	}
}

// drop drops the bodies that no message has any more, from files that are kept for their bodies.
func (c *cutting) drop() error {
	needed := map[event.Position]bool{}
	state := c.x.Snapshot()
	for b := range state.Blobs() {
		needed[b.Position] = true
	}
	state.Close()
	first, _ := c.part.Bounds()
	for _, s := range c.part.Segments() {
		if s.Sealed == 0 || s.End > first {
			continue
		}
		_, err := c.part.(log.Compactor).DropBodies(c.t.Context(), s.File, func(b *log.Body) bool { return needed[b.Position] }, 1)
		if err == nil {
			c.dropped++
		} else if !errors.Is(err, log.ErrTooLittle) {
			return err
		}
	}
	return nil
}

// cutWithBodies returns an open log of which a cut will make files of bodies. No file of it has
// been read.
func cutWithBodies(t *testing.T, seed uint64) *cutting {
	t.Helper()
	c := newCutting(t, "", seed)
	c.as(cutKind{raw: true, few: true})
	c.lead()
	c.must(c.round())
	return c
}

// lead opens the log and leads it.
func (c *cutting) lead() {
	c.t.Helper()
	c.must(c.open())
	w, err := c.part.Lead(c.t.Context())
	c.must(err)
	c.w = w.(log.ManualWriter)
}

// cut cuts as much as possible, and requires that files of bodies are made.
func (c *cutting) cut() {
	c.t.Helper()
	_, err := replay.Cut(c.t.Context(), c.part, c.w.Durable(), true)
	if c.must(err); c.alone == 0 {
		c.countAlone()
	}
	if c.alone == 0 {
		c.failf("there is no file of bodies")
	}
}

// A program that does not know files of bodies refuses the directory, from before the first one is
// there.
func TestCutSaysThatThereAreFilesOfBodies(t *testing.T) {
	t.Parallel()
	c := cutWithBodies(t, 1)
	c.cut()
	c.must(c.w.Close(), c.store.Close())
	o := c.opts
	for _, word := range format.Capabilities {
		if word != format.Bodies {
			o.Capabilities = append(o.Capabilities, word)
		}
	}
	if _, err := log.Open(t.Context(), cutDir, o); !errors.Is(err, log.ErrFormat) {
		t.Errorf("an older program opens it: %v", err)
	}
	c.must(c.open())
}

// A reader of records whose file is replaced by a file of bodies is told that they are gone, not
// that there is damage. A later reader begins after them.
func TestCutUnderAReader(t *testing.T) {
	t.Parallel()
	c := cutWithBodies(t, 1)
	var before []event.LSN
	for f, err := range c.part.Read(t.Context(), 0) {
		c.must(err)
		before = append(before, f.LSN)
	}
	var seen []event.LSN
	var end error
	for f, err := range c.part.Read(t.Context(), 0) {
		if err != nil {
			end = err
			break
		}
		if seen = append(seen, f.LSN); len(seen) == 1 {
			c.cut()
		}
	}
	if len(seen) == len(before) || !errors.Is(end, log.ErrGone) {
		t.Errorf("%d of %d frames, then %v", len(seen), len(before), end)
	}
	first, _ := c.part.Bounds()
	for f, err := range c.part.Read(t.Context(), 0) {
		if err != nil || f.LSN < first {
			t.Fatalf("frame %d of a log that begins at %d: %v", f.LSN, first, err)
		}
	}
	if found, err := c.part.(log.Finder).Find(log.Search{MessageID: []byte("1")}); err != nil || slices.ContainsFunc(found, func(s log.Stretch) bool { return s.From < first }) {
		t.Errorf("a search finds %v, %v", found, err)
	}
	for sum, err := range c.part.Summaries(t.Context()) {
		if err != nil || sum.End <= first && (!sum.Cold || sum.Events != 0 || sum.BodyBytes == 0 || len(sum.Slices) != 1) {
			t.Errorf("%+v, %v", sum, err)
		}
	}
	c.must(c.w.Close(), c.store.Close())
}

// An unreadable body keeps its chapter and everything after it as they are; when it can be read
// again, everything is as before.
func TestCutKeepsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := cutWithBodies(t, 1)
	m, ok := c.x.Message(plainSlice, c.live[0])
	if !ok {
		t.Fatal("there is no message")
	}
	i := slices.IndexFunc(c.part.Segments(), func(s log.SegmentInfo) bool { return event.LSN(m.Body.Position) < s.End })
	s := c.part.Segments()[i]
	name, off := filepath.Join(cutDir, s.File), int64(m.Body.Position)-int64(s.First)
	c.must(c.fs.Flip(name, off, 1))
	_, err := replay.Cut(t.Context(), c.part, c.w.Durable(), true)
	if err != nil && !errors.Is(err, log.ErrTooLittle) {
		t.Fatal(err)
	}
	if now := c.part.Segments(); !slices.ContainsFunc(now, func(n log.SegmentInfo) bool { return n.File == s.File }) {
		t.Errorf("%s went, with a body that nobody could read: %v", s.File, now)
	}
	// the file is open, with the wrong byte
	c.must(c.w.Close(), c.store.Close(), c.fs.Flip(name, off, 1))
	c.lead()
	c.cut()
	x := c.x
	c.must(c.check())
	c.x = x
	c.must(c.w.Close(), c.store.Close())
	c.tidy()
}
