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

// What frames say of themselves is package format's: here are the names for those who read and
// write them.
type (
	PartitionID = format.PartitionID
	Epoch       = format.Epoch
	Durability  = format.Durability
	Kind        = format.Kind
)

const (
	// written and in its place; survives the death of the process, not a power loss
	Ordered = format.Ordered
	Durable = format.Durable // synced, with all before it

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
	// by how much a segment file is extended in front of small frames; default 64 KiB, negative:
	// never
	RoomBytes    int
	ChapterBytes int           // a chapter ends with the frame that reaches it; default 64 MiB
	ChapterAge   time.Duration // a chapter older than this ends with the next frame; default 1 h
	// of the running kernel; default: asked of the OS; with another FS empty, which means unknown
	BootID string
	// segment files that all partitions together keep open for reading; default 256, at least 4 for
	// each
	OpenFiles int
	// UUID used when the directory is created; default random. For simulations
	NamespaceID string
	Logger      *slog.Logger     // default: discard
	Now         func() time.Time // ages chapters, nothing else; default time.Now
	// Patience is how long a write or a sync may take before the disk is said to hang; default 800
	// ms.
	Patience time.Duration
	// Manual starts no goroutine: writers are each a [ManualWriter], whose work the caller does.
	// Partitions are recovered one after the other. For simulations.
	Manual bool
	// Capabilities are the words of namespace.json that the caller knows what to do with; default:
	// those of this version. Where others are in use Open fails with ErrFormat.
	Capabilities []string
	// ReserveBytes is how much of the disk is kept for the time when it is full
	// (docs/decisions/0039), an eighth of a small disk at most; 0: nothing.
	ReserveBytes int64
	// LowBytes: with less than this free, the disk has little room ([RoomLow]); 0: the smaller of 5
	// % of it and 1 GiB where there is a reserve, else it is not looked at.
	LowBytes      int64
	MaxFrameBytes int // longest frame, bytes; default 128 MiB
	// Memory is asked before blocks of sealed files are kept in memory; default: there is always
	// enough.
	Memory Memory
	// SealAfter is how long after its end a chapter becomes a sealed file (docs/decisions/0046); 0:
	// never, negative: at once.
	SealAfter time.Duration
	// Thorough reads sealed files whole when the store is opened; a start reads only their ends.
	Thorough bool
	// ReadOnly: nothing is created or written, Lead refuses, no symbolic link inside is followed,
	// the directory must exist and be used by nobody, and a refused partition 0 does not fail Open.
	// For tools.
	ReadOnly bool
	// Shared is ReadOnly beside a broker that may be using the directory, starting, or being
	// killed: no lock is taken and nobody waits. What is read is what was durable when the store
	// was opened, less what came in the second before (docs/decisions/0047).
	Shared bool
}

var (
	// ErrPoisoned: a write or sync failed earlier; the partition takes no more writes in this
	// process (F9).
	ErrPoisoned = errors.New("log: no writes after an I/O error")
	// ErrUnknown: the append may or may not be found in the log after a restart.
	ErrUnknown = errors.New("log: outcome unknown")
	// ErrClosed: the writer or the store was closed before.
	ErrClosed = errors.New("log: closed")
	// ErrChecksum: bytes read are not those that were written (F5).
	ErrChecksum = errors.New("log: checksum mismatch")
	// ErrChanged: what was read with [Options.Shared] has become the log of another run, or another
	// directory, or has lost files.
	ErrChanged = errors.New("log: the directory changed while it was read")
	// ErrHeld: files stay as they are for now, since a copy of the log is being made, or a reader
	// beside the broker has asked for it.
	ErrHeld = errors.New("log: files are held")
	// ErrTooLittle: what was to be done would not give back enough to be worth it.
	ErrTooLittle = errors.New("log: frees too little space")
	// ErrLost: what this process has synced, and acknowledged, is not in the files of a partition
	// that is recovered again (docs/decisions/0069).
	ErrLost = errors.New("log: acknowledged data is lost")
	// ErrGone: history that was asked for is not kept any more.
	ErrGone = errors.New("log: history is no longer kept")
	// ErrInternal: something that must hold does not. The process should end (F21).
	ErrInternal = errors.New("log: internal fault")

	// Errors of the packages below, by the names under which a user of this package meets them:

	// the disk is full, and what was to be done can be done when there is room
	ErrNoRoom   = disk.ErrNoRoom
	ErrInUse    = disk.ErrInUse    // another process has the directory
	ErrReadOnly = disk.ErrReadOnly // the store was opened to be looked at
	// no file could be opened; what was to be done can be done later
	ErrDescriptors = disk.ErrDescriptors
	ErrFormat      = format.ErrNewer // written by a newer version of this program
)

