package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// segment is a file of the hot log and the addresses it holds.
type segment struct {
	chapter uint32
	index   uint64    // of its first frame in the chapter; its name
	base    event.LSN // address of its first byte
	end     event.LSN // address behind its last written byte; grows in the last segment only
}

func segmentName(index uint64) string { return fmt.Sprintf("%020d", index) }
func chapterName(id uint32) string    { return fmt.Sprintf("%010d", id) }
func partitionName(id PartitionID) string {
	return filepath.Join("partitions", fmt.Sprintf("%02d", id))
}

// relative is the segment's path below the partition's directory.
func (s *segment) relative() string {
	return filepath.Join("wal", chapterName(s.chapter), segmentName(s.index))
}

// found is what recovery makes of a partition's files. Nothing has been changed yet.
type found struct {
	manifest manifest
	segments []*segment
	first    event.LSN
	end      mark      // of the good frames
	solid    event.LSN // everything below was synced
	cached   bool      // the kernel that the last run wrote with still runs: what was read may stand in its page cache alone
	clean    bool
	cut      int64 // bytes behind the end in the last segment's file
	stray    []string
	temps    []string
	fault    bool
	report   Recovery
	ckpts    []checkpoint // usable ones, oldest first
	noted    event.LSN    // progress note
	badNotes []string     // damaged progress or fault notes that a clean marker made up for
}

// recovery reads one partition (log-format.md 5.3).
type recovery struct {
	fs    FS
	root  string // data directory
	id    PartitionID
	tag   uint32
	boot  string // of the running kernel; empty: unknown
	clean *mark  // where the clean marker says the log ends
	scan  scanner
	out   *found
}

func (r *recovery) dir() string { return filepath.Join(r.root, partitionName(r.id)) }

// corrupt names a place below the partition's directory.
func (r *recovery) corrupt(file string, off int64, lsn event.LSN, format string, args ...any) error {
	return &CorruptError{
		Partition: r.id, File: filepath.Join(partitionName(r.id), file), Offset: off, LSN: lsn,
		Reason: fmt.Sprintf(format, args...),
	}
}

// wrap turns an error into a verdict: what cannot be read is as good as damaged (F10), except for a newer format.
func (r *recovery) wrap(file string, off int64, lsn event.LSN, err error) error {
	var c *CorruptError
	if err == nil || errors.As(err, &c) || errors.Is(err, ErrFormat) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &CorruptError{
		Partition: r.id, File: filepath.Join(partitionName(r.id), file), Offset: off, LSN: lsn,
		Reason: "cannot be read", Cause: err,
	}
}

func (r *recovery) run(ctx context.Context) (*found, error) {
	r.out = &found{first: firstLSN}
	r.scan.partition, r.scan.tag, r.scan.lsn = r.id, r.tag, firstLSN
	r.scan.watch = make(map[event.LSN]passed)
	if err := r.readManifest(); err != nil {
		return nil, err
	}
	progress, err := r.readMark("progress", "LBPR")
	if err != nil {
		return nil, err
	}
	fault, err := r.readMark("fault", "LBFT")
	if err != nil {
		return nil, err
	}
	r.out.fault = fault != nil
	files := r.listCheckpoints()
	for _, c := range files {
		r.scan.watch[c.lsn] = passed{}
	}
	for _, m := range []*mark{progress, fault} {
		if m != nil {
			r.scan.watch[m.lsn] = passed{}
		}
	}
	if err := r.listChapters(); err != nil {
		return nil, err
	}
	for i := range r.out.manifest.chapters {
		if err := r.chapter(ctx, i); err != nil {
			return nil, err
		}
	}
	r.out.end = mark{r.scan.lsn, r.scan.epoch, r.scan.chain}
	if r.out.end.lsn > r.out.first { // places before any frame have no chain
		r.scan.watch[r.out.end.lsn] = passed{true, r.scan.chain}
	}
	if err := r.reached("progress", progress); err != nil {
		return nil, err
	}
	if err := r.reached("fault", fault); err != nil {
		return nil, err
	}
	if c := r.clean; c != nil && *c != r.out.end {
		return nil, &CorruptError{
			Partition: r.id, File: "clean", LSN: r.out.end.lsn,
			Reason: fmt.Sprintf("log ends at %d in epoch %d, the clean marker says %d in epoch %d, or its chain is another",
				r.out.end.lsn, r.out.end.epoch, c.lsn, c.epoch),
		}
	}
	r.out.cached = r.boot == "" || r.boot == r.scan.boot
	r.out.solid = r.scan.durable
	for _, m := range []*mark{progress, fault} {
		if m != nil {
			r.out.solid = max(r.out.solid, m.lsn)
		}
	}
	if progress != nil {
		r.out.noted = progress.lsn
	}
	r.out.clean = r.clean != nil
	r.keepCheckpoints(files)
	r.fillReport()
	return r.out, nil
}

