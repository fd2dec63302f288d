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
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A checkpoint file (log-format.md 4): header 40 · state as one zstd stream · trailer 64.
const (
	checkpointHead    = 40
	checkpointTrailer = 64
	keepCheckpoints   = 2
	maxWindow         = 8 << 20 // of the zstd stream, bytes; what SpeedFastest writes is less
)

var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

func checkpointName(at event.LSN) string { return fmt.Sprintf("%020d.ckpt", at) }

// checkpoint is what header and trailer say.
type checkpoint struct {
	lsn        event.LSN
	epoch      Epoch
	chain      uint32
	payloadSum uint32
	payload    int64 // bytes
	size       int64 // of the state
	hash       [32]byte
}

func (c *checkpoint) head(part PartitionID, tag uint32) []byte {
	p := make([]byte, 0, checkpointHead)
	p = append(p, "LBCK"...)
	p = le.AppendUint16(p, formatVersion)
	p = le.AppendUint16(p, uint16(part))
	p = le.AppendUint32(p, tag)
	p = le.AppendUint32(p, c.chain)
	p = le.AppendUint64(p, uint64(c.lsn))
	p = le.AppendUint64(p, uint64(c.epoch))
	p = le.AppendUint32(p, event.Sum(p))
	return le.AppendUint32(p, 0)
}

func (c *checkpoint) trailer() []byte {
	p := make([]byte, 0, checkpointTrailer)
	p = append(p, "LBCT"...)
	p = le.AppendUint32(p, c.payloadSum)
	p = le.AppendUint64(p, uint64(c.payload))
	p = le.AppendUint64(p, uint64(c.size))
	p = append(p, c.hash[:]...)
	p = le.AppendUint32(p, 0)
	return le.AppendUint32(p, event.Sum(p))
}

// decodeCheckpoint checks header and trailer of a file of the given size.
func decodeCheckpoint(head, trailer []byte, size int64, part PartitionID, tag uint32) (checkpoint, error) {
	bad := func(what string) (checkpoint, error) { return checkpoint{}, fmt.Errorf("%w: %s", errDamaged, what) }
	switch {
	case len(head) != checkpointHead || len(trailer) != checkpointTrailer:
		return bad("length")
	case string(head[:4]) != "LBCK" || le.Uint32(head[32:]) != event.Sum(head[:32]) || le.Uint32(head[36:]) != 0:
		return bad("header")
	case le.Uint16(head[4:]) != formatVersion:
		return bad(fmt.Sprintf("version %d", le.Uint16(head[4:])))
	case le.Uint16(head[6:]) != uint16(part):
		return bad(fmt.Sprintf("belongs to partition %d", le.Uint16(head[6:])))
	case le.Uint32(head[8:]) != tag:
		return bad("belongs to another namespace")
	case string(trailer[:4]) != "LBCT" || le.Uint32(trailer[60:]) != event.Sum(trailer[:60]) || le.Uint32(trailer[56:]) != 0:
		return bad("trailer")
	}
	c := checkpoint{
		chain: le.Uint32(head[12:]), lsn: event.LSN(le.Uint64(head[16:])), epoch: Epoch(le.Uint64(head[24:])),
		payloadSum: le.Uint32(trailer[4:]), payload: int64(le.Uint64(trailer[8:])), size: int64(le.Uint64(trailer[16:])),
		hash: [32]byte(trailer[24:56]),
	}
	if c.payload < 0 || c.size < 0 || checkpointHead+c.payload+checkpointTrailer != size {
		return bad("length")
	}
	return c, nil
}

