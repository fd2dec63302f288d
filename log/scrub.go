package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file reads a log that is in use again, whole, to find rot (docs/decisions/0053). A pass goes
// through base and manifest, then through the segments that are no longer written, by address, and
// last through the checkpoints. It is the walk of a survey, one file at a time. It locks the
// partition only to read its list of segments.

// scrubState is the part of a partition that scrubs it.
type scrubState struct {
	p *partition

	mu    sync.Mutex // held while a file is read; guards the fields below, except shown
	state format.Scrub
	again []event.LSN // addresses of the damage when the state was saved: checked first
	saved time.Time

	// before anything else: loads the position of an earlier run
	loaded sync.Once
	shown  atomic.Pointer[ScrubProgress] // a caller never waits for a file
}

// scrubSaveEvery is how often the position is made durable while no damage is found.
const scrubSaveEvery = time.Minute

// scrubBase represents base and manifest among the addresses of damage.
const scrubBase event.LSN = 1

// Scrubbed implements [Scrubber].
func (v *scrubState) Scrubbed() ScrubProgress {
	v.loaded.Do(v.load)
	return *v.shown.Load()
}

// show publishes the progress.
func (v *scrubState) show() {
	s := &ScrubProgress{Next: v.state.Next, Bytes: v.state.Bytes, Damaged: len(v.state.Damaged), Again: len(v.again) > 0}
	if v.state.Began != 0 {
		s.Began = time.UnixMilli(v.state.Began)
	}
	if v.state.Ended != 0 {
		s.Ended = time.UnixMilli(v.state.Ended)
	}
	v.shown.Store(s)
}

// Scrub implements [Scrubber].
func (v *scrubState) Scrub(ctx context.Context) (found []Damage, over bool, err error) {
	p := v.p
	if p.store.opts.ReadOnly {
		return nil, false, ErrReadOnly
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.sealing.ended.Load() {
		return nil, false, ErrClosed
	}
	v.loaded.Do(v.load)
	s := scrub{p: p, ctx: ctx}
	s.files = p.store.filesOf(p.id)
	s.files.fs = scrubbedFS{p.store.opts.FS, &s}
	at, next := v.state.Next, v.state.Next
	if again := len(v.again) > 0; again {
		at = v.again[0]
	} else if v.state.Began == 0 {
		v.state.Began = p.store.opts.Now().UnixMilli()
	}
	var damaged event.LSN // address that identifies the file, if it is damaged
	switch seg := v.closedFrom(at); {
	case at <= scrubBase:
		err = s.ends()
		next, damaged = max(v.firstOf(), scrubBase+1), scrubBase
	case seg != nil:
		err = s.segment(seg)
		next, damaged = seg.end, seg.base

	default:
		err = s.checkpoints()
		over = true
	}
	if p.sealing.ended.Load() {
		err = ErrClosed
	}
	if err != nil { // the result is unknown if the file was not read to its end
		return nil, false, err
	}
	v.state.Bytes += s.bytes
	v.note(at, damaged, s.found)
	if len(v.again) > 0 {
		v.again = v.again[1:]
		over = false
	} else if v.state.Next = next; over {
		v.state.Ended, v.state.Began, v.state.Next, v.state.Bytes = p.store.opts.Now().UnixMilli(), 0, 0, 0
	}
	v.show()
	if now := p.store.opts.Now(); over || len(s.found) > 0 || now.Sub(v.saved) >= scrubSaveEvery {
		v.save(now)
	}
	return s.found, over, nil
}

// end waits until no file is being read, which is soon after sealing has ended.
func (v *scrubState) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
}

// note records whether the file that begins at an address was damaged.
func (v *scrubState) note(at, name event.LSN, found []Damage) {
	damaged := slices.DeleteFunc(slices.Clone(v.state.Damaged), func(l event.LSN) bool { return l == name || l == at })
	if slices.ContainsFunc(found, func(d Damage) bool { return !d.Spare }) {
		damaged = append(damaged, name)
	}
	v.state.Damaged = damaged
}

// firstOf returns the first address of the log that is in a file.
func (v *scrubState) firstOf() event.LSN {
	v.p.mu.RLock()
	defer v.p.mu.RUnlock()
	if len(v.p.segments) == 0 {
		return 0
	}
	return v.p.segments[0].base
}

