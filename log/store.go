package log

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

const (
	defaultMaxFrame   = 128 << 20 // bytes
	defaultPartitions = 4
	defaultOpenFiles  = 256
	// fewestOpenFiles is how many segment files a partition may keep open for reading in any case.
	fewestOpenFiles = 4
)

// withDefaults sets the defaults and refuses impossible values.
func (o Options) withDefaults(dir string) (Options, error) {
	o.Partitions = cmp.Or(o.Partitions, defaultPartitions)
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 8<<20)
	o.RoomBytes = cmp.Or(o.RoomBytes, 64<<10)
	o.ChapterBytes = cmp.Or(o.ChapterBytes, 64<<20)
	o.ChapterAge = cmp.Or(o.ChapterAge, time.Hour)
	o.MaxFrameBytes = cmp.Or(o.MaxFrameBytes, defaultMaxFrame)
	o.Patience = cmp.Or(o.Patience, 800*time.Millisecond)
	o.OpenFiles = cmp.Or(o.OpenFiles, defaultOpenFiles)
	o.ReadOnly = o.ReadOnly || o.Shared
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if _, ok := o.FS.(disk.OS); ok && o.BootID == "" {
		o.BootID = disk.BootID()
	}
	if _, ok := o.FS.(disk.OS); ok && o.ReadOnly {
		o.FS = disk.Look(dir)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Memory == nil {
		o.Memory = Unbounded{}
	}
	if o.Capabilities == nil {
		o.Capabilities = format.Capabilities
	}
	if o.NamespaceID == "" {
		o.NamespaceID = uuid.NewString()
	}
	if o.Partitions < 1 || o.Partitions > format.MaxPartitions {
		return o, fmt.Errorf("log: partitions is %d; must be 1 to %d", o.Partitions, format.MaxPartitions)
	}
	if o.SegmentBytes < 1 || o.SegmentBytes > 1<<30 || o.RoomBytes > 1<<30 || o.RoomBytes > 0 && o.RoomBytes%8 != 0 || o.ChapterBytes < 1 || o.ChapterAge < 0 || o.MaxFrameBytes < format.BodiesAt || o.MaxFrameBytes > format.MaxFrame {
		return o, errors.New("log: a size or age is out of range")
	}
	if !format.AreCapabilities(o.Capabilities) {
		return o, fmt.Errorf("log: invalid list of capabilities %q", o.Capabilities)
	}
	if len(o.BootID) > format.MaxBoot {
		return o, errors.New("log: boot id is too long")
	}
	return o, nil
}

// windowBytes is how much of a file a recovery reads at once.
const windowBytes = 2 << 20

var windows = sync.Pool{New: func() any { return new([windowBytes]byte) }}

type store struct {
	// set once in Open
	fs   disk.FS // waits for a descriptor, unless the store is read-only
	root string
	opts Options
	tag  uint32
	logs int // number of logs
	lock io.Closer
	// ends of the logs in the clean marker; nil: there was none
	ends  []format.Mark
	parts []atomic.Pointer[partition] // refused ones have err; Reopen replaces them
	lease *lease                      // of a shared reader; nil: it has none

	reserve    reserve
	watch      watch
	sealer     sealer
	background background
	blocks     *blockCache

	reopening sync.Mutex // held by Reopen

	cutting sync.Mutex // guards the fields below, and is held while tails are cut
	cut     bool       // no tail of the previous run is left

	mu sync.Mutex       // guards the fields below
	ns format.Namespace // only its format and capabilities grow
	// unmarked says that the clean marker is certainly removed, so partitions may be written.
	unmarked bool
	fault    error // of removing the marker, or of raising the format
	closed   bool
}

