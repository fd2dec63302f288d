package host

import (
	"sync"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// slot holds a partition, which can be taken out of service and come back (docs/decisions/0044).
type slot struct {
	running atomic.Pointer[incarnation] // nil: requests are refused as busy
	// log that bodies are read from, of the newest incarnation; nil: there was none since the start
	log    atomic.Pointer[log.Partition]
	damage atomic.Pointer[knownDamage] // nil: no stored data is known to be damaged

	// guarded by partitions.mu
	status engine.PartitionStatus
	last   *incarnation // newest incarnation that has served; nil: there was none
}

// incarnation is a partition from the moment it is led until it stops serving. What it has in
// memory dies with it: the next incarnation has only what is in the log.
type incarnation struct {
	loop         *loop.Loop
	part         *engine.Partition // run by the loop
	writer       log.Writer        // of its log
	log          log.Partition
	courier      *background.Courier // nil: no messages move
	stop         chan struct{}       // closed to end the courier
	courierEnded chan struct{}       // closed when the courier has ended
	// closed when no goroutine of it runs any more and its log is closed
	ended chan struct{}
	// closed when the catalogue's log has recorded the fence, or cannot record it
	fenceLogged chan struct{}

	retiring sync.Once
	err      error // error of the end; set before ended is closed
}

func newIncarnation(l *loop.Loop, part *engine.Partition, writer log.Writer, plog log.Partition, c *background.Courier) *incarnation {
	return &incarnation{loop: l, part: part, writer: writer, log: plog, courier: c, stop: make(chan struct{}), courierEnded: make(chan struct{}), ended: make(chan struct{}), fenceLogged: make(chan struct{})}
}

// retire ends an incarnation, and returns its error. The loop and the courier must have been
// started. Pending requests are finished first, as far as the log allows.
func (t *incarnation) retire() error {
	t.retiring.Do(func() {
		close(t.stop)
		<-t.courierEnded
		t.err = t.loop.Close()
		close(t.ended)
	})
	<-t.ended
	return t.err
}

// seat makes an incarnation serve from now on. The caller holds partitions.mu, or no other
// goroutine runs yet.
func (s *slot) seat(t *incarnation) {
	s.log.Store(&t.log)
	s.damage.Store(nil)
	s.last = t
	s.running.Store(t)
}

// loop returns the loop of a partition; nil: it does not serve.
func (ps *partitions) loop(id engine.PartitionID) *loop.Loop {
	if t := ps.slots[id].running.Load(); t != nil {
		return t.loop
	}
	return nil
}

// loops returns the loops of all partitions, by number; nil where one does not serve.
func (ps *partitions) loops() []*loop.Loop {
	all := make([]*loop.Loop, len(ps.slots))
	for i := range all {
		all[i] = ps.loop(engine.PartitionID(i))
	}
	return all
}

// absent reports whether a partition does not serve. It learns of changes when it is back.
func (ps *partitions) absent(id engine.PartitionID) bool { return ps.slots[id].running.Load() == nil }

// Serves implements [engine.Broker].
func (ps *partitions) Serves(id engine.PartitionID) bool { return !ps.absent(id) }

// Partitions implements [engine.Operations].
func (ps *partitions) Partitions() []engine.PartitionStatus {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]engine.PartitionStatus, len(ps.slots))
	for i := range ps.slots {
		list[i] = ps.slots[i].addFileState(ps.slots[i].status)
	}
	return list
}

// status returns the status of a partition.
func (ps *partitions) status(id engine.PartitionID) engine.PartitionStatus {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.slots[id].addFileState(ps.slots[id].status)
}

// setStatus sets the status of a partition.
func (ps *partitions) setStatus(s engine.PartitionStatus) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.slots[s.ID].status = s
}

// takeOut takes an incarnation out of its slot. It returns false if it was out already.
func (ps *partitions) takeOut(t *incarnation, s engine.PartitionStatus) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.slots[s.ID].running.CompareAndSwap(t, nil) {
		return false
	}
	ps.slots[s.ID].status = s
	return true
}

// servingStatus returns the status of a partition that serves.
func servingStatus(id engine.PartitionID, since event.Time) engine.PartitionStatus {
	return engine.PartitionStatus{ID: id, State: engine.PartitionServing, Since: since}
}
