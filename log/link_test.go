package log_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ledgerbus/ledgerbus/log"
)

// openers are the three ways to take a directory.
var openers = map[string]func(dir string) error{
	"start": func(dir string) error {
		s, err := log.Open(ctx, dir, log.Options{})
		if err == nil {
			err = s.Close()
		}
		return err
	},
	"look": func(dir string) error {
		s, err := log.Open(ctx, dir, log.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		_, err = s.Open(ctx, 0)
		return errors.Join(err, s.Close())
	},
	"survey": func(dir string) error {
		s, err := log.OpenSurvey(dir, log.Options{})
		if err != nil {
			return err
		}
		_, err = s.Partition(ctx, 0, func(c *log.CorruptError) error { return c })
		return errors.Join(err, s.Close())
	},
}

// reliability.md S33: a link in the path of a log's files is refused in the same way by a start and
// by read-only tools, and as a link, not as damage.
func TestS33LinkInside(t *testing.T) {
	t.Parallel()
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
	fill(t, dir, 1)
	check := func(path, what string) {
		t.Helper()
		for how, open := range openers {
			err := open(dir)
			var p *fs.PathError
			if !errors.As(err, &p) || p.Path != path || !strings.Contains(err.Error(), "is "+what+", which is refused") || errors.As(err, new(*log.CorruptError)) {
				t.Errorf("%s of %s: %v", path, how, err)
			}
		}
	}
	for _, name := range []string{"lock", "clean", "namespace.json", "partitions", "partitions/00", "partitions/00/wal", "partitions/00/checkpoints",
		"partitions/00/wal/0000000001"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Rename(path, away), os.Symlink(away, path)); err != nil {
			t.Fatal(err)
		}
		check(path, "a symbolic link")
		if err := errors.Join(os.Remove(path), os.Rename(away, path)); err != nil {
			t.Fatal(err)
		}
	}
	if t.Failed() {
		return // who opens a pipe waits for its other end
	}
	path := filepath.Join(dir, "lock")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	check(path, "a device, pipe or socket")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for how, open := range openers { // links that nothing is read through are left alone
		if err := errors.Join(os.Symlink(away, filepath.Join(dir, how)), os.Symlink(away, filepath.Join(dir, "partitions", how)), open(dir)); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// The path of a directory may be or contain a link, because the operator made it.
func TestLinkToDirectory(t *testing.T) {
	t.Parallel()
	parent, links := t.TempDir(), t.TempDir()
	dir := filepath.Join(parent, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, 1)
	itself, above := filepath.Join(links, "itself"), filepath.Join(links, "above")
	if err := errors.Join(os.Symlink(dir, itself), os.Symlink(parent, above)); err != nil {
		t.Fatal(err)
	}
	for how, open := range openers {
		for _, name := range []string{itself, filepath.Join(above, "data")} {
			if err := open(name); err != nil {
				t.Errorf("%s: %s: %v", how, name, err)
			}
		}
	}
	if err := openers["start"](filepath.Join(above, "new", "data")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(parent, "new", "data", "namespace.json")); err != nil {
		t.Error(err)
	}
	s := must(log.Open(ctx, dir, log.Options{}))(t)
	defer s.Close()
	for how, open := range openers {
		if err := open(itself); !errors.Is(err, log.ErrInUse) || err.Error() != "log: directory is in use by another process: "+dir {
			t.Errorf(`%s: %v; want errors.Is(err, log.ErrInUse) && err.Error() == "log: directory is in use by another process: "+dir`, how, err)
		}
	}
}

// A lost or damaged file that concerns all partitions is the same damage for a start and for those
// who look, of no single partition.
func TestDamageOfAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"lost": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "namespace.json")), os.Remove(filepath.Join(dir, "clean")))
		}, "log: partition all: namespace.json at byte 0 (LSN 0): damaged: missing, but partition 00 has a log"},
		"lost, with a clean marker": {func(dir string) error { return os.Remove(filepath.Join(dir, "namespace.json")) },
			"log: partition all: namespace.json at byte 0 (LSN 0): damaged: missing, but the clean marker exists"},
		"lost, and the partitions": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "namespace.json")), os.RemoveAll(filepath.Join(dir, "partitions")))
		}, "log: partition all: namespace.json at byte 0 (LSN 0): damaged: missing, but the clean marker exists"},
		"clean": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "clean"), []byte("x"), 0o600) },
			"log: partition all: clean at byte 0 (LSN 0): the ends of the logs are unknown: damaged: "},
		"namespace": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "namespace.json"), []byte("x"), 0o600) },
			"log: partition all: namespace.json at byte 0 (LSN 0): damaged: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fill(t, dir, 1)
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			for _, how := range []string{"look", "start", "look"} {
				if err := openers[how](dir); !errors.As(err, new(*log.CorruptError)) || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("%s: %v, want %s", how, err, c.want)
				}
			}
			s := must(log.OpenSurvey(dir, log.Options{}))(t)
			defer s.Close()
			for _, id := range s.Partitions() {
				if out, err := s.Partition(ctx, id, func(c *log.CorruptError) error { return c }); err != nil || out.Frames == 0 {
					t.Errorf("%v, %+v; want out.Frames != 0", err, out)
				}
			}
		})
	}
	empty := t.TempDir()
	if err := openers["look"](empty); !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*log.CorruptError)) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := log.OpenSurvey(filepath.Join(empty, "nothing"), log.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
