package log

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// baseWalk is the part of a walk that looks at the base (log-format.md 5.3).
type baseWalk struct{ *walk }

// read looks at the base that the manifest names, if that is good, and at what else there is.
func (w baseWalk) read(good bool) error {
	named := w.out.manifest.Base
	entries, err := w.fs.ReadDir(filepath.Join(w.dir(), "base"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w.damaged("base", 0, 0, err)
	}
	for _, e := range entries {
		name := filepath.Join("base", e.Name)
		at, ok := format.BaseLSN(e.Name)
		switch {
		case disk.IsTemp(e.Name) && !e.Dir:
			w.out.temps = append(w.out.temps, name)
		case ok && !e.Dir && good && at == named.LSN:
		case ok && !e.Dir:
			w.out.remains = append(w.out.remains, name)
		default:
			if err := w.damaged(name, 0, 0, w.corrupt(name, 0, 0, "does not belong to this log")); err != nil {
				return err
			}
		}
	}
	if !good || named.LSN == 0 {
		return nil
	}
	name := basePath(named.LSN)
	f, b, err := openBase(opens(w.fs, w.dir()), named, w.id, w.tag, w.report != nil || w.thorough)
	if err == nil {
		err = f.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = w.corrupt(name, 0, named.LSN, "base is missing")
	case errors.Is(err, format.ErrDamaged):
		err = w.corrupt(name, 0, named.LSN, "%v", err)
	case err == nil:
		w.out.base = b
		w.scan.Watch[b.LSN] = format.Passed{}
	}
	return w.damaged(name, 0, named.LSN, err)
}

// stands checks that a frame of the log ends where the base stands.
func (w baseWalk) stands() error {
	b := &w.out.base
	unread := w.bound != nil && (b.LSN > w.out.end.LSN || len(w.out.segments) == 0) // all up to where the walk ends has been removed
	if b.LSN <= format.FirstLSN || w.missed(b.LSN) || unread || w.scan.Watch[b.LSN] == (format.Passed{There: true, Chain: b.Chain}) {
		return nil
	}
	name := basePath(b.LSN)
	return w.damaged(name, 0, b.LSN, w.corrupt(name, 0, b.LSN, "is of another log"))
}

// jump goes to where a sealed file begins when something was removed in front of it, and reports whether that is so.
func (w baseWalk) jump(named *format.SealedFile) bool {
	s, m := &w.scan, &w.out.manifest
	if m.Removed == 0 || named.First > m.Removed || len(w.out.segments) > 0 && named.First == s.LSN {
		return false
	}
	s.LSN, s.Chain, s.Boot, w.sure, w.chained = named.First, named.Chain, "", true, true
	if _, asked := s.Watch[s.LSN]; asked {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
	return true
}

// jumpUnsealed goes to where the first chapter begins, when those in front of it were removed unsealed.
func (w baseWalk) jumpUnsealed() {
	s, m := &w.scan, &w.out.manifest
	if m.Before.Epoch == 0 {
		return
	}
	c := m.Chapters[0]
	s.LSN, s.Chain, s.Epoch, s.Boot, w.sure, w.chained, w.reigned = c.First, c.Chain, m.Before.Epoch, m.Before.Boot, true, true, true
	if _, asked := s.Watch[s.LSN]; asked {
		s.Watch[s.LSN] = format.Passed{There: true, Chain: s.Chain}
	}
	w.out.tip = m.Before
}

// removed reports whether a chapter, or the sealed file of one, has been removed, or is about to be: the manifest does not name it, and names later ones that
// nothing need be in front of.
func (w baseWalk) removed(chapter uint32) bool {
	m := &w.out.manifest
	for _, s := range m.Sealed {
		if s.First >= m.Removed {
			return m.Removed != 0 && chapter < s.Chapter
		}
	}
	return m.Removed != 0 && len(m.Chapters) > 0 && chapter < m.Chapters[0].ID
}
