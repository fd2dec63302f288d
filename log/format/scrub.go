package format

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Scrub is how far a log was read again while in use (log-format.md 4). It only affects what is
// read next.
type Scrub struct {
	// start of the current pass, and end of the last whole one, ms since 1970; 0: there is none
	Began, Ended int64
	Next         event.LSN   // where the pass continues; 0: at its beginning
	Bytes        int64       // read in the pass
	Damaged      []event.LSN // first addresses of files that were damaged when they were last read
}

const (
	// ScrubName is the name of its file in the directory of a partition.
	ScrubName = "scrub"
	// MaxScrubDamage is the largest number of damaged places in the file.
	MaxScrubDamage = 1024

	scrubMagic = "LBSB"
	scrubHead  = 40
)

// Encode returns the contents of the file.
func (s *Scrub) Encode(part PartitionID, tag uint32) []byte {
	p := le.AppendUint64(nil, uint64(s.Began))
	p = le.AppendUint64(p, uint64(s.Ended))
	p = le.AppendUint64(p, uint64(s.Next))
	p = le.AppendUint64(p, uint64(s.Bytes))
	damaged := s.Damaged[:min(len(s.Damaged), MaxScrubDamage)]
	p = le.AppendUint32(p, uint32(len(damaged)))
	p = le.AppendUint32(p, 0)
	for _, at := range damaged {
		p = le.AppendUint64(p, uint64(at))
	}
	return seal(scrubMagic, part, tag, p)
}

// DecodeScrub reads the contents of the file.
func DecodeScrub(file []byte, part PartitionID, tag uint32) (Scrub, error) {
	p, err := open(file, scrubMagic, part, tag)
	if err != nil {
		return Scrub{}, err
	}
	if len(p) < scrubHead || uint64(len(p)-scrubHead) != 8*uint64(le.Uint32(p[32:])) {
		return Scrub{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	s := Scrub{Began: int64(le.Uint64(p)), Ended: int64(le.Uint64(p[8:])), Next: event.LSN(le.Uint64(p[16:])), Bytes: int64(le.Uint64(p[24:]))}
	for p = p[scrubHead:]; len(p) > 0; p = p[8:] {
		s.Damaged = append(s.Damaged, event.LSN(le.Uint64(p)))
	}
	return s, nil
}