// The capabilities for [Store.Use]. Only programs that know one can read what is written with it.
const (
	Sealed   = format.Sealed   // sealed files
	Backups  = format.Backups  // kind 58
	Cuts     = format.Cuts     // kind 70
	Erased   = format.Erased   // kind 71
	Erasures = format.Erasures // kind 69
	Based    = format.Bases    // a base, and kinds 50 to 54 in it
	Fences   = format.Fences   // kinds 67 and 68
	// EntityCreated of version 3, duplicates that are known by their key too
	Partitioned = format.Partitioned
	Policies    = format.Policies // kind 55
	// a part of another directory ([Excerpt]), in which nothing moves
	Slice = format.Slice
	// kinds 45 to 49 of events, arrivals, MessageDeadLettered of version 2
	Moves = format.Moves
	// kinds 43, 44 and 66, MessageScheduled with a reserved number
	Transactions = format.Transactions
)

// CorruptError says that a partition's files are not what was written, and where (F4, F7). Nothing
// was changed.
type CorruptError struct {
	Partition PartitionID
	All       bool   // the file concerns all partitions; Partition says nothing
	File      string // path below the data directory
	// bytes from the start of the file; of a segment that is not hot, from its first address
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
	Partitions() []PartitionID // all of them, refused ones too
	// Open returns a partition, the same one until it is reopened. The error is a *CorruptError for
	// a partition that was refused.
	Open(ctx context.Context, id PartitionID) (Partition, error)
	// Reopen recovers one partition, as Open of the directory does: one that is refused, or whose
	// writer has failed or was closed. What it returns replaces the partition before, whose bodies
	// can be read for a while. The writer must be closed, and no checkpoint may be being saved.
	// After an error everything is as it was; it is a *CorruptError if the partition is refused.
	// Other partitions are not touched.
	Reopen(ctx context.Context, id PartitionID) (Partition, error)
	// Use says, durably and for ever, that the directory may hold what only programs that know the
	// capability can read: call it before the first byte of that is written. It costs nothing where
	// the capability is in use already. After an error it may be in use or not.
	Use(capability string) error
	// Close gives the directory back. When every partition's writer was closed without error, or
	// none was needed, it first writes the clean marker. Writers must be closed before.
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
	// Recovery and Segments say what stands in the files of this machine.
	Recovery() Recovery
	Segments() []SegmentInfo
	// Summaries yields what each segment has that is not empty, oldest first, including those that
	// are kept for their bodies alone. Of a sealed file it reads the ends, of any other the
	// records. After an error nothing follows; damage is a *CorruptError.
	Summaries(ctx context.Context) iter.Seq2[Summary, error]
	// LastStop is how the last run that led this log ended.
	LastStop() event.Stop
}

