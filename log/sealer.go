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

	mu   sync.Mutex // guards what follows
	ends uint64     // of all logs that are written, added up
	grew time.Time  // when it was seen that they had grown
}

const (
	sealEvery   = time.Second            // how often chapters are looked for that are due
	sealAgain   = time.Minute            // after an error that may pass
	pieceBytes  = 1 << 20                // written before a sync, and between two looks at the disk
	calmPiece   = 64 << 10               // written before a sync, and read before a rest, at less than sealRate
	sealRate    = 32 << 20               // bytes written in a second, at most
	calmRate    = 8 << 20                // the same while logs grow, and no more than two chapters wait to be sealed; with three it is twice that
	readShare   = 4                      // how much more may be read than written
	sealIdle    = 100 * time.Millisecond // after which nothing is said to happen
	sealPatient = 50 * time.Millisecond  // how long the disk is left alone when it is slow
	sealWaits   = 100                    // times at most for a piece: sealing goes on even so
	sealHurried = 10                     // the same where history is near what it may take
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

// rest is called when some bytes were written for a partition: it keeps to the rate.
func (v *sealer) rest(ctx context.Context, p *partition, wrote int) {
	if v.stop != nil && p.sealing.patience() > 0 {
		sleep(ctx, time.Duration(wrote)*time.Second/time.Duration(v.rate(p)))
	}
}

// calm reports whether whoever works for a partition has time: it does little at a time, and rests.
func (v *sealer) calm(p *partition) bool {
	return v.stop != nil && p.sealing.patience() > 0 && v.rate(p) < sealRate
}

// readRests rests now and then where much of a chapter or file is read and hardly anything is written.
type readRests struct {
	p    *partition
	read int // bytes since the last rest
}

func (r *readRests) took(ctx context.Context, n int) {
	if r.read += n; r.read < readShare*calmPiece {
		return
	}
	if v := &r.p.store.sealer; v.calm(r.p) {
		v.rest(ctx, r.p, r.read/readShare)
	}
	r.read = 0
}

// await waits as long as the disk is slow for those who write logs, but no more often than that.
func (v *sealer) await(ctx context.Context, patience int) {
	for range patience {
		if v.stop == nil || ctx.Err() != nil || !v.store.slow() {
			return
		}
		sleep(ctx, sealPatient)
	}
}

// rate is how many bytes may be written in a second for a partition. Every byte written, and every moment at work, has some of those who send wait; so there are few while any
// log grows, and more the more of this one waits to be sealed.
func (v *sealer) rate(p *partition) int {
	if !v.busy() || p.hurry.upTo.Load() > 0 {
		return sealRate
	}
	switch p.sealing.behind() {
	case 0, 1, 2:
		return calmRate
	case 3:
		return 2 * calmRate
	}
	return sealRate
}

// busy reports whether any log grows.
func (v *sealer) busy() bool {
	now, ends := time.Now(), v.store.grown()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ends != ends {
		v.ends, v.grew = ends, now
	}
	return now.Sub(v.grew) < sealIdle
}

// patience is how often a piece may wait for a slow disk: the nearer history is to what it may take, the less, and where the disk has little room not at all, since
// sends are refused until there is more.
func (v *sealing) patience() int {
	p := v.p
	switch {
	case p.store.reserve.room() != RoomEnough:
		return 0
	case p.hurry.upTo.Load() > 0:
		return sealHurried
	}
	return sealWaits
}

// pulse is how long the syncs of a log take. Only one goroutine at a time may call of.
type pulse struct {
	recent atomic.Int64 // ns, a mean of the last few
	usual  atomic.Int64 // ns, of the first pulseFirst, and then of about the last minute
	syncs  int64
	last   time.Time // when the last one ended
}

const (
	pulseRecent = 8
	pulseFirst  = 512
	// pulseUsual is after how much time what takes longer has become usual. It is time and not a number of syncs: at a thousand a second, what slows the disk down would be usual
	// before it is over.
	pulseUsual = time.Minute
	pulseGap   = time.Second // a sync stands for no more time than this
)

func (p *pulse) took(d time.Duration, now time.Time) {
	gap := min(now.Sub(p.last), pulseGap)
	p.last = now
	was := p.recent.Load()
	if p.syncs++; p.syncs == 1 {
		p.recent.Store(int64(d))
		p.usual.Store(int64(d))
		return
	}
	p.recent.Store(was + (int64(d)-was)/pulseRecent)
	share := gap.Seconds() / pulseUsual.Seconds()
	if p.syncs <= pulseFirst {
		share = max(share, 1/float64(p.syncs))
	}
	usual := p.usual.Load()
	p.usual.Store(usual + int64(float64(int64(d)-usual)*share))
}

// of calls sync, and notes how long that takes.
func (p *pulse) of(sync func() error) error {
	began := time.Now()
	defer func() { now := time.Now(); p.took(now.Sub(began), now) }()
	return sync()
}

// slow reports whether syncs take more than twice as long as usual.
func (p *pulse) slow() bool { return p.recent.Load() > 2*p.usual.Load() }

// pacedWriter writes a file in pieces, each of which is synced: one sync of all of it at the end would keep those of the logs waiting.
type pacedWriter struct {
	ctx  context.Context
	file disk.File
	p    *partition
	buf  []byte
	look int // bytes since the last look at the disk
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.p.sealing.ended.Load() {
		return 0, ErrClosed
	}
	w.buf = append(w.buf, p...)
	n, rests := len(w.buf), &w.p.store.sealer
	if n < calmPiece || n < pieceBytes && !rests.calm(w.p) {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if err := w.file.Datasync(); err != nil {
		return 0, err
	}
	rests.rest(w.ctx, w.p, n)
	if w.look += n; w.look >= pieceBytes {
		w.look = 0
		rests.await(w.ctx, w.p.sealing.patience())
	}
	return len(p), w.ctx.Err()
}

func (w *pacedWriter) flush() error {
	_, err := w.file.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
