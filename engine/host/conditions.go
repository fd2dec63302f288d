package host

import (
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
)

// Names of the conditions that keep a namespace from full service (docs/decisions/0039, 0040).
const (
	// little room: commands that make the log grow permanently are refused
	diskLow      = "disk-low"
	diskCritical = "disk-critical" // only a reserve is left: settlements continue
	diskFull     = "disk-full"     // no room at all: accepted work waits
	// a partition's disk does not answer: new sends are refused
	diskHangs         = "disk-hangs"
	partitionRefused  = "partition-refused"  // its files differ from what was written
	partitionFenced   = "partition-fenced"   // it was taken out of service
	partitionStarting = "partition-starting" // it is being restarted
	// stored data cannot be read: new messages are refused, others can be received
	dataDamaged = "data-damaged"
)

// Causes of a partition being out of service, as /health shows them: error texts would name files.
const (
	byError    = "io-error"
	byOperator = "operator"
	byDamage   = "damage"
)

// Condition is a lasting state, under the name that /health uses.
type Condition struct {
	State     string
	Partition int // -1: all partitions
	Since     time.Time
	// for a fenced or refused partition: io-error, operator or damage; for damaged data: the number
	// of files known to be damaged
	Cause string
}

func (c Condition) String() string {
	s := c.State
	if c.Partition >= 0 {
		s = fmt.Sprintf("partition %d: %s", c.Partition, s)
	}
	if !c.Since.IsZero() {
		s += " since " + c.Since.UTC().Format(time.RFC3339)
	}
	return s
}

// absenceCondition returns the condition of a partition that does not serve.
func absenceCondition(s engine.PartitionStatus) Condition {
	c := Condition{State: partitionFenced, Partition: int(s.ID), Cause: byError}
	switch {
	case s.State == engine.PartitionRefused:
		c.State, c.Cause = partitionRefused, byDamage
	case s.State == engine.PartitionStarting:
		c.State, c.Cause = partitionStarting, ""
	case s.By != "":
		c.Cause = byOperator
	}
	if s.Since != 0 {
		c.Since = s.Since.Std()
	}
	return c
}

// Conditions returns the lasting states, those of the disk first.
func (ps *partitions) Conditions() (list []Condition) {
	worst := log.DiskState{}
	var rest []Condition
	for i := range ps.slots {
		t := ps.slots[i].running.Load()
		if t == nil {
			rest = append(rest, absenceCondition(ps.status(engine.PartitionID(i))))
			continue
		}
		if r := ps.slots[i].damage.Load(); r != nil {
			rest = append(rest, Condition{State: dataDamaged, Partition: i, Since: r.since.Std(), Cause: r.count()})
		}
		s := t.writer.DiskState()
		if s.Room > worst.Room {
			worst = s
		}
		if !s.Hangs.IsZero() {
			rest = append(rest, Condition{State: diskHangs, Partition: i, Since: s.Hangs})
		}
	}
	if worst.Room > log.RoomEnough {
		state := map[log.Room]string{log.RoomLow: diskLow, log.RoomCritical: diskCritical, log.RoomNone: diskFull}[worst.Room]
		list = append(list, Condition{State: state, Partition: -1, Since: worst.Since})
	}
	return append(list, rest...)
}
