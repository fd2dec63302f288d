package background

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How bodies that no policy keeps leave the log (docs/decisions/0054): each partition that has some
// gets a round of compaction. All rounds begin by finding out which bodies are needed, so that they
// wait for their readers together.

// retryAfter is how long, ms, a file is left alone after too little of it could be deleted.
const retryAfter = event.Time(3_600_000)

// keptBodies decides which bodies of a partition history keeps.
type keptBodies struct {
	files []bodyPlan // by address
	undo  *removals
	topic func(event.EntityID) bool
}

// plan returns the plan for the file that has an address; nil: there is none.
func (v *keptBodies) plan(at event.LSN) *bodyPlan {
	i := sort.Search(len(v.files), func(i int) bool { return v.files[i].file.end > at })
	if i == len(v.files) || at < v.files[i].file.first {
		return nil
	}
	return &v.files[i]
}

// file returns about how many bytes of a file's bodies are kept, without the bodies that an undo
// could restore.
func (v *keptBodies) file(s *log.Summary) (bytes int64) {
	p := v.plan(s.First)
	if p == nil {
		return int64(s.BodyBytes)
	}
	for i := range s.Slices {
		if c := &s.Slices[i]; !slices.Contains(p.entities, c.Slice.Entity) {
			bytes += int64(c.BodyBytes)
		}
	}
	return bytes
}

func (v *keptBodies) body(b *log.Body) bool {
	p := v.plan(event.LSN(b.Position))
	if p != nil && b.Event == nil { // a file of bodies, which only states need
		return v.undo.any()
	}
	return p == nil || !slices.Contains(p.entities, b.Event.Common().Slice.Entity) || v.undo.keepsBody(b, v.topic)
}

// partitionRound is a started round of a partition.
type partitionRound struct {
	*round
	id engine.PartitionID
}

// dropAll drops the bodies that neither a state nor a policy needs.
func (k *Retention) dropAll(ctx context.Context, logs map[engine.PartitionID]log.Partition, o *outlook, p *plan) {
	plans := map[engine.PartitionID][]bodyPlan{}
	for _, b := range p.bodies {
		if b.file.bodies > 0 && k.isDue(b.file.name, o.now) {
			plans[b.file.partition] = append(plans[b.file.partition], b)
		}
	}
	var rounds []partitionRound
	for id := range engine.PartitionID(64) {
		if len(plans[id]) == 0 || ctx.Err() != nil {
			continue
		}
		slices.SortFunc(plans[id], func(a, b bodyPlan) int { return int(int64(a.file.first) - int64(b.file.first)) })
		r, err := k.beginDropping(ctx, id, logs[id], plans[id], o)
		if err != nil {
			k.reportDrop(ctx, id, CompactionResult{}, err)
		} else if r != nil {
			rounds = append(rounds, partitionRound{r, id})
		}
	}
	var until time.Time
	for _, r := range rounds {
		defer r.end()
		if r.live.after.After(until) {
			until = r.live.after
		}
	}
	for i, r := range rounds {
		var err error
		if i == 0 {
			err = r.rest(ctx, until)
		}
		if err == nil && k.of.Logs()[r.id] != r.log {
			err = loop.NotServing()
		}
		if k.of.HistoryPolicies() != o.rules { // a new policy may keep these bodies
			return
		}
		if err == nil {
			err = r.drop(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		k.postpone(r.out.Little, o.now+retryAfter)
		k.reportDrop(ctx, r.id, r.out, err)
	}
}

// isDue reports whether a file is to be looked at now.
func (k *Retention) isDue(name string, now event.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.retryAt[name] <= now
}

func (k *Retention) postpone(names []string, until event.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		k.retryAt[name] = until
	}
}

// beginDropping starts a round in a partition, and finds out which of its bodies could be restored;
// nil: there is nothing to do.
func (k *Retention) beginDropping(ctx context.Context, id engine.PartitionID, p log.Partition, files []bodyPlan, o *outlook) (*round, error) {
	undo := k.undo[id]
	if undo == nil {
		undo = &removals{}
		k.undo[id] = undo
	}
	topics := map[event.EntityID]bool{}
	for _, e := range k.of.Entities() {
		topics[e.ID] = e.Kind == event.Topic
	}
	keep := &keptBodies{files: files, undo: undo, topic: func(id event.EntityID) bool { return topics[id] }}
	c, err := k.compaction(id, KeepRules{File: keep.file, Body: keep.body})
	if err != nil {
		return nil, err
	}
	_, before := p.Bounds()
	r, err := c.begin(ctx)
	if r == nil {
		return nil, err
	}
	if err == nil && r.anyChosen() {
		if err = k.followUndo(ctx, undo, p, r, before, o); err == nil {
			return r, nil
		}
	}
	r.end()
	return nil, err
}

// followUndo finds out which messages of a partition could be restored.
func (k *Retention) followUndo(ctx context.Context, undo *removals, p log.Partition, r *round, before event.LSN, o *outlook) error {
	window := o.longestUndo()
	if window == event.KeepNone {
		*undo = removals{}
		return nil
	}
	if window != undo.window { // forgotten messages may be in the window now
		*undo = removals{window: window}
	}
	var since event.Time
	if window > 0 {
		since = o.now - event.Time(window)
	}
	if err := undo.follow(ctx, p, since, r.shows, before); err != nil {
		return err
	}
	undo.forget(func(id event.EntityID, at event.Time) bool { return o.undo(id).Over(at, o.now) })
	return nil
}

// reportDrop logs the outcome of a round.
func (k *Retention) reportDrop(ctx context.Context, id engine.PartitionID, out CompactionResult, err error) {
	if out.Files > 0 {
		k.of.Logger().Info("bodies deleted", "partition", id, "bytes", out.Freed, "files", out.Files, "needed", out.Needed, "kept_by_policies", out.Kept,
			"skipped_files", len(out.Little))
	}
	if err == nil {
		err = out.Held
	}
	var refused *engine.Error
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, log.ErrHeld), errors.Is(err, log.ErrClosed), errors.Is(err, log.ErrNoRoom), errors.As(err, &refused):
		k.logObstacle(id, err.Error())
	default:
		k.of.Logger().Error("bodies cannot be deleted", "partition", id, "error", err)
	}
}

// measure finds out how much of the files the states need; that part is no history. Files of
// partitions that do not answer count as history.
func (k *Retention) measure(ctx context.Context, files []pastFile) {
	for len(files) > 0 {
		id := files[0].partition
		n := slices.IndexFunc(files, func(f pastFile) bool { return f.partition != id })
		if n < 0 {
			n = len(files)
		}
		k.measureOne(ctx, id, files[:n])
		files = files[n:]
	}
}

func (k *Retention) measureOne(ctx context.Context, id engine.PartitionID, files []pastFile) {
	c, err := k.compaction(id, KeepRules{})
	if err != nil {
		return
	}
	list := make([]log.SegmentInfo, len(files))
	for i := range files {
		list[i] = log.SegmentInfo{First: files[i].first, End: files[i].end}
	}
	n, err := liveBodiesOf(ctx, c.memory, c.state, list, func(*liveFile) bool { return false })
	defer n.memory.Give()
	if err != nil {
		return
	}
	for i := range files {
		if f := &files[i]; f.bodies > 0 {
			f.live = int64(float64(f.stored) * min(1, float64(n.files[i].bytes)/float64(f.bodies)))
		}
	}
}
