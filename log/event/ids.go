package event

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// EntityID is the stable identity of a queue or topic. It is never reused, not even when an entity
// of the same path is created again (reliability.md P14). 0 is no entity.
type EntityID uint32

// SequenceNumber is the identity of a message in its entity: unique, increasing, never reused,
// first value 1. The top 16 bits hold the entity partition (semantics.md 2.2).
type SequenceNumber uint64

// PartitionID numbers the logs of a namespace, from 0. Partition 0 holds the catalogue. Packages
// log and engine use this type under the same name. It is not the partition of an entity, which is
// in a [Slice].
type PartitionID uint16

// LSN is the log sequence number of a frame: its place in its partition's log. It only grows, and
// has no other meaning above package log.
type LSN uint64

// Position is the place of a byte in a partition's log: the LSN of its frame plus the distance from
// the frame's start.
type Position uint64

// OriginID names an [OriginDefined] event of the same partition log. 0 is the broker itself: a
// timer or recovery.
type OriginID uint32

// Slice names the state of one entity partition inside the log partition that hosts it.
type Slice struct {
	Entity    EntityID
	Partition uint8 // entity partition, 0 to 15; 0 for an entity that is not partitioned
}

func (s Slice) String() string { return string(s.Append(make([]byte, 0, 16))) }

// Append appends the text that String returns.
func (s Slice) Append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, uint64(s.Entity), 10), '/')
	return strconv.AppendUint(dst, uint64(s.Partition), 10)
}

// SubQueue is a part of a slice. All of them share the slice's sequence numbers.
//
//event:closed sub-queue
type SubQueue uint8

const (
	Main SubQueue = iota
	DeadLetter
	TransferDeadLetter
)

func (q SubQueue) String() string {
	switch q {
	case Main:
		return "main"
	case DeadLetter:
		return "dead-letter"
	case TransferDeadLetter:
		return "transfer-dead-letter"
	}
	return fmt.Sprintf("sub-queue(%d)", uint8(q))
}

// Partition returns the entity partition in which the number was given out.
func (n SequenceNumber) Partition() uint8 { return uint8(n >> partitionShift) }

// Numbers returns the number before the first one that a slice gives out, and the last one that it
// can.
func (s Slice) Numbers() (before, last SequenceNumber) {
	before = SequenceNumber(s.Partition) << partitionShift
	return before, before | (1<<partitionShift - 1)
}

const partitionShift = 48

// LockToken identifies one peek-lock, in RFC 4122 (network) byte order. A new lock has a new token;
// renewals keep it. Its last four bits, which are its last digit as a text, are the entity
// partition of the lock, so that a settlement by token alone can be routed. Tokens from before
// these bits had a meaning all belong to entities with one partition.
type LockToken [16]byte

// tokenPartition is the mask for the entity partition in a token's last byte: an entity has at most
// 16 (decision 28).
const tokenPartition = 0x0f

// In returns the token with the entity partition of its lock.
func (t LockToken) In(partition uint8) LockToken {
	t[15] = t[15]&^tokenPartition | partition&tokenPartition
	return t
}

// Partition returns the entity partition of the token's lock.
func (t LockToken) Partition() uint8 { return t[15] & tokenPartition }

// Under returns the token of a message lock under the lock of a session: its first four bytes are
// those of the session's token. Without a session it returns t.
func (t LockToken) Under(session LockToken) LockToken {
	if session != (LockToken{}) {
		copy(t[:4], session[:])
	}
	return t
}

// String returns the token's UUID text.
func (t LockToken) String() string { return string(AppendUUID(make([]byte, 0, 36), t[:])) }

// AppendUUID appends the text of a UUID whose 16 bytes are id, in network order: 8-4-4-4-12
// hexadecimal digits in lower case.
func AppendUUID[T string | []byte](dst []byte, id T) []byte {
	const digits = "0123456789abcdef"
	for i := range len(id) {
		switch i {
		case 4, 6, 8, 10:
			dst = append(dst, '-')
		}
		dst = append(dst, digits[id[i]>>4], digits[id[i]&15])
	}
	return dst
}

// MarshalText makes tokens readable in JSON.
func (t LockToken) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Time is broker time in milliseconds since 1970 UTC (reliability.md 1.4). 0 is no time.
type Time int64

// EndOfTime is the last millisecond of year 9999, where instants saturate (semantics.md 7.1).
const EndOfTime Time = 253402300799999

// Forever is a duration without limit: the cloud's P10675199DT2H48M5.4775807S.
const Forever time.Duration = math.MaxInt64

// TimeOf rounds t down to the millisecond.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Add returns t+d, saturating at [EndOfTime].
func (t Time) Add(d time.Duration) Time {
	ms := int64(d / time.Millisecond)
	if ms >= int64(EndOfTime-t) {
		return EndOfTime
	}
	return t + Time(ms)
}

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }

// Std returns t as a standard time in UTC.
func (t Time) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }

func (t Time) String() string {
	if t == 0 {
		return "-"
	}
	return t.Std().Format("2006-01-02T15:04:05.000Z")
}

// MarshalText makes times readable in JSON.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Blob describes bytes next to the events of a frame: a message as sent, the state of a session, or
// property changes, which [ReadChanges] reads; those of format 1 are an encoded AMQP map or list.
// On the way into the log Data is set and the frame sets the rest. Read from a log, Data is nil.
type Blob struct {
	Data []byte `json:"-"`
	// follows Data, so that bytes in two pieces need not be joined
	Tail     []byte   `json:"-"`
	Position Position // of the first byte; 0 when Size is 0
	Size     uint32   // bytes
	Sum      uint32   // CRC-32C of the bytes
}

// ErrErased says that history no longer keeps the bytes of a blob, only its size and checksum. This
// is not damage.
var ErrErased = errors.New("log: erased")

// Matches reports whether bytes that were read have the blob's size and checksum.
func (b Blob) Matches(read []byte) bool { return uint32(len(read)) == b.Size && Sum(read) == b.Sum }
