package log_test

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"

	"github.com/google/go-cmp/cmp"
)

// Checkpoints are kept with the log (decision 54): no more than a tenth of it, the newest two in
// any case, the others spread over all of it. A start finds those of the previous run, also after a
// crash.
func TestCheckpointsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", 11)
	if err := errors.Join(w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	most := 0
	for round := range 120 {
		w.send(2, 300, log.Durable)
		if err := errors.Join(w.work(), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
		list := w.part.Checkpoints()
		most = max(most, len(list))
		size, first := int64(0), event.LSN(0)
		for _, c := range list {
			size += c.Stored
			if p, err := w.fs.ReadFile(simDir + "/" + c.File); err != nil || int64(len(p)) != c.Stored {
				t.Fatalf("%s: %d bytes, not %d: %v", c.File, len(p), c.Stored, err)
			}
		}
		first, end := w.part.Bounds()
		if len(list) > 2 && size > int64(end-first)/10 {
			t.Fatalf("round %d: %d checkpoints of %d bytes in a log of %d", round, len(list), size, end-first)
		}
		if n := len(list); n != min(round+1, 2) && n < 2 || list[0].LSN != end {
			t.Fatalf("round %d: %d checkpoints, the newest at %d of %d", round, n, list[0].LSN, end)
		}
		if files := w.fs.Files(simDir + "/partitions/00/checkpoints"); len(files) != len(list) {
			t.Fatalf("round %d: %d files of %d checkpoints", round, len(files), len(list))
		}
	}
	list := w.part.Checkpoints()
	_, end := w.part.Bounds()
	before := end
	// none of the ways is much longer than the others
	for _, c := range append(list[2:], log.CheckpointInfo{}) {
		if way := before - c.LSN; way > 4*end/event.LSN(len(list)) {
			t.Errorf("from %d to %d there is none of %d", c.LSN, before, len(list))
		}
		before = c.LSN
	}
	if len(list) < 8 {
		t.Errorf("%d of %d are left", len(list), most)
	}
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		w.crash(mode)
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		if now := w.part.Checkpoints(); !cmp.Equal(now, list) {
			t.Errorf("checkpoints of a start after %v\n%s", mode, cmp.Diff(list, now))
		}
	}
}
