package log

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// sealer is the goroutine of a store that seals chapters, one after the other, and does not hurry.
type sealer struct {
	once sync.Once
	stop context.CancelFunc // set in begin, with store; nil: nothing is paced, since there is no time
	done sync.WaitGroup

	store *store
}

const (
	sealEvery   = time.Second           // how often chapters are looked for that are due
	sealAgain   = time.Minute           // after an error that may pass
	pieceBytes  = 1 << 20               // written before a sync, and between two looks at the disk
	sealRate    = 32 << 20              // bytes written in a second, at most
	sealPatient = 50 * time.Millisecond // how long the disk is left alone when it is slow
	sealWaits   = 100                   // times at most for a piece: sealing goes on even so
)

func (v *sealer) begin(s *store) {
	if s.opts.SealAfter == 0 {
		return
	}
	v.once.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		v.stop, v.store = stop, s
		v.done.Go(func() { v.run(ctx) })
	})
}

func (v *sealer) end() {
	if v.stop != nil {
		v.stop()
	}
	v.done.Wait()
}

// run seals what is due, until the store ends.
func (v *sealer) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		next := sealEvery
		for p := range v.store.all() {
			if p.err != nil {
				continue
			}
			for more := true; more && ctx.Err() == nil; {
				var err error
				if more, err = p.Seal(ctx); errors.Is(err, ErrNoRoom) || disk.OutOfDescriptors(err) {
					next = sealAgain
					p.store.opts.Logger.Warn("a chapter is not sealed yet", "partition", p.id, "err", err)
				}
			}
		}
		pause.Reset(next)
	}
}

// rest is called between two pieces: it waits as long as the disk is slow for those who write logs.
func (v *sealer) rest(ctx context.Context, wrote int) {
	if v.stop == nil {
		return
	}
	sleep(ctx, time.Duration(wrote)*time.Second/sealRate)
	for range sealWaits {
		if ctx.Err() != nil || !v.store.slow() {
			return
		}
		sleep(ctx, sealPatient)
	}
}

// pulse is how long the syncs of a log take. Only one goroutine at a time may call of.
type pulse struct {
	recent atomic.Int64 // ns, a mean of the last few
	usual  atomic.Int64 // ns, of some hundred
}

func (p *pulse) took(d time.Duration) {
	for mean, of := range map[*atomic.Int64]int64{&p.recent: 8, &p.usual: 512} {
		if was := mean.Load(); was == 0 {
			mean.Store(int64(d))
		} else {
			mean.Store(was + (int64(d)-was)/of)
		}
	}
}

// of calls sync, and notes how long that takes.
func (p *pulse) of(sync func() error) error {
	began := time.Now()
	defer func() { p.took(time.Since(began)) }()
	return sync()
}

// slow reports whether syncs take more than twice as long as usual.
func (p *pulse) slow() bool { return p.recent.Load() > 2*p.usual.Load() }

// pacedWriter writes a file in pieces, each of which is synced: one sync of all of it at the end would keep those of the logs waiting.
type pacedWriter struct {
	ctx   context.Context
	file  disk.File
	pace  *sealer
	ended *atomic.Bool
	buf   []byte
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.ended.Load() {
		return 0, ErrClosed
	}
	w.buf = append(w.buf, p...)
	if len(w.buf) < pieceBytes {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if err := w.file.Datasync(); err != nil {
		return 0, err
	}
	w.pace.rest(w.ctx, pieceBytes)
	return len(p), w.ctx.Err()
}

func (w *pacedWriter) flush() error {
	_, err := w.file.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
