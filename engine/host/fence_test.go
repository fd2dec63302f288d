package host

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// fenceTest is a namespace of four partitions that are fenced when they fail, over a disk that can
// fail.
type fenceTest struct {
	*broker
	disk *faultfs.FS
	time TimeSource // nil: the machine's

	logger *slog.Logger // nil: nothing is logged
}

func onFencedDisk(t *testing.T) *fenceTest {
	t.Helper()
	f := &fenceTest{broker: &broker{}, disk: faultfs.New()}
	f.start(t)
	return f
}

func (f *fenceTest) start(t *testing.T) {
	t.Helper()
	var err error
	if f.store, err = log.Open(t.Context(), "/data", log.Options{FS: f.disk, Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	if f.Namespace, err = Open(t.Context(), f.store, Options{Reread: rereads, Fence: true, Time: f.time, Logger: f.logger}); err != nil {
		t.Fatal(err)
	}
}

// fail makes the syncs of a partition's log fail until the returned function is called.
func (f *fenceTest) fail(id engine.PartitionID) (heal func()) {
	return f.failWith(id, faultfs.Fault{Err: syscall.EIO})
}

func (f *fenceTest) failWith(id engine.PartitionID, fault faultfs.Fault) (heal func()) {
	dir := fmt.Sprintf("/partitions/%02d/wal/", id)
	f.disk.Hook(func(c faultfs.Call) faultfs.Fault {
		if c.Op == faultfs.OpDatasync && strings.Contains(c.Name, dir) {
			return fault
		}
		return faultfs.Fault{}
	})
	return func() { f.disk.Hook(nil) }
}

// one sends one message.
func (f *fenceTest) one(t *testing.T, q engine.Target, id string) error {
	t.Helper()
	_, err := f.ask(t.Context(), q.Host(0), &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte(id), Body: []byte(id)}}})
	return err
}

// comesTo waits until a partition is in a state.
func (f *fenceTest) comesTo(t *testing.T, id engine.PartitionID, want engine.PartitionState) engine.PartitionStatus {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s := f.Namespace.Partitions()[id]
		if s.State == want {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("partition %d is %+v, want %v", id, s, want)
		}
	}
}

func isBusy(err error) bool {
	var refusal *engine.Error
	return errors.As(err, &refusal) && refusal.Code == engine.Busy
}

// F9, P24, S4: one of four partitions fails. Its entities are busy, those of the others are served;
// it is recovered alone, while the others run, and then everything that was acknowledged is there,
// once.
func TestFenceAndRestart(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]faultfs.Fault{"the tail is there": {Err: syscall.EIO}, "the tail is gone": {Err: syscall.EIO, DropPages: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			fenceAndRestart(t, fault)
		})
	}
}

