package host

import (
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

var spaceSlow = flag.Duration("space-slow", 0, "in a benchmark of space, say which calls of the file system took longer, and which went on at the same time; 0: do not")

// slowDisk is a disk that records which calls took long.
type slowDisk struct {
	disk.FS
	logger *slog.Logger
	mu     *sync.Mutex
	under  map[*diskCall]bool
	before *[]*diskCall // that have ended and may have run at the same time as others
}

type diskCall struct {
	what       string
	from, till time.Time // till is zero while the call runs
}

func newSlowDisk(fs disk.FS, logger *slog.Logger) slowDisk {
	return slowDisk{fs, logger, new(sync.Mutex), map[*diskCall]bool{}, new([]*diskCall)}
}

// begin notes a call; the function it returns is called when the call ends.
func (s slowDisk) begin(op, name string, bytes int) (end func()) {
	c := &diskCall{what: fmt.Sprintf("%s %s/%s %d", op, filepath.Base(filepath.Dir(name)), filepath.Base(name), bytes), from: time.Now()}
	s.mu.Lock()
	s.under[c] = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.under, c)
		c.till = time.Now()
		if took := c.till.Sub(c.from); took >= *spaceSlow {
			s.logger.Info("slow", "call", c.what, "ms", took.Milliseconds(), "from", c.from.Format("05.000"), "beside", s.beside(c))
		}
		*s.before = append(*s.before, c)
		if len(*s.before) > 1000 {
			*s.before = append((*s.before)[:0], (*s.before)[500:]...)
		}
	}
}

// beside returns the calls that ran at the same time for a millisecond or more.
func (s slowDisk) beside(c *diskCall) string {
	var of []string
	for o := range s.under {
		if d := c.till.Sub(o.from); d >= time.Millisecond {
			of = append(of, fmt.Sprintf("%s for %dms so far", o.what, d.Milliseconds()))
		}
	}
	for _, o := range *s.before {
		if d := o.till.Sub(o.from); o.till.After(c.from) && d >= time.Millisecond {
			of = append(of, fmt.Sprintf("%s %dms", o.what, d.Milliseconds()))
		}
	}
	return strings.Join(of, "; ")
}

func (s slowDisk) file(op, name string, open func(string) (disk.File, error)) (disk.File, error) {
	end := s.begin(op, name, 0)
	f, err := open(name)
	end()
	if err != nil {
		return nil, err
	}
	return slowFile{f, name, s}, nil
}

func (s slowDisk) Create(name string) (disk.File, error) { return s.file("create", name, s.FS.Create) }
func (s slowDisk) Open(name string) (disk.File, error)   { return s.file("open", name, s.FS.Open) }
func (s slowDisk) Edit(name string) (disk.File, error)   { return s.file("edit", name, s.FS.Edit) }

func (s slowDisk) Rename(from, to string) error {
	defer s.begin("rename", to, 0)()
	return s.FS.Rename(from, to)
}

func (s slowDisk) Remove(name string) error {
	defer s.begin("remove", name, 0)()
	return s.FS.Remove(name)
}

func (s slowDisk) SyncDir(name string) error {
	defer s.begin("sync directory", name, 0)()
	return s.FS.SyncDir(name)
}

type slowFile struct {
	disk.File
	name string
	s    slowDisk
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	defer f.s.begin("read", f.name, len(p))()
	return f.File.ReadAt(p, off)
}

func (f slowFile) Write(p []byte) (int, error) {
	defer f.s.begin("write", f.name, len(p))()
	return f.File.Write(p)
}

func (f slowFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.s.begin("write", f.name, len(p))()
	return f.File.WriteAt(p, off)
}

func (f slowFile) Truncate(size int64) error {
	defer f.s.begin("truncate", f.name, int(size))()
	return f.File.Truncate(size)
}

func (f slowFile) Allocate(size int64) error {
	defer f.s.begin("allocate", f.name, int(size))()
	return f.File.Allocate(size)
}

func (f slowFile) Sync() error {
	defer f.s.begin("sync", f.name, 0)()
	return f.File.Sync()
}

func (f slowFile) Datasync() error {
	defer f.s.begin("datasync", f.name, 0)()
	return f.File.Datasync()
}
