package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// How a reader beside a broker goes on reading (docs/decisions/0078). What it has read of a log stays as it is, so the next walk passes over that and reads
// what came behind it. Whatever it meets that does not fit is judged by a walk from the beginning, when the directory is opened anew.

// Follower is implemented by stores that were opened with [Options.Shared]. Nothing of the store may be read while one of its methods runs.
type Follower interface {
	// Advance goes on to what is durable by now. It reads what has come since Open or Advance, and of the rest only where it is kept by now; a partition that
	// was refused is read from its beginning. After an error the directory has to be opened anew, which tells what is the matter: it may be damage, or a log
	// that is another one by now. The store's lease asks for no more, from then on, than what is behind the place where the logs ended before.
	Advance(ctx context.Context) error
	// Rest closes the files that reading has left open: one that the broker removes takes its room on the disk for as long as somebody has it open.
	Rest()
}

// Advance implements [Follower].
func (s *store) Advance(ctx context.Context) error {
	if !s.opts.Shared {
		return errors.New("log: only a store that was opened beside a broker goes on")
	}
	s.reopening.Lock()
	defer s.reopening.Unlock()
	s.lease.needs(s.all())
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	for p := range s.all() {
		if err := s.advance(ctx, p, buf[:]); err != nil {
			return err
		}
	}
	ns, err := s.same() // after the logs: see open
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ns = ns
	return nil
}

func (s *store) advance(ctx context.Context, p *partition, buf []byte) error {
	if p.err != nil {
		again := s.recoverPartition(ctx, p.id, nil, format.Mark{}, buf)
		if c := (*CorruptError)(nil); again.err != nil && !errors.As(again.err, &c) {
			return again.err
		}
		s.parts[p.id].Store(again)
		return nil
	}
	p.lead.Lock()
	defer p.lead.Unlock()
	w := walk{fs: s.fs, root: s.root, id: p.id, tag: s.tag, boot: s.opts.BootID, bound: new(bound), before: p.found}
	if (resumedWalk{&w}).nothingNew() {
		return nil
	}
	w.scan.Win.Buf = buf
	out, err := s.walkBeside(ctx, &w)
	if err != nil {
		return err
	}
	if out.end.LSN < p.end.LSN {
		return fmt.Errorf("%w: partition %d: it was durable up to LSN %d, and is up to %d", ErrChanged, p.id, p.end.LSN, out.end.LSN)
	}
	out.report, out.stop = p.found.report, p.found.stop
	relocate(p, out)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.end, p.ckpts = out, out.end, out.ckpts
	return nil
}

// relocate takes over where a later walk has found the bytes of a log. The end stays, unless all in front of it has been removed.
func relocate(p *partition, out *found) {
	p.listing.Lock()
	p.manifest = out.manifest
	p.listing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments, p.first, p.base = out.segments, out.first, out.base
	if out.end.LSN > p.end.LSN {
		p.end = out.end
	}
	useBlocks(p.segments, p.store.blocks)
}

// Rest implements [Follower].
func (s *store) Rest() {
	for p := range s.all() {
		for p.files.closeIdle() {
		}
	}
	s.blocks.clear()
}

// nothingNew reports whether the log is durable as far as the previous walk found, and its files are those that it found. Where it cannot tell, the walk does.
func (w resumedWalk) nothingNew() bool {
	progress, err := readProgress(w.fs, w.dir(), w.id, w.tag)
	if err != nil || progress == nil || *progress != w.before.progress {
		return false
	}
	p, err := readFile(w.fs, filepath.Join(w.dir(), "manifest"), format.MaxNote)
	if err != nil {
		return false
	}
	m, err := format.DecodeManifest(p, w.id, w.tag)
	return err == nil && m.Generation == w.before.manifest.Generation
}

// resumedWalk is the part of a walk that passes over what an earlier one has read, and remembers for a later one.
type resumedWalk struct{ *walk }

// remember notes what is known behind the segment that was read last, for the next walk.
func (w resumedWalk) remember() {
	if w.bound != nil && len(w.out.behind) < len(w.out.segments) {
		w.out.behind = append(w.out.behind, w.scan.Passage)
	}
}

// recallMarks fills in what the previous walk knew of the LSNs that are watched.
func (w resumedWalk) recallMarks() {
	if w.before == nil {
		return
	}
	for lsn := range w.scan.Watch {
		if p := w.before.marks[lsn]; p.There {
			w.scan.Watch[lsn] = p
		}
	}
}

// recallCheckpoint is the checkpoint of a name, if the previous walk has kept it.
func (w resumedWalk) recallCheckpoint(name string) (format.Checkpoint, bool) {
	lsn, err := strconv.ParseUint(strings.TrimSuffix(name, ".ckpt"), 10, 64)
	if w.before == nil || err != nil {
		return format.Checkpoint{}, false
	}
	known := w.before.ckpts
	i := slices.IndexFunc(known, func(c format.Checkpoint) bool { return c.LSN == event.LSN(lsn) })
	if i < 0 {
		return format.Checkpoint{}, false
	}
	return known[i], true
}

