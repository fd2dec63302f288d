package log

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
)

// sealer is the goroutine of a store that seals chapters, one after the other.
type sealer struct {
	once sync.Once
	stop context.CancelFunc // set in begin, with store
	done sync.WaitGroup

	store *store
}

const (
	sealEvery = time.Second // how often due chapters are looked for
	sealAgain = time.Minute // after an error that may be temporary
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

// run seals due chapters until the store ends.
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
					p.store.opts.Logger.Warn("chapter not sealed; retry in a minute", "partition", p.id, "error", err)
				}
			}
		}
		pause.Reset(next)
	}
}

// pacedWriter writes a file in pieces and syncs each of them. One sync of the whole file at the end
// would delay the syncs of the logs.
type pacedWriter struct {
	ctx  context.Context
	file disk.File
	p    *partition
	buf  []byte
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.p.sealing.ended.Load() {
		return 0, ErrClosed
	}
	w.buf = append(w.buf, p...)
	n := len(w.buf)
	if n < pieceBytes {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if err := w.file.Datasync(); err != nil {
		return 0, err
	}
	w.p.store.restWriting(w.ctx, n)
	return len(p), w.ctx.Err()
}

func (w *pacedWriter) flush() error {
	_, err := w.file.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
