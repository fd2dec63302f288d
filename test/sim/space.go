package sim

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// History is given back while everything goes on, in most of the worlds that seal: bases are made,
// files that end before them removed, and bodies dropped that no state needs (docs/decisions/0048
// to 0050), by policies that change. The steps are those of the broker (background.Retention), and
// a crash comes in the middle of them as of anything else. The oracle is not told of any of it:
// whatever is asked of a log is asked of one that has lost its history. What may go is worked out
// here once more, from records.

// spacing is what gives history back; its zero value does nothing.
type spacing struct {
	rng    *rand.Rand   // nil: nothing ever
	said   *index.Index // that knows of policies alone
	since  int64        // when the first one was said
	round  *round       // that has begun
	total  int64        // bytes of the disk, as the broker sees it; 0: nobody knows
	errors int64        // of the file system, before this run
	died   bool         // the process did, in the middle of it
	sealed bool         // the process died while it sealed a chapter
	need   bool         // the disk has little room, as the broker sees it

	forRoom bool // history was cut for want of it, in this run
	unsaid  bool // history was cut before its time, and the log is not told yet
}

// round is one look at all of history, which waits.
type round struct {
	resume func() (struct{}, bool)
	stop   func()
}

// addSpace has history given back in most of the worlds that seal.
func (o *options) addSpace(rng *rand.Rand) {
	if o.sealAfter == 0 || rng.IntN(5) == 0 {
		return
	}
	o.spacing, o.eager = pick(rng, 2, 10, 30), rng.IntN(3) != 0
	o.chapterBytes = pick(rng, 1, 1, 2<<10, 8<<10)
	if o.checkpointBytes < 0 || rng.IntN(2) == 0 {
		o.checkpointBytes = pick[int64](rng, 1, 2<<10, 16<<10)
	}
}

// space goes on with giving history back, begins it, or changes what is said of it.
func (w *world) space() {
	s := &w.spaces
	if s.rng == nil || w.gone() || w.ended || s.rng.IntN(100) >= w.o.spacing {
		return
	}
	if s.round == nil {
		if s.said == nil || s.rng.IntN(5) == 0 {
			w.sayHistory()
		}
		s.round = w.newRound()
	}
	if w.armed == 0 && s.rng.IntN(100) < w.o.dying {
		w.armed = 1 + s.rng.IntN(pick(s.rng, 10, 100, 400))
	}
	_, goesOn := s.round.resume()
	if !goesOn {
		s.round = nil
	}
	if w.gone() {
		w.stats.DiedInSpace++
		s.died = true
	} else if w.o.dying > 0 {
		w.armed = 0
	}
	w.ifStopped()
}

// never is how much a log has to grow for a checkpoint where none is to be made, while the seed
// draws the same random numbers as where some are.
const never = 1 << 40

// steady makes everything that was done durable.
func (w *world) steady() {
	if !w.o.steady {
		return
	}
	for _, p := range w.running() {
		if p.loop != nil && !w.gone() && !p.writer.hangs {
			w.settle(p)
		}
	}
	w.hist.inOrder()
	w.ifStopped()
}

// stopSpace ends what has begun, because the process ends.
func (w *world) stopSpace() {
	if r := w.spaces.round; r != nil {
		w.spaces.round = nil
		r.stop()
	}
}

func (w *world) newRound() *round {
	var r round
	ctx, cancel := context.WithCancel(context.Background())
	r.resume, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer cancel()
		g := grounds{w, func() bool { return yield(struct{}{}) && !w.gone() }}
		h := background.NewRetention(g)
		h.Cut, h.Rest = w.cut, g.rest
		h.Look(ctx)
		if w.spaces.unsaid && !w.gone() {
			w.broken("space", "history was cut before its time, and the log is not told")
		}
		for _, p := range w.parts {
			if w.gone() || !yield(struct{}{}) || w.gone() {
				return
			}
			if !p.away && p.plog != nil {
				w.dropBodies(ctx, h, p)
			}
		}
	})
	return &r
}

