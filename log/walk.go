package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// walk goes through the files of one partition, reads every frame and judges what is damaged (log-format.md 5.3). A start and a survey are
// the same walk with two policies: a start stops at the first damaged place and refuses with it, a survey is told of the place and goes on
// behind it (5.6). What a walk knows of the place where it is goes with it, so that a survey compares only what the damage does not hide; in a
// start, where nothing was passed over, all of it is known.
type walk struct {
	fs    disk.FS
	root  string // data directory
	id    PartitionID
	tag   uint32
	boot  string       // of the running kernel; empty: unknown
	clean *format.Mark // where the clean marker says the log ends
	owed  format.Mark  // how far this process has synced it; LSN 0: it is the first to read it
	bound *bound       // of a walk beside a broker; nil: the log is nobody's, and all of it is read
	// report is told of a damaged place. An error that it returns ends the walk. Without it the walk stops at the first place, with that
	// as its error.
	report func(*CorruptError) error
	// thorough: sealed files are read whole, which a survey does anyway.
	thorough bool
	blocks   *blockCache // of sealed files

	scan format.Scanner
	out  *found

	sure    bool // the scanner's LSN is where a frame ends or a chapter begins
	counted bool // … and its index counts every frame of the chapter
	chained bool // … and its chain is that of the frame before
	reigned bool // … and its epoch too
	lost    bool // something was passed over unread, so that a place not met may have been there
}

// found is what a walk makes of a partition's files. Nothing has been changed yet.
type found struct {
	manifest format.Manifest
	segments []*segment
	base     format.Base // what the log begins with; LSN 0: with its first frame
	first    event.LSN
	end      format.Mark // of the good frames
	solid    event.LSN   // everything below was synced
	cached   bool        // the kernel that the last run wrote with still runs: what was read may stand in its page cache alone
	clean    bool
	cut      int64 // bytes behind the end in the last segment's file
	stray    []string
	temps    []string
	remains  []string   // what an interrupted sealing left: chapters and sealed files that are not the log
	tip      format.Run // under way where the first chapter begins
	fault    bool
	report   Recovery
	stop     event.Stop          // of the last run
	ckpts    []format.Checkpoint // usable ones, oldest first
	noted    event.LSN           // progress note
	badNotes []string            // damaged progress or fault notes that a clean marker made up for
}

func (w *walk) dir() string { return filepath.Join(w.root, format.PartitionDir(w.id)) }

// corrupt names a place below the partition's directory.
func (w *walk) corrupt(file string, off int64, lsn event.LSN, reason string, args ...any) error {
	return &CorruptError{
		Partition: w.id, File: filepath.Join(format.PartitionDir(w.id), file), Offset: off, LSN: lsn,
		Reason: fmt.Sprintf(reason, args...),
	}
}

// wrap turns an error into a verdict: what cannot be read is as good as damaged (F10), except for a newer format.
func (w *walk) wrap(file string, off int64, lsn event.LSN, err error) error {
	var c *CorruptError
	if err == nil || errors.As(err, &c) || errors.Is(err, ErrFormat) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &CorruptError{
		Partition: w.id, File: filepath.Join(format.PartitionDir(w.id), file), Offset: off, LSN: lsn,
		Reason: "cannot be read", Cause: err,
	}
}

// damaged applies the policy to an error met at a place: nil says to go on behind it.
func (w *walk) damaged(file string, off int64, lsn event.LSN, err error) error {
	err = w.wrap(file, off, lsn, err)
	if err == nil || w.report == nil {
		return err
	}
	if errors.Is(err, ErrFormat) { // the log of a newer program would have been refused as such before
		err = w.corrupt(file, off, w.scan.LSN, "%v", err)
	}
	var c *CorruptError
	if errors.As(err, &c) {
		return w.report(c)
	}
	return err
}

// leave forgets what does not hold behind bytes of which nothing is known.
func (w *walk) leave() {
	if w.scan.Fresh { // the epoch's first frame has the boot id
		w.scan.Boot = ""
	}
	w.sure, w.counted, w.chained, w.reigned, w.lost, w.scan.Fresh = false, false, false, false, true, false
}

