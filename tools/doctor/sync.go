package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// concurrentFiles are the numbers of files that are synced concurrently, one measurement after the
// other.
var concurrentFiles = []int{1, 2, 4, 8}

// block is the number of bytes written before each sync: about a small frame.
const block = 4 << 10

// A syncs contains the durations of syncs.
type syncs struct {
	times []time.Duration
	took  time.Duration
}

// rate returns the number of syncs per second.
func (s *syncs) rate() float64 { return float64(len(s.times)) / s.took.Seconds() }

// part returns the duration that a share p of all syncs, from 0 to 1, does not exceed.
func (s *syncs) part(p float64) time.Duration {
	return s.times[min(len(s.times)-1, int(p*float64(len(s.times))))]
}

// sync measures how long the disk takes to make a small write durable, and how many such writes it
// makes durable concurrently, as several partitions need it.
func (e *examination) sync(ctx context.Context) error {
	var all []*syncs
	for _, n := range concurrentFiles {
		s, err := e.measure(ctx, n)
		if err != nil {
			return e.found("sync", Bad, "give the broker write access", "cannot be measured: %v", err)
		}
		all = append(all, s)
	}
	one := all[0]
	median, late := one.part(0.5), one.part(0.99)
	text := fmt.Sprintf("4 KiB are durable after %v (median), %v (p99)", short(median), short(late))
	var scaling []string
	for i, s := range all[1:] {
		scaling = append(scaling, fmt.Sprintf("%d at once: %.1f times as many per second", concurrentFiles[i+1], s.rate()/one.rate()))
	}
	text += "; " + strings.Join(scaling, ", ")
	switch {
	case median < quickSync:
		return e.found("sync", Warning, "use a disk that keeps written data when the power fails", "%s: too fast for a disk; this one is in memory, or acknowledges data before it is durable", text)
	case median > slowSync || late > lateSync:
		return e.found("sync", Warning, "a single send takes as long as a sync: use a faster or less busy disk", "%s", text)
	case all[2].rate() < 1.3*one.rate():
		return e.found("sync", Good, "", "%s: more than one partition does not increase durable sends on this disk", text)
	}
	return e.found("sync", Good, "", "%s", text)
}

func short(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

// measure syncs n files concurrently.
func (e *examination) measure(ctx context.Context, n int) (*syncs, error) {
	var mu sync.Mutex // guards the variables below
	all := &syncs{}
	var failed error
	var group sync.WaitGroup
	began := time.Now()
	for i := range n {
		group.Go(func() {
			times, err := e.syncFile(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			if all.times = append(all.times, times...); err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	all.took = time.Since(began)
	if failed == nil && len(all.times) == 0 {
		failed = context.Cause(ctx)
	}
	slices.Sort(all.times)
	return all, failed
}

// syncFile writes and syncs one file for the duration of a measurement. It unlinks the file before
// it writes, so that the file disappears however the process ends.
func (e *examination) syncFile(ctx context.Context, i int) (times []time.Duration, err error) {
	name := filepath.Join(e.dir, fmt.Sprintf("doctor-%d-%d.tmp", os.Getpid(), i))
	f, err := disk.OS{}.Create(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := (disk.OS{}).Remove(name); err != nil {
		return nil, err
	}
	data := make([]byte, block)
	for end := time.Now().Add(e.Sync); time.Now().Before(end) && ctx.Err() == nil; {
		began := time.Now()
		if _, err := f.Write(data); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}