// sayHistory changes what is said of how long history is kept.
func (w *world) sayHistory() {
	s := &w.spaces
	if s.said == nil {
		s.said, s.since = index.New(), w.newest
	}
	keep := func() event.Retention {
		return pick(s.rng, 0, event.KeepNone, event.KeepNone, event.KeepForever, event.KeepFor(5*time.Millisecond), event.KeepFor(time.Second), event.KeepFor(time.Minute))
	}
	ev := event.HistoryPolicySet{Policy: event.HistoryPolicy{Events: keep(), Bodies: keep(), Undo: keep()}}
	switch living := w.living(); {
	case len(living) > 0 && s.rng.IntN(3) == 0:
		path := pick(s.rng, living...).path
		ev.Pattern = pick(s.rng, "*", path, path[:1]+"*", "*"+path[len(path)-1:], "queue*", "topic*")
		ev.Removed = s.rng.IntN(3) == 0
	case s.rng.IntN(2) == 0:
		ev.Policy = event.HistoryPolicy{Events: event.KeepNone, Bodies: event.KeepNone, Undo: event.KeepNone}
	}
	if ev.Pattern == "" {
		ev.Share = pick[uint32](s.rng, 0, 100, 100, 10)
		ev.BeforeSends = s.rng.IntN(4) == 0
		s.total, s.need = pick[int64](s.rng, 0, 0, 100<<10, 1<<20), s.rng.IntN(8) == 0
	}
	if ev.Removed && (ev.Pattern == "" || s.said.Catalogue.History() == nil) {
		ev.Removed = false
	}
	s.said.Apply(event.Time(w.newest), &ev)
	w.note("policy", int64(ev.Policy.Events), int64(ev.Policy.Bodies), int64(ev.Policy.Undo))
}

// logs are those of the partitions that serve.
func (w *world) logs() map[engine.PartitionID]log.Partition {
	logs := map[engine.PartitionID]log.Partition{}
	for _, p := range w.running() {
		if p.loop != nil && !p.failed() {
			logs[engine.PartitionID(p.id)] = p.plog
		}
	}
	return logs
}

func (w *world) entities() (all []*engine.Entity) {
	for _, q := range w.living() {
		if q.entity != nil {
			all = append(all, q.entity)
		}
	}
	return all
}

// room is what the broker is told of its disk.
func (w *world) room() (total, free, low int64, err error) {
	s := &w.spaces
	if free, low = s.total, s.total/10; s.need {
		free = 0
	}
	return s.total, free, low, nil
}

// hurryHistory has chapters of a partition that end at an LSN or before sealed as soon as they have
// ended.
func (w *world) hurryHistory(id engine.PartitionID, on bool, upTo event.LSN) {
	p := w.parts[id]
	if p.plog == nil || w.gone() {
		return
	}
	p.plog.(log.Sealer).Hurry(upTo)
	w.stats.Hurries += int64(bit(on))
}

// noteCut has the catalogue's log say that history went before its time, unless the process dies
// first.
func (w *world) noteCut(fact *event.HistoryCut) error {
	if w.gone() {
		return faultfs.ErrCrashed
	}
	if !w.spaces.unsaid || fact.Bytes == 0 || fact.Cause == 0 {
		w.broken("space", "the log is told of a cut that was none: %+v", fact)
	}
	w.spaces.unsaid = false
	if p := w.parts[0]; !w.o.untold && p.loop != nil {
		w.stats.CutsTold++
		p.inbox = append(p.inbox, &ask{op: opCut, tag: w.tag(), cmd: &engine.Note{Fact: fact}})
	}
	return nil
}