func (w *walk) run(ctx context.Context) (*found, error) {
	w.out = &found{first: format.FirstLSN}
	s := &w.scan
	s.Partition, s.Tag, s.LSN = w.id, w.tag, format.FirstLSN
	s.Watch = make(map[event.LSN]format.Passed)
	w.sure, w.chained, w.reigned = true, true, true
	if err := w.readBound(); err != nil {
		return nil, err
	}
	listed := w.readManifest()
	if err := w.damaged("manifest", 0, 0, listed); err != nil {
		return nil, err
	}
	notes, err := w.readNotes()
	if err != nil {
		return nil, err
	}
	if err := (baseWalk{w}).read(listed == nil); err != nil {
		return nil, err
	}
	files := w.listCheckpoints()
	for _, c := range files {
		s.Watch[c.LSN] = format.Passed{}
	}
	if err := (sealedWalk{w}).files(ctx, listed == nil); err != nil {
		return nil, err
	}
	if err := w.chapters(ctx, listed == nil); err != nil {
		return nil, err
	}
	w.out.end = format.Mark{LSN: s.LSN, Epoch: s.Epoch, Chain: s.Chain}
	if w.out.end.LSN > w.out.first && w.chained { // places before any frame have no chain
		s.Watch[w.out.end.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
	if err := w.ends(notes); err != nil {
		return nil, err
	}
	if err := (baseWalk{w}).stands(); err != nil {
		return nil, err
	}
	w.keepCheckpoints(files)
	w.conclude(notes)
	return w.out, nil
}

// conclude fills in what follows from the walk as a whole.
func (w *walk) conclude(notes []note) {
	out, s := w.out, &w.scan
	out.cached = w.boot == "" || w.boot == s.Boot
	out.solid = s.Durable
	for _, n := range notes {
		out.solid = max(out.solid, n.LSN)
		if n.name == progressName {
			out.noted = n.LSN
		}
	}
	out.clean, out.stop = w.clean != nil, w.stop()
	p := &out.report
	p.Clean, p.Frames, p.Records, p.Bytes = out.clean, s.Frames, s.Records, s.Bytes
	p.Chapters, p.Epoch, p.Newest = len(out.manifest.Chapters), s.Epoch, s.Newest
	p.CutBytes, p.Checkpoints = out.cut, len(out.ckpts)
}

// stop is how the last run ended.
func (w *walk) stop() event.Stop {
	switch {
	case w.scan.Frames == 0:
		return event.StopNone
	case w.clean != nil:
		return event.StopClean
	case w.out.fault:
		return event.StopFailed
	case w.boot != "" && w.boot == w.scan.Boot:
		return event.StopKilled
	}
	return event.StopCrash
}

func (w *walk) readManifest() error {
	p, err := readFile(w.fs, filepath.Join(w.dir(), "manifest"), format.MaxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return w.corrupt("manifest", 0, 0, "is missing")
	}
	if err == nil {
		w.out.manifest, err = format.DecodeManifest(p, w.id, w.tag)
	}
	if errors.Is(err, format.ErrDamaged) {
		return w.corrupt("manifest", 0, 0, "%v", err)
	}
	if err == nil {
		w.scan.LSN, w.scan.Chain = w.out.manifest.First()
		w.out.first = w.out.manifest.Begin()
	}
	return err
}

// The files that say how far a log was durable.
const (
	progressName = "progress"
	faultName    = "fault"
)

// memory stands for such a file where it is this process that says so: the file of a disk that failed may have failed with it.
const memory = "the process that wrote it"

// note is what one of these files says.
type note struct {
	name string
	format.Mark
}

// readNotes reads the notes that are there and good, and has the scanner watch what stands at their LSNs.
func (w *walk) readNotes() (notes []note, err error) {
	if w.bound != nil {
		return w.setBound(), nil
	}
	for _, n := range [...]struct {
		name string
		kind format.Note
	}{{progressName, format.Progress}, {faultName, format.Fault}} {
		name := n.name
		m, err := w.readMark(name, n.kind)
		if name == faultName {
			w.out.fault = m != nil || err != nil
		}
		if err := w.damaged(name, 0, 0, err); err != nil {
			return nil, err
		}
		if m != nil {
			notes = append(notes, note{name, *m})
			w.scan.Watch[m.LSN] = format.Passed{}
		}
	}
	if w.owed.LSN > 0 {
		notes = append(notes, note{memory, w.owed})
		w.scan.Watch[w.owed.LSN] = format.Passed{}
	}
	return notes, nil
}

// readMark reads progress or fault; nil when it is absent or no good. While a clean marker vouches for the end, a damaged one is no error.
func (w *walk) readMark(name string, kind format.Note) (*format.Mark, error) {
	p, err := readFile(w.fs, filepath.Join(w.dir(), name), format.MaxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m format.Mark
	if err == nil {
		m, err = kind.Decode(p, w.id, w.tag)
	}
	switch {
	case err == nil:
		return &m, nil
	case !errors.Is(err, format.ErrDamaged):
		return nil, err
	case w.clean != nil:
		w.discard(name, err)
		w.out.badNotes = append(w.out.badNotes, name)
		return nil, nil
	}
	return nil, w.corrupt(name, 0, 0, "%v", err)
}

func (w *walk) discard(file string, err error) {
	w.out.report.Discarded = append(w.out.report.Discarded,
		Discard{File: filepath.Join(format.PartitionDir(w.id), file), Reason: err.Error()})
}

// ends compares the end of the log, as far as it is known, with what the notes and the clean marker say.
func (w *walk) ends(notes []note) error {
	for _, n := range notes {
		if w.missed(n.LSN) {
			continue
		}
		if err := w.damaged(n.name, 0, n.LSN, w.reached(n)); err != nil {
			return err
		}
	}
	end, c := w.out.end, w.clean
	if c == nil || *c == end || !w.sure || !w.chained || !w.reigned {
		return nil
	}
	return w.damaged("clean", 0, end.LSN, &CorruptError{Partition: w.id, File: "clean", LSN: end.LSN,
		Reason: fmt.Sprintf("log ends at %d in epoch %d, the clean marker says %d in epoch %d, or its chain is another",
			end.LSN, end.Epoch, c.LSN, c.Epoch)})
}

// missed reports whether nothing can be said about a place, since it may have been among what was passed over.
func (w *walk) missed(at event.LSN) bool {
	return w.lost && !w.scan.Watch[at].There && (at <= w.out.end.LSN || !w.sure)
}

// reached checks that the log holds what a note says was durable.
func (w *walk) reached(n note) error {
	err := holds(w, n)
	if c, is := errors.AsType[*CorruptError](err); is && n.name == memory {
		c.Cause = ErrLost
	}
	return err
}

func holds(w *walk, n note) error {
	file := n.name
	if file == memory {
		file, _ = w.endPlace()
	}
	if n.LSN <= w.out.first && len(w.out.segments) == 0 {
		end := &w.out.end
		removed := w.bound != nil && (n.LSN < end.LSN || n.LSN == end.LSN && n.Chain == end.Chain) // the newest chapter begins there
		if n.LSN > format.FirstLSN && !removed {
			return w.corrupt(file, 0, n.LSN, "the log was durable up to LSN %d and is empty", n.LSN)
		}
		return nil
	}
	if n.LSN > w.out.end.LSN {
		file, off := w.endPlace()
		return w.corrupt(file, off, w.out.end.LSN, "the log ends here, but %s says it was durable up to LSN %d", n.name, n.LSN)
	}
	if n.LSN > w.out.first && w.scan.Watch[n.LSN] != (format.Passed{There: true, Chain: n.Chain}) {
		return w.corrupt(file, 0, n.LSN, "%s names a frame at LSN %d that is not in this log", n.name, n.LSN)
	}
	return nil
}

// endPlace is where the good frames end, as file and offset.
func (w *walk) endPlace() (string, int64) {
	if n := len(w.out.segments); n > 0 {
		s := w.out.segments[n-1]
		return s.kind.path(), int64(s.end - s.base)
	}
	return "wal", 0
}

// listCheckpoints reads the headers of what lies in checkpoints/; what is no good is discarded, never fatal (F6).
func (w *walk) listCheckpoints() []format.Checkpoint {
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), "checkpoints"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.discard("checkpoints", err)
		}
		return nil
	}
	var list []format.Checkpoint
	for _, e := range entries {
		name := filepath.Join("checkpoints", e.Name)
		if disk.IsTemp(e.Name) {
			w.out.temps = append(w.out.temps, name)
			continue
		}
		if !strings.HasSuffix(e.Name, ".ckpt") {
			continue
		}
		c, err := readCheckpoint(w.fs, filepath.Join(w.dir(), name), w.id, w.tag)
		if w.bound != nil && errors.Is(err, fs.ErrNotExist) {
			continue // the broker has newer ones by now
		}
		if err == nil && format.CheckpointName(c.LSN) != e.Name {
			err = fmt.Errorf("%w: is of LSN %d", format.ErrDamaged, c.LSN)
		}
		if err != nil {
			w.discard(name, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

// keepCheckpoints leaves those that are of this log, or may be.
func (w *walk) keepCheckpoints(list []format.Checkpoint) {
	for _, c := range list {
		name := filepath.Join("checkpoints", format.CheckpointName(c.LSN))
		switch {
		case w.missed(c.LSN):
			w.out.ckpts = append(w.out.ckpts, c)
		case c.LSN > w.out.end.LSN && w.bound != nil: // of what came since
		case c.LSN > w.out.end.LSN:
			w.discard(name, fmt.Errorf("log ends at LSN %d before it", w.out.end.LSN))
		case c.LSN < w.out.base.LSN: // the log begins behind it
			w.out.remains = append(w.out.remains, name)
		case c.LSN < w.out.first || c.LSN > format.FirstLSN && w.scan.Watch[c.LSN] != (format.Passed{There: true, Chain: c.Chain}):
			w.discard(name, errors.New("is of another log"))
		default:
			w.out.ckpts = append(w.out.ckpts, c)
		}
	}
}
