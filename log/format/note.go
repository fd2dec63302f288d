package format

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A note is one of the small files of log-format.md 4:
//
//	magic 4 · format version 2 · partition 2 · namespace tag 4 · length of the file 4 · fields · checksum 4
const (
	// MaxNote is the longest note that is read, bytes. No longer note is written.
	MaxNote = 16 << 20

	noteHead   = 16
	chapterRow = 32
	cleanRow   = 24

	noPartition = PartitionID(65535)
)

func seal(magic string, part PartitionID, tag uint32, fields []byte) []byte {
	return sealVersion(magic, Version, part, tag, fields)
}

func sealVersion(magic string, version uint16, part PartitionID, tag uint32, fields []byte) []byte {
	p := make([]byte, 0, noteHead+len(fields)+4)
	p = append(p, magic...)
	p = le.AppendUint16(p, version)
	p = le.AppendUint16(p, uint16(part))
	p = le.AppendUint32(p, tag)
	p = le.AppendUint32(p, uint32(cap(p)))
	p = append(p, fields...)
	return le.AppendUint32(p, event.Sum(p))
}

func open(p []byte, magic string, part PartitionID, tag uint32) ([]byte, error) {
	return openUpTo(p, magic, Version, part, tag)
}

// openUpTo does the same as open for a note with versions up to newest.
func openUpTo(p []byte, magic string, newest uint16, part PartitionID, tag uint32) ([]byte, error) {
	switch {
	case len(p) < noteHead+4 || string(p[:4]) != magic:
		return nil, fmt.Errorf("%w: no %s file", ErrDamaged, magic)
	case le.Uint32(p[len(p)-4:]) != event.Sum(p[:len(p)-4]):
		return nil, fmt.Errorf("%w: checksum", ErrDamaged)
	case le.Uint16(p[4:]) > newest:
		return nil, fmt.Errorf("%w: %s version %d", ErrNewer, magic, le.Uint16(p[4:]))
	case le.Uint16(p[4:]) == 0 || le.Uint32(p[12:]) != uint32(len(p)):
		return nil, fmt.Errorf("%w: header", ErrDamaged)
	case le.Uint16(p[6:]) != uint16(part):
		return nil, fmt.Errorf("%w: belongs to partition %d", ErrDamaged, le.Uint16(p[6:]))
	case le.Uint32(p[8:]) != tag:
		return nil, fmt.Errorf("%w: belongs to another namespace", ErrDamaged)
	}
	return p[noteHead : len(p)-4], nil
}

// Mark is a place in a log with the checksum of the frame before it, so that the place can be
// recognized.
type Mark struct {
	LSN   event.LSN
	Epoch Epoch
	Chain uint32
}

// Note is the kind of a file that says how far a log was durable.
type Note string

const (
	Progress Note = "LBPR" // written about a second ago
	Fault    Note = "LBFT" // written when a run ended with an I/O error
)

// Encode returns the contents of the file.
func (n Note) Encode(part PartitionID, tag uint32, durable Mark) []byte {
	return seal(string(n), part, tag, durable.append(nil))
}

// Decode reads the contents of the file.
func (n Note) Decode(file []byte, part PartitionID, tag uint32) (durable Mark, err error) {
	p, err := open(file, string(n), part, tag)
	if err != nil {
		return Mark{}, err
	}
	return decodeMark(p)
}

func (m Mark) append(p []byte) []byte {
	p = le.AppendUint64(p, uint64(m.LSN))
	p = le.AppendUint64(p, uint64(m.Epoch))
	p = le.AppendUint32(p, m.Chain)
	return le.AppendUint32(p, 0)
}

func decodeMark(fields []byte) (Mark, error) {
	if len(fields) != 24 {
		return Mark{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	return Mark{event.LSN(le.Uint64(fields)), Epoch(le.Uint64(fields[8:])), le.Uint32(fields[16:])}, nil
}

// EncodeClean returns the clean marker: the end of every partition's log.
func EncodeClean(tag uint32, ends []Mark) []byte {
	var p []byte
	for id, m := range ends {
		p = le.AppendUint16(p, uint16(id))
		p = le.AppendUint16(p, 0)
		p = le.AppendUint32(p, m.Chain)
		p = le.AppendUint64(p, uint64(m.LSN))
		p = le.AppendUint64(p, uint64(m.Epoch))
	}
	return seal("LBCM", noPartition, tag, p)
}

// DecodeClean returns the contents of a clean marker.
func DecodeClean(file []byte, tag uint32, partitions int) ([]Mark, error) {
	p, err := open(file, "LBCM", noPartition, tag)
	if err != nil {
		return nil, err
	}
	if len(p) != partitions*cleanRow {
		return nil, fmt.Errorf("%w: length", ErrDamaged)
	}
	ends := make([]Mark, partitions)
	for id := range ends {
		row := p[id*cleanRow:]
		if int(le.Uint16(row)) != id {
			return nil, fmt.Errorf("%w: partitions out of order", ErrDamaged)
		}
		ends[id] = Mark{LSN: event.LSN(le.Uint64(row[8:])), Epoch: Epoch(le.Uint64(row[16:])), Chain: le.Uint32(row[4:])}
	}
	return ends, nil
}
