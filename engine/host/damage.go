package host

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

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

// rot notes that stored data of a partition cannot be read, and has it take no more messages.
func (ps *partitions) rot(now event.Time, p engine.PartitionID, files int, err error) {
	ps.slots[p].noteRot(now, files, err)
	ps.Submit(p, []engine.Request{{Command: loop.Damage(err, event.LockToken{}, nil)}})
}

// noteRot notes that stored data of a partition cannot be read.
func (s *slot) noteRot(now event.Time, files int, err error) {
	is := &rotten{since: now, files: files, what: oneLine(err)}
	if was := s.rotten.Load(); was != nil {
		is.since, is.what, is.files = was.since, was.what, max(was.files, files)
	}
	s.rotten.Store(is)
}

// scrubState adds what is known of a partition's files to its status.
func (s *slot) scrubState(status engine.PartitionStatus) engine.PartitionStatus {
	if r := s.rotten.Load(); r != nil && status.State == engine.PartitionServing {
		status.Cause = "stored data is damaged; new messages are refused: " + r.what
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
