package format

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A checkpoint file (log-format.md 4): header 40 · state as one zstd stream · trailer 64. These
// numbers are bytes.
const (
	CheckpointHead    = 40
	CheckpointTrailer = 64
)

// Checkpoint has the fields of a checkpoint's header and trailer.
type Checkpoint struct {
	LSN        event.LSN
	Epoch      Epoch
	Chain      uint32
	PayloadSum uint32
	Payload    int64 // bytes
	Size       int64 // of the state
	Hash       [32]byte
}

// Head returns the header.
func (c *Checkpoint) Head(part PartitionID, tag uint32) []byte {
	p := make([]byte, 0, CheckpointHead)
	p = append(p, "LBCK"...)
	p = le.AppendUint16(p, Version)
	p = le.AppendUint16(p, uint16(part))
	p = le.AppendUint32(p, tag)
	p = le.AppendUint32(p, c.Chain)
	p = le.AppendUint64(p, uint64(c.LSN))
	p = le.AppendUint64(p, uint64(c.Epoch))
	p = le.AppendUint32(p, event.Sum(p))
	return le.AppendUint32(p, 0)
}

// Trailer returns the trailer.
func (c *Checkpoint) Trailer() []byte {
	p := make([]byte, 0, CheckpointTrailer)
	p = append(p, "LBCT"...)
	p = le.AppendUint32(p, c.PayloadSum)
	p = le.AppendUint64(p, uint64(c.Payload))
	p = le.AppendUint64(p, uint64(c.Size))
	p = append(p, c.Hash[:]...)
	p = le.AppendUint32(p, 0)
	return le.AppendUint32(p, event.Sum(p))
}

// DecodeCheckpoint checks header and trailer of a file of the given size.
func DecodeCheckpoint(head, trailer []byte, size int64, part PartitionID, tag uint32) (Checkpoint, error) {
	bad := func(what string) (Checkpoint, error) { return Checkpoint{}, fmt.Errorf("%w: %s", ErrDamaged, what) }
	switch {
	case len(head) != CheckpointHead || len(trailer) != CheckpointTrailer:
		return bad("length")
	case string(head[:4]) != "LBCK" || le.Uint32(head[32:]) != event.Sum(head[:32]) || le.Uint32(head[36:]) != 0:
		return bad("header")
	case le.Uint16(head[4:]) != Version:
		return bad(fmt.Sprintf("version %d", le.Uint16(head[4:])))
	case le.Uint16(head[6:]) != uint16(part):
		return bad(fmt.Sprintf("belongs to partition %d", le.Uint16(head[6:])))
	case le.Uint32(head[8:]) != tag:
		return bad("belongs to another namespace")
	case string(trailer[:4]) != "LBCT" || le.Uint32(trailer[60:]) != event.Sum(trailer[:60]) || le.Uint32(trailer[56:]) != 0:
		return bad("trailer")
	}
	c := Checkpoint{
		Chain: le.Uint32(head[12:]), LSN: event.LSN(le.Uint64(head[16:])), Epoch: Epoch(le.Uint64(head[24:])),
		PayloadSum: le.Uint32(trailer[4:]), Payload: int64(le.Uint64(trailer[8:])), Size: int64(le.Uint64(trailer[16:])),
		Hash: [32]byte(trailer[24:56]),
	}
	if c.Payload < 0 || c.Size < 0 || CheckpointHead+c.Payload+CheckpointTrailer != size {
		return bad("length")
	}
	return c, nil
}