// cut has history before an address removed.
func (w *world) cut(ctx context.Context, l log.Partition, upTo event.LSN, forced bool) (freed int64, err error) {
	p := w.parts[l.ID()]
	if w.gone() {
		return 0, faultfs.ErrCrashed
	}
	if p.plog != l { // it came back while history was looked at
		return 0, log.ErrClosed
	}
	if !forced {
		w.mayGo(p, upTo)
	}
	w.spaces.forRoom = w.spaces.forRoom || forced && w.spaces.need
	was, _ := p.plog.(log.Bases).Base()
	files := p.plog.Segments()
	freed, err = replay.Cut(ctx, l, upTo, forced || w.o.eager)
	w.spaces.unsaid = w.spaces.unsaid || forced && freed > 0
	if is, _ := p.plog.(log.Bases).Base(); is.LSN != was.LSN {
		w.stats.Bases++
		w.note("base", int64(p.id), int64(is.LSN))
	}
	if freed > 0 {
		w.countOfBodies(p, files)
		w.stats.FilesCut++
		w.note("cut", int64(p.id), freed)
	}
	if first, _ := p.plog.Bounds(); err == nil && first > upTo {
		w.broken("space", "partition %d: the log begins at %d, it was to keep all from %d on", p.id, first, upTo)
	}
	w.gaveBack(p, "cut", err)
	return freed, err
}

// countOfBodies counts the files of bodies that a partition has, and had not before: the others are
// of the first version.
func (w *world) countOfBodies(p *part, before []log.SegmentInfo) {
	for _, s := range p.plog.Segments() {
		if s.Sealed == 0 || slices.ContainsFunc(before, func(b log.SegmentInfo) bool { return b.File == s.File }) {
			continue
		}
		if is, err := w.disk.ReadFile(filepath.Join(root, s.File)); err == nil && len(is) > 5 && is[4] == 2 {
			w.stats.FilesOfBodies++
			w.note("file of bodies", int64(p.id), int64(s.First))
		}
	}
}

// gaveBack checks that a step ends with an error only for a reason.
func (w *world) gaveBack(p *part, what string, err error) {
	var refusal *engine.Error
	switch {
	case err == nil, w.gone(), p.faulted:
	case errors.Is(err, log.ErrTooLittle), errors.Is(err, log.ErrHeld), errors.As(err, &refusal), errors.Is(err, log.ErrClosed):
	default:
		w.broken("space", "partition %d: %s: %v", p.id, what, err)
	}
}

// mayGo checks that no policy keeps an event before an address.
func (w *world) mayGo(p *part, upTo event.LSN) {
	// reading the log here is no part of the run: it meets no faults
	armed, failing := w.armed, w.failing
	w.armed, w.failing = 0, 0
	defer func() { w.armed, w.failing = armed, failing }()
	first, _ := p.plog.Bounds()
	for rec, err := range replay.Records(context.Background(), p.plog, first) {
		if errors.Is(err, faultfs.ErrCrashed) {
			return
		}
		if err != nil {
			w.broken("F4", "partition %d: %v", p.id, err)
		}
		if rec.LSN >= upTo {
			return
		}
		for _, ev := range rec.Events {
			id := ev.Common().Slice.Entity
			said := w.policyOf(id)
			if now := event.Time(w.newest); id != 0 && !(said.Events.Over(rec.At, now) && said.Undo.Over(rec.At, now)) {
				w.broken("space", "partition %d: %v of entity %d at %d is to be removed at %d, and is kept: events %v, undo %v", p.id, ev.Kind(), id, rec.At, now, said.Events, said.Undo)
			}
		}
	}
}

// policyOf is the policy of an entity; for one that is gone, that of the namespace.
func (w *world) policyOf(id event.EntityID) event.HistoryPolicy {
	path := ""
	if e := w.byID(id); e != nil {
		path = e.Path
	}
	return w.spaces.said.Catalogue.HistoryPolicy(path)
}