func (r *recovery) fillReport() {
	p, s := &r.out.report, &r.scan
	p.Clean, p.Frames, p.Records, p.Bytes = r.out.clean, s.frames, s.records, s.bytes
	p.Chapters, p.Epoch, p.Newest = len(r.out.manifest.chapters), s.epoch, s.newest
	p.CutBytes, p.Checkpoints = r.out.cut, len(r.out.ckpts)
}

func (r *recovery) readManifest() error {
	p, err := readFile(r.fs, filepath.Join(r.dir(), "manifest"), noteMax)
	if errors.Is(err, fs.ErrNotExist) {
		return r.corrupt("manifest", 0, 0, "is missing")
	}
	if err == nil {
		r.out.manifest, err = decodeManifest(p, r.id, r.tag)
	}
	if errors.Is(err, errDamaged) {
		return r.corrupt("manifest", 0, 0, "%v", err)
	}
	if c := r.out.manifest.chapters; len(c) > 0 {
		r.scan.lsn, r.scan.chain, r.out.first = c[0].first, c[0].chain, c[0].first
	}
	return r.wrap("manifest", 0, 0, err)
}

// readMark reads progress or fault; nil when it is absent, or damaged while a clean marker vouches for the end.
func (r *recovery) readMark(name, magic string) (*mark, error) {
	p, err := readFile(r.fs, filepath.Join(r.dir(), name), noteMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m mark
	var fields []byte
	if err == nil {
		fields, err = openNote(p, magic, r.id, r.tag)
	}
	if err == nil {
		m, err = decodeMark(fields)
	}
	if errors.Is(err, errDamaged) {
		if r.clean != nil {
			r.discard(name, err)
			r.out.badNotes = append(r.out.badNotes, name)
			return nil, nil
		}
		return nil, r.corrupt(name, 0, 0, "%v", err)
	}
	return &m, r.wrap(name, 0, 0, err)
}

func (r *recovery) discard(file string, err error) {
	r.out.report.Discarded = append(r.out.report.Discarded,
		Discard{File: filepath.Join(partitionName(r.id), file), Reason: err.Error()})
}

// reached checks that the log holds what a note says was durable.
func (r *recovery) reached(name string, m *mark) error {
	if m == nil || m.lsn <= r.out.first && len(r.out.segments) == 0 {
		if m != nil && m.lsn > firstLSN {
			return r.corrupt(name, 0, m.lsn, "the log was durable up to LSN %d and is empty", m.lsn)
		}
		return nil
	}
	if m.lsn > r.out.end.lsn {
		file, off := r.endPlace()
		return r.corrupt(file, off, r.out.end.lsn, "the log ends here, but %s says it was durable up to LSN %d", name, m.lsn)
	}
	if m.lsn > r.out.first && r.scan.watch[m.lsn] != (passed{true, m.chain}) {
		return r.corrupt(name, 0, m.lsn, "%s names a frame at LSN %d that is not in this log", name, m.lsn)
	}
	return nil
}

// endPlace is where the good frames end, as file and offset.
func (r *recovery) endPlace() (string, int64) {
	if n := len(r.out.segments); n > 0 {
		s := r.out.segments[n-1]
		return s.relative(), int64(s.end - s.base)
	}
	return "wal", 0
}

// listChapters compares the manifest with the directory.
func (r *recovery) listChapters() error {
	entries, err := r.fs.ReadDir(filepath.Join(r.dir(), "wal"))
	if err != nil {
		return r.wrap("wal", 0, 0, err)
	}
	there := make(map[string]bool)
	for _, e := range entries {
		there[e.Name] = true
	}
	last := uint32(0)
	for _, c := range r.out.manifest.chapters {
		if name := chapterName(c.id); !there[name] {
			return r.corrupt(filepath.Join("wal", name), 0, c.first, "chapter is missing")
		} else {
			delete(there, name)
		}
		last = c.id
	}
	for _, e := range entries {
		if !there[e.Name] {
			continue
		}
		name := filepath.Join("wal", e.Name)
		var id uint32
		if _, err := fmt.Sscanf(e.Name, "%010d", &id); err != nil || !e.Dir || chapterName(id) != e.Name || id <= last {
			return r.corrupt(name, 0, 0, "does not belong to this log")
		}
		files, err := r.fs.ReadDir(filepath.Join(r.dir(), name))
		if err != nil {
			return r.wrap(name, 0, 0, err)
		}
		for _, f := range files { // what an interrupted creation, or a repair after it, can leave, and nothing else
			if f.Dir || f.Name != segmentName(1) && f.Name != segmentName(1)+tempSuffix || f.Size != 0 {
				return r.corrupt(filepath.Join(name, f.Name), 0, 0, "chapter is not in the manifest, but holds data")
			}
		}
		r.out.stray = append(r.out.stray, name)
	}
	return nil
}

// chapter scans the files of the i-th chapter of the manifest.
func (r *recovery) chapter(ctx context.Context, i int) error {
	c, s := r.out.manifest.chapters[i], &r.scan
	lastChapter := i == len(r.out.manifest.chapters)-1
	name := filepath.Join("wal", chapterName(c.id))
	if c.first != s.lsn || c.chain != s.chain {
		file, off := r.endPlace()
		return r.corrupt(file, off, s.lsn, "chapter %d begins at LSN %d, the one before it ends at %d, or the chain is broken", c.id, c.first, s.lsn)
	}
	s.chapter, s.fresh, s.index = c.id, true, 1
	entries, err := r.fs.ReadDir(filepath.Join(r.dir(), name))
	if err != nil {
		return r.wrap(name, 0, s.lsn, err)
	}
	var files []Entry
	for _, e := range entries {
		if isTemp(e.Name) && !e.Dir {
			r.out.temps = append(r.out.temps, filepath.Join(name, e.Name))
			continue
		}
		files = append(files, e)
	}
	if len(files) == 0 {
		return r.corrupt(filepath.Join(name, segmentName(1)), 0, s.lsn, "segment is missing")
	}
	for k, e := range files {
		if e.Dir || e.Name != segmentName(s.index) {
			return r.corrupt(filepath.Join(name, e.Name), 0, s.lsn, "segment %s is expected here", segmentName(s.index))
		}
		if err := r.file(ctx, c.id, lastChapter && k == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// file scans the segment file that begins at the scanner's place.
func (r *recovery) file(ctx context.Context, chapter uint32, last bool) error {
	s := &r.scan
	seg := &segment{chapter: chapter, index: s.index, base: s.lsn, end: s.lsn}
	name := seg.relative()
	r.out.segments = append(r.out.segments, seg)
	f, err := r.fs.Open(filepath.Join(r.dir(), name))
	if err != nil {
		return r.wrap(name, 0, s.lsn, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return r.wrap(name, 0, s.lsn, err)
	}
	off, v, err := s.segment(ctx, f, size)
	seg.end = s.lsn
	if err != nil {
		return r.wrap(name, off, s.lsn, err)
	}
	if v.good {
		return nil
	}
	if !last {
		return r.corrupt(name, off, s.lsn, "%s; segments follow, so it was durable", v.reason)
	}
	if r.clean != nil {
		return r.corrupt(name, off, s.lsn, "%s; the last stop was clean", v.reason)
	}
	written, err := s.win.written(off)
	if err != nil {
		return r.wrap(name, off, s.lsn, err)
	}
	if written == 0 {
		return nil // room for the frame that did not come
	}
	sameBoot := r.boot != "" && r.boot == s.boot && !r.out.fault
	reason, err := s.classify(off, written, seg.base, v, sameBoot)
	if err != nil {
		return r.wrap(name, off, s.lsn, err)
	}
	if reason != "" {
		return r.corrupt(name, off, s.lsn, "%s", reason)
	}
	r.out.cut = written
	sum, err := s.win.sum(off, r.out.cut)
	if err != nil {
		return r.wrap(name, off, s.lsn, err)
	}
	r.out.report.CutReason = v.reason
	r.out.report.CutFile = filepath.Join(partitionName(r.id), "cut", fmt.Sprintf("%020d-%08x.cut", s.lsn, sum))
	return nil
}

// listCheckpoints reads the headers of what lies in checkpoints/; what is no good is discarded, never fatal (F6).
func (r *recovery) listCheckpoints() []checkpoint {
	entries, err := r.fs.ReadDir(filepath.Join(r.dir(), "checkpoints"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.discard("checkpoints", err)
		}
		return nil
	}
	var list []checkpoint
	for _, e := range entries {
		name := filepath.Join("checkpoints", e.Name)
		if isTemp(e.Name) {
			r.out.temps = append(r.out.temps, name)
			continue
		}
		if !strings.HasSuffix(e.Name, ".ckpt") {
			continue
		}
		c, err := readCheckpoint(r.fs, filepath.Join(r.dir(), name), r.id, r.tag)
		if err == nil && checkpointName(c.lsn) != e.Name {
			err = fmt.Errorf("%w: is of LSN %d", errDamaged, c.lsn)
		}
		if err != nil {
			r.discard(name, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

// keepCheckpoints leaves those that are of this log.
func (r *recovery) keepCheckpoints(list []checkpoint) {
	for _, c := range list {
		name := filepath.Join("checkpoints", checkpointName(c.lsn))
		switch {
		case c.lsn > r.out.end.lsn:
			r.discard(name, fmt.Errorf("log ends at LSN %d before it", r.out.end.lsn))
		case c.lsn < r.out.first || c.lsn > r.out.first && r.scan.watch[c.lsn] != (passed{true, c.chain}) || c.lsn == r.out.first && c.lsn != firstLSN:
			r.discard(name, errors.New("is of another log"))
		default:
			r.out.ckpts = append(r.out.ckpts, c)
		}
	}
}
