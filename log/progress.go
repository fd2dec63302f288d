package log

import (
	"errors"
	"path/filepath"
)

// dirOpener is a file system that can exchange two names of a directory. On others a note is replaced by a new file.
type dirOpener interface {
	// OpenDir opens a directory, for its names to be exchanged and synced without another descriptor.
	OpenDir(name string) (Dir, error)
}

// Dir is an open directory.
type Dir interface {
	// Exchange swaps two names in it in one step. It wraps errors.ErrUnsupported where the file system cannot.
	Exchange(a, b string) error
	// Sync makes the directory's entries durable.
	Sync() error
	Close() error
}

const progressName = "progress"

// progress keeps the note of how far a partition's log is durable. It is written once a second for as long as there is traffic, and
// must not need a file descriptor for that, of which there may be none: two files are kept open, the note and the one that is
// going to be. The new text goes into the second, which is synced; then the two exchange their names. So the file that has the
// name is never written to, and a crash at any point leaves the old note or the new one (log-format.md 4).
type progress struct {
	fs  FS
	dir string

	folder Dir  // nil: not open
	spare  File // has the name with tempSuffix
	note   File // has the name
	plain  bool // names cannot be exchanged here
}

// put replaces the note. Notes have one length. An error that is outOfDescriptors leaves the old one.
func (p *progress) put(note []byte) error {
	if p.folder == nil && !p.plain {
		return p.open(note)
	}
	if !p.plain {
		err := p.exchange(note)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if err := p.close(); err != nil {
			return err
		}
		p.plain = true
	}
	return replaceFile(p.fs, filepath.Join(p.dir, progressName), note)
}

// open makes the note a new file, as [replaceFile] does, and keeps it open, with the directory and a second file.
func (p *progress) open(note []byte) (err error) {
	opener, ok := p.fs.(dirOpener)
	if !ok {
		p.plain = true
		return p.put(note)
	}
	name := filepath.Join(p.dir, progressName)
	if p.folder, err = opener.OpenDir(p.dir); err != nil {
		p.folder = nil
		return err
	}
	err = func() error {
		if p.note, err = p.create(name+tempSuffix, note); err != nil {
			return err
		}
		if err := p.fs.Rename(name+tempSuffix, name); err != nil {
			return err
		}
		if err := p.folder.Sync(); err != nil {
			return err
		}
		p.spare, err = p.create(name+tempSuffix, note)
		return err
	}()
	if err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

func (p *progress) create(name string, contents []byte) (File, error) {
	f, err := p.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(contents); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p *progress) exchange(note []byte) error {
	if _, err := p.spare.WriteAt(note, 0); err != nil {
		return err
	}
	if err := p.spare.Sync(); err != nil {
		return err
	}
	if err := p.folder.Exchange(progressName, progressName+tempSuffix); err != nil {
		return err
	}
	p.note, p.spare = p.spare, p.note
	return p.folder.Sync()
}

// close gives the descriptors back.
func (p *progress) close() error {
	var errs []error
	for _, f := range []File{p.note, p.spare} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if p.folder != nil {
		errs = append(errs, p.folder.Close())
	}
	p.note, p.spare, p.folder = nil, nil, nil
	return errors.Join(errs...)
}

// end closes the files and removes the spare one, which nobody needs after a clean end.
func (p *progress) end() error {
	had := p.spare != nil
	err := p.close()
	if had {
		err = errors.Join(err, p.fs.Remove(filepath.Join(p.dir, progressName+tempSuffix)))
	}
	return err
}
