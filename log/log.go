package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Package format defines what frames say of themselves. These are the names for readers and writers
// of frames.
type (
	PartitionID = format.PartitionID
	Epoch       = format.Epoch
	Durability  = format.Durability
	Kind        = format.Kind
)

const (
	// written and in its place; survives the death of the process, but not a power loss
	Ordered = format.Ordered
	Durable = format.Durable // synced, with everything before it

	Events     = format.Events     // records
	EpochStart = format.EpochStart // a run begins
	Skip       = format.Skip       // nothing happened for a second
)

// Options are the settings of a store. The zero value of each means its default.
type Options struct {
	FS disk.FS // default: the operating system
	// number of partitions when the directory is created, 1 to 64; default 4
	Partitions int
	// a segment file ends with the frame that reaches it; default 8 MiB
	SegmentBytes int
	// by how much a segment file is extended before small frames; default 64 KiB, negative: never
	RoomBytes    int
	ChapterBytes int           // a chapter ends with the frame that reaches it; default 64 MiB
	ChapterAge   time.Duration // a chapter older than this ends with the next frame; default 1 h
	// boot id of the running kernel; default: asked of the OS; with another FS empty, which means
	// unknown
	BootID string
	// segment files that all partitions together keep open for reading; default 256, at least 4 for
	// each partition
	OpenFiles int
	// UUID used when the directory is created; default random. For simulations
	NamespaceID string
	Logger      *slog.Logger     // default: discard
	Now         func() time.Time // ages chapters, nothing else; default time.Now
	// Patience is how long a write or a sync may take before the disk counts as hanging; default
	// 800 ms.
	Patience time.Duration
	// Manual starts no goroutine: each writer is a [ManualWriter], whose work the caller does.
	// Partitions are recovered one after the other. For simulations.
	Manual bool
	// Capabilities are the words of namespace.json that the caller supports; default: those of this
	// version. If the directory uses others, Open fails with ErrFormat.
	Capabilities []string
	// ReserveBytes is how much of the disk is kept for the time when it is full
	// (docs/decisions/0039), at most an eighth of a small disk; 0: nothing.
	ReserveBytes int64
	// LowBytes is the free space below which the disk has little room ([RoomLow]). 0 means the
	// smaller of 5 % of the disk and 1 GiB if there is a reserve; without one, free space is not
	// checked.
	LowBytes      int64
	MaxFrameBytes int // longest frame, bytes; default 128 MiB
	// Memory is asked before blocks of sealed files are kept in memory. By default there is always
	// enough.
	Memory Memory
	// SealAfter is how long after its end a chapter becomes a sealed file (docs/decisions/0046); 0:
	// never, negative: at once.
	SealAfter time.Duration
	// Thorough makes Open read sealed files whole; a start reads only their ends.
	Thorough bool
	// ReadOnly creates and writes nothing. Lead refuses, and no symbolic link inside is followed.
	// The directory must exist, and no other process may use it. A refused partition 0 does not
	// fail Open. For tools.
	ReadOnly bool
	// Shared is ReadOnly beside a broker that may be using the directory, starting, or being
	// killed. It takes no lock and makes no process wait. It reads what was durable when the store
	// was opened, except for the last second before that (docs/decisions/0047).
	Shared bool
}

var (
	// ErrPoisoned says that a write or sync failed earlier. The partition accepts no more writes in
	// this process (F9).
	ErrPoisoned = errors.New("log: no writes after an I/O error")
	// ErrUnknown says that the append may or may not be in the log after a restart.
	ErrUnknown = errors.New("log: outcome unknown")
	// ErrClosed says that the writer or the store was closed before.
	ErrClosed = errors.New("log: closed")
	// ErrChecksum says that bytes read differ from those written (F5).
	ErrChecksum = errors.New("log: checksum mismatch")
	// ErrChanged says that a log read with [Options.Shared] has become the log of another run or
	// another directory, or has lost files.
	ErrChanged = errors.New("log: the directory changed while it was read")
	// ErrHeld says that files must not change now, because the log is being copied or a reader
	// beside the broker has asked for them.
	ErrHeld = errors.New("log: files are held")
	// ErrTooLittle says that the operation would not free enough space to be worth it.
	ErrTooLittle = errors.New("log: frees too little space")
	// ErrLost says that data which this process has synced and acknowledged is not in the files of
	// a partition that is recovered again (docs/decisions/0069).
	ErrLost = errors.New("log: acknowledged data is lost")
	// ErrGone says that the requested history is no longer kept.
	ErrGone = errors.New("log: history is no longer kept")
	// ErrInternal says that an invariant is violated. The process should end (F21).
	ErrInternal = errors.New("log: internal fault")

	// Errors of lower packages, under the names that users of this package know:

	// the disk is full; the operation can be repeated when there is room
	ErrNoRoom   = disk.ErrNoRoom
	ErrInUse    = disk.ErrInUse    // another process has the directory
	ErrReadOnly = disk.ErrReadOnly // the store was opened read-only
	// no file could be opened; the operation can be repeated later
	ErrDescriptors = disk.ErrDescriptors
	ErrFormat      = format.ErrNewer // written by a newer version of this program
)

