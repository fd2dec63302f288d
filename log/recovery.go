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

// recovery reads the files of one partition. It reads the files that say where the log begins and
// ends, walks through the segments with a [walk], and compares the results (log-format.md 5.3). A
// start and a survey are the same recovery with two policies. A start stops at the first damaged
// place and refuses with it. A survey reports the place and continues after it (5.6).
type recovery struct {
	files partitionFiles
	boot  string       // boot id of the running kernel; empty: unknown
	clean *format.Mark // where the clean marker says the log ends
	// how far this process has synced the log; LSN 0: it reads the log for the first time
	owed format.Mark
	// set for a log that a broker writes; nil: no broker does, and all of the log is read
	bound *bound
	// report is called with each damaged place. An error that it returns ends the recovery. Without
	// it, the first place ends the recovery with its error.
	report func(*CorruptError) error
	// thorough makes the recovery read sealed files whole, as a survey does anyway.
	thorough bool

	blocks *blockCache // of sealed files
	walk   *walk
	dirs   inventory
	out    *findings
}

// findings are the results of reading a partition's files. Nothing has been changed yet.
type findings struct {
	manifest format.Manifest
	segments []*segment
	base     format.Base // what the log begins with; LSN 0: with its first frame
	first    event.LSN
	end      format.Mark // of the good frames
	solid    event.LSN   // everything below was synced
	// the kernel of the last run still runs: what was read may be only in its page cache
	cached bool
	clean  bool
	cut    int64 // bytes after the end in the last segment's file
	stray  []string
	temps  []string
	// remains of an interrupted sealing: chapters and sealed files that are not part of the log
	remains  []string
	tip      format.Run // the run at the start of the first chapter
	fault    bool
	report   Recovery
	stop     event.Stop          // of the last run
	ckpts    []format.Checkpoint // usable ones, oldest first
	noted    event.LSN           // progress note
	badNotes []string            // damaged progress or fault notes that a clean marker replaces
}

// begin makes the walk, which reads through buf.
func (r *recovery) begin(buf []byte) {
	r.blocks, r.out = walkCache(), &findings{first: format.FirstLSN}
	r.walk = newWalk(r.files, buf, policy{judge: r.judge, damaged: r.damaged})
	r.dirs = inventory{files: r.files, out: r.out, damaged: r.damaged}
}

// readsWhole reports whether sealed files and bases are read whole.
func (r *recovery) readsWhole() bool { return r.report != nil || r.thorough }

// damaged applies the policy to an error at a place. nil means to continue after it.
func (r *recovery) damaged(file string, off int64, lsn event.LSN, err error) error {
	err = r.files.readVerdict(file, off, lsn, err)
	if err == nil || r.report == nil {
		return err
	}
	// the log of a newer program would have been refused before
	if errors.Is(err, ErrFormat) {
		err = r.files.corrupt(file, off, r.walk.scan.LSN, "%v", err)
	}
	var c *CorruptError
	if errors.As(err, &c) {
		return r.report(c)
	}
	return err
}

