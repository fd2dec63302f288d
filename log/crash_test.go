package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

const simDir = "/data"

// world is a log on a simulated disk, and the facts known about it.
type world struct {
	t    testing.TB
	name string // of the case, for messages
	rng  *rand.Rand
	fs   *faultfs.FS
	opts log.Options
	boot int
	busy bool // frames are written while a sync goes on
	// drops: the bodies of messages may be gone unless it divides their number; 0: no body may be
	// gone.
	drops int

	sent  []uint64 // per message of partition 0, from 1: a random number in its body
	acked int      // messages that must survive a power loss
	safe  int      // messages that must survive the death of the process

	store log.Store
	part  log.Partition
	w     log.ManualWriter
	wait  []waiting
}

type waiting struct {
	log.Ticket
	upTo  int
	level log.Durability
}

func newWorld(t testing.TB, name string, seed uint64) *world {
	return &world{
		t: t, name: name, rng: rand.New(rand.NewPCG(seed, 1)), fs: faultfs.New(),
		opts: log.Options{
			Partitions: 1, SegmentBytes: 2000, RoomBytes: 1024, ChapterBytes: 7000, Manual: true,
			NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Now: func() time.Time { return time.Unix(1e9, 0) },
		},
	}
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s: %s", w.name, fmt.Sprintf(format, args...))
}

// open opens the store and checks that the log holds a prefix of the sent messages that contains
// all acknowledged ones.
func (w *world) open() error {
	w.opts.FS, w.opts.BootID = w.fs, "boot-"+strconv.Itoa(w.boot)
	s, err := log.Open(ctx, simDir, w.opts)
	if err != nil {
		return err
	}
	w.store = s
	if w.part, err = s.Open(ctx, 0); err != nil {
		return err
	}
	return w.check()
}

// check replays the log, and so finds out which sent messages it has.
func (w *world) check() error {
	n, err := w.read()
	if errors.Is(err, log.ErrChecksum) {
		w.failf("message %d: %v", n, err)
	}
	if err != nil {
		return err
	}
	if n < max(w.acked, w.safe) {
		w.failf("%d messages, %d were acknowledged and %d survive a kill", n, w.acked, w.safe)
	}
	w.sent = w.sent[:n] // the outcome of the others is now known
	for _, c := range w.part.Checkpoints() {
		if err := w.checkCheckpoint(c); err != nil {
			return err
		}
	}
	return nil
}

// read compares the readable messages with the sent ones, and returns their number.
func (w *world) read() (n int, err error) {
	var d event.Decoder
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			return n, err
		}
		for rest := f.Records; f.Kind == log.Events && len(rest) > 0; {
			var rec event.Record
			if rec, rest, err = d.Record(f.Base, f.Bodies, rest); err != nil {
				w.failf("frame %d: %v", f.LSN, err)
			}
			for _, ev := range rec.Events {
				n++
				m := ev.(*event.MessageEnqueued)
				if int(m.Sequence) != n || n > len(w.sent) {
					w.failf("message %d at place %d of %d: invented, lost or doubled", m.Sequence, n, len(w.sent))
				}
				body, err := w.part.ReadBlob(m.Body, nil)
				if errors.Is(err, event.ErrErased) && !w.wants(n) {
					continue
				}
				if err != nil {
					return n, err
				}
				if want := fmt.Appendf(nil, "%d/%d.", n, w.sent[n-1]); !bytes.HasPrefix(body, want) {
					w.failf("message %d has body %.40q, want %q", n, body, want)
				}
			}
		}
	}
	return n, nil
}

// A checkpoint's state is the number of messages below it, repeated many times.
func (w *world) checkCheckpoint(c log.CheckpointInfo) error {
	r, err := w.part.OpenCheckpoint(c.LSN)
	if err != nil {
		return err
	}
	state, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	n := 0
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			return err
		}
		if f.LSN < c.LSN {
			n += int(f.Count)
		}
	}
	if want := bytes.Repeat(fmt.Appendf(nil, "%d.", n), 100); !bytes.Equal(state, want) {
		w.failf("checkpoint at %d holds %.20q, want %.20q", c.LSN, state, want)
	}
	return nil
}

