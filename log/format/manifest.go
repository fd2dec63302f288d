package format

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Chapter is one as the manifest names it.
type Chapter struct {
	ID           uint32
	Chain        uint32 // before its first frame
	First        event.LSN
	Created      int64 // ms since 1970
	SegmentBytes uint32
}

// Manifest names the chapters that belong to a log, oldest first. Ids grow.
type Manifest struct {
	Generation uint64
	Chapters   []Chapter
}

// Encode returns the contents of the file.
func (m *Manifest) Encode(part PartitionID, tag uint32) []byte {
	p := le.AppendUint64(nil, m.Generation)
	for _, c := range m.Chapters {
		p = le.AppendUint32(p, c.ID)
		p = le.AppendUint32(p, c.Chain)
		p = le.AppendUint64(p, uint64(c.First))
		p = le.AppendUint64(p, uint64(c.Created))
		p = le.AppendUint32(p, c.SegmentBytes)
		p = le.AppendUint32(p, 0)
	}
	return seal("LBMF", part, tag, p)
}

// DecodeManifest reads the contents of the file.
func DecodeManifest(file []byte, part PartitionID, tag uint32) (Manifest, error) {
	p, err := open(file, "LBMF", part, tag)
	if err != nil {
		return Manifest{}, err
	}
	if len(p) < 8 || (len(p)-8)%chapterRow != 0 {
		return Manifest{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	m := Manifest{Generation: le.Uint64(p)}
	for p = p[8:]; len(p) > 0; p = p[chapterRow:] {
		c := Chapter{
			ID: le.Uint32(p), Chain: le.Uint32(p[4:]), First: event.LSN(le.Uint64(p[8:])),
			Created: int64(le.Uint64(p[16:])), SegmentBytes: le.Uint32(p[24:]),
		}
		if n := len(m.Chapters); n > 0 && (c.ID <= m.Chapters[n-1].ID || c.First < m.Chapters[n-1].First) || c.First%8 != 0 {
			return Manifest{}, fmt.Errorf("%w: chapters out of order", ErrDamaged)
		}
		m.Chapters = append(m.Chapters, c)
	}
	return m, nil
}

// TagOf is the namespace's tag that a manifest or another note claims, 0 without one; nothing else of the file is looked at.
func TagOf(note []byte) uint32 {
	if len(note) < noteHead {
		return 0
	}
	return le.Uint32(note[8:])
}