func (r *recovery) run(ctx context.Context) (*findings, error) {
	buf := windows.Get().(*[windowBytes]byte)
	defer windows.Put(buf)
	r.begin(buf[:])
	s, out := &r.walk.scan, r.out
	s.LSN, s.Watch = format.FirstLSN, make(map[event.LSN]format.Passed)
	if err := r.readBound(); err != nil {
		return nil, err
	}
	if err := r.takeManifest(); err != nil {
		return nil, err
	}
	notes, err := r.readNotes()
	if err != nil {
		return nil, err
	}
	if err := r.readBase(); err != nil {
		return nil, err
	}
	files := r.listCheckpoints()
	for _, c := range files {
		s.Watch[c.LSN] = format.Passed{}
	}
	if err := r.sealedFiles(ctx); err != nil {
		return nil, err
	}
	if err := r.chapters(ctx); err != nil {
		return nil, err
	}
	out.end = format.Mark{LSN: s.LSN, Epoch: s.Epoch, Chain: s.Chain}
	if out.end.LSN > out.first && r.walk.chained { // a place before any frame has no chain
		s.Watch[out.end.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
	if err := r.ends(notes); err != nil {
		return nil, err
	}
	if err := r.checkBase(); err != nil {
		return nil, err
	}
	r.keepCheckpoints(files)
	r.conclude(notes)
	return out, nil
}

// conclude fills in the results of the recovery as a whole.
func (r *recovery) conclude(notes []note) {
	out, s := r.out, &r.walk.scan
	out.cached = r.boot == "" || r.boot == s.Boot
	out.solid = s.Durable
	for _, n := range notes {
		out.solid = max(out.solid, n.LSN)
		if n.name == progressName {
			out.noted = n.LSN
		}
	}
	out.clean, out.stop = r.clean != nil, r.stop()
	p := &out.report
	p.Clean, p.Frames, p.Records, p.Bytes = out.clean, s.Frames, s.Records, s.Bytes
	p.Chapters, p.Epoch, p.Newest = len(out.manifest.Chapters), s.Epoch, s.Newest
	p.CutBytes, p.Checkpoints = out.cut, len(out.ckpts)
}

// stop returns how the last run ended.
func (r *recovery) stop() event.Stop {
	switch {
	case r.walk.scan.Frames == 0:
		return event.StopNone
	case r.clean != nil:
		return event.StopClean
	case r.out.fault:
		return event.StopFailed
	case r.boot != "" && r.boot == r.walk.scan.Boot:
		return event.StopKilled
	}
	return event.StopCrash
}

func (r *recovery) takeManifest() error {
	m, err := r.files.readManifest()
	r.dirs.listed, r.dirs.live = err == nil, r.bound != nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = r.files.corrupt("manifest", 0, 0, "is missing")
	case err == nil:
		r.out.manifest, r.out.first = m, m.Begin()
		r.walk.scan.LSN, r.walk.scan.Chain = m.First()
	}
	return r.damaged("manifest", 0, 0, r.files.decodeVerdict("manifest", 0, 0, err))
}

// readBase checks the base that a good manifest names, and the other files among the bases
// (log-format.md 5.3).
func (r *recovery) readBase() error {
	ok, err := r.dirs.checkBases()
	named := r.out.manifest.Base
	if !ok || !r.dirs.listed || named.LSN == 0 {
		return err
	}
	name := basePath(named.LSN)
	f, b, err := openBase(r.files.open, named, r.files.id, r.files.tag, r.readsWhole())
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		r.out.base = b
		r.walk.scan.Watch[b.LSN] = format.Passed{}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = r.files.corrupt(name, 0, named.LSN, "base is missing")
	}
	return r.damaged(name, 0, named.LSN, r.files.decodeVerdict(name, 0, named.LSN, err))
}

// checkBase checks that a frame of the log ends at the base.
func (r *recovery) checkBase() error {
	b := &r.out.base
	// everything up to the end of the walk has been removed
	unread := r.bound != nil && (b.LSN > r.out.end.LSN || len(r.out.segments) == 0)
	if b.LSN <= format.FirstLSN || r.wasSkipped(b.LSN) || unread || r.walk.scan.Watch[b.LSN] == (format.Passed{There: true, Chain: b.Chain}) {
		return nil
	}
	name := basePath(b.LSN)
	return r.damaged(name, 0, b.LSN, r.files.corrupt(name, 0, b.LSN, "is of another log"))
}

// The files that say how far a log was durable.
const (
	progressName = "progress"
	faultName    = "fault"
)

// memory takes the place of such a file's name when this process itself knows how far the log was
// durable. The file may have been lost with a disk that failed.
const memory = "the process that wrote it"

// note is the content of one of these files.
type note struct {
	name string
	format.Mark
}

