package format

import (
	"crypto/sha256"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A base (log-format.md 3.3): header 40 · records as one zstd stream · trailer 104. These numbers
// are bytes.
const (
	BaseHead    = 40
	BaseTrailer = 104
)

// Base has the fields of a base's header and trailer.
type Base struct {
	LSN      event.LSN
	Epoch    Epoch
	Chain    uint32
	Payload  int64  // bytes of the stream
	Size     int64  // of the records
	Encoding uint32 // version of the state's encoding that Hash covers
	Sum      [sha256.Size]byte
	Hash     [sha256.Size]byte // of the state
}

// BaseFile is a base as the manifest names it.
type BaseFile struct {
	LSN    event.LSN // 0: there is none
	Size   int64     // bytes
	Digest [sha256.Size]byte
}

// Head returns the header.
func (b *Base) Head(part PartitionID, tag uint32) []byte {
	c := Checkpoint{LSN: b.LSN, Epoch: b.Epoch, Chain: b.Chain}
	p := c.Head(part, tag)
	copy(p, "LBBS")
	le.PutUint32(p[32:], event.Sum(p[:32]))
	return p
}

// Trailer returns the trailer.
func (b *Base) Trailer() []byte {
	p := make([]byte, 0, BaseTrailer)
	p = append(p, "LBBT\x00\x00\x00\x00"...)
	p = le.AppendUint64(p, uint64(b.Payload))
	p = le.AppendUint64(p, uint64(b.Size))
	p = le.AppendUint32(p, b.Encoding)
	p = le.AppendUint32(p, 0)
	p = append(p, b.Sum[:]...)
	p = append(p, b.Hash[:]...)
	p = le.AppendUint32(p, 0)
	return le.AppendUint32(p, event.Sum(p))
}

// File returns the manifest's entry for the base.
func (b *Base) File(part PartitionID, tag uint32) BaseFile {
	return BaseFile{b.LSN, BaseHead + b.Payload + BaseTrailer, sha256.Sum256(append(b.Head(part, tag), b.Trailer()...))}
}

// DecodeBase reads the header and trailer of a base, which must be the one that the manifest names.
func DecodeBase(head, trailer []byte, named BaseFile, part PartitionID, tag uint32) (Base, error) {
	bad := func(what string) (Base, error) { return Base{}, fmt.Errorf("%w: %s", ErrDamaged, what) }
	if len(head) != BaseHead || len(trailer) != BaseTrailer {
		return bad("length")
	}
	b := Base{
		Chain: le.Uint32(head[12:]), LSN: event.LSN(le.Uint64(head[16:])), Epoch: Epoch(le.Uint64(head[24:])),
		Payload: int64(le.Uint64(trailer[8:])), Size: int64(le.Uint64(trailer[16:])), Encoding: le.Uint32(trailer[24:]),
		Sum: [sha256.Size]byte(trailer[32:]), Hash: [sha256.Size]byte(trailer[64:]),
	}
	switch {
	case le.Uint16(head[4:]) != Version && le.Uint32(head[32:]) == event.Sum(head[:32]):
		return Base{}, fmt.Errorf("%w: base version %d", ErrNewer, le.Uint16(head[4:]))
	case string(head) != string(b.Head(part, tag)):
		return bad("header is invalid or of another partition or namespace")
	case b.Payload < 0 || b.Size < 0 || string(trailer) != string(b.Trailer()):
		return bad("trailer")
	case b.File(part, tag) != named:
		return bad("not the base that the manifest names")
	}
	return b, nil
}