// Reader reads what is in a log. Its methods may be called concurrently.
type Reader interface {
	ID() PartitionID
	// Bounds returns the LSN of the first frame and the end of what is durable: frames below
	// committed are safe. Before Lead, committed is the end of the recovered log.
	Bounds() (first, committed event.LSN)
	// Read yields the frames from the first at or after from up to the committed end at the time of
	// the call, of all kinds. The frame's bytes are valid until the next. Bodies are not read.
	// After an error nothing follows; damage is a *CorruptError.
	Read(ctx context.Context, from event.LSN) iter.Seq2[Frame, error]
	// ReadInto reads a body: the blob's bytes into the beginning of dst, and into the rest of dst
	// what lies behind them, where that costs no further read. The blob is compared with its
	// checksum, what lies behind it is not: see [event.Blob.Matches]. Of a blob that is longer than
	// dst only the beginning is read, and nothing is compared. An error that wraps ErrChecksum
	// names the place of the damage (F5); one that wraps [event.ErrErased] says that history no
	// longer keeps the body, which is no damage.
	ReadInto(b event.Blob, dst []byte) (int, error)
	// ReadBlob appends the blob's bytes to dst, with the errors of ReadInto.
	ReadBlob(b event.Blob, dst []byte) ([]byte, error)
}

// Checkpoints are the saved states of a partition. Its methods may be called concurrently.
type Checkpoints interface {
	// SaveCheckpoint stores what write writes as the state after all frames below at, which must be
	// a frame boundary and durable by the time write returns. The newest two are kept, and older
	// ones as long as all of them take no more than a tenth of the log. On a disk that has nothing
	// left but its reserve none is saved.
	SaveCheckpoint(at event.LSN, write func(io.Writer) error) error
	// Checkpoints lists the usable ones, newest first. Their headers are verified, their state when
	// it is opened.
	Checkpoints() []CheckpointInfo
	// OpenCheckpoint compares the checksum of the whole stored state and returns a reader of it.
	// Reading ends with an error that wraps ErrChecksum instead of io.EOF if the state does not
	// have its hash.
	OpenCheckpoint(at event.LSN) (io.ReadCloser, error)
}

// Frame is one commit unit as read back. Records, Base and Bodies go to [event.Decoder.Record].
type Frame struct {
	LSN, Next   event.LSN // of this frame and of the one behind it
	Epoch       Epoch
	Kind        Kind
	Level       Durability
	DurableUpTo event.LSN      // everything below was synced when it was written
	Time        event.Time     // of the first record; 0 without one
	Count       uint32         // records
	Base        event.Position // of the entry's first byte
	Bodies      [2]uint32      // where its bodies begin and end, from Base
	Records     []byte         // for an EpochStart the boot id
}

// SegmentInfo is a stretch of a log's addresses, and the file that has the bytes.
type SegmentInfo struct {
	File       string // path below the data directory
	Chapter    uint32
	First, End event.LSN
	// frames of which not all bodies are kept any more; all else of them was verified
	Erased uint64
	Sealed int64 // bytes of the file, if it is a sealed one; else 0
	// Until is when the chapter behind that of the segment began, by the machine's clock; 0: it is
	// a sealed one, or of the last chapter.
	Until event.Time
}

// Writer appends to one partition. Batch, Append, Write, Sync and the batches belong to one
// goroutine; the other methods may be called from anywhere.
type Writer interface {
	Epoch() Epoch
	// Batch returns the open batch. There is always exactly one.
	Batch() *Batch
	// Append seals the open batch, which b must be, and queues it to be written and, when it is
	// Durable, synced. It never waits for the disk. An empty batch is a no-op.
	Append(b *Batch) Ticket
	// Write is Append, but asks for no sync, and the caller's goroutine writes what is queued, also
	// while a sync goes on. Where that would have to wait, for instance for a sync at the end of a
	// file, it is left to the writer's goroutine.
	Write(b *Batch) Ticket
	// Sync asks for a sync of everything that was appended so far. It does not wait for it.
	Sync()
	Written() event.LSN // everything below is written
	Durable() event.LSN // everything below is synced
	// holds a value once Durable has grown, or another goroutine has written what was given to
	// Write
	Moved() <-chan struct{}
	Lost() <-chan struct{} // closed when the writer failed
	// why it failed; nil while it has not. It wraps ErrPoisoned and the I/O error
	Err() error
	DiskState() DiskState // what its disk suffers from now; it costs nothing to ask
	// Close writes and syncs what was appended. Afterwards appends fail with ErrClosed. A batch
	// that is open is dropped.
	Close() error
}

