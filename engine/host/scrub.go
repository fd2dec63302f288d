package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// scrubs reads the logs again while they are in use, for rot (docs/decisions/0053): one goroutine of the namespace, one file after the other.
type scrubs struct {
	of    scrubbed
	every time.Duration // within which each byte is read once
}

// scrubbed is what is scrubbed: a namespace, or what a test has in the place of one.
type scrubbed interface {
	grounds
	// damaged is told what was found, and how many files of the partition are damaged by now.
	damaged(id engine.PartitionID, files int, err error)
}

const (
	// scrubEvery is how often it checks whether it is time for a pass.
	scrubEvery = time.Minute
	// scrubNames is how many messages a line of the log names.
	scrubNames = 10
)

// run scrubs until the context ends.
func (v *scrubs) run(ctx context.Context) {
	pause := time.NewTimer(scrubEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		next := scrubEvery
		if v.look(ctx) {
			next = 0
		}
		pause.Reset(next)
	}
}

// look reads one file of each log that it is time for, and reports whether there was one.
func (v *scrubs) look(ctx context.Context) (worked bool) {
	for id, p := range v.of.logs() {
		s, ok := p.(log.Scrubber)
		if !ok || ctx.Err() != nil || !v.due(s.Scrubbed()) {
			continue
		}
		found, over, err := s.Scrub(ctx)
		if err != nil {
			if ctx.Err() == nil { // it was fenced, or there is no descriptor: later
				v.of.log().Warn("a log is not scrubbed just now", "partition", id, "error", err)
			}
			continue
		}
		worked = true
		v.tell(id, found, s.Scrubbed().Damaged)
		if over {
			v.of.log().Info("log scrubbed", "partition", id, "damaged files", s.Scrubbed().Damaged)
		}
	}
	return worked
}

// due reports whether a log is to be read on. The next pass begins half of the time after the end of the last one: so no byte waits for longer than all of it,
// unless a pass takes longer than the other half.
func (v *scrubs) due(s log.Scrubbed) bool {
	return s.Again || !s.Began.IsZero() || s.Ended.IsZero() || v.of.Now().Std().Sub(s.Ended) >= v.every/2 || s.Ended.After(v.of.Now().Std().Add(time.Hour))
}

// tell says what is damaged: in the log place by place, and to the partition.
func (v *scrubs) tell(id engine.PartitionID, found []log.Damage, files int) {
	for i := range found {
		d := &found[i]
		if d.Spare {
			v.of.log().Warn("a checkpoint is damaged; a start does without it", "partition", id, "file", d.File, "error", d.CorruptError)
			continue
		}
		v.of.log().Error("damage found in the log", "partition", id, "file", d.File, "byte", d.Offset, "lsn", d.LSN, "messages", v.messages(d.Messages), "error", d.CorruptError)
		v.of.damaged(id, files, d.CorruptError)
	}
}

// messages names some messages, by entity and number.
func (v *scrubs) messages(list []log.Message) string {
	if len(list) == 0 {
		return "not known: ledgerbus log verify looks around the place"
	}
	paths := map[event.EntityID]string{}
	for _, e := range v.of.Entities() {
		paths[e.ID] = e.Path
	}
	var names []string
	for _, m := range list[:min(len(list), scrubNames)] {
		path, ok := paths[m.Slice.Entity]
		if !ok {
			path = fmt.Sprintf("entity %d, which is gone", m.Slice.Entity)
		}
		names = append(names, fmt.Sprintf("%s#%d", path, m.Sequence))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// rotten is what is known of a partition's stored data that cannot be read.
type rotten struct {
	since event.Time
	files int    // of which a scrub knows; 0: a reader found it
	what  string // one line
}

// count says how many files there are.
func (r *rotten) count() string {
	if r.files > 1 {
		return fmt.Sprintf("%d files", r.files)
	}
	return "1 file"
}

// damaged implements [scrubbed].
func (s served) damaged(id engine.PartitionID, files int, err error) {
	rot(s.Namespace, id, files, err)
}

// rot notes that stored data of a partition cannot be read, and has it take no more messages.
func rot(n *Namespace, p engine.PartitionID, files int, err error) {
	noteRot(n, p, files, err)
	n.Submit(p, []engine.Request{{Command: &damage{err: err}}})
}

// noteRot notes that stored data of a partition cannot be read.
func noteRot(n *Namespace, p engine.PartitionID, files int, err error) {
	now := &rotten{since: n.clock.Now(), files: files, what: oneLine(err)}
	if was := n.slots[p].rotten.Load(); was != nil {
		now.since, now.what, now.files = was.since, was.what, max(was.files, files)
	}
	n.slots[p].rotten.Store(now)
}

// scrubState adds what is known of a partition's files to its status.
func (s *slot) scrubState(status engine.PartitionStatus) engine.PartitionStatus {
	if r := s.rotten.Load(); r != nil && status.State == engine.PartitionServing {
		status.Cause = "stored data is damaged, and no messages are taken: " + r.what
	}
	if t := s.serves.Load(); t != nil {
		if l, ok := t.log.(log.Scrubber); ok {
			if ended := l.Scrubbed().Ended; !ended.IsZero() {
				status.Scrubbed = event.TimeOf(ended)
			}
		}
	}
	return status
}
