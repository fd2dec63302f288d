package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// retention gives the space of history back that nobody keeps (docs/decisions/0049): one goroutine of the namespace, one step after the other. Every step
// is one of the log's, which can be killed at any point, so it keeps nothing that has to last. As long as nobody has said anything of history it
// does nothing.
type retention struct {
	// set once in newKeeping
	of  grounds
	cut func(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error)

	files map[string]pastFile           // by name: a sealed file does not change
	tried map[engine.PartitionID]string // what was as it is now when nothing could be cut
	undo  map[engine.PartitionID]*removals
	later map[string]event.Time         // by name: when a file of which too little could go may be looked at again
	said  map[engine.PartitionID]string // what was last said to be in the way, so that it is said once
	began bool                          // it was said how much would go
}

// grounds are what it looks at: a namespace, or what a simulation has in the place of one.
type grounds interface {
	Now() event.Time
	HistoryPolicies() *engine.HistoryPolicies
	Entities() []*engine.Entity
	// logs are those of the partitions that serve.
	logs() map[engine.PartitionID]log.Partition
	// space is how many bytes the disk has in all, how many are free, and below how many it has little room; all 0: nobody knows.
	space() (total, free, low int64, err error)
	log() *slog.Logger
	// compaction is a round in a partition.
	compaction(id engine.PartitionID, keep keeps) (*compaction, error)
}

func newRetention(of grounds) *retention {
	return &retention{of: of, cut: replay.Cut, files: map[string]pastFile{}, said: map[engine.PartitionID]string{}, tried: map[engine.PartitionID]string{},
		undo: map[engine.PartitionID]*removals{}, later: map[string]event.Time{}}
}

// served are the grounds of a namespace.
type served struct{ *Namespace }

func (s served) log() *slog.Logger { return s.logger }

func (s served) logs() map[engine.PartitionID]log.Partition {
	logs := map[engine.PartitionID]log.Partition{}
	for i := range s.slots {
		if slot := &s.slots[i]; slot.serves.Load() != nil {
			logs[engine.PartitionID(i)] = *slot.log.Load()
		}
	}
	return logs
}

func (s served) space() (total, free, low int64, err error) {
	store, ok := s.store.(interface {
		Space() (total, free, low int64, err error)
	})
	if !ok {
		return 0, 0, 0, nil
	}
	return store.Space()
}

// run looks now and then, until the context ends.
func (k *retention) run(ctx context.Context) {
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
func (k *retention) look(ctx context.Context) {
	o := outlook{now: k.of.Now(), rules: k.of.HistoryPolicies(), said: k.policies()}
	if o.rules == nil {
		return
	}
	o.disk, o.need = k.room()
	if o.idle() {
		return
	}
	logs := k.of.logs()
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		p := logs[id]
		files, err := k.sealed(ctx, id, p)
		if err != nil {
			k.tell(id, "its sealed files cannot be looked at: "+err.Error())
		}
		first, _ := p.Bounds()
		for _, f := range files {
			f.cold = f.end <= first
			o.files = append(o.files, f)
		}
		for _, c := range p.Checkpoints() {
			o.saved += c.Stored
		}
	}
	k.forget(o.files)
	if o.overBudget() {
		k.measure(ctx, o.files)
		if ctx.Err() != nil || !maps.Equal(logs, k.of.logs()) { // that took time
			return
		}
	}
	p := o.plan()
	if !k.began {
		k.began = true
		k.of.log().Info("history that policies do not keep", "bytes", p.bytes, "kept", strings.Join(p.held, "; "))
	}
	k.cutAll(ctx, logs, &o, &p)
	k.dropAll(ctx, logs, &o, &p)
}

