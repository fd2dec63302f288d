package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Survey is a look at a damaged directory. Recovery stops at the first damage of a partition, for its verdict is made then; a
// survey goes on behind it and names every damaged place by the same rules (log-format.md 5.6). It finds none in a partition that
// recovery accepts, and where recovery refuses, its first is recovery's. It writes nothing and holds no more of a log than recovery.
type Survey struct {
	fs   FS
	root string
	boot string
	lock io.Closer
	tag  *uint32 // nil: nobody can say, so that each partition's manifest does
	ends []mark  // from the clean marker; nil without a good one
	ids  []PartitionID
}

// Surveyed is what a survey found in a partition beside the damaged places.
type Surveyed struct {
	Frames, Records uint64           // good ones
	Bytes           int64            // of them
	Checkpoints     []CheckpointInfo // that may be of this log, newest first
	Discarded       []Discard        // checkpoints and notes that are no good
}

// OpenSurvey takes a directory that nobody uses. A damaged or lost namespace.json or clean marker, which [Open] reports, does not
// stop it: it does without. Of the options FS and BootID count.
func OpenSurvey(dir string, opts Options) (*Survey, error) {
	opts.ReadOnly = true
	dir, opts, err := opts.at(dir)
	if err != nil {
		return nil, err
	}
	s := &Survey{fs: opts.FS, root: dir, boot: opts.BootID}
	if s.lock, err = s.fs.Lock(filepath.Join(dir, "lock")); err != nil {
		return nil, lockError(dir, err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("log: %w", err), s.lock.Close())
	}
	return s, nil
}

func (s *Survey) open() error {
	p, err := readFile(s.fs, filepath.Join(s.root, "namespace.json"), 1<<16)
	var ns Namespace
	var tag uint32
	if err == nil {
		ns, tag, err = decodeNamespace(p)
	}
	if err != nil && !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return s.listPartitions()
	}
	s.tag = &tag
	for i := range ns.Partitions {
		s.ids = append(s.ids, PartitionID(i))
	}
	if p, err = readFile(s.fs, filepath.Join(s.root, "clean"), noteMax); err == nil {
		if ends, err := decodeClean(p, tag, ns.Partitions); err == nil {
			s.ends = ends
		}
	}
	return nil
}

// listPartitions takes what is there for what there should be.
func (s *Survey) listPartitions() error {
	entries, err := s.fs.ReadDir(filepath.Join(s.root, "partitions"))
	if errors.Is(err, fs.ErrNotExist) { // gone as well; the directory itself must be there
		_, err = s.fs.ReadDir(s.root)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		var id PartitionID
		if _, err := fmt.Sscanf(e.Name, "%d", &id); err == nil && id < maxPartitions && partitionName(id) == filepath.Join("partitions", e.Name) {
			s.ids = append(s.ids, id)
		}
	}
	return nil
}

// Partitions returns all there are.
func (s *Survey) Partitions() []PartitionID { return s.ids }

// Close gives the directory back.
func (s *Survey) Close() error { return s.lock.Close() }

// Partition calls found with every damaged place of one partition, in the order in which recovery looks. An error of found ends the
// survey and is returned.
func (s *Survey) Partition(ctx context.Context, id PartitionID, found func(*CorruptError) error) (Surveyed, error) {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	y := surveyor{recovery: recovery{fs: s.fs, root: s.root, id: id, boot: s.boot}}
	var before *CorruptError
	y.found = func(c *CorruptError) error { // a file that should be another one may begin with a frame that is wrong as well
		if before != nil && before.File == c.File && before.Offset == c.Offset {
			return nil
		}
		before = c
		return found(c)
	}
	y.scan.win.buf = buf[:]
	y.tag = s.tagOf(id)
	if s.ends != nil {
		y.clean = &s.ends[id]
	}
	if err := y.run(ctx); err != nil {
		return Surveyed{}, err
	}
	out := Surveyed{Frames: y.scan.frames, Records: y.scan.records, Bytes: y.scan.bytes, Discarded: y.out.report.Discarded}
	p := partition{id: id, ckpts: y.out.ckpts}
	out.Checkpoints = p.Checkpoints()
	return out, nil
}

// tagOf is the namespace's tag; the manifest's where namespace.json is damaged.
func (s *Survey) tagOf(id PartitionID) uint32 {
	if s.tag != nil {
		return *s.tag
	}
	p, err := readFile(s.fs, filepath.Join(s.root, partitionName(id), "manifest"), noteMax)
	if err != nil || len(p) < noteHead {
		return 0
	}
	return le.Uint32(p[8:])
}

