package format

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Chapter is the manifest's entry for a chapter.
type Chapter struct {
	ID           uint32
	Chain        uint32 // before its first frame
	First        event.LSN
	Created      int64 // ms since 1970
	SegmentBytes uint32
}

// SealedFile is the manifest's entry for a sealed file. A start believes all of it if the file's
// footer has the digest.
type SealedFile struct {
	Chapter, Revision uint32
	First, End        event.LSN
	Epoch             Epoch  // at the end
	Chain             uint32 // before its first frame
	Last              uint32 // chain at the end
	Size              int64  // bytes
	Footer            [sha256.Size]byte
}

// Manifest lists the files of a log, oldest first: sealed files, then chapters. Each begins where
// the one before it ends, except those before or at Removed, where some are missing.
type Manifest struct {
	Generation uint64
	Removed    event.LSN // from here on there are no gaps; 0: no file has been removed
	Base       BaseFile
	Sealed     []SealedFile
	// the run at the start of the first chapter, if the chapters before it were removed unsealed;
	// otherwise zero, because a sealed file or a frame has it
	Before   Run
	Chapters []Chapter
}

// MaxBoot is the longest boot id, bytes.
const MaxBoot = 64

// Run is the information about a run that is needed to continue in the middle of it.
type Run struct {
	Epoch Epoch
	Boot  string // id of the boot in which it began
}

// Begin returns the LSN from which on the log is complete.
func (m *Manifest) Begin() event.LSN {
	first, _ := m.First()
	return max(first, m.Removed)
}

// First returns where the first of the files begins, and the chain there.
func (m *Manifest) First() (event.LSN, uint32) {
	switch {
	case len(m.Sealed) > 0:
		return m.Sealed[0].First, m.Sealed[0].Chain
	case len(m.Chapters) > 0:
		return m.Chapters[0].First, m.Chapters[0].Chain
	}
	return FirstLSN, 0
}

// The versions of a manifest (log-format.md 4). The first has only chapters.
const (
	plainManifest  = 1
	sealedManifest = 2
	gapManifest    = 3  // chapters before the listed ones were removed unsealed
	manifestHead   = 72 // bytes of fields before the sealed files
	sealedRow      = 80
	runRow         = 16 + MaxBoot
)

// Encode returns the contents of the file.
func (m *Manifest) Encode(part PartitionID, tag uint32) []byte {
	p := le.AppendUint64(nil, m.Generation)
	version := uint16(plainManifest)
	if len(m.Sealed) > 0 || m.Removed != 0 || m.Base.LSN != 0 {
		if version = sealedManifest; m.Before.Epoch != 0 {
			version = gapManifest
		}
		p = le.AppendUint64(p, uint64(m.Removed))
		p = le.AppendUint64(p, uint64(m.Base.LSN))
		p = le.AppendUint64(p, uint64(m.Base.Size))
		p = append(p, m.Base.Digest[:]...)
		p = le.AppendUint32(p, uint32(len(m.Sealed)))
		p = le.AppendUint32(p, 0)
	}
	for _, s := range m.Sealed {
		p = le.AppendUint32(p, s.Chapter)
		p = le.AppendUint32(p, s.Revision)
		p = le.AppendUint64(p, uint64(s.First))
		p = le.AppendUint64(p, uint64(s.End))
		p = le.AppendUint64(p, uint64(s.Epoch))
		p = le.AppendUint32(p, s.Chain)
		p = le.AppendUint32(p, s.Last)
		p = le.AppendUint64(p, uint64(s.Size))
		p = append(p, s.Footer[:]...)
	}
	if version == gapManifest {
		p = le.AppendUint64(p, uint64(m.Before.Epoch))
		p = le.AppendUint32(p, uint32(len(m.Before.Boot)))
		p = le.AppendUint32(p, 0)
		p = append(p, m.Before.Boot...)
		p = append(p, make([]byte, MaxBoot-len(m.Before.Boot))...)
	}
	for _, c := range m.Chapters {
		p = le.AppendUint32(p, c.ID)
		p = le.AppendUint32(p, c.Chain)
		p = le.AppendUint64(p, uint64(c.First))
		p = le.AppendUint64(p, uint64(c.Created))
		p = le.AppendUint32(p, c.SegmentBytes)
		p = le.AppendUint32(p, 0)
	}
	return sealVersion("LBMF", version, part, tag, p)
}

