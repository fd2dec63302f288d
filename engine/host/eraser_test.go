package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// eraserTest is a broker on a disk that can fail, with 100 completed messages. Chapters are short.
type eraserTest struct {
	*broker
	t    *testing.T
	disk *faultfs.FS
	seal time.Duration // after which chapters are sealed; negative: at once
}

func onErasingDisk(t *testing.T) *eraserTest {
	t.Helper()
	e := &eraserTest{broker: &broker{}, t: t, disk: faultfs.New(), seal: -1}
	e.must(e.start())
	q := e.placed(t, 1, "orders", testQueue())
	e.sendMany(t, q, 100)
	e.complete(t, q, 100)
	return e
}

func (e *eraserTest) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *eraserTest) start() (err error) {
	e.store, err = log.Open(e.t.Context(), "/data", log.Options{FS: e.disk, Partitions: 2, SegmentBytes: 8 << 10, ChapterBytes: 16 << 10, SealAfter: e.seal})
	if err == nil {
		e.Namespace, err = Open(e.t.Context(), e.store, Options{keepAllHistory: true, Fence: true, CheckpointBytes: -1})
	}
	return err
}

// again stops the broker, and starts another one.
func (e *eraserTest) again() {
	e.t.Helper()
	e.close(e.t)
	e.must(e.start())
}

// erase asks for the erasure of a message, and returns the answer.
func (e *eraserTest) erase(n event.SequenceNumber) error {
	_, err := e.EraseBody(e.t.Context(), "orders", n, &engine.Origin{Principal: "ops"}, event.ReasonGiven{Reason: "a customer asked"})
	return err
}

// history returns what the log says about erasures, in its order, and then which bodies of the
// queue are erased.
func (e *eraserTest) history(p log.Partition) string {
	e.t.Helper()
	var said []string
	var gone []event.SequenceNumber
	for rec, err := range replay.Records(e.t.Context(), p, 0) {
		e.must(err)
		for _, ev := range rec.Events {
			switch ev := ev.(type) {
			case *event.BodyErased:
				said = append(said, fmt.Sprint("requested ", ev.Sequence))
			case *event.ErasureFinished:
				said = append(said, fmt.Sprint("erased ", ev.Sequence))
			case *event.MessageEnqueued:
				if _, err := p.ReadBlob(ev.Body, nil); errors.Is(err, event.ErrErased) {
					gone = append(gone, ev.Sequence)
				} else {
					e.must(err)
				}
			}
		}
	}
	return fmt.Sprint(strings.Join(said, ", "), "; gone ", gone)
}

// comesTo waits for a time, and compares what the log says then.
func (e *eraserTest) comesTo(after time.Duration, want string) {
	e.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := e.history(*e.slots[1].log.Load()); got != want {
		e.t.Errorf("the log says %q, want %q", got, want)
	}
}

// request writes requests into the log and nothing else, like a version that died then.
func (e *eraserTest) request(numbers ...event.SequenceNumber) {
	e.t.Helper()
	e.must(e.store.Use(log.Erasures))
	q, err := e.Resolve("orders")
	e.must(err)
	bodies := map[event.SequenceNumber]event.Blob{}
	for rec, err := range replay.Records(e.t.Context(), *e.slots[1].log.Load(), 0) {
		e.must(err)
		for _, ev := range rec.Events {
			if m, ok := ev.(*event.MessageEnqueued); ok {
				bodies[m.Sequence] = m.Body
			}
		}
	}
	for _, n := range numbers {
		of := bodies[n]
		_, err := e.ask(e.t.Context(), 1, &engine.Note{Fact: &event.BodyErased{Envelope: event.Envelope{Slice: q.Slice(0)}, Sequence: n, Position: of.Position, Size: of.Size}})
		e.must(err)
	}
}

// Requests that earlier runs and versions left open are finished by a start: both those whose
// bodies can still be read, and those whose bodies are erased. The log says so once.
func TestErasuresOfEarlierRuns(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	synctest.Test(t, func(t *testing.T) {
		e := onErasingDisk(t)
		e.again() // seals everything
		e.comesTo(time.Minute, "; gone []")
		e.must(e.erase(3))
		e.request(3, 17, 18, 17)
		e.again()
		const all = "requested 3, erased 3, requested 3, requested 17, requested 18, requested 17, erased 3, erased 17, erased 18; gone [3 17 18]"
		e.comesTo(time.Second, all)
		if !slices.Contains(e.store.Namespace().Capabilities, log.Erased) {
			t.Error("the directory does not say what is in it")
		}
		e.again()
		e.comesTo(time.Hour, all)
		e.close(t)
	})
}

// A body that is not sealed yet is erased by the broker when it is.
func TestErasureWaitsForSealing(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	synctest.Test(t, func(t *testing.T) {
		e := onErasingDisk(t)
		e.again()
		q, err := e.Resolve("orders")
		e.must(err)
		e.sendMany(t, q, 10)
		e.complete(t, q, 10)
		if err := e.erase(101); !isBusy(err) || !strings.Contains(err.Error(), "sealed") {
			t.Errorf("answered %v", err)
		}
		e.comesTo(time.Minute, "requested 101; gone []")
		e.sendMany(t, q, 100)
		e.comesTo(3*time.Second, "requested 101, erased 101; gone [101]")
		e.close(t)
	})
}