// OpenCheckpoint is that of [Partition], for the ones that a survey lists.
func (s *Survey) OpenCheckpoint(c CheckpointInfo) (io.ReadCloser, error) {
	var id PartitionID
	if _, err := fmt.Sscanf(filepath.ToSlash(c.File), "partitions/%d/", &id); err != nil {
		return nil, err
	}
	p := &partition{store: &store{fs: s.fs, tag: s.tagOf(id)}, id: id, dir: filepath.Join(s.root, partitionName(id))}
	want, err := readCheckpoint(s.fs, filepath.Join(s.root, c.File), id, p.store.tag)
	if err != nil {
		return nil, err
	}
	p.ckpts = []checkpoint{want}
	return p.OpenCheckpoint(c.LSN)
}

// surveyor looks through one partition. Its scanner is told where to go on when a frame does not say so.
type surveyor struct {
	recovery
	found func(*CorruptError) error

	sure    bool // the scanner's LSN is where a frame ends or a chapter begins
	counted bool // … and its index counts every frame of the chapter
	chained bool // … and its chain is that of the frame before
	reigned bool // … and its epoch too
	lost    bool // something was passed over unread, so that a place not met may have been there
}

// leave is what holds behind bytes of which nothing is known.
func (y *surveyor) leave() {
	if y.scan.fresh { // the epoch's first frame has the boot id
		y.scan.boot = ""
	}
	y.sure, y.counted, y.chained, y.reigned, y.lost, y.scan.fresh = false, false, false, false, true, false
}

// report passes a damaged place on, and any other error back.
func (y *surveyor) report(file string, err error) error {
	var c *CorruptError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFormat): // the log of a newer program would have been refused as such before
		err = y.corrupt(file, 0, y.scan.lsn, "%v", err)
	}
	if errors.As(err, &c) {
		return y.found(c)
	}
	return err
}

func (y *surveyor) run(ctx context.Context) error {
	y.out = &found{first: firstLSN}
	s := &y.scan
	s.partition, s.tag, s.lsn = y.id, y.tag, firstLSN
	s.watch = make(map[event.LSN]passed)
	y.sure, y.chained, y.reigned = true, true, true
	err := y.readManifest()
	if err := y.report("manifest", err); err != nil {
		return err
	}
	known := err == nil
	var notes [2]*mark
	for i, n := range [...][2]string{{"progress", "LBPR"}, {"fault", "LBFT"}} {
		m, err := y.readMark(n[0], n[1])
		if err := y.report(n[0], err); err != nil {
			return err
		}
		if m != nil && err == nil {
			notes[i], s.watch[m.lsn] = m, passed{}
		}
		y.out.fault = n[0] == "fault" && (m != nil || err != nil)
	}
	files := y.listCheckpoints()
	for _, c := range files {
		s.watch[c.lsn] = passed{}
	}
	if err := y.chapters(ctx, known); err != nil {
		return err
	}
	y.out.end = mark{s.lsn, s.epoch, s.chain}
	if y.out.end.lsn > y.out.first && y.chained {
		s.watch[y.out.end.lsn] = passed{true, s.chain}
	}
	if err := y.ends(notes); err != nil {
		return err
	}
	y.checkpoints(files)
	return nil
}

// ends compares the end of the log, as far as it is known, with what the notes and the clean marker say.
func (y *surveyor) ends(notes [2]*mark) error {
	for i, name := range [...]string{"progress", "fault"} {
		if m := notes[i]; m != nil && !y.missed(m.lsn) {
			if err := y.report(name, y.reached(name, m)); err != nil {
				return err
			}
		}
	}
	end := y.out.end
	if c := y.clean; c != nil && *c != end && y.sure && y.chained && y.reigned {
		return y.found(&CorruptError{Partition: y.id, File: "clean", LSN: end.lsn,
			Reason: fmt.Sprintf("log ends at %d in epoch %d, the clean marker says %d in epoch %d, or its chain is another", end.lsn, end.epoch, c.lsn, c.epoch)})
	}
	return nil
}

// missed tells whether nothing can be said about a place, since it may have been among what was passed over.
func (y *surveyor) missed(at event.LSN) bool {
	return y.lost && !y.scan.watch[at].there && (at <= y.out.end.lsn || !y.sure)
}

// checkpoints discards those that are not of this log.
func (y *surveyor) checkpoints(list []checkpoint) {
	var perhaps, known []checkpoint
	for _, c := range list {
		if y.missed(c.lsn) {
			perhaps = append(perhaps, c)
		} else {
			known = append(known, c)
		}
	}
	y.keepCheckpoints(known)
	y.out.ckpts = append(y.out.ckpts, perhaps...)
	slices.SortFunc(y.out.ckpts, func(a, b checkpoint) int { return cmp.Compare(a.lsn, b.lsn) })
}

