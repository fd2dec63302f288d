package host

import (
	"github.com/ledgerbus/ledgerbus/index/replay"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Every log that is led records how each run began: which program ran, and how the run before
// ended.
func TestEachRunIsNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 3 {
		open(t, dir).close(t)
	}
	store, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, id := range store.Partitions() {
		plog, err := store.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var stops []event.Stop
		for rec, err := range replay.Records(t.Context(), plog, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range rec.Events {
				if run, ok := ev.(*event.RunStarted); ok {
					stops = append(stops, run.Stop)
				}
			}
		}
		if len(stops) != 3 || stops[0] != event.StopNone || stops[1] != event.StopClean || stops[2] != event.StopClean {
			t.Errorf("partition %d: %v", id, stops)
		}
	}
}