// index finds a segment that begins at an LSN; -1: there is none that is meant.
func (f *found) index(base event.LSN, meant func(*segment) bool) int {
	if f == nil {
		return -1
	}
	i, _ := slices.BinarySearchFunc(f.segments, base, func(s *segment, base event.LSN) int { return int(int64(s.base) - int64(base)) })
	for ; i < len(f.behind) && f.segments[i].base == base; i++ {
		if meant(f.segments[i]) {
			return i
		}
	}
	return -1
}

// recallSealed passes over a sealed file that the previous walk has read to its end, and reports whether there is one.
func (w resumedWalk) recallSealed(named *format.SealedFile) (bool, error) {
	i := w.before.index(named.First, func(s *segment) bool {
		k, ok := s.kind.(*sealedKind)
		return ok && k.named == *named && s.end == named.End
	})
	if i < 0 || !baseWalk(w).jump(named) && (w.scan.LSN != named.First || w.scan.Chain != named.Chain) {
		return false, nil
	}
	return true, w.recall(i)
}

// recallHot passes over a file of a chapter that the previous walk has read, and goes on in the one where that has ended. It reports whether there is one.
func (w resumedWalk) recallHot(ctx context.Context, seg *segment, last bool) (bool, error) {
	i := w.before.index(seg.base, func(s *segment) bool { return s.kind == seg.kind })
	if i < 0 || w.before.behind[i].LSN > w.bound.at.LSN {
		return false, nil
	}
	if i+1 < len(w.before.segments) || mutant.On(mutant.PassedUnread) {
		return true, w.recall(i)
	}
	return true, w.goOn(ctx, i, seg, last)
}

// recall passes over a segment.
func (w resumedWalk) recall(i int) error {
	seg := w.before.segments[i]
	w.out.segments = append(w.out.segments, seg)
	w.passTo(i)
	asked := w.asked(seg)
	if len(asked) == 0 {
		return nil
	}
	c, err := seg.kind.open(opens(w.fs, w.dir()))
	if err != nil {
		return w.wrap(seg.kind.path(), 0, seg.base, err)
	}
	defer c.Close()
	if s, ok := c.(*sealedContent); ok {
		return sealedWalk(w).passIn(seg, s)
	}
	return w.answer(seg, c, asked)
}

// passTo goes behind what was read of a segment.
func (w resumedWalk) passTo(i int) {
	w.scan.Passage = w.before.behind[i]
	if _, ok := w.scan.Watch[w.scan.LSN]; ok {
		w.scan.Watch[w.scan.LSN] = format.Passed{There: true, Chain: w.scan.Chain}
	}
	w.remember()
}

// goOn reads what has come in a file behind what the previous walk has read of it.
func (w resumedWalk) goOn(ctx context.Context, i int, seg *segment, last bool) error {
	before := w.before.segments[i]
	w.out.segments = append(w.out.segments, seg)
	name := seg.kind.path()
	f, size, err := w.open(seg)
	if err != nil {
		return w.wrap(name, 0, seg.base, err)
	}
	defer f.Close()
	s := &w.scan
	w.passTo(i)
	erased := s.Erased
	s.Win.Reset(f, size)
	s.Win.Size = w.bound.within(seg.base, size)
	if err := w.answer(before, f, w.asked(before)); err != nil {
		return err
	}
	err = w.frames(ctx, name, seg.base, last)
	seg.end, seg.erased = s.LSN, before.erased+s.Erased-erased
	w.out.behind[len(w.out.behind)-1] = s.Passage
	return err
}

// asked is, in order, what notes and checkpoints name in a segment and is not known yet.
func (w resumedWalk) asked(seg *segment) []event.LSN {
	var asked []event.LSN
	for lsn, p := range w.scan.Watch {
		if lsn > seg.base && lsn < seg.end && !p.There {
			asked = append(asked, lsn)
		}
	}
	slices.Sort(asked)
	return asked
}

// answer looks at the headers that stand at the LSNs that were asked for in a segment.
func (w resumedWalk) answer(seg *segment, c content, asked []event.LSN) error {
	for _, lsn := range asked {
		var p [format.BodiesAt]byte
		var h format.Header
		if n, err := c.ReadAt(p[:], int64(lsn-seg.base)); n < len(p) {
			if errors.Is(err, errPartEnds) || errors.Is(err, event.ErrErased) || errors.Is(err, io.EOF) {
				continue // no frame begins there
			}
			return w.wrap(seg.kind.path(), int64(lsn-seg.base), lsn, err)
		}
		intact, err := h.Decode(p[:])
		if err != nil {
			return err
		}
		if intact && h.LSN == lsn && h.Tag == w.tag && h.Partition == w.id && h.Chapter == seg.chapter {
			w.scan.Watch[lsn] = format.Passed{There: true, Chain: h.Chain}
		}
	}
	return nil
}
