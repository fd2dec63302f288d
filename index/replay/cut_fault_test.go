package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// F8, F9, F10 of a base and of the removal of files: each call of the file system fails once, in
// each way. The error is named and the state is unchanged. Either the log continues and the next
// attempt frees what this one should have freed. Or the log accepts no more writes, if the manifest
// may have been replaced, and continues after the next start.
func TestCutErrorAtEveryCall(t *testing.T) {
	t.Parallel()
	faults := map[string]faultfs.Fault{
		"EIO":           {Err: syscall.EIO},
		"ENOSPC":        {Err: syscall.ENOSPC},
		"EDQUOT":        {Err: syscall.EDQUOT},
		"short write":   {Err: syscall.ENOSPC, Short: 104},
		"dropped pages": {Err: syscall.EIO, DropPages: true},
	}
	for n, kind := range slices.Sorted(maps.Keys(faults)) {
		for i := range 12 {
			// each fault and each kind of cut, but not each with each
			if testing.Short() && (n+i)%3 != 0 {
				continue
			}
			// cuts that went well before: the first base, another one, files that were kept
			cuts, as := i/4, cutKind{raw: i%2 == 1, few: i%4 >= 2}
			t.Run(fmt.Sprintf("%s/cut %d/unsealed %v/few bodies %v", kind, cuts+1, as.raw, as.few), func(t *testing.T) {
				t.Parallel()
				e := faultyCut{t: t, kind: kind, fault: faults[kind], cuts: cuts, as: as}
				for k := 1; e.at(k); k++ {
				}
				t.Logf("%d calls, %d named, %d of them ended the log", e.failed, e.named, e.ended)
				if e.named == 0 || e.ended == 0 || e.named == e.ended {
					t.Error("that is not what a fault at every call comes to")
				}
			})
		}
	}
}

// faultyCut is a cut in which one call of the file system fails.
type faultyCut struct {
	t     *testing.T
	kind  string
	fault faultfs.Fault
	cuts  int
	as    cutKind

	failed, named, ended int
}

// at has the k-th call fail, and reports whether there was one.
func (e *faultyCut) at(k int) bool {
	c := newCutting(e.t, fmt.Sprintf("%s at call %d of cut %d", e.kind, k, e.cuts+1), 1)
	c.as(e.as)
	c.must(c.open())
	w, err := c.part.Lead(e.t.Context())
	c.must(err)
	c.w = w.(log.ManualWriter)
	for i := range e.cuts + 1 {
		if c.must(c.round()); i < e.cuts {
			if _, err := replay.Cut(e.t.Context(), c.part, c.w.Durable(), true); err != nil && !errors.Is(err, log.ErrTooLittle) {
				c.failf("%v", err)
			}
		}
	}
	upTo, from := c.w.Durable(), c.fs.Calls()
	c.fs.FailAt(k, e.fault, false)
	freed, err := replay.Cut(e.t.Context(), c.part, upTo, true)
	did := c.fs.Calls()-from >= k
	if c.fs.Hook(nil); !did {
		return false
	}
	e.failed++
	if err != nil {
		e.named++
	}
	if errors.Is(err, log.ErrTooLittle) {
		e.named-- // a checkpoint that cannot be read is passed over
	} else if err != nil && !errors.Is(err, e.fault.Err) && !errors.Is(err, log.ErrNoRoom) {
		c.failf("the error is not named: %v", err)
	}
	x := c.x
	c.must(c.check())
	c.x = x
	select {
	case <-c.w.Lost():
		e.ended++
		if !errors.Is(err, log.ErrPoisoned) {
			c.failf("the log takes no more writes, and that is not said: %v", err)
		}
		mode := faultfs.Mode(k % 2)
		if c.fs = c.fs.Crash(rand.New(rand.NewPCG(uint64(k), 1)), mode); mode == faultfs.PowerLoss {
			c.boot++
		}
	default:
		e.again(c, freed, err)
	}
	c.must(c.life(2))
	c.tidy()
	return true
}

// again goes on where a cut has failed.
func (e *faultyCut) again(c *cutting, freed int64, err error) {
	c.must(c.write(3))
	more, again := replay.Cut(e.t.Context(), c.part, c.w.Durable(), true)
	if again != nil && !errors.Is(again, log.ErrTooLittle) {
		c.failf("after %v the next attempt says %v", err, again)
	}
	if base, ok := c.part.(log.Bases).Base(); !ok || freed+more == 0 && err == nil {
		c.failf("after %v the next attempt has given back %d bytes, with a base %+v", err, more, base)
	}
	c.must(c.seal(), c.w.Close(), c.store.Close())
}

// The frame that says in which boot a run began may be in a chapter that went unsealed; a start
// knows it all the same, and so does the sealed file of the next chapter.
func TestCutKnowsTheBoot(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		c := newCutting(t, fmt.Sprint("sealed ", sealed), 9)
		c.raw, c.boot = true, 7
		c.must(c.open())
		w, err := c.part.Lead(t.Context())
		c.must(err)
		c.w = w.(log.ManualWriter)
		for c.freed == 0 {
			c.must(c.round())
			n, err := replay.Cut(t.Context(), c.part, c.w.Durable(), true)
			if c.freed += n; err != nil && !errors.Is(err, log.ErrTooLittle) {
				t.Fatal(err)
			}
		}
		if first, _ := c.part.Bounds(); first <= 8 || slices.ContainsFunc(c.part.Segments(), func(s log.SegmentInfo) bool { return s.Sealed > 0 }) {
			t.Fatalf("log begins at %d: %v", first, c.part.Segments())
		}
		if sealed {
			c.must(c.write(25), c.seal())
		}
		fs := c.fs
		for boot, want := range map[int]event.Stop{7: event.StopKilled, 8: event.StopCrash} {
			c.fs, c.boot = fs.Crash(rand.New(rand.NewPCG(1, 1)), faultfs.Kill), boot
			c.must(c.open())
			if got := c.part.LastStop(); got != want {
				t.Errorf("sealed %v, boot %d: the last run ended by %v, not %v", sealed, boot, got, want)
			}
			c.must(c.store.Close())
		}
	}
}
