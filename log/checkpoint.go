package log

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

const maxWindow = 8 << 20 // of the zstd stream, bytes; what SpeedFastest writes is less

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

// readCheckpoint reads header and trailer of a file.
func readCheckpoint(fs disk.FS, name string, part PartitionID, tag uint32) (format.Checkpoint, error) {
	f, err := fs.Open(name)
	if err != nil {
		return format.Checkpoint{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return format.Checkpoint{}, err
	}
	if size < format.CheckpointHead+format.CheckpointTrailer {
		return format.Checkpoint{}, fmt.Errorf("%w: length", format.ErrDamaged)
	}
	var p [format.CheckpointHead + format.CheckpointTrailer]byte
	if _, err := f.ReadAt(p[:format.CheckpointHead], 0); err != nil {
		return format.Checkpoint{}, err
	}
	if _, err := f.ReadAt(p[format.CheckpointHead:], size-format.CheckpointTrailer); err != nil && !errors.Is(err, io.EOF) {
		return format.Checkpoint{}, err
	}
	return format.DecodeCheckpoint(p[:format.CheckpointHead], p[format.CheckpointHead:], size, part, tag)
}

// summingWriter counts the bytes that are written through it and computes their checksum.
type summingWriter struct {
	w   io.Writer
	crc uint32
	n   int64
}

func (s *summingWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	s.n += int64(n)
	return n, err
}

// SaveCheckpoint implements [Checkpoints].
func (p *partition) SaveCheckpoint(at event.LSN, write func(io.Writer) error) error {
	if p.store.opts.ReadOnly {
		return ErrReadOnly
	}
	if p.store.reserve.room() >= RoomCritical {
		return fmt.Errorf("log: checkpoint at LSN %d: %w", at, ErrNoRoom)
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	chain, epoch, err := p.chainAt(at)
	if err != nil {
		return fmt.Errorf("log: checkpoint at LSN %d: %w", at, err)
	}
	c := format.Checkpoint{LSN: at, Epoch: epoch, Chain: chain}
	if err := p.writeCheckpoint(&c, write); err != nil {
		return fmt.Errorf("log: checkpoint at LSN %d: %w", at, err)
	}
	p.mu.Lock()
	p.ckpts = slices.DeleteFunc(p.ckpts, func(o format.Checkpoint) bool { return o.LSN == at })
	p.ckpts = append(p.ckpts, c)
	slices.SortFunc(p.ckpts, func(a, b format.Checkpoint) int { return int(int64(a.LSN) - int64(b.LSN)) })
	p.ckpts = thinCheckpoints(p.ckpts, p.base.LSN, storedBytes(p.segments))
	keep := p.ckpts
	p.mu.Unlock()
	return p.pruneCheckpoints(keep)
}

func (p *partition) writeCheckpoint(c *format.Checkpoint, write func(io.Writer) error) error {
	name := filepath.Join(p.dir, "checkpoints", format.CheckpointName(c.LSN))
	return disk.Write(p.store.fs, name, func(f disk.File) error {
		if _, err := f.Write(c.Head(p.id, p.store.tag)); err != nil {
			return err
		}
		out := &summingWriter{w: f}
		z := encoders.Get().(*zstd.Encoder)
		defer encoders.Put(z)
		z.Reset(out)
		h := sha256.New()
		state := &summingWriter{w: io.MultiWriter(z, h)}
		err := write(state)
		if err2 := z.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
		c.Payload, c.PayloadSum, c.Size = out.n, out.crc, state.n
		h.Sum(c.Hash[:0])
		if _, durable := p.Bounds(); c.LSN > durable {
			return fmt.Errorf("the log is durable only up to LSN %d", durable)
		}
		_, err = f.Write(c.Trailer())
		return err
	})
}

// pruneCheckpoints removes all checkpoint files except those to keep.
func (p *partition) pruneCheckpoints(keep []format.Checkpoint) error {
	dir := filepath.Join(p.dir, "checkpoints")
	entries, err := p.store.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	removed := false
	for _, e := range entries {
		if e.Dir || slices.ContainsFunc(keep, func(c format.Checkpoint) bool { return format.CheckpointName(c.LSN) == e.Name }) {
			continue
		}
		if filepath.Ext(e.Name) != ".ckpt" {
			continue
		}
		if err := p.store.fs.Remove(filepath.Join(dir, e.Name)); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return p.store.fs.SyncDir(dir)
}

// Checkpoints implements [Checkpoints].
func (p *partition) Checkpoints() []CheckpointInfo {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var list []CheckpointInfo
	for _, c := range slices.Backward(p.ckpts) {
		list = append(list, CheckpointInfo{
			LSN: c.LSN, Epoch: c.Epoch, Size: c.Size, Stored: storedSize(&c), Hash: c.Hash,
			File: filepath.Join(format.PartitionDir(p.id), "checkpoints", format.CheckpointName(c.LSN)),
		})
	}
	return list
}

// OpenCheckpoint implements [Checkpoints].
func (p *partition) OpenCheckpoint(at event.LSN) (io.ReadCloser, error) {
	p.mu.RLock()
	i := slices.IndexFunc(p.ckpts, func(c format.Checkpoint) bool { return c.LSN == at })
	var want format.Checkpoint
	if i >= 0 {
		want = p.ckpts[i]
	}
	p.mu.RUnlock()
	if i < 0 {
		return nil, fmt.Errorf("log: partition %d has no checkpoint at LSN %d", p.id, at)
	}
	name := filepath.Join(p.dir, "checkpoints", format.CheckpointName(at))
	r, err := openCheckpoint(p.store.fs, name, p.id, p.store.tag, want)
	if err != nil {
		return nil, fmt.Errorf("log: partition %d checkpoint at LSN %d: %w", p.id, at, err)
	}
	return r, nil
}

func openCheckpoint(fs disk.FS, name string, part PartitionID, tag uint32, want format.Checkpoint) (io.ReadCloser, error) {
	c, err := readCheckpoint(fs, name, part, tag)
	if err != nil || c != want {
		return nil, errors.Join(ErrChecksum, err)
	}
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	z, err := decompress(f, &c)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &checkpointReader{file: f, z: z, want: c, sum: sha256.New()}, nil
}

// decompress compares the checksum of the stored state before it decompresses it.
func decompress(f disk.File, c *format.Checkpoint) (*zstd.Decoder, error) {
	buf := readWindows.Get().(*[readWindow]byte)
	defer readWindows.Put(buf)
	w := format.Window{Buf: buf[:]}
	w.Reset(f, format.CheckpointHead+c.Payload)
	sum, err := w.Sum(format.CheckpointHead, c.Payload)
	if err != nil {
		return nil, err
	}
	if sum != c.PayloadSum {
		return nil, ErrChecksum
	}
	return zstd.NewReader(io.NewSectionReader(f, format.CheckpointHead, c.Payload), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// checkpointReader yields the state, and compares its size and hash at the end.
type checkpointReader struct {
	file disk.File
	z    *zstd.Decoder
	want format.Checkpoint
	sum  hash.Hash
	n    int64
}

func (r *checkpointReader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	r.sum.Write(p[:n])
	r.n += int64(n)
	if r.n > r.want.Size || errors.Is(err, io.EOF) && (r.n != r.want.Size || [32]byte(r.sum.Sum(nil)) != r.want.Hash) {
		return 0, fmt.Errorf("log: checkpoint at LSN %d: %w", r.want.LSN, ErrChecksum)
	}
	return n, err
}

func (r *checkpointReader) Close() error {
	r.z.Close()
	return r.file.Close()
}