// DecodeManifest reads the contents of the file.
func DecodeManifest(file []byte, part PartitionID, tag uint32) (Manifest, error) {
	p, err := openUpTo(file, "LBMF", gapManifest, part, tag)
	if err != nil {
		return Manifest{}, err
	}
	if len(p) < 8 {
		return Manifest{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	m := Manifest{Generation: le.Uint64(p)}
	p = p[8:]
	version := le.Uint16(file[4:])
	if version >= sealedManifest {
		p, err = m.decodeSealed(p)
	}
	if err == nil && version == gapManifest {
		p, err = m.decodeBefore(p)
	}
	if err != nil {
		return Manifest{}, err
	}
	if len(p)%chapterRow != 0 {
		return Manifest{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	for ; len(p) > 0; p = p[chapterRow:] {
		c := Chapter{
			ID: le.Uint32(p), Chain: le.Uint32(p[4:]), First: event.LSN(le.Uint64(p[8:])),
			Created: int64(le.Uint64(p[16:])), SegmentBytes: le.Uint32(p[24:]),
		}
		if n := len(m.Chapters); n > 0 && (c.ID <= m.Chapters[n-1].ID || c.First < m.Chapters[n-1].First) || c.First%8 != 0 {
			return Manifest{}, fmt.Errorf("%w: chapters out of order", ErrDamaged)
		}
		m.Chapters = append(m.Chapters, c)
	}
	if !m.continues() {
		return Manifest{}, fmt.Errorf("%w: the chapters do not follow the sealed files", ErrDamaged)
	}
	if b := m.Base; b.LSN != 0 && b.LSN < m.Begin() || b.LSN == 0 && (m.Removed != 0 || b != BaseFile{}) || b.Size < 0 || b.LSN%8 != 0 {
		return Manifest{}, fmt.Errorf("%w: the base does not match the removed history", ErrDamaged)
	}
	return m, nil
}

// continues reports whether the chapters can follow the sealed files.
func (m *Manifest) continues() bool {
	n, gap := len(m.Sealed), m.Before.Epoch != 0
	if n == 0 && !gap {
		return true
	}
	if len(m.Chapters) == 0 {
		return false
	}
	c := m.Chapters[0]
	if gap && c.First != m.Removed {
		return false
	}
	if n == 0 {
		return true
	}
	last := m.Sealed[n-1]
	return c.ID > last.Chapter && (c.First == last.End && c.Chain == last.Last || gap && c.First > last.End && m.Before.Epoch >= last.Epoch)
}

// decodeBefore reads the fields that version 3 has between the sealed files and the chapters.
func (m *Manifest) decodeBefore(p []byte) (chapters []byte, err error) {
	if len(p) < runRow {
		return nil, fmt.Errorf("%w: length", ErrDamaged)
	}
	boot, n := p[16:runRow], le.Uint32(p[8:])
	if n > MaxBoot || le.Uint32(p[12:]) != 0 || le.Uint64(p) == 0 || len(bytes.Trim(boot[n:], "\x00")) > 0 {
		return nil, fmt.Errorf("%w: invalid run before the first chapter", ErrDamaged)
	}
	m.Before = Run{Epoch(le.Uint64(p)), string(boot[:n])}
	return p[runRow:], nil
}

// decodeSealed reads the fields that version 2 has before the chapters.
func (m *Manifest) decodeSealed(p []byte) (chapters []byte, err error) {
	if len(p) < manifestHead-8 {
		return nil, fmt.Errorf("%w: length", ErrDamaged)
	}
	m.Removed = event.LSN(le.Uint64(p))
	m.Base = BaseFile{LSN: event.LSN(le.Uint64(p[8:])), Size: int64(le.Uint64(p[16:])), Digest: [sha256.Size]byte(p[24:])}
	n := uint64(le.Uint32(p[manifestHead-16:]))
	p = p[manifestHead-8:]
	if n == 0 && m.Base.LSN == 0 || n*sealedRow > uint64(len(p)) {
		return nil, fmt.Errorf("%w: length", ErrDamaged)
	}
	for range n {
		s := SealedFile{
			Chapter: le.Uint32(p), Revision: le.Uint32(p[4:]), First: event.LSN(le.Uint64(p[8:])), End: event.LSN(le.Uint64(p[16:])),
			Epoch: Epoch(le.Uint64(p[24:])), Chain: le.Uint32(p[32:]), Last: le.Uint32(p[36:]), Size: int64(le.Uint64(p[40:])), Footer: [sha256.Size]byte(p[48:]),
		}
		if i := len(m.Sealed) - 1; i >= 0 && !m.follows(&s, &m.Sealed[i]) || i < 0 && s.First != FirstLSN && s.First > m.Removed ||
			s.First%8 != 0 || s.End%8 != 0 || s.First < FirstLSN || s.End <= s.First || s.Revision == 0 || s.Size <= 0 {
			return nil, fmt.Errorf("%w: sealed files out of order", ErrDamaged)
		}
		m.Sealed, p = append(m.Sealed, s), p[sealedRow:]
	}
	return p, nil
}

// follows reports whether a sealed file can follow another one.
func (m *Manifest) follows(s, before *SealedFile) bool {
	if s.Chapter <= before.Chapter || s.Epoch < before.Epoch {
		return false
	}
	return s.First == before.End && s.Chain == before.Last || s.First > before.End && s.First <= m.Removed
}

// TagOf returns the namespace's tag in a manifest or another note, 0 without one. It checks nothing
// else of the file.
func TagOf(note []byte) uint32 {
	if len(note) < noteHead {
		return 0
	}
	return le.Uint32(note[8:])
}
