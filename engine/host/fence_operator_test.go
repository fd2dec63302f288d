package host

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

func isCode(err error, code engine.Code) bool {
	var refusal *engine.Error
	return errors.As(err, &refusal) && refusal.Code == code
}

// An operator fences a partition under load: earlier requests are answered with their outcome,
// later ones are refused as busy; receivers are told; an earlier lock lasts, and a transaction is
// gone. The log of the catalogue says who did it. The next start finds that the run ended in order.
func TestFenceByOperator(t *testing.T) {
	t.Parallel()
	f := onFencedDisk(t)
	q := f.placed(t, 2, "orders", testQueue())
	f.send(t, q, 1)
	_, in := f.receiver(q, 7, 1)
	in.wait(1)
	tx := event.TransactionID{1}
	stage := &engine.Stage{Transaction: tx, Operation: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("t"), Body: []byte("t")}}}, Bytes: 1}
	if _, err := f.ask(t.Context(), 2, stage); err != nil {
		t.Fatal(err)
	}
	answers := make(answer, 200)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range 200 {
			f.Submit(2, []engine.Request{{Sink: answers, Tag: uint64(i), Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0),
				Messages: []engine.Message{{ID: fmt.Append(nil, i), Body: fmt.Append(nil, i)}}}}})
		}
	})
	by := &engine.Origin{Principal: "root"}
	if err := f.FencePartition(t.Context(), 2, by, event.ReasonGiven{Reason: "new disk"}); err != nil {
		t.Fatal(err)
	}
	if s := f.status(2); s.State != engine.PartitionFenced || s.By != "root" || !strings.Contains(s.Cause, "new disk") {
		t.Errorf(`%+v; want s.State == engine.PartitionFenced && s.By == "root" && strings.Contains(s.Cause, "new disk")`, s)
	}
	if err := f.FencePartition(t.Context(), 2, by, event.ReasonGiven{}); !isCode(err, engine.NotAllowed) {
		t.Errorf("fenced twice: %v", err)
	}
	sending.Wait()
	accepted := 0
	for range 200 {
		if r := <-answers; r.Err == nil {
			accepted++
		} else if !isBusy(r.Err) {
			t.Fatalf("%d: %v; want isBusy(r.Err)", r.Tag, r.Err)
		}
	}
	if r := in.wait(1)[0]; r.Kind != engine.ReplyEnded {
		t.Errorf("its receiver is told %+v", r)
	}
	if _, err := f.RestartPartition(t.Context(), 2, by, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	if got := len(f.messages(t, q)); got != 1+accepted {
		t.Errorf("%d messages, 1 and %d were accepted", got, accepted)
	}
	if stop := f.slots[2].last.log.LastStop(); stop != event.StopClean {
		t.Errorf("the end is found as %v", stop)
	}
	if _, err := f.ask(t.Context(), 2, &engine.Commit{Transaction: tx, Slice: q.Slice(0)}); !isCode(err, engine.UnknownTransaction) {
		t.Errorf("a commit of what is gone: %v", err)
	}
	f.close(t)
	if got, want := f.told(t), "PartitionFenced operator root new disk / PartitionRestarted root"; got != want {
		t.Errorf("the catalogue's log says %q, want %q", got, want)
	}
}

// Operations that an operator may not do to a partition are refused, and change nothing.
func TestFenceIsRefused(t *testing.T) {
	t.Parallel()
	f := onFencedDisk(t)
	defer f.close(t)
	fence := func(id engine.PartitionID, reason string) error {
		return f.FencePartition(t.Context(), id, nil, event.ReasonGiven{Reason: reason})
	}
	restart := func(id engine.PartitionID) error {
		_, err := f.RestartPartition(t.Context(), id, nil, event.ReasonGiven{})
		return err
	}
	for what, c := range map[string]struct {
		err  error
		code engine.Code
	}{
		"the catalogue is fenced":    {fence(0, ""), engine.NotAllowed},
		"the catalogue is restarted": {restart(0), engine.NotAllowed},
		"there is none to fence":     {fence(4, ""), engine.NotFound},
		"there is none to restart":   {restart(4), engine.NotFound},
		"a reason of two lines":      {fence(1, "a\nb"), engine.InvalidArgument},
		"one that serves restarts":   {restart(1), engine.NotAllowed},
	} {
		if !isCode(c.err, c.code) {
			t.Errorf("%s: %v; want isCode(c.err, c.code)", what, c.err)
		}
	}
	for _, s := range f.Namespace.Partitions() {
		if s.State != engine.PartitionServing || s.Cause != "" {
			t.Errorf(`%+v; want s.State == engine.PartitionServing && s.Cause == ""`, s)
		}
	}
}

