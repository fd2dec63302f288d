package background

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Scrub reads the logs again while they are in use, to find damage (docs/decisions/0053). One
// goroutine of the broker runs it, one file after the other.
type Scrub struct {
	Of    ScrubEnv
	Every time.Duration // time within which each byte is read once
}

// ScrubEnv is what a [Scrub] needs of its broker.
type ScrubEnv interface {
	Now() event.Time
	Logger() *slog.Logger
	Entities() []*engine.Entity
	// Logs returns the logs of the partitions that serve.
	Logs() map[engine.PartitionID]log.Partition
	// Damaged reports damage that was found, and how many files of the partition are damaged by
	// now.
	Damaged(id engine.PartitionID, files int, err error)
}

const (
	// scrubEvery is the interval at which it checks whether a pass is due.
	scrubEvery = time.Minute
	// scrubNames bounds the messages that one log line names.
	scrubNames = 10
)

// Run scrubs until the context ends.
func (v *Scrub) Run(ctx context.Context) {
	pause := time.NewTimer(scrubEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		next := scrubEvery
		if v.Look(ctx) {
			next = 0
		}
		pause.Reset(next)
	}
}

// Look reads one file of each log that is due, and reports whether there was one.
func (v *Scrub) Look(ctx context.Context) (worked bool) {
	for id, p := range v.Of.Logs() {
		s, ok := p.(log.Scrubber)
		if !ok || ctx.Err() != nil || !v.due(s.Scrubbed()) {
			continue
		}
		found, over, err := s.Scrub(ctx)
		if err != nil {
			if ctx.Err() == nil { // it was fenced, or no descriptor is free: later
				v.Of.Logger().Warn("scrub postponed", "partition", id, "error", err)
			}
			continue
		}
		worked = true
		v.report(id, found, s.Scrubbed().Damaged)
		if over {
			v.Of.Logger().Info("log scrubbed", "partition", id, "damaged_files", s.Scrubbed().Damaged)
		}
	}
	return worked
}

// due reports whether a log is to be read further. The next pass begins half of Every after the end
// of the last one. So no byte waits longer than Every, unless a pass takes longer than the other
// half.
func (v *Scrub) due(s log.ScrubProgress) bool {
	return s.Again || !s.Began.IsZero() || s.Ended.IsZero() || v.Of.Now().Std().Sub(s.Ended) >= v.Every/2 || s.Ended.After(v.Of.Now().Std().Add(time.Hour))
}

// report logs each damaged place, and tells the partition about it.
func (v *Scrub) report(id engine.PartitionID, found []log.Damage, files int) {
	for i := range found {
		d := &found[i]
		if d.Spare {
			v.Of.Logger().Warn("checkpoint damaged; a start does not use it", "partition", id, "file", d.File, "error", d.CorruptError)
			continue
		}
		v.Of.Logger().Error("damage found in the log", "partition", id, "file", d.File, "byte", d.Offset, "lsn", d.LSN, "messages", v.messages(d.Messages), "error", d.CorruptError)
		v.Of.Damaged(id, files, d.CorruptError)
	}
}

// messages names some messages, by entity and number.
func (v *Scrub) messages(list []log.Message) string {
	if len(list) == 0 {
		return "unknown; run ledgerbus log verify"
	}
	paths := map[event.EntityID]string{}
	for _, e := range v.Of.Entities() {
		paths[e.ID] = e.Path
	}
	var names []string
	for _, m := range list[:min(len(list), scrubNames)] {
		path, ok := paths[m.Slice.Entity]
		if !ok {
			path = fmt.Sprintf("deleted entity %d", m.Slice.Entity)
		}
		names = append(names, fmt.Sprintf("%s#%d", path, m.Sequence))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
