package background

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Which history to delete (docs/decisions/0049): a function of the footers of sealed files, the
// policies, the time and the disk. It opens no file and reads no clock.

// upgradeGrace is how long, ms, history from before an upgrade stays, unless a policy says
// otherwise.
const upgradeGrace = 24 * event.Time(3_600_000)

// shareSlack says how far history falls below its share in a cut, one part in shareSlack of the
// share, so that not every new file costs a base.
const shareSlack = 16

// pastFile describes a sealed file, as read from its header and footer.
type pastFile struct {
	partition  engine.PartitionID
	name       string // below the data directory
	first, end event.LSN
	newest     event.Time // of its newest record
	stored     int64      // bytes on the disk
	bodies     int64      // bytes of the bodies in it
	// about how many bytes of the file the state needs; they are no history
	live int64
	// the chapter has ended but is not sealed: it counts, and can be deleted only if no history is
	// kept
	pending bool
	// kept for its bodies alone: its events are deleted, and the log begins after it
	cold       bool
	entities   []event.EntityID
	withBodies []event.EntityID // entities whose bodies it may have
}

// outlook is the input of a plan.
type outlook struct {
	files    []pastFile // all files of each partition, oldest first
	now      event.Time
	policyOf func(event.EntityID) event.HistoryPolicy // policy without defaults
	rules    *engine.HistoryPolicies                  // nil: there are no policies
	disk     int64                                    // size in bytes; 0: unknown
	// bytes of checkpoints, which are part of history
	saved int64
	// checkpoints that a base can be made of, ascending
	bases     map[engine.PartitionID][]event.LSN
	graceless bool // ignores the grace after an upgrade
	// bytes to free because the disk has little room; 0: it has enough
	need int64
}

// plan says what may be deleted now.
type plan struct {
	cuts   map[engine.PartitionID]event.LSN // events before this LSN are deleted, by whole files
	bodies []bodyPlan                       // bodies to delete, oldest first
	// bodies to delete from files that may be deleted whole but cannot be cut yet
	uncut  []bodyPlan
	forced map[engine.PartitionID]event.CutCause // why more is deleted than retentions allow
	bytes  int64                                 // size of the files that may be deleted whole
	// bytes of chapters that would be deleted if they were sealed
	pending int64
	// what keeps the next file of each partition, one line each
	held []string
}

// bodyPlan names a file, and the entities whose unneeded bodies may be deleted from it.
type bodyPlan struct {
	file     pastFile
	entities []event.EntityID
}

// idle reports whether nothing can be deleted, whatever files there are, so that no file has to be
// read.
func (o *outlook) idle() bool {
	if o.need > 0 || o.limit() > 0 {
		return false
	}
	all := []event.HistoryPolicy{o.rules.Whole().Policy}
	if o.rules != nil {
		for _, p := range o.rules.Patterns {
			all = append(all, p.Policy)
		}
	}
	return !slices.ContainsFunc(all, func(p event.HistoryPolicy) bool {
		return p.Events != 0 && p.Events != event.KeepForever || p.Bodies != 0 && p.Bodies != event.KeepForever
	})
}

// limit returns how many bytes all history may take; 0: no bound.
func (o *outlook) limit() int64 {
	share := o.rules.Whole().Share
	if share >= 100 || o.disk <= 0 {
		return 0
	}
	return o.disk / 100 * int64(share)
}

// isSpared reports whether a file stays although history exceeds its share: the file is from before
// an upgrade, and no share was set.
func (o *outlook) isSpared(f *pastFile) bool {
	said := o.rules != nil && o.rules.Namespace != nil && o.rules.Namespace.Share != 0
	return !said && o.grace() && f.newest < o.rules.Since
}

// overBudget reports whether more has to be deleted than policies allow, if everything there is
// counts as history.
func (o *outlook) overBudget() bool {
	all := o.saved
	for i := range o.files {
		all += o.files[i].stored
	}
	limit := o.limit()
	return o.need > 0 || limit > 0 && all > limit
}

// grace reports whether the upgrade was so recent that only explicit policies, and no defaults,
// apply to history from before it.
func (o *outlook) grace() bool {
	return !o.graceless && o.rules != nil && o.now < o.rules.Since+upgradeGrace
}

// mayDelete reports whether history of a file may be deleted, if it lost its use no later than the
// file's newest record. said is its explicit retention; 0: none.
func (o *outlook) mayDelete(said, byDefault event.Retention, f *pastFile) bool {
	if said == 0 && o.grace() && f.newest < o.rules.Since {
		return false
	}
	return cmp.Or(said, byDefault).Over(f.newest, o.now)
}

