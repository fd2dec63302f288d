package log

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// pacedFS opens files whose readers rest now and then.
type pacedFS struct {
	disk.FS
	pace *pace
}

// pace is how fast a file is read.
type pace struct {
	ctx   context.Context
	ended *atomic.Bool // another recovery of the partition begins
	store *store
	rest  func(ctx context.Context, bytes int)
	since int // bytes read since the last rest
	all   atomic.Int64
}

const (
	// scrubPiece is how much is read between two rests, bytes.
	scrubPiece = 1 << 20
	// scrubWaits is how often at most, sealPatient each time, a piece waits while the disk is slow for those who write logs.
	scrubWaits = 200
)

// Open implements [disk.FS].
func (f pacedFS) Open(name string) (disk.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{file, f.pace}, nil
}

// bytes is how many bytes were read.
func (f pacedFS) bytes() int64 { return f.pace.all.Load() }

type pacedFile struct {
	disk.File
	pace *pace
}

// ReadAt implements [io.ReaderAt]. One goroutine reads.
func (f pacedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.pace.over(); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	f.pace.took(n)
	return n, err
}

// over says why nothing is to be read any more; nil: it goes on.
func (p *pace) over() error {
	if p.ended.Load() {
		return ErrClosed
	}
	return p.ctx.Err()
}

// took counts bytes that were read, and rests when they are a piece.
func (p *pace) took(n int) {
	p.all.Add(int64(n))
	if p.since += n; p.since < scrubPiece || p.rest == nil {
		return
	}
	p.rest(p.ctx, p.since)
	p.since = 0
	for range scrubWaits {
		if p.over() != nil || !p.store.slow() {
			return
		}
		sleep(p.ctx, sealPatient)
	}
}

// slow reports whether syncs of a log take longer just now than usual.
func (s *store) slow() bool {
	for p := range s.all() {
		p.mu.RLock()
		w := p.writer
		p.mu.RUnlock()
		if w != nil && w.pulse.slow() {
			return true
		}
	}
	return false
}

// grown is how far the logs that are written are durable, added up: it changes while any of them grows.
func (s *store) grown() (sum uint64) {
	for p := range s.all() {
		p.mu.RLock()
		w := p.writer
		p.mu.RUnlock()
		if w != nil {
			sum += w.durable.Load()
		}
	}
	return sum
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