// chapters goes through those of the manifest, or without one through those of the directory.
func (y *surveyor) chapters(ctx context.Context, known bool) error {
	entries, err := y.fs.ReadDir(filepath.Join(y.dir(), "wal"))
	if err != nil {
		return y.report("wal", y.wrap("wal", 0, 0, err))
	}
	there := make(map[string]bool)
	for _, e := range entries {
		there[e.Name] = true
	}
	list := y.out.manifest.chapters
	for _, c := range list {
		if name := chapterName(c.id); known && !there[name] {
			if err := y.found(y.bad(filepath.Join("wal", name), 0, c.first, "chapter is missing")); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		id, ok := chapterID(e)
		switch {
		case !known && ok:
			list = append(list, chapterEntry{id: id})
		case !known || !y.named(e.Name):
			if err := y.stranger(e, known); err != nil {
				return err
			}
		}
	}
	for i, c := range list {
		if known && !there[chapterName(c.id)] {
			y.leave()
			continue
		}
		if err := y.chapter(ctx, c, known, i == len(list)-1); err != nil {
			return err
		}
	}
	return nil
}

func (y *surveyor) bad(file string, off int64, lsn event.LSN, reason string) *CorruptError {
	return &CorruptError{Partition: y.id, File: filepath.Join(partitionName(y.id), file), Offset: off, LSN: lsn, Reason: reason}
}

func chapterID(e Entry) (uint32, bool) {
	var id uint32
	_, err := fmt.Sscanf(e.Name, "%010d", &id)
	return id, err == nil && e.Dir && chapterName(id) == e.Name
}

// named tells whether the manifest has a chapter of the name.
func (y *surveyor) named(name string) bool {
	for _, c := range y.out.manifest.chapters {
		if chapterName(c.id) == name {
			return true
		}
	}
	return false
}

// stranger judges what is in wal/ and not in the manifest.
func (y *surveyor) stranger(e Entry, known bool) error {
	name := filepath.Join("wal", e.Name)
	id, ok := chapterID(e)
	last := uint32(0)
	if n := len(y.out.manifest.chapters); n > 0 {
		last = y.out.manifest.chapters[n-1].id
	}
	if !known || !ok || id <= last {
		return y.found(y.bad(name, 0, 0, "does not belong to this log"))
	}
	files, err := y.fs.ReadDir(filepath.Join(y.dir(), name))
	if err != nil {
		return y.report(name, y.wrap(name, 0, 0, err))
	}
	for _, f := range files {
		if f.Dir || f.Name != segmentName(1) && f.Name != segmentName(1)+tempSuffix || f.Size != 0 {
			if err := y.found(y.bad(filepath.Join(name, f.Name), 0, 0, "chapter is not in the manifest, but holds data")); err != nil {
				return err
			}
		}
	}
	return nil
}

func (y *surveyor) chapter(ctx context.Context, c chapterEntry, known, last bool) error {
	s := &y.scan
	name := filepath.Join("wal", chapterName(c.id))
	if known {
		if y.sure && (c.first != s.lsn || y.chained && c.chain != s.chain) {
			file, off := y.endPlace()
			if err := y.found(y.bad(file, off, s.lsn, fmt.Sprintf(
				"chapter %d begins at LSN %d, the one before it ends at %d, or the chain is broken", c.id, c.first, s.lsn))); err != nil {
				return err
			}
			y.leave()
		}
		s.lsn, s.chain, y.sure, y.chained = c.first, c.chain, true, true
	} else {
		y.leave()
	}
	s.chapter, s.fresh, s.index, y.counted = c.id, true, 1, true
	entries, err := y.fs.ReadDir(filepath.Join(y.dir(), name))
	if err != nil {
		y.leave()
		return y.report(name, y.wrap(name, 0, s.lsn, err))
	}
	var files []Entry
	for _, e := range entries {
		if !isTemp(e.Name) || e.Dir {
			files = append(files, e)
		}
	}
	if len(files) == 0 {
		err = y.found(y.bad(filepath.Join(name, segmentName(1)), 0, s.lsn, "segment is missing"))
		y.leave()
		return err
	}
	for k, e := range files {
		if err := y.place(name, e); err != nil {
			return err
		}
		if !y.counted {
			continue
		}
		if err := y.file(ctx, e, last && k == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}
