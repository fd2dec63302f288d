package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// partitions holds the partitions of a namespace, by number, and sends requests to them.
type partitions struct {
	slots  []slot     // one per partition; set once in Open
	memory log.Memory // see [Options]; set once in Open

	mu sync.Mutex // guards status and last of each slot
}

// Submit implements [engine.Broker].
func (ps *partitions) Submit(p engine.PartitionID, requests []engine.Request) {
	if l := ps.loop(p); l != nil {
		l.Submit(requests)
		return
	}
	loop.TurnAway(ps.sendElsewhere(requests), loop.NotServing())
}

// sendElsewhere passes sends that any partition of their entity may store to a partition that
// serves. It returns the other requests. No loop has processed any of them.
func (ps *partitions) sendElsewhere(requests []engine.Request) (rest []engine.Request) {
	for i := range requests {
		if send, ok := requests[i].Command.(*engine.Send); ok {
			if to, ok := send.Elsewhere(func(id engine.PartitionID) bool { return !ps.absent(id) }); ok {
				ps.Submit(to, requests[i:i+1])
				continue
			}
		}
		rest = append(rest, requests[i])
	}
	return rest
}

// sendAside is sendElsewhere for a loop, which must not wait: two loops that wait for room in each
// other's mailboxes would never continue. It also skips partitions that would refuse the sends.
func (ps *partitions) sendAside(requests []engine.Request) (rest []engine.Request) {
	for i := range requests {
		send, ok := requests[i].Command.(*engine.Send)
		for took := false; ok && !took; {
			var to engine.PartitionID
			if to, ok = send.Elsewhere(ps.canStore); ok {
				if l := ps.loop(to); l != nil {
					took, _ = l.SubmitNow(requests[i : i+1])
				}
			}
		}
		if !ok {
			rest = append(rest, requests[i])
		}
	}
	return rest
}

// canStore reports whether a partition serves and its disk accepts new messages.
func (ps *partitions) canStore(id engine.PartitionID) bool {
	l := ps.loop(id)
	return l != nil && l.Fit()
}

// ReadInto implements [engine.Broker]. Bodies can be read while their partition is out of service.
func (ps *partitions) ReadInto(p engine.PartitionID, b event.Blob, dst []byte) (int, error) {
	from := ps.slots[p].log.Load()
	if from == nil {
		return 0, loop.NotServing()
	}
	read, err := (*from).ReadInto(b, dst)
	if errors.Is(err, log.ErrDescriptors) {
		return 0, engine.Refuse(engine.Busy, "Stored messages cannot be read now; try again.")
	}
	return read, loop.LiveBodyError(err)
}

// logUnsplit names the partitioned entities that an older version made: they keep their single
// partition.
func logUnsplit(n *Namespace) {
	var paths []string
	for _, e := range n.directory.sorted() {
		if n.opts.EntityPartitions > 1 && e.Properties.EnablePartitioning && e.Kind != event.Subscription && len(e.Hosts) == 1 {
			paths = append(paths, e.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	n.logger.Info("partitioned entities created by an older version keep one partition; to get several, delete and create them again", "entities", len(paths),
		"partitions", n.opts.EntityPartitions, "first", paths[:min(len(paths), 10)])
}

// answer is a sink for the replies to one caller.
type answer chan engine.Reply

func (a answer) Post(rs []engine.Reply) {
	for _, r := range rs {
		a <- r
	}
}

// ask submits one request and waits for its reply.
func (ps *partitions) ask(ctx context.Context, p engine.PartitionID, cmd engine.Command) (engine.Reply, error) {
	a := make(answer, 1)
	ps.Submit(p, []engine.Request{{Command: cmd, Sink: a}})
	select {
	case r := <-a:
		return r, r.Err
	case <-ctx.Done():
		return engine.Reply{}, ctx.Err()
	}
}

// askAll submits requests to a partition, waits for all replies, and returns them in the order of
// the requests.
func (ps *partitions) askAll(ctx context.Context, p engine.PartitionID, cmds []engine.Command) ([]engine.Reply, error) {
	a := make(answer, len(cmds))
	requests := make([]engine.Request, len(cmds))
	for i, cmd := range cmds {
		requests[i] = engine.Request{Command: cmd, Sink: a, Tag: uint64(i)}
	}
	for some := range slices.Chunk(requests, maxAsked) {
		ps.Submit(p, some)
	}
	replies := make([]engine.Reply, len(cmds))
	for range cmds {
		select {
		case r := <-a:
			replies[r.Tag] = r
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return replies, nil
}

// Health returns why messages cannot be accepted and stored now: a partition is refused, stopped or
// damaged, or its disk does not write in time (management-api.md 8, MA-003).
func (ps *partitions) Health(ctx context.Context) error {
	if err := ps.diskStates(); err != nil {
		return err
	}
	look := time.NewTicker(lookEvery) // the disk may begin to hang during the wait
	defer look.Stop()
	asked := make(answer, len(ps.slots))
	// partitions whose mailboxes are full: waiting for room may take longer than a health check may
	var full []engine.PartitionID
	for i := range ps.slots {
		if id := engine.PartitionID(i); ps.absent(id) {
			s := ps.status(id)
			return fmt.Errorf("engine: partition %d is %v: %s", id, s.State, s.Cause)
		}
		if !ps.pingNow(engine.PartitionID(i), asked) {
			full = append(full, engine.PartitionID(i))
		}
	}
	for left := len(ps.slots); left > 0; {
		select {
		case r := <-asked:
			if left--; r.Err != nil {
				return r.Err
			}
		case <-look.C:
			if err := ps.diskStates(); err != nil {
				return err
			}
			full = slices.DeleteFunc(full, func(id engine.PartitionID) bool { return ps.pingNow(id, asked) })
		case <-ctx.Done():
			return fmt.Errorf("engine: a partition does not answer: %w", ctx.Err())
		}
	}
	return nil
}

// pingNow pings a partition without waiting. It reports whether the ping was accepted, or never
// will be.
func (ps *partitions) pingNow(p engine.PartitionID, sink engine.Sink) bool {
	ping := []engine.Request{{Command: loop.Ping(), Sink: sink}}
	l := ps.loop(p)
	if l == nil {
		loop.TurnAway(ping, loop.NotServing())
		return true
	}
	took, open := l.SubmitNow(ping)
	if !open {
		loop.TurnAway(ping, loop.NotServing())
	}
	return took || !open
}

// lookEvery is the interval at which [partitions.Health] checks the state of the disk.
const lookEvery = 50 * time.Millisecond

// diskStates returns an error if the state of a disk keeps messages from being stored.
func (ps *partitions) diskStates() error {
	for _, c := range ps.Conditions() {
		if c.State != partitionRefused && c.State != partitionFenced {
			return fmt.Errorf("engine: %v", c)
		}
	}
	return nil
}

// watchers are called when entities change.
type watchers struct {
	mu    sync.Mutex // guards calls
	calls map[*func(engine.Change)]struct{}
}

// Watch implements [engine.Broker].
func (w *watchers) Watch(call func(engine.Change)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*func(engine.Change)]struct{}{}
	}
	w.calls[&call] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.calls, &call)
	}
}

func (w *watchers) tell(c engine.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call := range w.calls {
		(*call)(c)
	}
}
