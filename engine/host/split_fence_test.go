package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// onSplitDisk is onFencedDisk where partitioned entities have sixteen partitions; it also makes a
// queue of that kind.
func onSplitDisk(t *testing.T) (*fenceTest, *engine.Entity) {
	t.Helper()
	f := onFencedDisk(t)
	if err := f.Namespace.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.store, err = log.Open(t.Context(), "/data", log.Options{FS: f.disk, Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	if f.Namespace, err = Open(t.Context(), f.store, Options{Reread: rereads, Fence: true, Time: f.time, EntityPartitions: event.MaxEntityPartitions}); err != nil {
		t.Fatal(err)
	}
	p := testQueue()
	p.EnablePartitioning = true
	e, err := f.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "wide", Properties: p})
	if err != nil {
		t.Fatal(err)
	}
	return f, e
}

// sendTo stores a message with a key, or without one if it is empty, and returns the partition that
// it is in then.
func (f *fenceTest) sendTo(t *testing.T, e *engine.Entity, key string) (uint8, error) {
	t.Helper()
	cmd := &engine.Send{Entity: e, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("b"), PartitionKey: []byte(key)}}, Numbers: true}
	to := engine.Target{Entity: e}
	if err := to.Place(cmd); err != nil {
		t.Fatal(err)
	}
	r, err := f.ask(t.Context(), to.Host(cmd.Slice.Partition), cmd)
	if err != nil {
		return cmd.Slice.Partition, err
	}
	return r.Numbers()[0].Partition(), nil
}

// SM-210, SM-219, SM-220, S4-26, S4-39, S4-43, S4-59, S4-60, S4-72: while one partition of the log
// is fenced, all sends without a key succeed, spread evenly over the others; those with a key of
// that partition are busy, others succeed; counts are sums over the other partitions and Limited;
// nothing of the entity is changed or deleted. When the partition is back, all is as it was, and
// the messages in it are there.
func TestPartOfASplitQueueIsFenced(t *testing.T) {
	t.Parallel()
	f, wide := onSplitDisk(t)
	defer f.close(t)
	const away = engine.PartitionID(2)
	for range 160 {
		if _, err := f.sendTo(t, wide, ""); err != nil {
			t.Fatal(err)
		}
	}
	f.counted(t, wide, 160, false)
	if err := f.FencePartition(t.Context(), away, nil, event.ReasonGiven{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	there := map[uint8]int{}
	for range 160 {
		p, err := f.sendTo(t, wide, "")
		if err != nil || wide.Hosts[p] == away {
			t.Fatalf("partition %d: %v", p, err)
		}
		there[p]++
	}
	for p, n := range there {
		if n < 9 || n > 20 {
			t.Errorf("partition %d got %d of 160", p, n)
		}
	}
	if len(there) != 12 {
		t.Errorf("%d partitions got messages, not 12", len(there))
	}
	lost := 0
	for i := range 200 {
		key := fmt.Sprint("key", i)
		p, err := f.sendTo(t, wide, key)
		switch gone := wide.Hosts[p] == away; {
		case gone && !isCode(err, engine.Busy), !gone && err != nil:
			t.Errorf("%s, partition %d on %d: %v", key, p, wide.Hosts[p], err)
		case gone:
			lost++
		}
	}
	if lost < 25 || lost > 75 {
		t.Errorf("%d of 200 keys are of 4 partitions of 16", lost)
	}
	f.counted(t, wide, 120+160+200-lost, true)
	changed := wide.Properties
	changed.MaxDeliveryCount++
	_, err := f.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "wide", Properties: changed, Mode: engine.UpdateOnly})
	if !isCode(err, engine.Busy) {
		t.Errorf("an update: %v", err)
	}
	if err := f.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "wide"}); !isCode(err, engine.Busy) {
		t.Errorf("a deletion: %v", err)
	}
	if e, _ := f.Find("wide"); e != wide {
		t.Errorf("the queue was changed: %+v", e)
	}
	if _, err := f.RestartPartition(t.Context(), away, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	f.counted(t, wide, 160+160+200-lost, false)
	if _, err := f.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "wide", Properties: changed, Mode: engine.UpdateOnly}); err != nil {
		t.Errorf("an update when all is there: %v", err)
	}
}

// counted compares how many messages a queue has, and whether that is all of it.
func (f *fenceTest) counted(t *testing.T, e *engine.Entity, want int, limited bool) {
	t.Helper()
	all, err := f.Runtime(t.Context(), []*engine.Entity{e})
	if err != nil {
		t.Fatal(err)
	}
	if r := all[0]; r.Active != want || r.Limited != limited || r.Unknown {
		t.Errorf("%d messages, limited %v, unknown %v; want %d, %v", r.Active, r.Limited, r.Unknown, want, limited)
	}
}

// SM-210, S4-39: a send without a key that is in progress when its partition fails has an unknown
// outcome: it may be stored there, so no other partition takes it.
func TestUnknownSendsGoNowhereElse(t *testing.T) {
	t.Parallel()
	f, wide := onSplitDisk(t)
	defer f.close(t)
	heal := f.fail(2)
	unknown := 0
	for range event.MaxEntityPartitions { // to each in turn
		if _, err := f.sendTo(t, wide, ""); errors.Is(err, engine.ErrUnknown) {
			unknown++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if unknown != 1 {
		t.Errorf("%d sends with an unknown outcome; want one, which was under way when the disk failed", unknown)
	}
	f.comesTo(t, 2, engine.PartitionFenced)
	f.counted(t, wide, event.MaxEntityPartitions-1, true)
	heal()
	if _, err := f.RestartPartition(t.Context(), 2, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	f.counted(t, wide, event.MaxEntityPartitions, false) // it was written before the sync failed
}

// SM-210, S4-39: a loop that refuses sends because of the state of its log passes those without a
// key to another loop; it has decided nothing about them. Those with a key of its partition are
// busy, and if no log accepts any, all are.
func TestSendsGoPastADamagedPartition(t *testing.T) {
	t.Parallel()
	f, wide := onSplitDisk(t)
	defer f.close(t)
	const damaged = engine.PartitionID(2)
	f.ReportDamage(damaged, event.LockToken{}, errors.New("checksum"))
	there := map[uint8]int{}
	for range 160 {
		p, err := f.sendTo(t, wide, "")
		if err != nil || wide.Hosts[p] == damaged {
			t.Fatalf("partition %d: %v", p, err)
		}
		there[p]++
	}
	if len(there) != 12 {
		t.Errorf("%d partitions got messages, not 12: %v", len(there), there)
	}
	for i := range 64 {
		p, err := f.sendTo(t, wide, fmt.Sprint("key", i))
		if gone := wide.Hosts[p] == damaged; gone != isCode(err, engine.Busy) || !gone && err != nil {
			t.Errorf("partition %d on %d: %v", p, wide.Hosts[p], err)
		}
	}
	for id := range engine.PartitionID(4) {
		f.ReportDamage(id, event.LockToken{}, errors.New("checksum"))
	}
	if p, err := f.sendTo(t, wide, ""); !isCode(err, engine.Busy) {
		t.Errorf("partition %d, all are damaged: %v", p, err)
	}
}