// cutAll has what may go whole removed, in the partition first where that is most.
func (k *retention) cutAll(ctx context.Context, logs map[engine.PartitionID]log.Partition, o *outlook, p *plan) {
	gain := map[engine.PartitionID]int64{}
	for i := range o.files {
		if f := &o.files[i]; f.end <= p.cuts[f.partition] {
			gain[f.partition] += f.past()
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.cuts), func(a, b engine.PartitionID) int { return cmp.Or(cmp.Compare(gain[b], gain[a]), cmp.Compare(a, b)) }) {
		if ctx.Err() == nil {
			k.cutOne(ctx, id, logs[id], p.cuts[id], p.forced)
		}
	}
}

// cutOne has what a partition may lose removed, and says what became of that.
func (k *retention) cutOne(ctx context.Context, id engine.PartitionID, p log.Partition, upTo event.LSN, forced bool) {
	now := standing(p, upTo, forced)
	if k.tried[id] == now {
		return
	}
	freed, err := k.cut(ctx, p, upTo, forced)
	if freed > 0 {
		first, _ := p.Bounds()
		k.of.log().Info("history given back", "partition", id, "bytes", freed, "up to", upTo, "log begins at", first, "for want of room", forced)
	}
	if errors.Is(err, log.ErrTooLittle) {
		k.tried[id] = now
	}
	switch {
	case err == nil:
		delete(k.said, id)
		delete(k.tried, id)
	case ctx.Err() != nil:
	case errors.Is(err, log.ErrHeld), errors.Is(err, log.ErrTooLittle), errors.Is(err, log.ErrClosed):
		k.tell(id, err.Error())
	default:
		k.of.log().Error("history cannot be given back", "partition", id, "error", err)
	}
}

// standing is all that decides whether a log can be cut, so that what could not is not tried again, which takes long, before something is another.
func standing(p log.Partition, upTo event.LSN, forced bool) string {
	var base log.BaseInfo
	if b, ok := p.(log.Bases); ok {
		base, _ = b.Base()
	}
	var newest event.LSN
	for _, c := range p.Checkpoints() {
		if c.LSN <= upTo {
			newest = max(newest, c.LSN)
		}
	}
	files := 0
	for _, s := range p.Segments() {
		if s.End <= upTo {
			files++
		}
	}
	return fmt.Sprint(base.LSN, newest, upTo, forced, files)
}

// tell says what is in the way of a partition, unless that was the last thing said of it.
func (k *retention) tell(id engine.PartitionID, what string) {
	if k.said[id] != what {
		k.said[id] = what
		k.of.log().Info("history stays for now", "partition", id, "because", what)
	}
}

// sealed are the sealed files of a log, oldest first. After an error they are those before it.
func (k *retention) sealed(ctx context.Context, id engine.PartitionID, p log.Partition) (files []pastFile, err error) {
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
	f := pastFile{partition: id, name: s.File, first: s.First, end: s.End, newest: s.Highest, stored: s.Stored, bodies: int64(s.BodyBytes - s.ErasedBytes)}
	for _, c := range s.Slices {
		f.entities = append(f.entities, c.Slice.Entity)
		if c.BodyBytes > 0 && f.bodies > 0 {
			f.withBodies = append(f.withBodies, c.Slice.Entity)
		}
	}
	f.entities, f.withBodies = slices.Compact(f.entities), slices.Compact(f.withBodies)
	return f
}

// forget lets go of files that are no more.
func (k *retention) forget(there []pastFile) {
	now := make(map[string]pastFile, len(there))
	for _, f := range there {
		now[f.name] = f
	}
	k.files = now
	maps.DeleteFunc(k.later, func(name string, _ event.Time) bool { _, there := now[name]; return !there })
}

// policies is what was said of entities, by id. What is gone has no path: what is said of the namespace, and of every path, holds for it.
func (k *retention) policies() func(event.EntityID) event.HistoryPolicy {
	rules, paths := k.of.HistoryPolicies(), map[event.EntityID]string{}
	for _, e := range k.of.Entities() {
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
func (k *retention) room() (total, need int64) {
	total, free, low, err := k.of.space()
	if err != nil {
		k.of.log().Warn("the disk does not say how much room it has", "error", err)
		return 0, 0
	}
	return total, max(0, 2*low-free)
}