// readCheckpoint reads header and trailer of a file.
func readCheckpoint(fs FS, name string, part PartitionID, tag uint32) (checkpoint, error) {
	f, err := fs.Open(name)
	if err != nil {
		return checkpoint{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return checkpoint{}, err
	}
	if size < checkpointHead+checkpointTrailer {
		return checkpoint{}, fmt.Errorf("%w: length", errDamaged)
	}
	var p [checkpointHead + checkpointTrailer]byte
	if _, err := f.ReadAt(p[:checkpointHead], 0); err != nil {
		return checkpoint{}, err
	}
	if _, err := f.ReadAt(p[checkpointHead:], size-checkpointTrailer); err != nil && !errors.Is(err, io.EOF) {
		return checkpoint{}, err
	}
	return decodeCheckpoint(p[:checkpointHead], p[checkpointHead:], size, part, tag)
}

// summed counts and sums what is written through it.
type summed struct {
	w   io.Writer
	crc uint32
	n   int64
}

func (s *summed) Write(p []byte) (int, error) {
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
	p.saving.Lock()
	defer p.saving.Unlock()
	chain, epoch, err := p.chainAt(at)
	if err != nil {
		return fmt.Errorf("log: checkpoint at LSN %d: %w", at, err)
	}
	c := checkpoint{lsn: at, epoch: epoch, chain: chain}
	if err := p.writeCheckpoint(&c, write); err != nil {
		return fmt.Errorf("log: checkpoint at LSN %d: %w", at, err)
	}
	p.mu.Lock()
	p.ckpts = slices.DeleteFunc(p.ckpts, func(o checkpoint) bool { return o.lsn == at })
	p.ckpts = append(p.ckpts, c)
	slices.SortFunc(p.ckpts, func(a, b checkpoint) int { return int(int64(a.lsn) - int64(b.lsn)) })
	if n := len(p.ckpts); n > keepCheckpoints {
		p.ckpts = slices.Clone(p.ckpts[n-keepCheckpoints:])
	}
	keep := p.ckpts
	p.mu.Unlock()
	return p.pruneCheckpoints(keep)
}

func (p *partition) writeCheckpoint(c *checkpoint, write func(io.Writer) error) error {
	name := filepath.Join(p.dir, "checkpoints", checkpointName(c.lsn))
	f, err := p.store.fs.Create(name + tempSuffix)
	if err != nil {
		return err
	}
	err = func() error {
		if _, err := f.Write(c.head(p.id, p.store.tag)); err != nil {
			return err
		}
		out := &summed{w: f}
		z := encoders.Get().(*zstd.Encoder)
		defer encoders.Put(z)
		z.Reset(out)
		h := sha256.New()
		state := &summed{w: io.MultiWriter(z, h)}
		err = write(state)
		if err2 := z.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
		c.payload, c.payloadSum, c.size = out.n, out.crc, state.n
		h.Sum(c.hash[:0])
		if _, durable := p.Bounds(); c.lsn > durable {
			return fmt.Errorf("log is durable up to LSN %d only", durable)
		}
		_, err = f.Write(c.trailer())
		return err
	}()
	if err != nil {
		f.Close()
		dropTemp(p.store.fs, name)
		return err
	}
	return commitFile(p.store.fs, f, name)
}

// pruneCheckpoints removes all files but the ones to keep.
func (p *partition) pruneCheckpoints(keep []checkpoint) error {
	dir := filepath.Join(p.dir, "checkpoints")
	entries, err := p.store.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	removed := false
	for _, e := range entries {
		if e.Dir || slices.ContainsFunc(keep, func(c checkpoint) bool { return checkpointName(c.lsn) == e.Name }) {
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
			LSN: c.lsn, Epoch: c.epoch, Size: c.size, Hash: c.hash,
			File: filepath.Join(partitionName(p.id), "checkpoints", checkpointName(c.lsn)),
		})
	}
	return list
}

// OpenCheckpoint implements [Checkpoints].
func (p *partition) OpenCheckpoint(at event.LSN) (io.ReadCloser, error) {
	p.mu.RLock()
	i := slices.IndexFunc(p.ckpts, func(c checkpoint) bool { return c.lsn == at })
	var want checkpoint
	if i >= 0 {
		want = p.ckpts[i]
	}
	p.mu.RUnlock()
	if i < 0 {
		return nil, fmt.Errorf("log: partition %d has no checkpoint at LSN %d", p.id, at)
	}
	name := filepath.Join(p.dir, "checkpoints", checkpointName(at))
	r, err := openCheckpoint(p.store.fs, name, p.id, p.store.tag, want)
	if err != nil {
		return nil, fmt.Errorf("log: partition %d checkpoint at LSN %d: %w", p.id, at, err)
	}
	return r, nil
}

func openCheckpoint(fs FS, name string, part PartitionID, tag uint32, want checkpoint) (io.ReadCloser, error) {
	c, err := readCheckpoint(fs, name, part, tag)
	if err != nil || c != want {
		return nil, errors.Join(ErrChecksum, err)
	}
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	buf := readWindows.Get().(*[readWindow]byte)
	defer readWindows.Put(buf)
	w := window{file: f, size: checkpointHead + c.payload, buf: buf[:]}
	sum, err := w.sum(checkpointHead, c.payload)
	if err == nil && sum != c.payloadSum {
		err = ErrChecksum
	}
	var z *zstd.Decoder
	if err == nil {
		z, err = zstd.NewReader(io.NewSectionReader(f, checkpointHead, c.payload), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &checkpointReader{file: f, z: z, want: c, sum: sha256.New()}, nil
}

// checkpointReader yields the state and compares its size and hash at the end.
type checkpointReader struct {
	file File
	z    *zstd.Decoder
	want checkpoint
	sum  hash.Hash
	n    int64
}

func (r *checkpointReader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	r.sum.Write(p[:n])
	r.n += int64(n)
	if r.n > r.want.size || errors.Is(err, io.EOF) && (r.n != r.want.size || [32]byte(r.sum.Sum(nil)) != r.want.hash) {
		return 0, fmt.Errorf("log: checkpoint at LSN %d: %w", r.want.lsn, ErrChecksum)
	}
	return n, err
}

func (r *checkpointReader) Close() error {
	r.z.Close()
	return r.file.Close()
}