// DiskState is what keeps a writer from accepting as much as it is given. What it has accepted is
// not lost: it is written, or its outcome is unknown.
type DiskState struct {
	Room  Room      // on the disk
	Since time.Time // since when there has been no more room
	// Hangs is since when a write or a sync has been going on that takes too long; zero: none does.
	Hangs time.Time
}

// Sealer is implemented by the partitions of a store. Without [Options.Manual] the store itself
// calls Seal.
type Sealer interface {
	// Seal makes a sealed file of the oldest chapter, if that has ended for as long as
	// [Options.SealAfter] says, and reports whether there was one. It may be called while the
	// partition is written and read, and needs a writer. After an error that wraps [ErrNoRoom],
	// comes from ctx or is for want of descriptors nothing has changed, and Seal can be called
	// again; after any other it does nothing more.
	Seal(ctx context.Context) (bool, error)
	// Hurry says that chapters which end at upTo or before are sealed as soon as they have ended,
	// instead of after [Options.SealAfter]. Where that is 0, none is sealed even then.
	Hurry(upTo event.LSN)
}

// Scrubber is implemented by the partitions of a store.
type Scrubber interface {
	// Scrub reads the next file of the log again, and compares every byte of it. It is one step of
	// a pass through the whole log, which an earlier run may have begun (docs/decisions/0053). It
	// returns what is damaged in the file, and whether that was the last one of the pass. Nobody
	// waits for a scrub. A file that is removed meanwhile is not damaged. After an error the same
	// file is read the next time.
	Scrub(ctx context.Context) (found []Damage, over bool, err error)
	// Scrubbed says how far scrubbing has come.
	Scrubbed() ScrubProgress
}

// Background is implemented by a store.
type Background interface {
	// Pause is called now and then by a reader that takes much of the log, with how many bytes it
	// has read or made since. It returns when the reader may go on: at once while no log of the
	// store grows, else when the budget of the store for such work allows it (docs/decisions/0087).
	Pause(ctx context.Context, bytes int)
}

// ScrubProgress is how far a log was scrubbed, in this run and those before it.
type ScrubProgress struct {
	Began, Ended time.Time // of the pass under way, and of the last whole one; zero: there is none
	Next         event.LSN // what is below was read in the pass
	Bytes        int64     // read in the pass
	Damaged      int       // files that were damaged when they were read last
	// some of them are read again before the pass goes on, since another run found them
	Again bool
}

// Damage is a damaged place of a log that is in use.
type Damage struct {
	*CorruptError
	// Messages are the messages whose bodies in the damaged frame cannot be read, or which its
	// events name; nil where the frame does not say.
	Messages []Message
	// Spare: the file is a checkpoint, which a start does without.
	Spare bool
}

// Message names a message by its number.
type Message struct {
	Slice    event.Slice
	Sequence event.SequenceNumber
}

// Compactor is implemented by the partitions of a store.
type Compactor interface {
	// DropBodies replaces a sealed file, by the name that [Partition.Segments] has for it, by
	// another revision without the bodies that are not wanted (docs/log-format.md 3.2), and returns
	// how many bytes shorter that is. wanted is called more than once for each body, has to give
	// the same answer each time, and must be right for the state at some durable place of the log
	// behind the file's end: whatever follows from such a state needs no other body of the file.
	// Nothing is done where that would give back less than least bytes (ErrTooLittle), or while the
	// file is held (ErrHeld). Any error but one that wraps ErrPoisoned has changed nothing, and a
	// body that is wanted is there before and afterwards.
	DropBodies(ctx context.Context, file string, wanted func(*Body) bool, least int64) (freed int64, err error)
}

