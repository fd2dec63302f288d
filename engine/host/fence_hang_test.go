package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// F11, S4: an operator fences a partition whose disk hangs. The fence does not wait for the disk,
// and other partitions are served; operations in progress are not answered before the disk answers,
// and are there then. A restart that does not wait that long is refused as busy, and a later one
// puts the partition back into service.
func TestFenceOfAHangingDisk(t *testing.T) {
	t.Parallel()
	f := onFencedDisk(t)
	sick, well := f.placed(t, 2, "sick", testQueue()), f.placed(t, 1, "well", testQueue())
	f.send(t, sick, 3)
	hangs, goesOn := make(chan struct{}, 100), make(chan struct{})
	f.disk.During(func(name string) {
		if strings.Contains(name, "/partitions/02/wal/") {
			select {
			case hangs <- struct{}{}:
			default:
			}
			<-goesOn
		}
	})
	underWay := make(answer, 1)
	f.Submit(2, []engine.Request{{Sink: underWay, Command: &engine.Send{Entity: sick.Entity, Slice: sick.Slice(0),
		Messages: []engine.Message{{ID: []byte("u"), Body: []byte("u")}}}}})
	<-hangs
	fenced := make(chan error, 1)
	go func() { fenced <- f.FencePartition(t.Context(), 2, nil, event.ReasonGiven{Reason: "it hangs"}) }()
	select {
	case err := <-fenced:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the fence waits for the disk")
	}
	if err := f.one(t, sick, "busy"); !isBusy(err) {
		t.Errorf("what is sent while it is fenced is answered %v", err)
	}
	f.send(t, well, 2)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := f.RestartPartition(soon, 2, nil, event.ReasonGiven{}); err == nil || s.State == engine.PartitionServing {
		t.Errorf("restarted while its disk hangs: %+v, %v", s, err)
	}
	select {
	case r := <-underWay:
		t.Errorf("what the disk has not answered is answered %v", r.Err)
	default:
	}
	close(goesOn)
	if r := <-underWay; r.Err != nil {
		t.Errorf("what was under way is answered %v, and the disk did it", r.Err)
	}
	if s, err := f.RestartPartition(t.Context(), 2, nil, event.ReasonGiven{}); err != nil && !isBusy(err) {
		t.Errorf("%+v, %v; want that it restarts or is busy", s, err)
	}
	f.comesTo(t, 2, engine.PartitionServing)
	f.comesToHold(t, sick, 4, 0)
	f.close(t)
}
