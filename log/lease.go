package log

import (
	"crypto/rand"
	"encoding/binary"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

const (
	// leaseEvery is how often a reader renews its lease while it opens files. The lease of a reader
	// that opens none expires.
	leaseEvery = 10 * time.Second
	// leaseEnds is the age at which a lease that was not renewed no longer counts.
	leaseEnds = time.Minute
	// maxLeases is how many leases a directory may have. Further readers have none, and read the
	// manifest more often.
	maxLeases = 64
)

// lease is the file with which a reader beside a broker asks that the files it still needs are not
// removed. It is a courtesy: a reader without one also reads correctly.
type lease struct {
	store   *store
	file    *disk.Mark
	renewed atomic.Int64 // ms since 1970
}

// markableFS is a file system that is opened for reading, but in which a reader may leave a mark.
type markableFS interface {
	NewMark(name string) (*disk.Mark, error)
	Unmark(name string)
}

// newLease makes a lease. It returns nil where that is impossible: the directory is read-only, or
// has too many leases.
func (s *store) newLease() *lease {
	dir, ok := s.fs.(markableFS)
	if !ok {
		return nil
	}
	held, ended := s.leases()
	for _, name := range ended {
		dir.Unmark(name)
	}
	if len(held) >= maxLeases {
		return nil
	}
	var id [8]byte
	rand.Read(id[:])
	f, err := dir.NewMark(format.LeaseName(binary.LittleEndian.Uint64(id[:])))
	if err != nil {
		return nil
	}
	l := &lease{store: s, file: f}
	l.renew()
	s.fs = leasedFS{s.fs, l}
	s.opts.FS = s.fs
	return l
}

// leasedFS is a file system with a lease, which is renewed whenever files are opened.
type leasedFS struct {
	disk.FS
	lease *lease
}

func (r leasedFS) Open(name string) (disk.File, error) {
	r.lease.renew()
	return r.FS.Open(name)
}

// renew says that the reader still reads, unless it has just done so.
func (l *lease) renew() {
	now, before := l.store.opts.Now().UnixMilli(), l.renewed.Load()
	if age := time.Duration(now-before) * time.Millisecond; age.Abs() < leaseEvery || !l.renewed.CompareAndSwap(before, now) {
		return
	}
	// of each log, everything that a reader may need
	lowest := slices.Repeat([]event.LSN{format.FirstLSN}, l.store.logs)
	l.file.Put(format.Lease{PID: l.file.Process(), Renewed: now, Lowest: lowest}.Encode(l.store.tag))
}

// end removes the lease.
func (l *lease) end() {
	if l != nil {
		l.file.Remove()
	}
}

// leases returns the leases that readers of the directory hold, and the names of expired ones. It
// reads a limited number of files and ignores incomplete ones.
func (s *store) leases() (held []format.Lease, ended []string) {
	entries, err := s.fs.ReadDir(s.root)
	if err != nil {
		return nil, nil
	}
	now := s.opts.Now().UnixMilli()
	for _, e := range entries {
		if e.Dir || !format.IsLease(e.Name) || len(held)+len(ended) == maxLeases {
			continue
		}
		p, err := readFile(s.fs, filepath.Join(s.root, e.Name), format.MaxLease)
		if err != nil {
			continue
		}
		l, err := format.DecodeLease(p, s.tag, s.logs)
		if err != nil {
			continue
		}
		if age := time.Duration(now-l.Renewed) * time.Millisecond; age > leaseEnds || age < -leaseEnds {
			ended = append(ended, e.Name)
			continue
		}
		held = append(held, l)
	}
	return held, ended
}