// dropBodies drops the bodies of a partition that nobody needs and no policy keeps.
func (w *world) dropBodies(ctx context.Context, h *background.Retention, p *part) {
	now := event.Time(w.newest)
	out, err := h.DropBodies(ctx, engine.PartitionID(p.id), background.KeepRules{Body: func(b *log.Body) bool {
		if b.Event == nil { // of a file of bodies: history keeps none of them
			return false
		}
		said := w.policyOf(b.Event.Common().Slice.Entity)
		return !said.Bodies.Over(b.At, now) || !said.Undo.Over(b.At, now)
	}})
	if out.Files > 0 {
		w.stats.FilesRevised += int64(out.Files)
		w.note("bodies dropped", int64(p.id), int64(out.Files))
	}
	if w.gone() || p.plog == nil || p.away {
		return
	}
	w.gaveBack(p, "bodies", err)
}

// erased reports whether the body of a message that a client is shown may be gone: if history was
// cut for want of room, nothing that no row points to need be left by the time it reads.
func (p *part) erased(b event.Blob, err error) bool {
	if !p.w.spaces.forRoom || !errors.Is(err, event.ErrErased) || p.state == nil {
		return false
	}
	s := p.state.Index().Snapshot()
	defer s.Close()
	for is := range s.Blobs() {
		if is.Position == b.Position {
			return false
		}
	}
	p.w.stats.LateReads++
	return true
}

// ended reports whether a message ended, lock and all, while it was on its way to its receiver, and
// history has given its body back since: its entity was deleted. The connection lets go of such a
// delivery.
func (p *part) ended(d *engine.Delivery) bool {
	if d.Token == (event.LockToken{}) || p.state == nil {
		return false
	}
	if _, held := p.state.Index().Lock(d.Token); held {
		return false
	}
	for _, b := range append([]event.Blob{d.Body}, d.Changes...) {
		if _, err := p.plog.ReadBlob(b, nil); errors.Is(err, event.ErrErased) {
			p.w.stats.LateReads++
			return true
		}
	}
	return false
}

// records is how many records a log that was just recovered has ever had, including those that were
// cut.
func (p *part) records() int {
	if b, ok := p.plog.(log.Bases); ok {
		if _, ok := b.Base(); ok {
			first, _ := p.plog.Bounds()
			n := p.before(first)
			for f, err := range p.plog.Read(context.Background(), first) {
				if err != nil {
					break // whoever replays it finds it, too
				}
				n += int(f.Count)
			}
			return n
		}
	}
	return int(p.plog.Recovery().Records)
}

// before is how many records there were below an address that the log knows.
func (p *part) before(lsn event.LSN) (n int) {
	for _, f := range p.ends {
		if f.end <= lsn {
			n = max(n, f.upto)
		}
	}
	return n
}

// tidy looks at a disk that was left in order, as tools do: all of it is good, and there is nothing
// that the manifests do not name.
func (w *world) tidy() {
	if w.spaces.rng == nil || w.stats.IOErrors != w.spaces.errors || w.o.refuses || w.spaces.rng.IntN(4) != 0 {
		return
	}
	disk := w.disk.Clone()
	store, err := log.Open(context.Background(), root, log.Options{FS: disk, ReadOnly: true, Thorough: true, Manual: true})
	if err != nil {
		w.broken("space", "a thorough look at what was stopped in order: %v", err)
	}
	defer store.Close()
	for _, p := range w.parts {
		l, err := store.Open(context.Background(), log.PartitionID(p.id))
		if err != nil {
			w.broken("space", "partition %d: a thorough look at what was stopped in order: %v", p.id, err)
		}
		var listed []string
		for _, s := range l.Segments() {
			listed = append(listed, filepath.Join(root, s.File))
		}
		if b, ok := l.(log.Bases).Base(); ok {
			listed = append(listed, filepath.Join(root, b.File))
		}
		for _, name := range disk.Files(p.folder()) {
			dir := filepath.Base(filepath.Dir(name))
			if (dir == "sealed" || dir == "base" || strings.Contains(name, "/wal/")) && !slices.Contains(listed, name) {
				w.broken("space", "partition %d: %s is left, and no manifest names it", p.id, name)
			}
		}
	}
	w.stats.Tidied++
}
