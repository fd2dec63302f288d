package disk

import (
	"errors"
	"path/filepath"
)

// dirOpener is a file system that can exchange two names of a directory. On other file systems the
// file is replaced by a new one.
type dirOpener interface {
	// OpenDir opens a directory, so that its names can be exchanged and synced without another
	// descriptor.
	OpenDir(name string) (Dir, error)
}

// Replacer replaces a small file repeatedly, for instance once a second. It needs no new file
// descriptor for that, because there may be none. It keeps two files open: the one with the name,
// and the next one. The new contents are written to the second, which is synced; then the two
// exchange their names. So the file with the name is never written to, and a crash at any point
// leaves the old contents or the new (log-format.md 4). It belongs to one goroutine at a time.
type Replacer struct {
	fs        FS
	dir, name string

	folder Dir  // nil: not open
	spare  File // has the name with TempSuffix
	kept   File // has the name
	plain  bool // names cannot be exchanged here
}

// NewReplacer returns a Replacer of a file in a directory. Nothing is opened before the first Put.
func NewReplacer(fsys FS, dir, name string) *Replacer {
	return &Replacer{fs: fsys, dir: dir, name: name}
}

func (p *Replacer) path() string { return filepath.Join(p.dir, p.name) }

// Put replaces the contents, which have the same length each time. After an error that is
// [OutOfDescriptors] or wraps [ErrNoRoom] the old contents stay.
func (p *Replacer) Put(contents []byte) error {
	if p.folder == nil && !p.plain {
		return p.open(contents)
	}
	if !p.plain {
		err := p.exchange(contents)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if err := p.Close(); err != nil {
			return err
		}
		p.plain = true
	}
	return Replace(p.fs, p.path(), contents)
}

// open makes a new file, as [Replace] does, and keeps it open, with the directory and a second
// file.
func (p *Replacer) open(contents []byte) (err error) {
	opener, ok := p.fs.(dirOpener)
	if !ok {
		p.plain = true
		return p.Put(contents)
	}
	name := p.path()
	if p.folder, err = opener.OpenDir(p.dir); err != nil {
		p.folder = nil
		return err
	}
	err = func() error {
		if p.kept, err = p.create(name+TempSuffix, contents); err != nil {
			return err
		}
		if err := p.fs.Rename(name+TempSuffix, name); err != nil {
			return Later(err)
		}
		if err := p.folder.Sync(); err != nil {
			return err
		}
		p.spare, err = p.create(name+TempSuffix, contents)
		return err
	}()
	if err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

func (p *Replacer) create(name string, contents []byte) (File, error) {
	f, err := p.fs.Create(name)
	if err != nil {
		return nil, Later(err)
	}
	if _, err = f.Write(contents); err != nil {
		err = Later(err)
	} else {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p *Replacer) exchange(contents []byte) error {
	if _, err := p.spare.WriteAt(contents, 0); err != nil {
		return Later(err)
	}
	if err := p.spare.Sync(); err != nil {
		return err
	}
	if err := p.folder.Exchange(p.name, p.name+TempSuffix); err != nil {
		return Later(err)
	}
	p.kept, p.spare = p.spare, p.kept
	return p.folder.Sync()
}

// Close closes the descriptors.
func (p *Replacer) Close() error {
	var errs []error
	for _, f := range []File{p.kept, p.spare} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if p.folder != nil {
		errs = append(errs, p.folder.Close())
	}
	p.kept, p.spare, p.folder = nil, nil, nil
	return errors.Join(errs...)
}

// End closes the files and removes the spare one, which is not needed after a clean end.
func (p *Replacer) End() error {
	had := p.spare != nil
	err := p.Close()
	if had {
		err = errors.Join(err, p.fs.Remove(p.path()+TempSuffix))
	}
	return err
}
