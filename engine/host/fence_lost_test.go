package host

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// F9, F14: the disk of a partition reports a sync that it has not done, and fails. Acknowledged
// data is lost: the partition is refused, however often it is restarted, the broker's log and that
// of the catalogue say so with both addresses, and the others are served. A start of the broker
// accepts the partition as it is.
func TestRestartOfAPartitionThatLostData(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer // the handler has a lock of its own
	f := &fenceTest{broker: &broker{}, disk: faultfs.New(), logger: slog.New(slog.NewTextHandler(&said, nil))}
	f.start(t)
	sick := f.placed(t, 2, "sick", testQueue())
	well := f.placed(t, 1, "well", testQueue())
	f.send(t, sick, 3)
	heal := f.failWith(2, faultfs.Fault{Lies: true})
	if err := f.one(t, sick, "acknowledged"); err != nil {
		t.Fatal(err)
	}
	promised := f.slots[2].last.writer.Durable()
	dead := faultfs.Fault{Err: syscall.EIO, DropPages: true}
	f.disk.Hook(func(c faultfs.Call) faultfs.Fault {
		// nor can a note be left
		if strings.Contains(c.Name, "/partitions/02/") && c.Op != faultfs.OpWrite && c.Op != faultfs.OpRead {
			return dead
		}
		return faultfs.Fault{}
	})
	_ = f.one(t, sick, "unknown")
	f.comesTo(t, 2, engine.PartitionFenced)
	heal()
	for range 2 {
		s, err := f.RestartPartition(t.Context(), 2, &engine.Origin{Principal: "operator"}, event.ReasonGiven{})
		if !isBusy(err) || s.State != engine.PartitionRefused || f.status(2) != s {
			t.Fatalf("acknowledged data is gone, and it is restarted: %+v, %v", s, err)
		}
		if want := fmt.Sprint("up to LSN ", promised); !strings.Contains(s.Cause, want) || !strings.Contains(s.Cause, "the log ends here") || !strings.Contains(s.Cause, "acknowledged data is lost") {
			t.Errorf("the cause is %q, want %q in it", s.Cause, want)
		}
	}
	if err := f.one(t, sick, "busy"); !isBusy(err) {
		t.Errorf("what is sent to it is answered %v", err)
	}
	f.send(t, well, 1)
	f.close(t)
	if _, loud, _ := strings.Cut(said.String(), "DATA IS LOST"); strings.Count(loud, "DATA IS LOST") != 1 || !strings.Contains(loud, fmt.Sprint("up to LSN ", promised)) {
		t.Errorf("the broker's log says\n%s", &said)
	}
	if told := f.told(t); strings.Count(told, "PartitionFenced error") != 3 || strings.Contains(told, "Restarted") {
		t.Errorf("the catalogue's log says %q", told)
	}
	f.broker = &broker{}
	f.start(t) // it cannot know
	if s := f.status(2); s.State != engine.PartitionServing {
		t.Errorf("after a start: %+v", s)
	}
	f.close(t)
}