func fenceAndRestart(t *testing.T, fault faultfs.Fault) {
	f := onFencedDisk(t)
	sick := f.placed(t, 2, "sick", testQueue())
	well := f.placed(t, 1, "well", testQueue())
	f.send(t, sick, 3)
	r, in := f.receiver(sick, 7, 1)
	locked := in.wait(1)[0].Delivery()
	if err := f.one(t, sick, "synced"); err != nil { // and the lock before it
		t.Fatal(err)
	}
	heal := f.failWith(2, fault)
	if err := f.one(t, sick, "lost?"); !errors.Is(err, engine.ErrUnknown) {
		t.Fatalf("what was under way is answered %v", err)
	}
	s := f.comesTo(t, 2, engine.PartitionFenced)
	if !strings.Contains(s.Cause, "input/output error") || s.By != "" {
		t.Errorf("fenced: %+v", s)
	}
	if e := in.wait(1)[0]; e.Kind != engine.ReplyEnded || !errors.Is(e.Err, engine.ErrUnknown) {
		t.Errorf("its receiver is told %+v", e)
	}
	if err := f.one(t, sick, "busy"); !isBusy(err) {
		t.Errorf("what is sent while it is fenced is answered %v", err)
	}
	if list := f.Conditions(); len(list) != 1 || list[0].State != partitionFenced || list[0].Partition != 2 {
		t.Errorf("conditions %v", list)
	}
	if err := f.Health(t.Context()); err == nil {
		t.Error("healthy")
	}
	f.send(t, well, 2)
	if rt, err := f.Runtime(t.Context(), []*engine.Entity{sick.Entity, well.Entity}); err != nil || !rt[0].Unknown || rt[1].Unknown || rt[1].Active != 2 {
		t.Errorf("counts %+v, %v", rt, err)
	}
	p := testQueue()
	p.MaxDeliveryCount = 3
	if _, err := f.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "sick", Properties: p}); err != nil {
		t.Errorf("its settings change: %v", err)
	}
	heal()
	by := &engine.Origin{Principal: "operator"}
	if s, err := f.RestartPartition(t.Context(), 2, by, event.ReasonGiven{Reason: "a new cable"}); err != nil || s.State != engine.PartitionServing {
		t.Fatalf("restarted: %+v, %v", s, err)
	}
	f.send(t, well, 1)
	f.Submit(2, []engine.Request{{Command: &engine.Detach{Receiver: r}}}) // of a link that is gone
	if err := f.one(t, sick, "after"); err != nil {
		t.Fatal(err)
	}
	settle := &engine.Settle{Entity: sick.Entity, Slice: sick.Slice(0), Token: locked.Token, Outcome: engine.Complete}
	if _, err := f.ask(t.Context(), 2, settle); err != nil {
		t.Errorf("a lock from before: %v", err)
	}
	counts := f.messages(t, sick)
	lost := counts["5 lost?"] // its outcome was unknown
	delete(counts, "5 lost?")
	if want := map[string]int{"2 x": 1, "3 x": 1, "4 synced": 1, fmt.Sprint(5+lost, " after"): 1}; !cmp.Equal(counts, want) {
		t.Errorf("it has %v, want %v (-want +got):\n%s", counts, want, cmp.Diff(want, counts))
	}
	if e, _ := f.slots[2].running.Load().part.Entity(sick.Slice(0)); e.Properties.MaxDeliveryCount != 3 {
		t.Errorf("it has %d for its settings", e.Properties.MaxDeliveryCount)
	}
	f.close(t)
	if got, want := f.told(t), "PartitionFenced error / PartitionRestarted operator a new cable"; got != want {
		t.Errorf("the catalogue's log says %q, want %q", got, want)
	}
}

// messages counts the messages of a queue, by number and body.
func (f *fenceTest) messages(t *testing.T, q engine.Target) map[string]int {
	t.Helper()
	reply, err := f.ask(t.Context(), q.Host(0), &engine.Peek{Slice: q.Slice(0), From: 1, Count: 1000, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range reply.Messages() {
		body := make([]byte, m.Body.Size)
		if _, err := f.ReadInto(q.Host(0), m.Body, body); err != nil {
			t.Fatal(err)
		}
		counts[fmt.Sprintf("%d %s", m.Sequence, body)]++
	}
	return counts
}

// told returns what the log of partition 0 says about the others.
func (f *fenceTest) told(t *testing.T) string {
	t.Helper()
	store, err := log.Open(t.Context(), "/data", log.Options{FS: f.disk, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, err := store.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	by := map[event.OriginID]string{}
	var dec event.Decoder
	for frame, err := range p.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		rest := frame.Records
		for range frame.Count {
			var rec event.Record
			if rec, rest, err = dec.Record(frame.Base, frame.Bodies, rest); err != nil {
				t.Fatal(err)
			}
			for _, ev := range rec.Events {
				switch ev := ev.(type) {
				case *event.OriginDefined:
					by[ev.ID] = ev.Origin.Principal
				case *event.PartitionFenced:
					told = append(told, strings.TrimSpace(fmt.Sprintf("PartitionFenced %v %s", ev.Cause, by[ev.Origin])))
				case *event.PartitionRestarted:
					told = append(told, "PartitionRestarted "+by[ev.Origin])
				case *event.ReasonGiven:
					told[len(told)-1] += " " + ev.Reason
				}
			}
		}
	}
	return strings.Join(told, " / ")
}