// send appends a batch of n messages.
func (w *world) send(n, size int, level log.Durability) {
	w.fill(n, size, level)
	w.wait = append(w.wait, waiting{w.w.Append(w.w.Batch()), len(w.sent), level})
}

// write is send in this goroutine.
func (w *world) write(n, size int, level log.Durability) {
	w.fill(n, size, level)
	w.wait = append(w.wait, waiting{w.w.Write(w.w.Batch()), len(w.sent), level})
}

func (w *world) fill(n, size int, level log.Durability) {
	b := w.w.Batch()
	for range n {
		nonce := w.rng.Uint64()
		w.sent = append(w.sent, nonce)
		body := bytes.Repeat([]byte{'x'}, size+40)
		copy(body, fmt.Sprintf("%d/%d.", len(w.sent), nonce))
		b.AppendRecord(event.Time(len(w.sent)), []event.Event{&event.MessageEnqueued{
			Sequence: event.SequenceNumber(len(w.sent)), Body: event.Blob{Data: body},
		}}, level)
	}
}

// settle looks at the tickets that are done.
func (w *world) settle() error {
	var left []waiting
	for _, t := range w.wait {
		select {
		case <-t.Done():
		default:
			left = append(left, t)
			continue
		}
		if t.Err() != nil {
			return t.Err()
		}
		w.safe = max(w.safe, t.upTo)
		if t.level == log.Durable {
			w.acked = max(w.acked, t.upTo)
		}
	}
	w.wait = left
	return nil
}

func (w *world) work() error {
	for w.w.Work() {
	}
	return w.settle()
}

func (w *world) lead() error {
	w.wait = nil
	writer, err := w.part.Lead(ctx)
	if w.w = nil; err == nil { // the recovered log is synced
		w.w, w.acked = writer.(log.ManualWriter), len(w.sent)
	}
	return err
}

func (w *world) checkpoint() error {
	_, at := w.part.Bounds()
	n := 0
	for f, err := range w.part.Read(ctx, 0) {
		if err != nil {
			return err
		}
		n += int(f.Count)
	}
	return w.part.SaveCheckpoint(at, func(out io.Writer) error {
		_, err := out.Write(bytes.Repeat(fmt.Appendf(nil, "%d.", n), 100))
		return err
	})
}

// stop closes everything cleanly.
func (w *world) stop() error {
	if err := w.w.Close(); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	w.acked = len(w.sent)
	return w.store.Close()
}

// crash replaces the disk by its state after the crash.
func (w *world) crash(mode faultfs.Mode) {
	if mode == faultfs.PowerLoss {
		w.boot++
		w.safe = 0
	}
	w.fs = w.fs.Crash(w.rng, mode)
}

// life is one run, beginning with open: rotation of segments and chapters, checkpoints, idle
// frames.
func (w *world) life() error {
	if err := w.open(); err != nil {
		return err
	}
	if err := w.lead(); err != nil {
		return err
	}
	return w.live()
}

// live does the work of a life after the log has become writable.
func (w *world) live() error {
	if w.busy {
		w.fs.During(func(string) {
			w.write(1, 20, log.Ordered)
			w.write(1, 300, log.Durable)
		})
		defer w.fs.During(nil)
	}
	for i := range 7 {
		w.send(1+i%3, 100*i, log.Durability(i%2))
		if i%3 == 2 {
			if err := w.work(); err != nil {
				return err
			}
			w.w.Tick()
			w.w.Tick()
		}
		if i == 5 {
			if err := w.checkpoint(); err != nil {
				return err
			}
		}
		if i == 3 {
			if err := w.seal(); err != nil {
				return err
			}
		}
	}
	w.send(1, 3000, log.Durable)
	if err := w.work(); err != nil {
		return err
	}
	if err := w.seal(); err != nil {
		return err
	}
	w.send(1, 10, log.Ordered)
	w.w.Work()
	return w.settle()
}