// readNotes reads the good notes, and makes the scanner watch the places at their LSNs.
func (r *recovery) readNotes() (notes []note, err error) {
	if r.bound != nil {
		return r.setBound(), nil
	}
	for _, n := range [...]struct {
		name string
		kind format.Note
	}{{progressName, format.Progress}, {faultName, format.Fault}} {
		name := n.name
		m, err := r.readMark(name, n.kind)
		if name == faultName {
			r.out.fault = m != nil || err != nil
		}
		if err := r.damaged(name, 0, 0, err); err != nil {
			return nil, err
		}
		if m != nil {
			notes = append(notes, note{name, *m})
			r.walk.scan.Watch[m.LSN] = format.Passed{}
		}
	}
	if r.owed.LSN > 0 {
		notes = append(notes, note{memory, r.owed})
		r.walk.scan.Watch[r.owed.LSN] = format.Passed{}
	}
	return notes, nil
}

// readMark reads progress or fault; nil when it is absent or bad. While a clean marker confirms the
// end, a damaged one is not an error.
func (r *recovery) readMark(name string, kind format.Note) (*format.Mark, error) {
	p, err := r.files.readNote(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m format.Mark
	if err == nil {
		m, err = kind.Decode(p, r.files.id, r.files.tag)
	}
	switch {
	case err == nil:
		return &m, nil
	case !errors.Is(err, format.ErrDamaged):
		return nil, err
	case r.clean != nil:
		r.discard(name, err)
		r.out.badNotes = append(r.out.badNotes, name)
		return nil, nil
	}
	return nil, r.files.corrupt(name, 0, 0, "%v", err)
}

func (r *recovery) discard(file string, err error) {
	r.out.report.Discarded = append(r.out.report.Discarded,
		Discard{File: filepath.Join(format.PartitionDir(r.files.id), file), Reason: err.Error()})
}

// ends compares the end of the log, as far as it is known, with the notes and the clean marker.
func (r *recovery) ends(notes []note) error {
	for _, n := range notes {
		if r.wasSkipped(n.LSN) {
			continue
		}
		if err := r.damaged(n.name, 0, n.LSN, r.checkNote(n)); err != nil {
			return err
		}
	}
	end, c := r.out.end, r.clean
	if c == nil || *c == end || !r.walk.sure || !r.walk.chained || !r.walk.reigned {
		return nil
	}
	return r.damaged("clean", 0, end.LSN, &CorruptError{Partition: r.files.id, File: "clean", LSN: end.LSN,
		Reason: fmt.Sprintf("log ends at %d in epoch %d, the clean marker says %d in epoch %d, or its chain is another",
			end.LSN, end.Epoch, c.LSN, c.Epoch)})
}

// wasSkipped reports whether a place is unknown because it may have been skipped.
func (r *recovery) wasSkipped(at event.LSN) bool {
	return r.walk.lost && !r.walk.scan.Watch[at].There && (at <= r.out.end.LSN || !r.walk.sure)
}

// checkNote checks that the log reaches as far as a note says it was durable.
func (r *recovery) checkNote(n note) error {
	endFile, endOff := r.endPlace()
	file, end := n.name, r.out.end
	var cause error
	if file == memory {
		file, cause = endFile, ErrLost
	}
	stands := r.walk.scan.Watch[n.LSN] == (format.Passed{There: true, Chain: n.Chain})
	switch empty := n.LSN <= r.out.first && len(r.out.segments) == 0; {
	case empty && r.bound != nil && (n.LSN < end.LSN || n.LSN == end.LSN && n.Chain == end.Chain):
		// the newest chapter begins there
	case empty && n.LSN > format.FirstLSN:
		return r.files.corruptBy(file, 0, n.LSN, fmt.Sprintf("the log was durable up to LSN %d and is empty", n.LSN), cause)
	case empty:
	case n.LSN > end.LSN:
		return r.files.corruptBy(endFile, endOff, end.LSN, fmt.Sprintf("the log ends here, but %s says it was durable up to LSN %d", n.name, n.LSN), cause)
	case n.LSN > r.out.first && !stands:
		return r.files.corruptBy(file, 0, n.LSN, fmt.Sprintf("%s names a frame at LSN %d that is not in this log", n.name, n.LSN), cause)
	}
	return nil
}

// endPlace returns the file and the offset where the good frames end.
func (r *recovery) endPlace() (string, int64) {
	if n := len(r.out.segments); n > 0 {
		s := r.out.segments[n-1]
		return s.kind.path(), int64(s.end - s.base)
	}
	return "wal", 0
}

// listCheckpoints reads the headers of the files in checkpoints/. Bad files are discarded and are
// never fatal (F6).
func (r *recovery) listCheckpoints() []format.Checkpoint {
	entries, err := r.files.readDir("checkpoints")
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.discard("checkpoints", err)
		}
		return nil
	}
	var list []format.Checkpoint
	for _, e := range entries {
		name := filepath.Join("checkpoints", e.Name)
		if disk.IsTemp(e.Name) {
			r.out.temps = append(r.out.temps, name)
			continue
		}
		if !strings.HasSuffix(e.Name, ".ckpt") {
			continue
		}
		c, err := readCheckpoint(r.files.fs, filepath.Join(r.files.dir(), name), r.files.id, r.files.tag)
		if r.bound != nil && errors.Is(err, fs.ErrNotExist) {
			continue // the broker has newer ones by now
		}
		if err == nil && format.CheckpointName(c.LSN) != e.Name {
			err = fmt.Errorf("%w: is of LSN %d", format.ErrDamaged, c.LSN)
		}
		if err != nil {
			r.discard(name, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

// keepCheckpoints keeps those that belong to this log, or may belong to it.
func (r *recovery) keepCheckpoints(list []format.Checkpoint) {
	for _, c := range list {
		name := filepath.Join("checkpoints", format.CheckpointName(c.LSN))
		switch {
		case r.wasSkipped(c.LSN):
			r.out.ckpts = append(r.out.ckpts, c)
		case c.LSN > r.out.end.LSN && r.bound != nil: // later than the bound
		case c.LSN > r.out.end.LSN:
			r.discard(name, fmt.Errorf("log ends at LSN %d before it", r.out.end.LSN))
		case c.LSN < r.out.base.LSN: // the log begins after it
			r.out.remains = append(r.out.remains, name)
		case c.LSN < r.out.first || c.LSN > format.FirstLSN && r.walk.scan.Watch[c.LSN] != (format.Passed{There: true, Chain: c.Chain}):
			r.discard(name, errors.New("is of another log"))
		default:
			r.out.ckpts = append(r.out.ckpts, c)
		}
	}
}

// judge returns why a bad frame is damaged (log-format.md 5.3), or errTail after it has noted the
// tail.
func (r *recovery) judge(off int64, base event.LSN, v format.Verdict, last bool) error {
	s := &r.walk.scan
	switch {
	case !last:
		return r.walk.corrupt(off, v.Reason+"; segments follow, so it was durable")
	case r.bound != nil:
		return r.walk.corrupt(off, v.Reason+"; it was durable")
	case r.clean != nil:
		return r.walk.corrupt(off, v.Reason+"; the last stop was clean")
	}
	written, err := s.Win.Written(off)
	if err != nil {
		return err
	}
	if written == 0 {
		return errTail // preallocated room for a frame that was never written
	}
	sameBoot := r.boot != "" && r.boot == s.Boot && !r.out.fault
	reason, err := s.Classify(off, written, base, v, sameBoot)
	if err != nil {
		return err
	}
	if reason != "" {
		return r.walk.corrupt(off, reason)
	}
	return r.cut(off, written, v.Reason)
}

// cut notes the bytes after the good frames, and the name of the file that will keep them.
func (r *recovery) cut(off, written int64, reason string) error {
	sum, err := r.walk.scan.Win.Sum(off, written)
	if err != nil {
		return err
	}
	r.out.cut, r.out.report.CutReason = written, reason
	r.out.report.CutFile = filepath.Join(format.PartitionDir(r.files.id), "cut", fmt.Sprintf("%020d-%08x.cut", r.walk.scan.LSN, sum))
	return errTail
}
