package log_test

import (
	"cmp"
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

// sealOutside seals and reads something outside of bubbles: the compressor has channels, made when it is first used, that one bubble would have for itself.
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

// pacing is a log on a disk whose syncs of the log take a known time, in a clock of its own. A chapter of 4 MiB that does not compress has just ended.
type pacing struct {
	t    *testing.T
	fs   *faultfs.FS
	took atomic.Int64 // ns a sync of the log
	part log.Partition
	w    log.Writer
	seq  uint64
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
	p.part = must(s.Open(ctx, 0))(t)
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

// fills ends the chapter being written, with what does not compress.
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

// Sealing follows how long the disk takes for those who send: while their syncs take ten times as long as they did it stands still, however many of them there are
// meanwhile, and when the disk is as usual it goes on at its pace.
func TestSealingWaitsForSlowDisk(t *testing.T) {
	t.Parallel()
	sealOutside()
	synctest.Test(t, func(t *testing.T) {
		p := newPacing(t, log.Options{SealAfter: -1})
		p.took.Store(int64(10 * time.Millisecond))
		p.sends(4 * time.Second)
		if bytes, sealed := p.written(); sealed || bytes > 2<<20 {
			t.Errorf("4 s of a slow disk, and %d bytes of the sealed file are written", bytes)
		} else if bytes == 0 {
			t.Error("it has not begun")
		}
		p.took.Store(int64(time.Millisecond))
		p.sends(time.Second)
		if bytes, sealed := p.written(); !sealed || bytes < 3<<20 {
			t.Errorf("1 s of a disk as usual, and %d bytes are written: %v", bytes, p.part.Segments())
		}
	})
}

// With a disk as usual sealing keeps to its rate: while the log grows it takes a second for 8 MiB, else for 32 MiB; and the more chapters wait the less.
func TestSealingKeepsToItsRate(t *testing.T) {
	t.Parallel()
	sealOutside()
	for name, c := range map[string]struct {
		chapters    int // that end before the first of them is to be sealed
		grows       bool
		least, most time.Duration
	}{
		"while the log grows":   {1, true, 480 * time.Millisecond, 800 * time.Millisecond},
		"while nothing happens": {1, false, 90 * time.Millisecond, 300 * time.Millisecond},   // three whole pieces, with 31 ms behind each
		"five chapters":         {5, true, 1300 * time.Millisecond, 2200 * time.Millisecond}, // at 32, 32, 16, 8 and 8 MiB a second
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacing(t, log.Options{SealAfter: 10 * time.Second})
				for range c.chapters - 1 {
					p.fills()
				}
				began := time.Time{}
				for ended := time.Now(); time.Since(ended) < time.Minute; {
					if c.grows {
						p.sends(time.Millisecond)
					} else {
						time.Sleep(time.Millisecond)
					}
					bytes, _ := p.written()
					if bytes > 0 && began.IsZero() {
						began = time.Now()
					}
					if p.part.Segments()[c.chapters-1].Sealed > 0 {
						break
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

// The nearer history is to what it may take, the less sealing waits for a slow disk: in a hurry half a second for each MiB instead of five, and not at all where the
// disk has little room.
func TestSealingWaitsLessNearTheBound(t *testing.T) {
	t.Parallel()
	sealOutside()
	for name, c := range map[string]struct {
		low         int64
		hurried     bool
		least, most time.Duration
	}{
		"far away":    {0, false, 15 * time.Second, 30 * time.Second},
		"in a hurry":  {0, true, 1500 * time.Millisecond, 5 * time.Second},
		"little room": {2 << 30, false, 0, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacing(t, log.Options{SealAfter: -1, LowBytes: c.low})
				if c.hurried {
					p.part.(log.Sealer).Hurry(1 << 62)
				}
				p.took.Store(int64(10 * time.Millisecond))
				ended := time.Now()
				for sealed := false; !sealed && time.Since(ended) < time.Minute; _, sealed = p.written() {
					p.sends(10 * time.Millisecond)
				}
				if took := time.Since(ended); took < c.least || took > c.most {
					t.Errorf("sealed %v after its end, expected %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}