// The capabilities for [Store.Use]. Only programs that know a capability can read data written with
// it.
const (
	Sealed   = format.Sealed   // sealed files
	Backups  = format.Backups  // kind 58
	Cuts     = format.Cuts     // kind 70
	Erased   = format.Erased   // kind 71
	Erasures = format.Erasures // kind 69
	Based    = format.Bases    // a base, and kinds 50 to 54 in it
	Fences   = format.Fences   // kinds 67 and 68
	// EntityCreated of version 3, and duplicates that are known by their key as well
	Partitioned = format.Partitioned
	Policies    = format.Policies // kind 55
	// a part of another directory ([Excerpt]), in which no message moves
	Slice = format.Slice
	// kinds 45 to 49 of events, arrivals, MessageDeadLettered of version 2
	Moves = format.Moves
	// kinds 43, 44 and 66, MessageScheduled with a reserved number
	Transactions = format.Transactions
)

// CorruptError says that a partition's files differ from what was written, and where (F4, F7).
// Nothing was changed.
type CorruptError struct {
	Partition PartitionID
	All       bool   // the file concerns all partitions; ignore Partition
	File      string // path below the data directory
	// bytes from the start of the file; of a segment that is not hot, bytes from its first address
	Offset int64
	LSN    event.LSN // address of the place; 0 when it has none
	Reason string
	Cause  error // an I/O error, ErrLost, or nil
}