// Open opens the data directory, creating it if there is none, and recovers all partitions. A
// refused partition does not stop the others, except for partition 0, whose *CorruptError is
// returned. Other errors wrap ErrInUse, ErrFormat or the cause. Before Lead only the lock file and
// a new directory are written.
func Open(ctx context.Context, dir string, opts Options) (Store, error) {
	dir, opts, err := opts.at(dir)
	if err != nil {
		return nil, err
	}
	s := &store{fs: opts.FS, root: dir, opts: opts, blocks: newBlockCache(sealedCacheBytes, opts.Memory), reserve: reserve{fs: opts.FS, dir: dir}, background: newBackground()}
	if !opts.ReadOnly {
		s.fs = disk.Patient(opts.FS, opts.Logger)
		if err := disk.MakeDir(s.fs, dir); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	} else if _, err := s.fs.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	if s.lock, err = opts.take(s.fs, dir); err != nil {
		return nil, lockError(dir, err)
	}
	if err := s.open(ctx); err != nil {
		s.lease.end()
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// Lock takes the lock of a data directory, which it creates if necessary, and reads nothing. If
// another process has the lock, it fails with [ErrInUse]. Close releases the lock.
func Lock(dir string) (io.Closer, error) {
	dir, o, err := Options{}.at(dir)
	if err != nil {
		return nil, err
	}
	if err := disk.MakeDir(o.FS, dir); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	lock, err := o.take(o.FS, dir)
	if err != nil {
		return nil, lockError(dir, err)
	}
	return lock, nil
}

// take locks the directory, unless it is shared with the process that has it.
func (o Options) take(fsys disk.FS, dir string) (io.Closer, error) {
	if o.Shared {
		return io.NopCloser(nil), nil
	}
	return fsys.Lock(filepath.Join(dir, "lock"))
}

// at resolves the directory's real path, refuses one with links inside, and sets the options for
// it.
func (o Options) at(dir string) (string, Options, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", o, err
	}
	_, onDisk := o.FS.(disk.OS)
	if onDisk = onDisk || o.FS == nil; onDisk {
		dir = disk.RealPath(dir)
	}
	if o, err = o.withDefaults(dir); err != nil {
		return "", o, err
	}
	if onDisk {
		if err := refuseLinks(dir); err != nil {
			return "", o, fmt.Errorf("log: %w", err)
		}
	}
	return dir, o, nil
}

func lockError(dir string, err error) error {
	if errors.Is(err, ErrInUse) {
		return fmt.Errorf("%w: %s", err, dir)
	}
	return fmt.Errorf("log: %s: %w", dir, err)
}

func (s *store) open(ctx context.Context) error {
	var err error
	s.ns, s.tag, err = readNamespace(s.fs, s.root, s.opts.Capabilities)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.handleMissing(err); err == nil {
			s.ns, s.tag, err = readNamespace(s.fs, s.root, s.opts.Capabilities)
		}
	}
	if errors.Is(err, format.ErrDamaged) {
		return &CorruptError{All: true, File: format.NamespaceName, Reason: err.Error()}
	}
	if err != nil {
		return fmt.Errorf("log: namespace: %w", err)
	}
	s.logs = s.ns.Partitions
	if s.opts.Shared { // a broker that starts removes the clean marker
		s.lease = s.newLease()
	} else if s.ends, err = s.readClean(); err != nil {
		return err
	}
	if err := s.recover(ctx); err != nil {
		return err
	}
	// a capability is listed before the first byte that needs it, so now every capability is listed
	// that the bytes read need
	if s.opts.Shared {
		s.ns, err = s.rereadNamespace()
		return err
	}
	if s.opts.ReadOnly {
		return nil
	}
	return s.part(0).err
}

