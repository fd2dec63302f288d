package background

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What may go of history, as docs/decisions/0049 says: a function of what footers say of sealed
// files, of the policies, the time and the disk. It opens no file and asks no clock.

// upgradeGrace is how long, ms, history from before an upgrade stays, unless a policy says
// otherwise.
const upgradeGrace = 24 * event.Time(3_600_000)

// shareSlack says how far history falls below its share when it is cut, one part in shareRest of
// it: so not each new file costs a base.
const shareSlack = 16

// pastFile is a sealed file, as its ends describe it.
type pastFile struct {
	partition  engine.PartitionID
	name       string // below the data directory
	first, end event.LSN
	newest     event.Time // of its records
	stored     int64      // bytes on the disk
	bodies     int64      // bytes of bodies that it has
	// about how many of the bytes on the disk the state needs, which are no history
	live int64
	// it is of a chapter that has ended and is not sealed yet: it counts, and cannot go, unless
	// nothing is kept
	pending bool
	// it is there for bodies alone: its events went, and the log begins behind it
	cold       bool
	entities   []event.EntityID
	withBodies []event.EntityID // entities of which it may have bodies that are kept
}

// outlook is all that a plan is made from.
type outlook struct {
	files    []pastFile // of each partition all of them, oldest first
	now      event.Time
	policyOf func(event.EntityID) event.HistoryPolicy // without defaults
	rules    *engine.HistoryPolicies                  // nil: nothing was said
	disk     int64                                    // bytes that it has in all; 0: nobody knows
	// bytes of checkpoints, which are part of history
	saved int64
	// where there are checkpoints that a base can be made of, ascending
	bases     map[engine.PartitionID][]event.LSN
	graceless bool // as if there had been no upgrade
	// bytes that are to be given back since it has little room; 0: it has enough
	need int64
}

// plan is what may go now.
type plan struct {
	cuts   map[engine.PartitionID]event.LSN // the events below go, by whole files
	bodies []bodyPlan                       // which bodies go, oldest first
	// and which do from files that may go whole, where those cannot be cut yet
	uncut  []bodyPlan
	forced map[engine.PartitionID]event.CutCause // why more goes than retentions let go
	bytes  int64                                 // of the files that may go whole
	// of chapters that would go, and are not sealed yet
	pending int64
	// what keeps the next file of a partition, one line for each
	held []string
}

// bodyPlan is a file, and the entities whose bodies may go from it where nobody needs them.
type bodyPlan struct {
	file     pastFile
	entities []event.EntityID
}

// idle reports whether nothing can go, whatever files there are, so that nobody needs to look at
// them.
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

// limit is how much all history may take, bytes; 0: no bound.
func (o *outlook) limit() int64 {
	share := o.rules.Whole().Share
	if share >= 100 || o.disk <= 0 {
		return 0
	}
	return o.disk / 100 * int64(share)
}

// isSpared reports whether a file stays although history takes more than its share: it is from
// before an upgrade, and nobody has said what the share is.
func (o *outlook) isSpared(f *pastFile) bool {
	said := o.rules != nil && o.rules.Namespace != nil && o.rules.Namespace.Share != 0
	return !said && o.grace() && f.newest < o.rules.Since
}

// overBudget reports whether more has to go than policies say, if all there is were history.
func (o *outlook) overBudget() bool {
	all := o.saved
	for i := range o.files {
		all += o.files[i].stored
	}
	limit := o.limit()
	return o.need > 0 || limit > 0 && all > limit
}

// grace reports whether the upgrade was so recent that only policies which were set, no defaults,
// hold for what is older.
func (o *outlook) grace() bool {
	return !o.graceless && o.rules != nil && o.now < o.rules.Since+upgradeGrace
}

// mayDelete reports whether something of a file that lost its use no later than the file's newest
// record may go: said is its retention, 0 where nobody said one.
func (o *outlook) mayDelete(said, byDefault event.Retention, f *pastFile) bool {
	if said == 0 && o.grace() && f.newest < o.rules.Since {
		return false
	}
	return cmp.Or(said, byDefault).Over(f.newest, o.now)
}

// keptBecause says what keeps the events of a file: the entity and its retention; "": nothing does.
func (o *outlook) keptBecause(f *pastFile) string {
	byDefault, entities := index.DefaultHistory.Policy, f.entities
	if len(entities) == 0 { // it has no events, and what is kept of nobody is the namespace's
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

// retentionText says for how long something of a file is kept that may not go.
func (o *outlook) retentionText(said, byDefault event.Retention, f *pastFile) string {
	if r := cmp.Or(said, byDefault); !r.Over(f.newest, o.now) {
		return r.String()
	}
	return "for a day after the upgrade"
}

// undo is how long what was removed of an entity may be wanted back.
func (o *outlook) undo(id event.EntityID) event.Retention {
	return cmp.Or(o.policyOf(id).Undo, index.DefaultHistory.Policy.Undo)
}

// longestUndo is the longest of them.
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

// plan says what may go.
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

// keepsNothing reports whether nothing that is over is kept, of whatever entity. Then chapters go
// as they are: which entities they are about does not matter, nor how old they are.
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

// planPending counts what of a chapter would go if it were sealed. Which entities it is about is
// not known: the policy of the namespace counts.
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

// bytesFreed is about how many bytes go: the sizes of files that go whole, and of bodies the sizes
// before compression.
func (p *plan) bytesFreed() (bytes int64) {
	bytes = p.bytes + p.pending
	for _, b := range p.bodies {
		if f := &b.file; f.stored > 0 {
			bytes += min(f.historyBytes(), f.bodies-int64(float64(f.bodies)*float64(f.live)/float64(f.stored)))
		}
	}
	return bytes
}

// isUrgent reports whether what may go is to go as soon as it can.
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

// historyBytes is how many bytes of a file are history.
func (f *pastFile) historyBytes() int64 { return max(0, f.stored-f.live) }

// planBodies adds what bodies of a file may go whose messages are over. Of what was removed, and
// could be wanted back, the undo window counts as well; the round that drops bodies finds out which
// those are. A body whose events went with the history in front of the base is of no use to
// anybody.
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

// makeRoom adds files, the oldest first, whatever retentions say, until history takes no more than
// its share and the disk has what it needs. What could be undone goes last.
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

// upToBase is the first of some files, with those behind it in its partition that have to go as
// well: up to the next place where a base can be made. Without them nothing would go. Where there
// is no such place yet, it is the one file.
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
