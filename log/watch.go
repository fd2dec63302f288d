package log

import (
	"sync"
	"sync/atomic"
	"time"
)

// A disk that neither answers nor fails keeps clients waiting, and their outcomes unknown. The
// broker can only notice this and refuse new work (docs/decisions/0040). Each writer records when a
// call begins and ends; one goroutine of the store checks all of them.

// watchEvery is how often the writers are checked.
const watchEvery = 100 * time.Millisecond

// The calls of a writer that can go on at the same time.
const (
	writes = iota // under io, with the syncs at the end of a file
	syncs
	notes
	waits // number of calls
)

// call is when a call began, in nanoseconds since the start of the program; 0: none is running.
type call struct{ atomic.Int64 }

// processBegan is before every call.
var processBegan = time.Now().Add(-time.Nanosecond)

func (c *call) begin() { c.Store(int64(time.Since(processBegan))) }
func (c *call) end()   { c.Store(0) }

// watch checks the writers of a store until it ends. The zero value has not begun.
type watch struct {
	once sync.Once
	stop chan struct{} // set in begin
	done sync.WaitGroup
}

func (v *watch) begin(s *store) {
	v.once.Do(func() {
		v.stop = make(chan struct{})
		v.done.Go(func() {
			tick := time.NewTicker(watchEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					for p := range s.all() {
						p.watch()
					}
				case <-v.stop:
					return
				}
			}
		})
	})
}

func (v *watch) end() {
	if v.stop != nil {
		close(v.stop)
	}
	v.done.Wait()
}

// watch records when a call of the writer takes too long, and when none does any more.
func (p *partition) watch() {
	p.mu.RLock()
	w := p.writer
	p.mu.RUnlock()
	if w == nil {
		return
	}
	longest := time.Duration(0)
	for i := range w.calls {
		if began := w.calls[i].Load(); began != 0 {
			longest = max(longest, time.Since(processBegan)-time.Duration(began))
		}
	}
	logger := p.store.opts.Logger
	switch since := w.hangs.Load(); {
	case since == nil && longest >= p.store.opts.Patience:
		at := time.Now().Add(-longest)
		w.hangs.Store(&at)
		logger.Error("disk hangs; new sends are refused, pending requests wait", "partition", p.id, "for", longest)
	case since != nil && longest < p.store.opts.Patience:
		w.hangs.Store(nil)
		logger.Info("disk answers again", "partition", p.id, "after", time.Since(*since))
	}
}