// While a backup holds the files, or the disk has no room, the request stays open; afterwards the
// broker finishes it.
func TestErasureWaits(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	for name, hold := range map[string]func(*eraserTest) (release func()){
		"backup": func(e *eraserTest) func() {
			b, err := e.Backup(e.t.Context(), nil, event.ReasonGiven{})
			e.must(err)
			return func() { b.Close() }
		},
		"no room": func(e *eraserTest) func() {
			e.disk.Hook(func(c faultfs.Call) faultfs.Fault {
				if strings.Contains(c.Name, "/sealed/") && c.Op == faultfs.OpCreate {
					return faultfs.Fault{Err: log.ErrNoRoom}
				}
				return faultfs.Fault{}
			})
			return func() { e.disk.Hook(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := onErasingDisk(t)
				e.again()
				e.comesTo(time.Minute, "; gone []")
				release := hold(e)
				for _, n := range []event.SequenceNumber{17, 18, 17} {
					if err := e.erase(n); !isBusy(err) {
						t.Errorf("answered %v", err)
					}
				}
				e.comesTo(time.Hour, "requested 17, requested 18; gone []")
				release()
				e.comesTo(time.Minute, "requested 17, requested 18, erased 17, erased 18; gone [17 18]")
				e.must(e.erase(17))
				e.close(t)
			})
		})
	}
}

// A partition that was taken out of service finishes its open requests when it is back.
func TestErasureAfterFence(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	synctest.Test(t, func(t *testing.T) {
		e := onErasingDisk(t)
		e.again()
		e.comesTo(time.Minute, "; gone []")
		e.request(17)
		e.must(e.FencePartition(t.Context(), 1, nil, event.ReasonGiven{}))
		e.comesTo(time.Hour, "requested 17; gone []")
		if err := e.erase(17); !isBusy(err) {
			t.Errorf("answered %v", err)
		}
		_, err := e.RestartPartition(t.Context(), 1, nil, event.ReasonGiven{})
		e.must(err)
		e.comesTo(time.Second, "requested 17, erased 17; gone [17]")
		e.close(t)
	})
}

// The process dies, or the power fails, at any call of the file system while a body is erased for a
// caller, or by a start: answers hold; if the log has the request, the next start finishes it and
// the log says so once; if it has none, the body is there.
func TestErasureDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	sealOutside(t)
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		for _, start := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, start %t", mode, start), func(t *testing.T) {
				t.Parallel()
				seen, disk := map[string]int{}, sealedOrders(t, start)
				for k := 1; seen["requested 17, erased 17; gone [17]"] == 0; k++ {
					dieErasing(t, disk.Clone(), k, mode, start, seen)
				}
				for _, state := range []string{"requested 17; gone []", "requested 17; gone [17]"} {
					if seen[state] == 0 {
						t.Errorf("no start found %q, of %v", state, seen)
					}
				}
			})
		}
	}
}

// sealedOrders returns a disk with sealed messages, and with a request to erase one of them, if
// that was made.
func sealedOrders(t *testing.T, requested bool) (disk *faultfs.FS) {
	synctest.Test(t, func(t *testing.T) {
		e := onErasingDisk(t)
		e.again()
		e.comesTo(time.Minute, "; gone []")
		if requested {
			e.request(17)
		}
		e.close(t)
		disk = e.disk
	})
	return disk
}

// dieErasing dies at a call that belongs to erasing, and counts what the log says then. Nothing is
// sealed in that time.
func dieErasing(t *testing.T, disk *faultfs.FS, k int, mode faultfs.Mode, start bool, seen map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		e := &eraserTest{broker: &broker{}, t: t, disk: disk, seal: time.Hour}
		if !start {
			e.must(e.start())
			synctest.Wait()
		}
		left, counts := k, !start // of a start, the calls from its first file on
		e.disk.Hook(func(c faultfs.Call) faultfs.Fault {
			counts = counts || c.Op == faultfs.OpCreate && strings.Contains(c.Name, "/sealed/")
			if counts && !strings.Contains(c.Name, "/partitions/00/") && !strings.Contains(c.Name, "progress") {
				left--
			}
			if left <= 0 {
				return faultfs.Fault{Err: faultfs.ErrCrashed}
			}
			return faultfs.Fault{}
		})
		var answer error
		if start {
			e.must(e.start()) // the eraser works at the same time
			time.Sleep(time.Second / 2)
		} else {
			answer = e.erase(17)
		}
		synctest.Wait()
		ended := e.disk.Crash(rand.New(rand.NewPCG(uint64(k), uint64(mode))), mode)
		_ = e.Close()
		_ = e.store.Close()
		e.disk = ended
		e.look(func(p log.Partition) { seen[e.history(p)]++ })
		e.must(e.start())
		time.Sleep(time.Second / 2)
		synctest.Wait()
		got := e.history(*e.slots[1].log.Load())
		if want := "requested 17, erased 17; gone [17]"; got != want && (start || answer == nil || got != "; gone []") {
			t.Errorf("call %d: answered %v, and the next start comes to %q", k, answer, got)
		}
		e.close(t)
	})
}

// look reads the log of the queue while no broker runs.
func (e *eraserTest) look(do func(log.Partition)) {
	e.t.Helper()
	store, err := log.Open(e.t.Context(), "/data", log.Options{FS: e.disk, ReadOnly: true})
	e.must(err)
	p, err := store.Open(e.t.Context(), 1)
	e.must(err)
	do(p)
	e.must(store.Close())
}
