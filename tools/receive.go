package tools

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log"
)

// PartialSuffix ends the name of a data directory that is being received.
const PartialSuffix = ".partial"

// maxReceived is the maximum number of files and directories of a received data directory: 16 TiB
// of segments.
const maxReceived = 1 << 21

// ErrNotEmpty reports that the destination of a data directory is not empty.
var ErrNotEmpty = errors.New("is not empty")

// An Incoming is a data directory that is being received. It gets its name only when it is
// complete, durable and verified.
type Incoming struct {
	dir, partial string
	root         *os.Root // of the received data; no name leads out of it
	made         []string // directories in it
	files        map[string]bool
	Bytes        int64 // received so far
}

// Receive starts to receive a data directory. An empty directory may exist in its place, and its
// parent must exist. The error wraps [ErrNotEmpty] if the directory is not empty or an earlier
// attempt was not completed.
func Receive(dir string) (*Incoming, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	switch list, err := os.ReadDir(dir); {
	case err == nil && len(list) > 0:
		return nil, fmt.Errorf("%s %w", dir, ErrNotEmpty)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	in := &Incoming{dir: dir, partial: dir + PartialSuffix, files: map[string]bool{}}
	err = os.Mkdir(in.partial, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s is left over from an earlier attempt and %w; remove it", in.partial, ErrNotEmpty)
	}
	if err != nil {
		return nil, err
	}
	if in.root, err = os.OpenRoot(in.partial); err != nil {
		return nil, errors.Join(err, os.Remove(in.partial))
	}
	return in, nil
}

// MakeDir creates a directory, as Put does.
func (in *Incoming) MakeDir(name string) error { return in.Put(name, 0, nil) }

// Write creates a file, as Put does, if its size is unknown before write has written it.
func (in *Incoming) Write(name string, write func(io.Writer) error) error {
	f, err := in.create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	err = write(countingWriter{out, &in.Bytes})
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// A countingWriter counts the written bytes.
type countingWriter struct {
	io.Writer
	n *int64
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	*c.n += int64(n)
	return n, err
}

// check refuses names that no copy of a data directory has, and duplicate names.
func (in *Incoming) check(name string, isDir bool) error {
	switch {
	case !log.MayBeCopied(name, isDir), in.files[name]:
		return fmt.Errorf("tools: unexpected or duplicate name %+q", name)
	case len(in.files) == maxReceived:
		return fmt.Errorf("tools: more than %d files", maxReceived)
	}
	in.files[name] = true
	return nil
}

func (in *Incoming) create(name string) (*os.File, error) {
	if err := in.check(name, false); err != nil {
		return nil, err
	}
	return in.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Put writes a file or, without contents, creates a directory. It refuses names that no copy of a
// data directory has, and duplicate names.
func (in *Incoming) Put(name string, size int64, contents io.Reader) error {
	if contents == nil {
		if err := in.check(name, true); err != nil {
			return err
		}
		local := filepath.FromSlash(name)
		in.made = append(in.made, local)
		return in.root.Mkdir(local, 0o700)
	}
	f, err := in.create(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, contents)
	in.Bytes += n
	if err == nil && n != size {
		err = fmt.Errorf("tools: %s has %d bytes, not %d", name, n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Finish makes the received data durable, verifies it, and gives it its name. Damage is a
// [*log.CorruptError], and Finish prints it to w line by line.
func (in *Incoming) Finish(w io.Writer) (Report, error) {
	in.made = append(in.made, ".")
	slices.Reverse(in.made) // from the innermost
	for _, dir := range in.made {
		if err := in.syncDir(dir); err != nil {
			return Report{}, err
		}
	}
	var said bytes.Buffer
	found, err := Verify(&said, in.partial, VerifyOptions{})
	if err == nil && (found.Places > 0 || found.Tail > 0 || len(found.Discarded) > 0) {
		if _, err := said.WriteTo(w); err != nil {
			return found, err
		}
		if len(found.Damaged) == 0 {
			return found, errors.New("tools: the copy contains files that a broker would not use")
		}
		return found, fmt.Errorf("tools: the received copy is damaged: %w", found.Damaged[0])
	}
	if err != nil {
		return found, err
	}
	if err := os.Remove(in.dir); err != nil && !errors.Is(err, os.ErrNotExist) { // an empty one
		return found, err
	}
	if err := os.Rename(in.partial, in.dir); err != nil {
		return found, err
	}
	in.root.Close()
	parent, err := os.Open(filepath.Dir(in.dir))
	if err != nil {
		return found, err
	}
	return found, errors.Join(parent.Sync(), parent.Close())
}

func (in *Incoming) syncDir(name string) error {
	d, err := in.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Drop deletes the received data of a copy that will not be completed.
func (in *Incoming) Drop() error {
	in.root.Close()
	return os.RemoveAll(in.partial)
}