// keptBecause returns what keeps the events of a file: the entity and its retention; "": nothing.
func (o *outlook) keptBecause(f *pastFile) string {
	byDefault, entities := index.DefaultHistory.Policy, f.entities
	if len(entities) == 0 { // without events, the retention of the namespace decides
		entities = []event.EntityID{0}
	}
	for _, id := range entities {
		p := o.policyOf(id)
		if !o.mayDelete(p.Events, byDefault.Events, f) {
			return fmt.Sprintf("events of entity %d, kept %s", id, o.retentionText(p.Events, byDefault.Events, f))
		}
		if !o.mayDelete(p.Undo, byDefault.Undo, f) {
			return fmt.Sprintf("undo of entity %d, kept %s", id, o.retentionText(p.Undo, byDefault.Undo, f))
		}
	}
	return ""
}

// retentionText returns for how long history of a file is kept that may not be deleted yet.
func (o *outlook) retentionText(said, byDefault event.Retention, f *pastFile) string {
	if r := cmp.Or(said, byDefault); !r.Over(f.newest, o.now) {
		return r.String()
	}
	return "for a day after the upgrade"
}

// undo returns how long removed messages of an entity can be restored.
func (o *outlook) undo(id event.EntityID) event.Retention {
	return cmp.Or(o.policyOf(id).Undo, index.DefaultHistory.Policy.Undo)
}

// longestUndo returns the longest undo window of any entity.
func (o *outlook) longestUndo() event.Retention {
	window := o.rules.Whole().Policy.Undo
	if o.rules != nil {
		for _, p := range o.rules.Patterns {
			if p.Policy.Undo != 0 {
				window = window.Longer(p.Policy.Undo)
			}
		}
	}
	return window
}

// inUndoWindow reports whether a file is in the undo window of an entity.
func (o *outlook) inUndoWindow(f *pastFile) bool {
	return slices.ContainsFunc(f.entities, func(id event.EntityID) bool {
		return !o.undo(id).Over(f.newest, o.now)
	})
}

// plan returns what may be deleted.
func (o *outlook) plan() plan {
	p := plan{cuts: map[engine.PartitionID]event.LSN{}, forced: map[engine.PartitionID]event.CutCause{}}
	stopped, whole := map[engine.PartitionID]bool{}, o.keepsNothing()
	for i := range o.files {
		f := &o.files[i]
		if f.pending {
			if whole && !stopped[f.partition] {
				p.cut(f)
			} else {
				o.planPending(&p, f)
			}
			continue
		}
		if !stopped[f.partition] && !f.cold {
			if why := o.keptBecause(f); why == "" {
				p.cut(f)
			} else {
				stopped[f.partition] = true
				p.held = append(p.held, fmt.Sprintf("partition %d: %s: %s", f.partition, f.name, why))
			}
		}
		o.planBodies(&p, f)
	}
	o.makeRoom(&p)
	p.bodies = slices.DeleteFunc(p.bodies, func(b bodyPlan) bool {
		whole := !b.file.cold && b.file.end <= p.cuts[b.file.partition]
		if whole {
			p.uncut = append(p.uncut, b)
		}
		return whole
	})
	slices.SortStableFunc(p.bodies, func(a, b bodyPlan) int { return cmp.Compare(a.file.newest, b.file.newest) })
	return p
}

// keepsNothing reports whether every retention setting is "none". Then chapters are deleted whole,
// whatever their entities and their age.
func (o *outlook) keepsNothing() bool {
	if o.rules == nil {
		return false
	}
	none := func(r event.Retention) bool { return r == event.KeepNone }
	whole := o.rules.Whole().Policy
	return none(whole.Events) && none(whole.Undo) && !slices.ContainsFunc(o.rules.Patterns, func(p index.PatternPolicy) bool {
		return p.Policy.Events != 0 && !none(p.Policy.Events) || p.Policy.Undo != 0 && !none(p.Policy.Undo)
	})
}

// planPending counts how much of a chapter would be deleted if it were sealed. Its entities are not
// known, so the policy of the namespace counts.
func (o *outlook) planPending(p *plan, f *pastFile) {
	whole := o.rules.Whole().Policy
	var said event.HistoryPolicy
	if o.rules != nil && o.rules.Namespace != nil {
		said = o.rules.Namespace.Policy
	}
	if o.mayDelete(said.Events, whole.Events, f) && o.mayDelete(said.Undo, whole.Undo, f) || o.mayDelete(said.Bodies, whole.Bodies, f) {
		p.pending += f.historyBytes()
	}
}