// script is two lives, a clean stop between them.
func (w *world) script() error {
	if err := w.life(); err != nil {
		return err
	}
	if err := w.stop(); err != nil {
		return err
	}
	return w.life()
}

// after opens the remaining disk more than once, and continues.
func (w *world) after() {
	w.t.Helper()
	for range 2 {
		if err := w.open(); err != nil {
			w.failf("open: %v", err)
		}
		if err := w.life2(); err != nil {
			w.failf("after: %v", err)
		}
	}
	if w.opts.SealAfter != 0 {
		w.wantSealed()
	}
}

func (w *world) life2() error {
	if err := w.lead(); err != nil {
		return err
	}
	w.send(2, 50, log.Durable)
	if err := w.work(); err != nil {
		return err
	}
	if err := w.seal(); err != nil {
		return err
	}
	return w.stop()
}

// unclean returns a world whose disk lost power with a torn tail, as input for recovery.
func unclean(t testing.TB, name string, seed uint64) *world {
	w := newWorld(t, name, seed)
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	w.send(3, 700, log.Durable)
	w.w.Work()
	w.crash(faultfs.PowerLoss)
	return w
}

var scripts = map[string]struct {
	start func(testing.TB, string, uint64) *world
	run   func(*world) error
}{
	"from nothing": {newWorld, (*world).script},
	"from unclean": {unclean, (*world).script},
	"writing during syncs": {func(t testing.TB, name string, seed uint64) *world {
		w := newWorld(t, name, seed)
		w.busy = true
		return w
	}, (*world).script},
	"sealing":  {sealing, (*world).script},
	"dropping": {dropping, (*world).script},
	"sealing what there is": {func(t testing.TB, name string, seed uint64) *world {
		w := unclean(t, name, seed)
		w.opts.SealAfter = -1
		return w
	}, (*world).script},
}

// TestF1F2F14CrashAtEveryCall (SM-364, SM-371) stops the machine at each call to the disk,
// including those that save a checkpoint, in each way, and starts again.
func TestF1F2F14CrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.start(t, name, 1)
			if err := s.run(w); err != nil {
				t.Fatal(err)
			}
			total := w.fs.Calls()
			t.Logf("%d calls", total)
			for k := 1; k <= total; k += step() {
				for v := range 4 {
					mode := faultfs.PowerLoss
					if v == 0 {
						mode = faultfs.Kill
					}
					w := s.start(t, fmt.Sprintf("%s, %v at call %d, variant %d", name, mode, k, v), 1)
					w.fs.CrashAt(k)
					if err := s.run(w); err == nil {
						// reads and writes depend on nothing random before k, so this is the end
						break
					}
					w.rng = rand.New(rand.NewPCG(uint64(k), uint64(v)))
					w.crash(mode)
					w.after()
				}
			}
		})
	}
}

// TestF8F9F10ErrorAtEveryCall (SM-377, SM-376 as far as no acknowledged data is lost) makes each
// call fail, once or permanently, with each error. Then it starts again on the disk that the
// process, or a power loss, left.
func TestF8F9F10ErrorAtEveryCall(t *testing.T) {
	t.Parallel()
	faults := map[string]faultfs.Fault{
		"EIO":           {Err: syscall.EIO},
		"ENOSPC":        {Err: syscall.ENOSPC},
		"EDQUOT":        {Err: syscall.EDQUOT},
		"short write":   {Err: syscall.ENOSPC, Short: 104},
		"dropped pages": {Err: syscall.EIO, DropPages: true},
	}
	for name, s := range scripts {
		for kind, fault := range faults {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				for _, forever := range []bool{false, true} {
					for k := 1; ; k += step() {
						w := s.start(t, fmt.Sprintf("%s, %s at call %d, for ever %v", name, kind, k, forever), 1)
						w.fs.FailAt(k, fault, forever)
						from := w.fs.Calls()
						err := s.run(w)
						if err == nil && w.fs.Calls()-from < k {
							break
						}
						if err != nil {
							w.stillPoisoned(err)
						}
						// With dropped pages and a disk that stays broken there is no fault note,
						// and a refusal is right.
						mode := faultfs.Kill
						if k%2 == 0 || fault.DropPages && forever {
							mode = faultfs.PowerLoss
						}
						if fault.DropPages || fault.Short > 0 {
							w.safe = 0 // written bytes may be gone
						}
						w.fs.Hook(nil)
						w.crash(mode)
						w.after()
					}
				}
			})
		}
	}
}