// handleMissing judges a directory without a namespace.json. One with chapters or a clean marker
// has lost it and is refused. Any other is new, or the remains of an interrupted creation. It is
// created unless the store is read-only.
func (s *store) handleMissing(cause error) error {
	if _, err := s.fs.Stat(filepath.Join(s.root, "clean")); err == nil {
		return fmt.Errorf("%w: missing, but the clean marker exists", format.ErrDamaged)
	}
	all := filepath.Join(s.root, "partitions")
	old, err := s.fs.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range old {
		chapters, err := s.fs.ReadDir(filepath.Join(all, e.Name, "wal"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(chapters) > 0 {
			return fmt.Errorf("%w: missing, but partition %s has a log", format.ErrDamaged, e.Name)
		}
	}
	if s.opts.ReadOnly {
		return cause
	}
	return s.create()
}

// create makes a new directory. The remains of an interrupted creation are made again.
func (s *store) create() error {
	ns := format.Namespace{ID: s.opts.NamespaceID, Format: format.Directory, Partitions: s.opts.Partitions, Created: s.opts.Now()}
	tag, err := ns.Tag()
	if err != nil {
		return err
	}
	all := filepath.Join(s.root, "partitions")
	if err := disk.MakeDir(s.fs, all); err != nil {
		return err
	}
	for i := range ns.Partitions {
		dir := filepath.Join(s.root, format.PartitionDir(PartitionID(i)))
		for _, d := range []string{dir, filepath.Join(dir, "wal"), filepath.Join(dir, "checkpoints")} {
			if err := s.fs.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		m := format.Manifest{Generation: 1}
		if err := disk.Replace(s.fs, filepath.Join(dir, "manifest"), m.Encode(PartitionID(i), tag)); err != nil {
			return err
		}
	}
	if err := s.fs.SyncDir(all); err != nil {
		return err
	}
	if err := disk.SyncPath(s.fs, all); err != nil {
		return err
	}
	return disk.Replace(s.fs, filepath.Join(s.root, format.NamespaceName), format.EncodeNamespace(ns))
}

// readClean returns the end of every log from the clean marker, nil without one.
func (s *store) readClean() ([]format.Mark, error) {
	p, err := readFile(s.fs, filepath.Join(s.root, "clean"), format.MaxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ends []format.Mark
	if err == nil {
		ends, err = format.DecodeClean(p, s.tag, s.ns.Partitions)
	}
	if err != nil && !errors.Is(err, ErrFormat) {
		return nil, &CorruptError{All: true, File: "clean", Reason: "the ends of the logs are unknown", Cause: err}
	}
	return ends, err
}

// recover reads all partitions, a few at a time.
func (s *store) recover(ctx context.Context) error {
	s.parts = make([]atomic.Pointer[partition], s.ns.Partitions)
	workers := min(runtime.GOMAXPROCS(0), len(s.parts))
	if s.opts.Manual {
		workers = 1
	}
	var wg sync.WaitGroup
	next := make(chan int, len(s.parts))
	for i := range s.parts {
		next <- i
	}
	close(next)
	for range workers {
		work := func() {
			for i := range next {
				s.parts[i].Store(s.recoverPartition(ctx, PartitionID(i), s.cleanMark(PartitionID(i)), format.Mark{}))
			}
		}
		if workers == 1 {
			work()
			break
		}
		wg.Go(work)
	}
	wg.Wait()
	for p := range s.all() {
		var c *CorruptError
		if p.err != nil && !errors.As(p.err, &c) {
			return p.err
		}
	}
	return nil
}

func (s *store) filesOf(id PartitionID) partitionFiles {
	return partitionFiles{s.fs, s.root, id, s.tag}
}

// part returns the current partition of a number.
func (s *store) part(id PartitionID) *partition { return s.parts[id].Load() }

// all yields the current partitions, by number.
func (s *store) all() iter.Seq[*partition] {
	return func(yield func(*partition) bool) {
		for i := range s.parts {
			if !yield(s.parts[i].Load()) {
				return
			}
		}
	}
}

// cleanMark returns the end of a log in the clean marker; nil: there was none.
func (s *store) cleanMark(id PartitionID) *format.Mark {
	if s.ends == nil {
		return nil
	}
	return &s.ends[id]
}

// cachedFiles returns how many segment files each partition keeps open for reading.
func cachedFiles(openFiles, partitions int) int { return max(fewestOpenFiles, openFiles/partitions) }

// Descriptors returns how many files a store with that many partitions keeps open while they are
// written, with [Options.OpenFiles] as given. Files that are opened briefly, to begin a segment or
// to write a checkpoint, come on top: a few per partition.
func Descriptors(partitions, openFiles int) int {
	const (
		writing = 2 // a segment to write and to sync through
		noting  = 3 // see progress
	)
	return 1 + partitions*(writing+noting+cachedFiles(cmp.Or(openFiles, defaultOpenFiles), partitions))
}

// verdict reads a partition, even while a broker writes it.
func (s *store) verdict(ctx context.Context, r *recovery) (*findings, error) {
	if s.opts.Shared {
		r.bound = new(bound)
		return s.recoverBeside(ctx, r)
	}
	return s.run(ctx, r)
}

// run reads a partition. It turns a panic into an error, so that the work of other goroutines ends
// in order.
func (s *store) run(ctx context.Context, r *recovery) (out *findings, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.opts.Logger.Error("recovery panicked", "partition", r.files.id, "panic", v, "stack", string(debug.Stack()))
			out, err = nil, fmt.Errorf("%w: partition %d: panic: %v", ErrInternal, r.files.id, v)
		}
	}()
	return r.run(ctx)
}

func (s *store) recoverPartition(ctx context.Context, id PartitionID, clean *format.Mark, owed format.Mark) *partition {
	files := s.filesOf(id)
	start := time.Now()
	out, err := s.verdict(ctx, &recovery{files: files, boot: s.opts.BootID, clean: clean, owed: owed, thorough: s.opts.Thorough})
	p := &partition{store: s, id: id, dir: files.dir(), err: err, owed: owed}
	p.files.limit = cachedFiles(s.opts.OpenFiles, len(s.parts))
	logger := s.opts.Logger.With("partition", id)
	if err != nil {
		// a recovery that was stopped says nothing of the partition
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			logger.Error("partition refused", "error", err)
		}
		return p
	}
	p.take(out)
	rep := &out.report
	logger.Info("log recovered", "clean", rep.Clean, "frames", rep.Frames, "records", rep.Records, "bytes", rep.Bytes,
		"end", out.end.LSN, "epoch", rep.Epoch, "took", time.Since(start))
	if rep.CutBytes > 0 {
		logger.Warn("unacknowledged tail cut off", "bytes", rep.CutBytes, "at", out.end.LSN, "reason", rep.CutReason, "kept", rep.CutFile)
	}
	for _, d := range rep.Discarded {
		logger.Warn("file not used", "file", d.File, "reason", d.Reason)
	}
	return p
}

// Namespace implements [Store].
func (s *store) Namespace() format.Namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// Partitions implements [Store].
func (s *store) Partitions() []PartitionID {
	ids := make([]PartitionID, len(s.parts))
	for i := range ids {
		ids[i] = PartitionID(i)
	}
	return ids
}

// Open implements [Store].
func (s *store) Open(_ context.Context, id PartitionID) (Partition, error) {
	if int(id) >= len(s.parts) {
		return nil, fmt.Errorf("log: no partition %d", id)
	}
	p := s.part(id)
	if p.err != nil {
		return nil, p.err
	}
	return p, nil
}

// unmark removes the clean marker, and temporary files beside it, before the first write of this
// run.
func (s *store) unmark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.unmarked || s.fault != nil {
		return s.fault
	}
	var err error
	for _, name := range []string{"clean", "clean" + disk.TempSuffix, format.NamespaceName + disk.TempSuffix} {
		if err = s.fs.Remove(filepath.Join(s.root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = nil
	}
	if err == nil {
		err = s.fs.SyncDir(s.root)
	}
	s.unmarked = err == nil
	if err != nil {
		s.fault = fmt.Errorf("%w: clean marker: %w", ErrPoisoned, err)
	}
	return s.fault
}

// Close implements [Store].
func (s *store) Close() error {
	s.sealer.end()
	for p := range s.all() { // another process may use the directory next
		p.sealing.end()
		p.baseManager.end()
		p.scrubState.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	ends := make([]format.Mark, len(s.parts))
	clean := s.unmarked
	var errs []error
	for i := range s.parts {
		p := s.part(PartitionID(i))
		end, ok := p.settledEnd()
		ends[i] = end
		clean = clean && ok
		p.files.closeAll()
	}
	s.blocks.clear()
	s.reserve.close()
	s.watch.end()
	s.lease.end()
	if clean {
		if err := disk.Replace(s.fs, filepath.Join(s.root, "clean"), format.EncodeClean(s.tag, ends)); err != nil {
			errs = append(errs, fmt.Errorf("log: clean marker: %w", err))
		}
	}
	errs = append(errs, s.lock.Close())
	return errors.Join(errs...)
}