// Body is a body in a sealed file, as shown to the function that decides whether it is wanted. It
// counts as a body of the event that stored it, even if other events have come to point to it
// since.
type Body struct {
	event.Blob
	At    event.Time  // of the record; this and Event are not known of a body in a file of bodies
	Event event.Event // that stored it; valid during the call
	// that has the body in a file of bodies, or one of them; without a number, the body is the
	// state of a session
	Message Message
}

// Bases is implemented by the partitions of a store: a log may begin with a base, which gives the
// state at an LSN, instead of its first frame (docs/decisions/0048). What a base consists of is for
// package replay to know, whose Cut calls these.
type Bases interface {
	// Base says which base the log begins with; false: it has none, and begins with its first
	// frame.
	Base() (BaseInfo, bool)
	// OpenBase compares the checksum of the whole base and returns a reader of its records, one
	// after the other. Reading ends with an error that wraps ErrChecksum instead of io.EOF if they
	// are not what was written.
	OpenBase() (io.ReadCloser, error)
	// SaveBase makes what write writes the base of the log. It must be the state after all frames
	// below info.LSN, a durable frame boundary of a log that begins there or before. prove reads
	// what was stored: the base is named only if prove has found it to be that state. The log's
	// older base is removed, nothing else.
	SaveBase(ctx context.Context, info BaseInfo, write func(io.Writer) error, prove func(io.Reader) error) error
	// DropFiles removes what ends at the base or before it, sealed files and the first chapters,
	// and the checkpoints from before the base. Of each file it asks what is needed of it: all of
	// it, or bodies, in order. Where those are at most half of it, they alone stay, in a file of
	// bodies; else all of it does, and all chapters behind it. It returns how many bytes that
	// freed, and does nothing while the log is held ([ErrHeld]): by a copy, or, unless the disk has
	// little room, by a reader.
	DropFiles(ctx context.Context, needed func(first, end event.LSN) (all bool, bodies []KeptBody)) (freed int64, err error)
}

// BaseInfo describes a base.
type BaseInfo struct {
	LSN      event.LSN // the state holds all frames below it; replay goes on from here
	Size     int64     // of the file, bytes
	Hash     [32]byte  // SHA-256 of the state
	Encoding uint32    // version of the encoding of the state that Hash is of
	File     string    // path below the data directory
}

// ManualWriter is the writer of a store with [Options.Manual], which starts no goroutine. Work and
// Tick belong to one goroutine.
type ManualWriter interface {
	Writer
	// Work does the next piece of I/O, a write or a sync, and reports whether there was one. While
	// one call waits for a sync, another has nothing to do.
	Work() bool
	// Tick does what is due once a second: it asks for the sync of frames that nobody waits for,
	// for a Skip frame after a second without traffic (both done by Work), and writes the progress
	// note.
	Tick()
}

// Ticket is the receipt of an append.
type Ticket interface {
	Done() <-chan struct{} // closed when the outcome is known
	// Err is nil when the batch is as durable as its level says: Durable tickets complete in their
	// order, each Ordered one as soon as it is written. It wraps ErrPoisoned when the log failed,
	// and also ErrUnknown when the batch may have reached it. Call it after Done.
	Err() error
	LSN() event.LSN // of the frame
	End() event.LSN // of what follows it
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
	CutBytes  int64      // unacknowledged bytes at the end that are not part of the log any more
	CutReason string     // what was wrong with the first of them
	// path below the data directory where Lead keeps them; empty when nothing was cut
	CutFile     string
	Checkpoints int       // usable ones
	Discarded   []Discard // checkpoints and notes that are not used
}

// Discard is a file recovery does without, and why (F6).
type Discard struct {
	File   string // path below the data directory
	Reason string
}

// CheckpointInfo describes a saved state.
type CheckpointInfo struct {
	LSN    event.LSN // the state holds all frames below it; replay goes on from here
	Epoch  Epoch
	Size   int64    // of the state, bytes
	Stored int64    // of the file, bytes
	Hash   [32]byte // SHA-256 of the state
	File   string   // path below the data directory
}
