package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Present returns the state of the namespace for answers about the present.
func (n *Namespace) Present() present.Source {
	return &presentState{loops: &n.partitions, directory: &n.directory, now: n.Now}
}

// presentState implements [present.Source] over the loops.
type presentState struct {
	loops     *partitions
	directory *directory
	now       func() event.Time
}

// Now implements [present.Source].
func (p *presentState) Now() event.Time { return p.now() }

// Entries implements [present.Source].
func (p *presentState) Entries(context.Context) ([]present.Entry, error) {
	sorted := p.directory.sorted()
	all := make([]present.Entry, len(sorted))
	for i, e := range sorted {
		hosts := make([]byte, len(e.Hosts))
		for j, h := range e.Hosts {
			hosts[j] = byte(h)
		}
		all[i] = present.Entry{ID: e.ID, Kind: e.Kind, Path: e.Path, Status: e.Properties.Status, Hosts: hosts, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, AccessedAt: e.LastUse()}
	}
	return all, nil
}

// Look implements [present.Source].
func (p *presentState) Look(ctx context.Context, partition int, read func(*index.Index)) error {
	return p.ask(ctx, partition, loop.Do(func(part *engine.Partition) engine.Reply {
		read(part.Index())
		return engine.Reply{}
	}))
}

// Snapshot implements [present.Source].
func (p *presentState) Snapshot(ctx context.Context, partition int) (*index.Snapshot, error) {
	cmd := &loop.Snapshot{}
	if err := p.ask(ctx, partition, cmd); err != nil {
		cmd.Close()
		return nil, err
	}
	state, _ := cmd.State()
	return state, nil
}

// ask submits a command to a partition and waits for the answer. It never waits for room in a
// mailbox: an operator asks when a partition is behind its disk.
func (p *presentState) ask(ctx context.Context, partition int, cmd engine.Command) error {
	l := p.loops.loop(engine.PartitionID(partition))
	if l == nil {
		return fmt.Errorf("partition %d: %w", partition, present.ErrAway)
	}
	answers := make(answer, 1)
	if took, _ := l.SubmitNow([]engine.Request{{Command: cmd, Sink: answers}}); !took {
		return fmt.Errorf("partition %d: %w: it takes no requests", partition, present.ErrAway)
	}
	select {
	case r := <-answers:
		return away(partition, r.Err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Body implements [present.Source].
func (p *presentState) Body(_ context.Context, partition int, b event.Blob, dst []byte) (int, error) {
	n, err := p.loops.ReadInto(engine.PartitionID(partition), b, dst)
	return n, away(partition, err)
}

// away marks the errors of a partition that does not serve, or stopped before it answered.
func away(partition int, err error) error {
	if refused := (*engine.Error)(nil); errors.As(err, &refused) && refused.Code == engine.Busy || errors.Is(err, engine.ErrUnknown) {
		return fmt.Errorf("partition %d: %w: %w", partition, present.ErrAway, err)
	}
	return err
}

// Activity implements [present.Source].
func (p *presentState) Activity(ctx context.Context) ([]present.Activity, error) {
	timer := time.NewTimer(activityTime)
	defer timer.Stop()
	loops := p.loops.loops()
	asked, replies := 0, make(answer, len(loops))
	for i, l := range loops {
		if l == nil {
			continue
		}
		// without waiting for room in a full mailbox
		if took, _ := l.SubmitNow([]engine.Request{{Command: &loop.Activity{}, Sink: replies, Tag: uint64(i)}}); took {
			asked++
		}
	}
	var all []present.Activity
	for range asked {
		select {
		case r := <-replies:
			if told, ok := r.Answer.(*loop.Activity); ok && r.Err == nil {
				all = append(all, activityOf(int(r.Tag), told))
			}
		case <-timer.C:
			return all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, nil
}

// activityTime bounds the time that partitions have to tell what happened. One that is late is left
// out.
const activityTime = time.Second

// activityOf returns what a partition told.
func activityOf(partition int, told *loop.Activity) present.Activity {
	a := present.Activity{Partition: partition, Since: told.Since, Slices: make([]present.SliceActivity, len(told.Slices))}
	for i := range told.Slices {
		a.Slices[i] = present.SliceActivity(told.Slices[i])
	}
	return a
}
