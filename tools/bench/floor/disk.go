package floor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A DiskResult is the performance of a disk with a single writer that makes every write durable
// before the next.
type DiskResult struct {
	FrameBytes int           `json:"frameBytes"` // per append
	Writes     int           `json:"writes"`
	Median     time.Duration `json:"medianNanoseconds"` // of one append with its fdatasync
	P99        time.Duration `json:"p99Nanoseconds"`
	PerSecond  float64       `json:"perSecond"` // writes per second
}

// Disk appends frames of that many bytes to a new file of a directory, each followed by an
// fdatasync, until the duration or the context ends. Then it removes the file.
func Disk(ctx context.Context, dir string, frameBytes int, duration time.Duration) (DiskResult, error) {
	path := filepath.Join(dir, "floor.disk")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return DiskResult{}, err
	}
	defer os.Remove(path)
	defer f.Close()
	frame := make([]byte, frameBytes)
	for i := range frame {
		frame[i] = byte(i * 131)
	}
	var took []time.Duration
	begin := time.Now()
	for last := begin; last.Sub(begin) < duration || len(took) == 0; {
		if ctx.Err() != nil {
			return DiskResult{}, ctx.Err()
		}
		if _, err := f.Write(frame); err != nil {
			return DiskResult{}, err
		}
		if err := fdatasync(f); err != nil {
			return DiskResult{}, err
		}
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	r := DiskResult{FrameBytes: frameBytes, Writes: len(took), PerSecond: float64(len(took)) / time.Since(begin).Seconds()}
	slices.Sort(took)
	r.Median, r.P99 = took[len(took)/2], took[len(took)*99/100]
	return r, nil
}
