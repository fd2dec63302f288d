package log_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// sealOutside seals and reads something outside of bubbles: the compressor has channels, made when
// it is first used, that one bubble would have for itself.
var sealOutside = sync.OnceFunc(func() {
	w := sealing(nil, "outside", 3)
	w.opts.ChapterBytes = 4_000
	if err := w.script(); err != nil {
		panic(err)
	}
	if err := w.stop(); err != nil {
		panic(err)
	}
})

// pacing is a log on a disk whose syncs of the log take a known time, in a clock of its own. A
// chapter of 4 MiB that does not compress has just ended.
type pacing struct {
	t     *testing.T
	fs    *faultfs.FS
	took  atomic.Int64 // ns a sync of the log
	store log.Store
	part  log.Partition
	w     log.Writer
	seq   uint64
}

func newPacing(t *testing.T, opts log.Options) *pacing {
	t.Helper()
	p := &pacing{t: t, fs: faultfs.New()}
	p.took.Store(int64(time.Millisecond))
	p.fs.Limit(1 << 30)
	p.fs.During(func(name string) {
		if strings.Contains(name, "/wal/") {
			time.Sleep(time.Duration(p.took.Load()))
		}
	})
	opts.FS, opts.Partitions, opts.ChapterBytes = p.fs, 1, cmp.Or(opts.ChapterBytes, 4<<20)
	s := must(log.Open(ctx, simDir, opts))(t)
	p.store, p.part = s, must(s.Open(ctx, 0))(t)
	p.w = must(p.part.Lead(ctx))(t)
	t.Cleanup(func() {
		p.fs.During(nil)
		if err := p.w.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p.sends(2 * time.Second)
	p.fills()
	return p
}

// fills ends the chapter being written with incompressible data.
func (p *pacing) fills() {
	p.t.Helper()
	noise := rand.NewChaCha8([32]byte{16})
	for chapter := p.chapter(); p.chapter() == chapter; {
		body := make([]byte, 64<<10)
		noise.Read(body)
		p.send(body)
	}
}

// chapter is the one being written.
func (p *pacing) chapter() uint32 {
	list := p.part.Segments()
	return list[len(list)-1].Chapter
}

// send sends a message and waits until it is durable.
func (p *pacing) send(body []byte) {
	p.t.Helper()
	p.seq++
	b := p.w.Batch()
	b.AppendRecord(event.Time(p.seq), []event.Event{&event.MessageEnqueued{Sequence: event.SequenceNumber(p.seq), Body: event.Blob{Data: body}}}, log.Durable)
	k := p.w.Append(b)
	if <-k.Done(); k.Err() != nil {
		p.t.Fatal(k.Err())
	}
}

// sends sends one small message after the other.
func (p *pacing) sends(long time.Duration) {
	p.t.Helper()
	for began := time.Now(); time.Since(began) < long; {
		p.send([]byte("x"))
	}
}

// written is how much there is of the sealed file, and whether it is complete and the log's.
func (p *pacing) written() (bytes int, sealed bool) {
	p.t.Helper()
	for _, name := range p.fs.Files(simDir + "/partitions/00/sealed") {
		data, err := p.fs.ReadFile(name)
		if err != nil {
			p.t.Fatal(err)
		}
		bytes += len(data)
	}
	return bytes, p.part.Segments()[0].Sealed > 0
}

// Sealing keeps to its rate, which readers do not change. Where the disk has little room it does
// not rest, since sends are refused until there is more.
func TestSealingKeepsToItsRate(t *testing.T) {
	t.Parallel()
	sealOutside()
	for name, c := range map[string]struct {
		low         int64
		reads       bool
		least, most time.Duration
	}{
		// 8 MiB, the first of which is free
		"alone":                 {0, false, 180 * time.Millisecond, 300 * time.Millisecond},
		"beside those who read": {0, true, 180 * time.Millisecond, 300 * time.Millisecond},
		"little room":           {2 << 30, true, 0, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacing(t, log.Options{SealAfter: time.Second, ChapterBytes: 8 << 20, LowBytes: c.low})
				if c.reads {
					reading, stop := context.WithCancel(ctx)
					var reader sync.WaitGroup
					reader.Go(func() {
						for reading.Err() == nil {
							p.store.(log.Background).Pause(reading, 1<<20)
							time.Sleep(time.Millisecond)
						}
					})
					defer reader.Wait()
					defer stop()
				}
				began := time.Time{}
				for ended, sealed := time.Now(), false; !sealed && time.Since(ended) < time.Minute; {
					var bytes int
					p.sends(10 * time.Millisecond)
					if bytes, sealed = p.written(); bytes > 0 && began.IsZero() {
						began = time.Now()
					}
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("sealed in %v, expected %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

// However many chapters wait, all of them are sealed, at the highest rate.
func TestSealingFarBehind(t *testing.T) {
	t.Parallel()
	sealOutside()
	synctest.Test(t, func(t *testing.T) {
		const chapters = 60
		p := newPacing(t, log.Options{SealAfter: 2 * time.Second, ChapterBytes: 64 << 10})
		for range chapters {
			p.fills()
		}
		ended := time.Now()
		for p.part.Segments()[chapters-1].Sealed == 0 && time.Since(ended) < time.Minute {
			p.sends(10 * time.Millisecond)
		}
		if took := time.Since(ended); took > 5*time.Second {
			t.Errorf("%d chapters are sealed %v after the last has ended", chapters, took)
		}
	})
}