// load reads the position of an earlier run. A missing or damaged file is not an error: the pass
// begins again.
func (v *scrubState) load() {
	v.saved = v.p.store.opts.Now()
	p, err := readFile(v.p.store.fs, filepath.Join(v.p.dir, format.ScrubName), format.MaxNote)
	if err == nil {
		v.state, err = format.DecodeScrub(p, v.p.id, v.p.store.tag)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.p.store.opts.Logger.Warn("scrub position unknown; scrub starts again", "partition", v.p.id, "error", err)
	}
	v.again = slices.Clone(v.state.Damaged)
	v.show()
}

// save makes the position durable. If it cannot, the next run begins at the last saved position.
func (v *scrubState) save(now time.Time) {
	v.saved = now
	p := v.p
	if p.store.reserve.room() != RoomEnough {
		return
	}
	if err := disk.Replace(p.store.fs, filepath.Join(p.dir, format.ScrubName), v.state.Encode(p.id, p.store.tag)); err != nil {
		p.store.opts.Logger.Warn("scrub position not saved", "partition", p.id, "error", err)
	}
}

// closedFrom returns the first segment that is no longer written and has an address at or after
// one; nil: there is none.
func (v *scrubState) closedFrom(at event.LSN) *segment {
	p := v.p
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i := range p.segments[:max(0, len(p.segments)-1)] {
		if s := p.segments[i]; s.end > at && s.end > s.base {
			return s
		}
	}
	return nil
}

// scrub reads one file, or a few small ones.
type scrub struct {
	p     *partition
	ctx   context.Context
	files partitionFiles // its fs counts the bytes read
	bytes int64
	piece int // bytes since the last pause
	found []Damage
}

// scrubbedFS opens files for a scrub, which pauses after each piece of them.
type scrubbedFS struct {
	disk.FS
	of *scrub
}

// Open implements [disk.FS].
func (f scrubbedFS) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return scrubbedFile{file, f.of}, nil
}

type scrubbedFile struct {
	disk.File
	of *scrub
}

// ReadAt implements [io.ReaderAt]. One goroutine reads.
func (f scrubbedFile) ReadAt(p []byte, off int64) (int, error) {
	s := f.of
	if s.p.sealing.ended.Load() { // another recovery of the partition begins
		return 0, ErrClosed
	}
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	s.bytes += int64(n)
	if s.piece += n; s.piece >= pieceBytes {
		s.p.store.sleep(s.ctx, s.p.store.background.read(time.Now(), s.piece))
		s.piece = 0
	}
	return n, err
}

// damaged records an error about a file. It returns an error that says nothing of the file, or that
// comes from ending the scrub.
func (s *scrub) damaged(file string, lsn event.LSN, err error) error {
	if err == nil || s.ctx.Err() != nil || disk.OutOfDescriptors(err) {
		return err
	}
	if errors.Is(err, ErrChecksum) {
		err = s.files.corrupt(file, 0, lsn, "%v", err)
	}
	var c *CorruptError
	if err = s.files.verdict(file, lsn, err); errors.As(err, &c) {
		s.found = append(s.found, Damage{CorruptError: c})
		return nil
	}
	return err
}

// ends reads the manifest and the base.
func (s *scrub) ends() error {
	p := s.p
	_, err := s.files.readManifest()
	if err := s.damaged("manifest", 0, err); err != nil {
		return err
	}
	for {
		named := p.baseManager.namedBase()
		if named.LSN == 0 {
			return nil
		}
		f, _, err := openBase(s.files.open, named, p.id, p.store.tag, true)
		if err == nil {
			return f.Close()
		}
		if p.baseManager.namedBase() != named { // there is another one by now
			continue
		}
		return s.damaged(basePath(named.LSN), named.LSN, err)
	}
}