func (e *CorruptError) Error() string {
	which := fmt.Sprint(e.Partition)
	if e.All {
		which = "all"
	}
	s := fmt.Sprintf("log: partition %s: %s at byte %d (LSN %d): %s", which, e.File, e.Offset, e.LSN, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// Store is a data directory, held exclusively until Close. Its methods may be called concurrently.
type Store interface {
	Namespace() format.Namespace
	Partitions() []PartitionID // all of them, including refused ones
	// Open returns a partition, the same one until it is reopened. The error is a *CorruptError for
	// a refused partition.
	Open(ctx context.Context, id PartitionID) (Partition, error)
	// Reopen recovers one partition as Open of the directory does: one that is refused, or whose
	// writer has failed or was closed. The returned partition replaces the previous one, whose
	// bodies can be read for a while. The writer must be closed, and no checkpoint may be being
	// saved. After an error everything is as it was; the error is a *CorruptError if the partition
	// is refused. Other partitions are not touched.
	Reopen(ctx context.Context, id PartitionID) (Partition, error)
	// Use records, durably and for ever, that the directory may hold data that only programs with
	// the capability can read. Call it before the first byte of such data is written. It costs
	// nothing if the capability is already in use. After an error the capability may be in use or
	// not.
	Use(capability string) error
	// Close releases the directory. If every partition's writer was closed without error, or none
	// was needed, it first writes the clean marker. Writers must be closed before.
	Close() error
}

// Partition is one log. Its methods may be called concurrently.
type Partition interface {
	Reader
	Checkpoints
	// Lead repairs the tail, starts a chapter and an epoch, and returns the log's only writer
	// (log-format.md 5.4). It refuses while a writer is open, and with ErrPoisoned after an I/O
	// error.
	Lead(ctx context.Context) (Writer, error)
	// Recovery and Segments describe the files of this machine.
	Recovery() Recovery
	Segments() []SegmentInfo
	// Summaries yields a summary of each segment that is not empty, oldest first. That includes
	// segments that are kept only for their bodies. It reads the ends of sealed files, and the
	// records of other segments. After an error nothing follows; damage is a *CorruptError.
	Summaries(ctx context.Context) iter.Seq2[Summary, error]
	// LastStop returns how the last run that led this log ended.
	LastStop() event.Stop
}

// Reader reads a log. Its methods may be called concurrently.
type Reader interface {
	ID() PartitionID
	// Bounds returns the LSN of the first frame and the end of the durable part: frames below
	// committed are safe. Before Lead, committed is the end of the recovered log.
	Bounds() (first, committed event.LSN)
	// Read yields frames of all kinds, from the first one at or after from up to the committed end
	// at the time of the call. The frame's bytes are valid until the next frame. Bodies are not
	// read. After an error nothing follows; damage is a *CorruptError.
	Read(ctx context.Context, from event.LSN) iter.Seq2[Frame, error]
	// ReadInto reads a body: the blob's bytes into the beginning of dst, and the bytes after them
	// into the rest of dst, if that costs no further read. It compares the blob with its checksum,
	// but not the bytes after it: see [event.Blob.Matches]. Of a blob longer than dst it reads only
	// the beginning and compares nothing. An error that wraps ErrChecksum names the place of the
	// damage (F5). One that wraps [event.ErrErased] says that history no longer keeps the body,
	// which is not damage.
	ReadInto(b event.Blob, dst []byte) (int, error)
	// ReadBlob appends the blob's bytes to dst, with the errors of ReadInto.
	ReadBlob(b event.Blob, dst []byte) ([]byte, error)
}

// Checkpoints are the saved states of a partition. Their methods may be called concurrently.
type Checkpoints interface {
	// SaveCheckpoint stores what write writes as the state after all frames below at. at must be a
	// frame boundary, and durable by the time write returns. The newest two checkpoints are kept,
	// and older ones as long as all of them take no more than a tenth of the log. On a disk with
	// nothing left but its reserve, no checkpoint is saved.
	SaveCheckpoint(at event.LSN, write func(io.Writer) error) error
	// Checkpoints lists the usable ones, newest first. Their headers are verified; their states are
	// verified when they are opened.
	Checkpoints() []CheckpointInfo
	// OpenCheckpoint compares the checksum of the whole stored state and returns a reader of it. If
	// the state does not have its hash, reading ends with an error that wraps ErrChecksum instead
	// of io.EOF.
	OpenCheckpoint(at event.LSN) (io.ReadCloser, error)
}

// Frame is one commit unit as read back. Pass Records, Base and Bodies to [event.Decoder.Record].
type Frame struct {
	LSN, Next   event.LSN // of this frame and of the next one
	Epoch       Epoch
	Kind        Kind
	Level       Durability
	DurableUpTo event.LSN      // everything below was synced when it was written
	Time        event.Time     // of the first record; 0 without one
	Count       uint32         // records
	Base        event.Position // of the entry's first byte
	Bodies      [2]uint32      // where its bodies begin and end, from Base
	Records     []byte         // of an EpochStart: the boot id
}

// SegmentInfo is a range of a log's addresses, and the file with its bytes.
type SegmentInfo struct {
	File       string // path below the data directory
	Chapter    uint32
	First, End event.LSN
	// frames with at least one body that is no longer kept; everything else in them was verified
	Erased uint64
	Sealed int64 // bytes of the sealed file; 0 if it is not sealed
	// Until is when the next chapter began, by the machine's clock; 0 for a sealed segment and for
	// one of the last chapter.
	Until event.Time
}

// Writer appends to one partition. Batch, Append, Write, Sync and the batches belong to one
// goroutine; the other methods may be called from anywhere.
type Writer interface {
	Epoch() Epoch
	// Batch returns the open batch. There is always exactly one.
	Batch() *Batch
	// Append seals the open batch, which b must be, and queues it to be written and, if it is
	// Durable, to be synced. It never waits for the disk. An empty batch is a no-op.
	Append(b *Batch) Ticket
	// Write does the same as Append, but asks for no sync. The caller's goroutine writes the queue,
	// even while a sync runs. Where it would have to wait, for instance for a sync at the end of a
	// file, the writer's goroutine writes instead.
	Write(b *Batch) Ticket
	// Sync asks for a sync of everything appended so far. It does not wait for it.
	Sync()
	Written() event.LSN // everything below is written
	Durable() event.LSN // everything below is synced
	// holds a value after Durable has grown, or after another goroutine has written a batch passed
	// to Write
	Moved() <-chan struct{}
	Lost() <-chan struct{} // closed when the writer failed
	// why the writer failed; nil while it has not. It wraps ErrPoisoned and the I/O error
	Err() error
	DiskState() DiskState // current state of the disk; cheap to call
	// Close writes and syncs what was appended. Afterwards appends fail with ErrClosed. An open
	// batch is dropped.
	Close() error
}

// DiskState is the condition that keeps a writer from accepting data. Data that it has accepted is
// not lost: it is written, or its outcome is unknown.
type DiskState struct {
	Room  Room      // on the disk
	Since time.Time // when room last became this short
	// Hangs is the start of a write or sync that takes too long; zero: there is none.
	Hangs time.Time
}

// Sealer is implemented by the partitions of a store. Without [Options.Manual] the store itself
// calls Seal.
type Sealer interface {
	// Seal makes a sealed file of the oldest chapter if the chapter ended at least
	// [Options.SealAfter] ago, and reports whether it did. It may be called while the partition is
	// written and read, and needs a writer. After an error that wraps [ErrNoRoom], comes from ctx
	// or is caused by a lack of descriptors, nothing has changed, and Seal can be called again.
	// After any other error it does nothing more.
	Seal(ctx context.Context) (bool, error)
	// Hurry makes chapters that end at upTo or before be sealed as soon as they have ended, instead
	// of after [Options.SealAfter]. If that is 0, none is sealed even then.
	Hurry(upTo event.LSN)
}

// Scrubber is implemented by the partitions of a store.
type Scrubber interface {
	// Scrub reads the next file of the log again and compares every byte of it. It is one step of a
	// pass through the whole log, which an earlier run may have begun (docs/decisions/0053). It
	// returns the damage in the file, and whether that was the last file of the pass. No client
	// waits for a scrub. A file that is removed meanwhile is not damaged. After an error the next
	// call reads the same file.
	Scrub(ctx context.Context) (found []Damage, over bool, err error)
	// Scrubbed returns how far scrubbing has got.
	Scrubbed() ScrubProgress
}

// Background is implemented by a store.
type Background interface {
	// Pause is called from time to time by a reader of a large part of the log, with the number of
	// bytes that it has read or produced since the last call. It returns when the reader may
	// continue: at once while no log of the store grows, else when the store's budget for such work
	// allows it (docs/decisions/0087).
	Pause(ctx context.Context, bytes int)
}

// ScrubProgress is how far a log was scrubbed, in this run and those before it.
type ScrubProgress struct {
	// start of the current pass, and end of the last whole one; zero: there is none
	Began, Ended time.Time
	Next         event.LSN // everything below was read in the pass
	Bytes        int64     // read in the pass
	Damaged      int       // files that were damaged when they were last read
	// some damaged files of an earlier run are read again before the pass continues
	Again bool
}

// Damage is a damaged place of a log that is in use.
type Damage struct {
	*CorruptError
	// Messages are the messages whose bodies in the damaged frame cannot be read. If all bodies can
	// be read, they are all messages of the frame's events. nil: the frame does not say.
	Messages []Message
	// Spare means that the file is a checkpoint, which a start does not need.
	Spare bool
}

// Message identifies a message by its slice and number.
type Message struct {
	Slice    event.Slice
	Sequence event.SequenceNumber
}

// Compactor is implemented by the partitions of a store.
type Compactor interface {
	// DropBodies replaces a sealed file, named as in [Partition.Segments], by another revision
	// without the unwanted bodies (docs/log-format.md 3.2). It returns how many bytes shorter that
	// revision is. wanted is called more than once for each body and must give the same answer each
	// time. It must be right for the state at some durable place of the log after the file's end:
	// whatever follows from such a state needs no other body of the file. DropBodies does nothing
	// if that would free fewer than least bytes (ErrTooLittle), or while the file is held
	// (ErrHeld). After any error except one that wraps ErrPoisoned nothing has changed. A wanted
	// body exists before and afterwards.
	DropBodies(ctx context.Context, file string, wanted func(*Body) bool, least int64) (freed int64, err error)
}

// Body is a body in a sealed file, as passed to the function that decides whether it is wanted. It
// counts as a body of the event that stored it, even if other events point to it by now.
type Body struct {
	event.Blob
	At    event.Time  // of the record; At and Event are unknown for a body in a file of bodies
	Event event.Event // event that stored it; valid during the call
	// message with the body in a file of bodies, or one of several; without a number, the body is
	// the state of a session
	Message Message
}

// Bases is implemented by the partitions of a store. Instead of its first frame, a log may begin
// with a base, which contains the state at an LSN (docs/decisions/0048). Only package replay, whose
// Cut calls these methods, knows the contents of a base.
type Bases interface {
	// Base returns the base that the log begins with; false: it has none, and begins with its first
	// frame.
	Base() (BaseInfo, bool)
	// OpenBase compares the checksum of the whole base and returns a reader of its records in
	// sequence. If they differ from what was written, reading ends with an error that wraps
	// ErrChecksum instead of io.EOF.
	OpenBase() (io.ReadCloser, error)
	// SaveBase makes what write writes the base of the log. It must be the state after all frames
	// below info.LSN, which is a durable frame boundary of a log that begins there or before. prove
	// reads the stored base, and must find it to be that state before the manifest names it.
	// SaveBase removes the log's older base and nothing else.
	SaveBase(ctx context.Context, info BaseInfo, write func(io.Writer) error, prove func(io.Reader) error) error
	// DropFiles removes files that end at the base or before it, sealed files and the first
	// chapters, and the checkpoints from before the base. For each file it calls needed, which
	// returns whether all of it is needed, or the needed bodies in order. If those are at most half
	// of the file, only they stay, in a file of bodies. Otherwise the whole file and all later
	// chapters stay. DropFiles returns how many bytes it freed. It does nothing while the log is
	// held ([ErrHeld]): by a copy or, unless the disk has little room, by a reader.
	DropFiles(ctx context.Context, needed func(first, end event.LSN) (all bool, bodies []KeptBody)) (freed int64, err error)
}

// BaseInfo describes a base.
type BaseInfo struct {
	LSN      event.LSN // the state includes all frames below; replay continues here
	Size     int64     // of the file, bytes
	Hash     [32]byte  // SHA-256 of the state
	Encoding uint32    // version of the state's encoding that Hash covers
	File     string    // path below the data directory
}

// ManualWriter is the writer of a store with [Options.Manual], which starts no goroutine. Work and
// Tick belong to one goroutine.
type ManualWriter interface {
	Writer
	// Work does the next write or sync, and reports whether there was one. While one call waits for
	// a sync, another has nothing to do.
	Work() bool
	// Tick does the work of each second. It asks for the sync of frames that no ticket waits for,
	// and for a Skip frame after a second without traffic (Work does both). It also writes the
	// progress note.
	Tick()
}

// Ticket is the receipt of an append.
type Ticket interface {
	Done() <-chan struct{} // closed when the outcome is known
	// Err is nil when the batch is as durable as its level says. Durable tickets complete in their
	// order, each Ordered one as soon as it is written. Err wraps ErrPoisoned when the log failed,
	// and also ErrUnknown when the batch may have reached it. Call it after Done.
	Err() error
	LSN() event.LSN // of the frame
	End() event.LSN // of the next frame
}

// Recovery is what opening a partition found.
type Recovery struct {
	Clean     bool // the last run ended with a clean marker, and the log ends there
	Frames    uint64
	Records   uint64
	Bytes     int64 // read and verified
	Chapters  int
	Epoch     Epoch      // of the last frame
	Newest    event.Time // of the newest record; 0 without any
	CutBytes  int64      // unacknowledged bytes at the end that are no longer part of the log
	CutReason string     // why the first of them is bad
	// path below the data directory where Lead keeps them; empty when nothing was cut
	CutFile     string
	Checkpoints int       // usable ones
	Discarded   []Discard // checkpoints and notes that are not used
}

// Discard is a file that recovery does not use, and why (F6).
type Discard struct {
	File   string // path below the data directory
	Reason string
}

// CheckpointInfo describes a saved state.
type CheckpointInfo struct {
	LSN    event.LSN // the state includes all frames below; replay continues here
	Epoch  Epoch
	Size   int64    // of the state, bytes
	Stored int64    // of the file, bytes
	Hash   [32]byte // SHA-256 of the state
	File   string   // path below the data directory
}
