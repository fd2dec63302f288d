package host

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// knownDamage describes stored data of a partition that cannot be read.
type knownDamage struct {
	since event.Time
	files int    // files that a scrub knows; 0: a reader found the damage
	what  string // the error, in one line
}

// count returns the number of damaged files as text.
func (r *knownDamage) count() string {
	if r.files > 1 {
		return fmt.Sprintf("%d files", r.files)
	}
	return "1 file"
}

// reportDamage notes that stored data of a partition cannot be read, and makes the partition refuse
// new messages.
func (ps *partitions) reportDamage(now event.Time, p engine.PartitionID, files int, err error) {
	ps.slots[p].noteDamage(now, files, err)
	ps.Submit(p, []engine.Request{{Command: loop.Damage(err, event.LockToken{}, nil)}})
}

// noteDamage notes that stored data of a partition cannot be read.
func (s *slot) noteDamage(now event.Time, files int, err error) {
	is := &knownDamage{since: now, files: files, what: oneLine(err)}
	if was := s.damage.Load(); was != nil {
		is.since, is.what, is.files = was.since, was.what, max(was.files, files)
	}
	s.damage.Store(is)
}

// addFileState adds what is known about a partition's files to its status.
func (s *slot) addFileState(status engine.PartitionStatus) engine.PartitionStatus {
	if r := s.damage.Load(); r != nil && status.State == engine.PartitionServing {
		status.Cause = "stored data is damaged; new messages are refused: " + r.what
	}
	if t := s.running.Load(); t != nil {
		if l, ok := t.log.(log.Scrubber); ok {
			if ended := l.Scrubbed().Ended; !ended.IsZero() {
				status.Scrubbed = event.TimeOf(ended)
			}
		}
	}
	return status
}