// bytesFreed returns about how many bytes are freed: the sizes of whole files, and the sizes of
// bodies before compression.
func (p *plan) bytesFreed() (bytes int64) {
	bytes = p.bytes + p.pending
	for _, b := range p.bodies {
		if f := &b.file; f.stored > 0 {
			bytes += min(f.historyBytes(), f.bodies-int64(float64(f.bodies)*float64(f.live)/float64(f.stored)))
		}
	}
	return bytes
}

// isUrgent reports whether history is to be deleted as soon as possible.
func (o *outlook) isUrgent() bool {
	if o.need > 0 {
		return true
	}
	short := func(r event.Retention) bool { return r == event.KeepNone || r > 0 && r < shortRetention }
	if short(o.rules.Whole().Policy.Events) {
		return true
	}
	if o.rules != nil {
		for _, p := range o.rules.Patterns {
			if short(p.Policy.Events) {
				return true
			}
		}
	}
	all := o.saved
	for i := range o.files {
		all += o.files[i].stored
	}
	limit := o.limit()
	return limit > 0 && all > limit-limit/shareNear
}

func (p *plan) cut(f *pastFile) {
	p.cuts[f.partition] = max(p.cuts[f.partition], f.end)
	p.bytes += f.historyBytes()
}

// historyBytes returns how many bytes of a file are history.
func (f *pastFile) historyBytes() int64 { return max(0, f.stored-f.live) }

// planBodies plans to delete the bodies of settled messages in a file. For removed messages the
// undo window counts as well; the round that drops bodies finds out which those are. A body whose
// events were deleted with the history before the base has no use.
func (o *outlook) planBodies(p *plan, f *pastFile) {
	b := bodyPlan{file: *f}
	for _, id := range f.withBodies {
		if f.cold || o.mayDelete(o.policyOf(id).Bodies, index.DefaultHistory.Policy.Bodies, f) {
			b.entities = append(b.entities, id)
		}
	}
	if len(b.entities) > 0 {
		p.bodies = append(p.bodies, b)
	}
}

// makeRoom adds files, the oldest first and regardless of retentions, until history is within its
// share and the disk has the room it needs. Files in an undo window are added last.
func (o *outlook) makeRoom(p *plan) {
	all := o.saved
	for i := range o.files {
		all += o.files[i].historyBytes()
	}
	low, over := o.need-p.bytes, int64(0)
	if o.rules.Whole().BeforeSends {
		low = 0
	}
	if limit := o.limit(); limit > 0 && all > limit {
		over = all - limit + limit/shareSlack - p.bytes
	}
	rest := slices.DeleteFunc(slices.Clone(o.files), func(f pastFile) bool { return f.cold || f.pending || f.end <= p.cuts[f.partition] })
	slices.SortStableFunc(rest, func(a, b pastFile) int { return cmp.Compare(a.newest, b.newest) })
	for _, undone := range []bool{false, true} {
		stopped := map[engine.PartitionID]bool{} // a log has one beginning
		for i := range rest {
			f := &rest[i]
			switch {
			case low <= 0 && over <= 0:
				return
			case stopped[f.partition] || f.end <= p.cuts[f.partition]:
			default:
				with := o.upToBase(rest[i:])
				if !undone && slices.ContainsFunc(with, func(f pastFile) bool { return o.inUndoWindow(&f) }) ||
					low <= 0 && slices.ContainsFunc(with, func(f pastFile) bool { return o.isSpared(&f) }) {
					stopped[f.partition] = true
					continue
				}
				if p.forced[f.partition] = event.CutForShare; low > 0 {
					p.forced[f.partition] = event.CutForRoom
				}
				for j := range with {
					p.cut(&with[j])
					low, over = low-with[j].historyBytes(), over-with[j].historyBytes()
				}
			}
		}
	}
}

// upToBase returns the first of some files, and the files after it in its partition that have to be
// deleted together with it. They reach up to the next place where a base can be made; without them
// the cut would delete nothing. If there is no such place yet, it returns the one file.
func (o *outlook) upToBase(files []pastFile) []pastFile {
	id := files[0].partition
	at, _ := slices.BinarySearch(o.bases[id], files[0].end)
	if at == len(o.bases[id]) {
		return files[:1]
	}
	base := o.bases[id][at]
	var with []pastFile
	for _, f := range files {
		if f.partition != id {
			continue
		}
		if with = append(with, f); f.end >= base {
			return with
		}
	}
	return files[:1]
}