// segment reads a segment as a survey does. If it is replaced or removed meanwhile, its findings
// are dropped.
func (s *scrub) segment(seg *segment) error {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	r := recovery{files: s.files}
	r.begin(buf[:])
	r.walk.scan.Chapter, r.walk.scan.LSN = seg.chapter, seg.base
	r.walk.chained, r.walk.reigned, r.walk.lost = false, false, true
	var stop error
	r.report = func(c *CorruptError) error {
		if disk.OutOfDescriptors(c.Cause) {
			stop = c.Cause
			return stop
		}
		if n := len(s.found); n > 0 && s.found[n-1].File == c.File && s.found[n-1].Offset == c.Offset {
			return nil
		}
		if len(s.found) < mostDamage {
			s.found = append(s.found, Damage{CorruptError: c})
		}
		return nil
	}
	var err error
	is := &segment{chapter: seg.chapter, base: seg.base, end: seg.end, kind: seg.kind}
	if k, ok := seg.kind.(*sealedKind); ok {
		k = &sealedKind{k.partition, k.tag, k.named, r.blocks}
		is.kind = k
		r.walk.scan.Chain, r.walk.chained = k.named.Chain, true
		err = r.readSealed(s.ctx, is, k)
	} else {
		h := seg.kind.(hotKind)
		r.walk.scan.Index, r.walk.scan.Fresh = h.index, h.index == 1
		err = r.walk.segment(s.ctx, is, false)
		if end := r.walk.scan.LSN; err == nil && len(s.found) == 0 && end != seg.end {
			s.found = append(s.found, Damage{CorruptError: s.files.corruptBy(h.path(), int64(end-seg.base), end,
				fmt.Sprintf("ends at LSN %d, but the next segment begins at %d", end, seg.end), nil)})
		}
	}
	if stop != nil {
		err = stop
	}
	if err != nil {
		return err
	}
	// It was sealed, rewritten or removed meanwhile, so its findings mean nothing.
	if !s.hasSegment(seg) {
		s.found = nil
		return nil
	}
	for i := range s.found {
		s.found[i].Messages = s.messagesAt(seg, s.found[i].LSN)
	}
	return nil
}

// mostDamage limits the number of places that are reported of one file.
const mostDamage = 1024

// hasSegment reports whether a segment is still part of the log.
func (s *scrub) hasSegment(seg *segment) bool {
	s.p.mu.RLock()
	defer s.p.mu.RUnlock()
	return slices.Contains(s.p.segments, seg)
}

// messagesAt returns the messages of a frame whose bodies cannot be read, or all of its messages if
// all bodies can. nil: the frame cannot be read.
func (s *scrub) messagesAt(seg *segment, lsn event.LSN) (list []Message) {
	p := s.p
	if lsn < seg.base || lsn >= seg.end {
		return nil
	}
	c, err := seg.kind.open(p.store.filesOf(p.id).open)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = p.readFrames(context.Background(), extent{seg, seg.end}, c, lsn, func(w *walk, off int64, h *format.Header) error {
		if f, err := w.frame(off, h); err == nil && f.Kind == Events {
			list = s.messagesOf(&f)
		}
		return errEnough
	}) // without the frame its messages are unknown
	return list
}

// messagesOf does the same as messagesAt for a frame that was read.
func (s *scrub) messagesOf(f *Frame) []Message {
	var all, unread []Message
	var d event.Decoder
	err := bodiesOf(&d, f, func(_ *Frame, b *Body) error {
		_, err := s.p.ReadBlob(b.Blob, nil)
		bad := err != nil && !errors.Is(err, event.ErrErased)
		event.Named(b.Event, func(slice event.Slice, n event.SequenceNumber) {
			if n == 0 {
				return
			}
			m := Message{slice, n}
			if all = append(all, m); bad {
				unread = append(unread, m)
			}
		})
		return nil
	})
	if err != nil || len(unread) > 0 {
		return unread
	}
	return all
}

// checkpoints reads the usable checkpoints. A damaged one only makes the next start slower.
func (s *scrub) checkpoints() error {
	p := s.p
	for _, info := range p.Checkpoints() {
		before := len(s.found)
		name := filepath.Join(p.store.root, info.File)
		err := compareCheckpoint(s.files.fs, name, p.id, p.store.tag)
		if errors.Is(err, fs.ErrNotExist) {
			continue // there are newer ones by now
		}
		in, _ := filepath.Rel(format.PartitionDir(p.id), info.File)
		if err := s.damaged(in, info.LSN, err); err != nil {
			return err
		}
		for i := range s.found[before:] {
			s.found[before+i].Spare = true
		}
	}
	return nil
}

// compareCheckpoint compares every stored byte of a checkpoint.
func compareCheckpoint(fsys disk.FS, name string, part PartitionID, tag uint32) error {
	c, err := readCheckpoint(fsys, name, part, tag)
	if err != nil {
		return err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := decompress(f, &c)
	if err == nil {
		z.Close()
	}
	return err
}