// F9, exit code 5: partition 0 is never fenced. The namespace reports its failure, like every
// failure if nothing is fenced.
func TestCatalogueIsNotFenced(t *testing.T) {
	t.Parallel()
	for _, id := range []engine.PartitionID{0, 2} {
		f := onFencedDisk(t)
		f.opts.Fence = id == 0
		f.fail(id)
		f.provoke(id, 1)
		if err := <-f.Failed(); !errors.Is(err, log.ErrPoisoned) {
			t.Errorf("partition %d: %v", id, err)
		}
		if s := f.status(id); s.State != engine.PartitionServing {
			t.Errorf("%+v; want s.State == engine.PartitionServing", s)
		}
		_ = f.Close()
		_ = f.store.Close()
	}
}

// S4-60, SM-185: entities of an absent partition are not deleted as idle, neither while it is away
// nor once it is back; no new entity is placed there; entities deleted in that time are gone when
// it is back.
func TestCatalogueBesideAFence(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	f := &fenceTest{broker: &broker{}, disk: faultfs.New(), time: d}
	f.start(t)
	defer f.close(t)
	p := testQueue()
	p.AutoDeleteOnIdle = 5 * time.Minute
	idle := f.placed(t, 2, "idle", p)
	gone := f.placed(t, 2, "gone", testQueue())
	f.send(t, idle, 1)
	f.send(t, gone, 1)
	if err := f.FencePartition(t.Context(), 2, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	if err := f.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "gone"}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if q := f.queue(t, fmt.Sprint("new", i), testQueue()); q.Host(0) == 2 {
			t.Errorf("%s is placed on the partition that is away", q.Entity.Path)
		}
	}
	d.turn(time.Hour)
	if err := f.collectIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.RestartPartition(t.Context(), 2, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	if err := f.collectIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resolve("idle"); err != nil {
		t.Errorf("it was deleted for not being used while it could not be: %v", err)
	}
	if n := f.slots[2].running.Load().part.Index().Live(); n != 1 {
		t.Errorf("%d messages, want that of the queue that is left", n)
	}
}

// P24: a partition that a start refused is restarted when its files are back, and not before; it
// gets the entities that were changed in between.
func TestRestartOfARefusedPartition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := moving(t, dir, 2)
	q := b.placed(t, 1, "orders", testQueue())
	b.send(t, q, 3)
	b.close(t)
	repair := damageLog(t, dir)
	b = moving(t, dir, 2)
	s := b.status(1)
	if s.State != engine.PartitionRefused || s.Cause == "" || s.Since == 0 {
		t.Errorf(`%+v; want s.State == engine.PartitionRefused && s.Cause != "" && s.Since != 0`, s)
	}
	p := testQueue()
	p.MaxDeliveryCount = 4
	b.queue(t, "orders", p)
	if s, err := b.RestartPartition(t.Context(), 1, nil, event.ReasonGiven{}); !isBusy(err) || s.State != engine.PartitionRefused {
		t.Errorf("restarted although it is damaged: %+v, %v", s, err)
	}
	repair()
	if s, err := b.RestartPartition(t.Context(), 1, nil, event.ReasonGiven{}); err != nil || s.State != engine.PartitionServing {
		t.Fatalf("%+v, %v; want s.State == engine.PartitionServing", s, err)
	}
	b.comesToHold(t, q, 3, 0)
	if e, _ := b.slots[1].running.Load().part.Entity(q.Slice(0)); e.Properties.MaxDeliveryCount != 4 {
		t.Errorf("%d deliveries", e.Properties.MaxDeliveryCount)
	}
	if err := b.Health(t.Context()); err != nil {
		t.Error(err)
	}
	b.close(t)
}
