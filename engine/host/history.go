package host

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// historyEvery is how often it is looked what may go of history.
const historyEvery = time.Minute

// keeping gives the space of history back that nobody keeps (docs/decisions/0049): one goroutine of the namespace, one step after the other. Every step
// is one of the log's, which can be killed at any point, so it keeps nothing that has to last. As long as nobody has said anything of history it
// does nothing. Bodies stay: which of them are needed for an undo no state says yet.
type keeping struct {
	// set once in newKeeping
	n   *Namespace
	cut func(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error)

	files map[string]pastFile           // by name: a sealed file does not change
	said  map[engine.PartitionID]string // what was last said to be in the way, so that it is said once
	began bool                          // it was said how much would go
}

func newKeeping(n *Namespace) *keeping {
	return &keeping{n: n, cut: replay.Cut, files: map[string]pastFile{}, said: map[engine.PartitionID]string{}}
}

// run looks now and then, until the context ends.
func (k *keeping) run(ctx context.Context) {
	ticker := time.NewTicker(historyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look(ctx)
		}
	}
}

// look has what may go given back, what gains most first.
func (k *keeping) look(ctx context.Context) {
	o := outlook{now: k.n.Now(), rules: k.n.HistoryPolicies(), said: k.policies()}
	if o.rules == nil {
		return
	}
	o.disk, o.need = k.room()
	if o.idle() {
		return
	}
	logs := k.logs()
	for id, p := range logs {
		files, err := k.sealed(ctx, id, p)
		if err != nil {
			k.tell(id, "its sealed files cannot be looked at: "+err.Error())
		}
		o.files = append(o.files, files...)
	}
	k.forget(o.files)
	p := o.plan()
	if !k.began {
		k.began = true
		k.n.logger.Info("history that policies do not keep", "bytes", p.bytes, "kept", strings.Join(p.held, "; "))
	}
	gain := map[engine.PartitionID]int64{}
	for _, f := range o.files {
		if f.end <= p.cuts[f.partition] {
			gain[f.partition] += f.stored
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.cuts), func(a, b engine.PartitionID) int { return cmp.Or(cmp.Compare(gain[b], gain[a]), cmp.Compare(a, b)) }) {
		if ctx.Err() == nil {
			k.cutOne(ctx, id, logs[id], p.cuts[id], p.forced)
		}
	}
}

// cutOne has what a partition may lose removed, and says what became of that.
func (k *keeping) cutOne(ctx context.Context, id engine.PartitionID, p log.Partition, upTo event.LSN, forced bool) {
	freed, err := k.cut(ctx, p, upTo, forced)
	if freed > 0 {
		first, _ := p.Bounds()
		k.n.logger.Info("history given back", "partition", id, "bytes", freed, "up to", upTo, "log begins at", first, "for want of room", forced)
	}
	switch {
	case err == nil:
		delete(k.said, id)
	case ctx.Err() != nil:
	case errors.Is(err, log.ErrHeld), errors.Is(err, log.ErrTooLittle), errors.Is(err, log.ErrClosed):
		k.tell(id, err.Error())
	default:
		k.n.logger.Error("history cannot be given back", "partition", id, "error", err)
	}
}

// tell says what is in the way of a partition, unless that was the last thing said of it.
func (k *keeping) tell(id engine.PartitionID, what string) {
	if k.said[id] != what {
		k.said[id] = what
		k.n.logger.Info("history stays for now", "partition", id, "because", what)
	}
}

// logs are those of the partitions that serve.
func (k *keeping) logs() map[engine.PartitionID]log.Partition {
	logs := map[engine.PartitionID]log.Partition{}
	for i := range k.n.slots {
		if s := &k.n.slots[i]; s.serves.Load() != nil {
			logs[engine.PartitionID(i)] = *s.log.Load()
		}
	}
	return logs
}

// sealed are the sealed files of a log, oldest first. After an error they are those before it.
func (k *keeping) sealed(ctx context.Context, id engine.PartitionID, p log.Partition) (files []pastFile, err error) {
	count := 0
	for _, s := range p.Segments() {
		if !strings.HasSuffix(s.File, sealedSuffix) {
			continue
		}
		if count++; len(files) == count-1 {
			if f, known := k.files[s.File]; known {
				files = append(files, f)
			}
		}
	}
	if len(files) == count {
		return files, nil
	}
	files = nil
	for s, err := range p.Summaries(ctx) {
		if err != nil {
			return files, err
		}
		if !s.Sealed {
			break
		}
		f := pastOf(id, &s)
		k.files[f.name] = f
		if files = append(files, f); len(files) == count { // the next one would be read whole
			break
		}
	}
	return files, nil
}

// sealedSuffix is how the names of sealed files end.
const sealedSuffix = ".lbs"

// pastOf is a sealed file as its summary has it.
func pastOf(id engine.PartitionID, s *log.Summary) pastFile {
	f := pastFile{partition: id, name: s.File, first: s.First, end: s.End, newest: s.Highest, stored: s.Stored}
	for _, c := range s.Slices {
		f.entities = append(f.entities, c.Slice.Entity)
		if c.BodyBytes > 0 {
			f.withBodies = append(f.withBodies, c.Slice.Entity)
		}
	}
	f.entities, f.withBodies = slices.Compact(f.entities), slices.Compact(f.withBodies)
	return f
}

// forget lets go of files that are no more.
func (k *keeping) forget(there []pastFile) {
	now := make(map[string]pastFile, len(there))
	for _, f := range there {
		now[f.name] = f
	}
	k.files = now
}

// policies is what was said of entities, by id. What is gone has no path: what is said of the namespace, and of every path, holds for it.
func (k *keeping) policies() func(event.EntityID) event.HistoryPolicy {
	rules, paths := k.n.HistoryPolicies(), map[event.EntityID]string{}
	for _, e := range k.n.Entities() {
		paths[e.ID] = e.Path
	}
	known := map[event.EntityID]event.HistoryPolicy{}
	return func(id event.EntityID) event.HistoryPolicy {
		p, ok := known[id]
		if !ok {
			p = rules.Said(paths[id])
			known[id] = p
		}
		return p
	}
}

// room is how many bytes the disk has in all, and how many are to be given back: history goes while the disk has less than twice what it needs
// for sends to be taken.
func (k *keeping) room() (total, need int64) {
	store, ok := k.n.store.(interface {
		Space() (total, free, low int64, err error)
	})
	if !ok {
		return 0, 0
	}
	total, free, low, err := store.Space()
	if err != nil {
		k.n.logger.Warn("the disk does not say how much room it has", "error", err)
		return 0, 0
	}
	return total, max(0, 2*low-free)
}