// step is 1, so that nothing is left out, except with -short.
func step() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// stillPoisoned checks that a writer that failed stays failed, although the disk works again.
func (w *world) stillPoisoned(err error) {
	if w.w == nil || !errors.Is(err, log.ErrPoisoned) {
		return
	}
	select {
	case <-w.w.Lost():
	default:
		return // the failure was in Lead
	}
	w.fs.Hook(nil)
	calls := w.fs.Calls()
	t := w.w.Append(w.w.Batch())
	<-t.Done()
	if w.w.Work() || !errors.Is(t.Err(), log.ErrPoisoned) || w.fs.Calls() != calls {
		w.failf("writer goes on after %v", err)
	}
	if _, err := w.part.Lead(ctx); !errors.Is(err, log.ErrPoisoned) {
		w.failf("lead after failure: %v", err)
	}
}

// seeds runs f for seeds from the environment (LEDGERBUS_SEED) or n of them.
func seeds(t *testing.T, n int, f func(seed uint64)) {
	if s := os.Getenv("LEDGERBUS_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		f(seed)
		return
	}
	first := uint64(time.Now().UnixNano())
	if v, err := strconv.Atoi(os.Getenv("LEDGERBUS_SEEDS")); err == nil {
		n = v
	}
	if testing.Short() {
		n /= 10
	}
	t.Logf("seeds %d to %d (LEDGERBUS_SEED repeats one)", first, first+uint64(n)-1)
	for i := range n {
		f(first + uint64(i))
	}
}

// TestRandomCrashes lives several random lives per seed.
func TestRandomCrashes(t *testing.T) {
	t.Parallel()
	crashes := 0
	life := func(seed uint64) {
		w := newWorld(t, fmt.Sprintf("LEDGERBUS_SEED=%d", seed), seed)
		w.opts.SegmentBytes = 1 + w.rng.IntN(4000)
		w.opts.ChapterBytes = 1 + w.rng.IntN(20000)
		w.opts.RoomBytes = -1 + w.rng.IntN(2)*(1+8*w.rng.IntN(800))
		w.opts.SealAfter = -time.Duration(w.rng.IntN(2))
		w.drops = 3 * w.rng.IntN(2)
		for range 6 {
			mode := faultfs.Mode(w.rng.IntN(2))
			k := 1 + w.rng.IntN(250)
			w.fs.CrashAt(k)
			err := w.wander()
			if err == nil {
				continue // stopped cleanly before
			}
			if !errors.Is(err, faultfs.ErrCrashed) {
				w.failf("%v", err)
			}
			crashes++
			w.crash(mode)
		}
		w.fs.Hook(nil)
		w.after()
	}
	life(1795715966011126906) // dies while a start lists a chapter that was left out
	seeds(t, 600, life)
	t.Logf("%d crashes", crashes)
}

// wander does random things until the machine stops or it stops itself.
func (w *world) wander() error {
	if err := w.open(); err != nil {
		return err
	}
	if err := w.lead(); err != nil {
		return err
	}
	for range w.rng.IntN(60) {
		switch w.rng.IntN(8) {
		case 0, 1, 2:
			w.send(1+w.rng.IntN(3), w.rng.IntN(1500), log.Durability(w.rng.IntN(2)))
		case 3, 4, 5:
			w.w.Work()
		case 6:
			w.w.Tick()
		case 7:
			if w.rng.IntN(4) == 0 {
				if err := w.checkpoint(); err != nil {
					return err
				}
			}
			if err := w.seal(); err != nil {
				return err
			}
		}
		if err := w.settle(); err != nil {
			return err
		}
	}
	return w.stop()
}
