package background

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// historyEvery is the interval at which a broker looks for history to delete.
	historyEvery = time.Minute
	// hurryEvery is the interval at which it checks for news while there is a hurry.
	hurryEvery = 250 * time.Millisecond
)

// shortRetention is the retention of events from which history is in no hurry. It is also in no
// hurry until it is within one part in shareNear of its share.
const (
	shortRetention = event.Retention(600_000)
	shareNear      = 8
)

// Retention deletes history that no policy keeps (docs/decisions/0049). One goroutine of the broker
// runs it, one step after the other. Every step is an operation of the log that can be killed at
// any point, so a Retention has no lasting state. At most one more goroutine drops bodies: it waits
// for readers, which the removal of whole files need not do.
type Retention struct {
	// Cut removes history, as [replay.Cut] does; tests wrap it.
	Cut func(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error)
	// Rest waits until a time; tests do not wait.
	Rest func(ctx context.Context, until time.Time) error

	// set once in NewRetention
	of RetentionEnv

	files  map[string]pastFile                       // by name: sealed files do not change
	usable map[engine.PartitionID]map[event.LSN]bool // whether a base can be made of a checkpoint
	// the cutState with which a cut failed
	failedAt map[engine.PartitionID]string
	began    bool // the amounts were announced in the log
	// chapters are sealed at once, and checkpoints follow each other closely
	hurry bool
	seen  string // fingerprint of the logs at the last look
	// runs a function in another goroutine, or at once
	aside func(func())

	undo map[engine.PartitionID]*removals // owned by the goroutine that drops bodies

	mu sync.Mutex // guards the fields below
	// by name: when to look again at a file that was not worth rewriting
	retryAt map[string]event.Time
	// obstacle that was logged last for a partition, so that it is logged once
	obstacles      map[engine.PartitionID]string
	droppingBodies bool // a goroutine drops bodies
}

// RetentionEnv is what a [Retention] reads and works on: a broker, or the simulation's replacement.
type RetentionEnv interface {
	Now() event.Time
	Logger() *slog.Logger
	Memory() log.Memory
	HistoryPolicies() *engine.HistoryPolicies
	Entities() []*engine.Entity
	// Logs returns the logs of the partitions that serve.
	Logs() map[engine.PartitionID]log.Partition
	// Space returns the size of the disk, its free bytes, and the number of free bytes below which
	// it has little room. All are 0 if they are unknown.
	Space() (total, free, low int64, err error)
	// State calls look with a durable state of a partition, and with the bodies that were unread
	// when the state was taken.
	State(ctx context.Context, id engine.PartitionID, look func(s *index.Snapshot, unread []event.Blob) error) error
	// Unread returns the bodies of a partition that are still to be read.
	Unread(ctx context.Context, id engine.PartitionID) ([]event.Blob, error)
	// Hurry turns frequent checkpoints of a partition on or off. It also makes chapters that end at
	// an LSN or before be sealed as soon as they have ended.
	Hurry(id engine.PartitionID, on bool, upTo event.LSN)
	// NoteCut records a deletion of history in the catalogue's log.
	NoteCut(ctx context.Context, fact *event.HistoryCut) error
}

// NewRetention returns a Retention. It remembers nothing that a new one would not find out.
func NewRetention(of RetentionEnv) *Retention {
	return &Retention{of: of, Cut: replay.Cut, Rest: restUntil, files: map[string]pastFile{}, obstacles: map[engine.PartitionID]string{}, failedAt: map[engine.PartitionID]string{},
		usable: map[engine.PartitionID]map[event.LSN]bool{},
		undo:   map[engine.PartitionID]*removals{}, retryAt: map[string]event.Time{}, aside: func(do func()) { do() }}
}

// Run looks at once and then at intervals, until the context ends.
func (k *Retention) Run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	k.aside = func(do func()) { beside.Go(do) }
	ticker := time.NewTicker(hurryEvery)
	defer ticker.Stop()
	var next time.Time
	for ctx.Err() == nil {
		now := time.Now()
		if _, need := k.diskNeed(); !now.Before(next) || need > 0 && !k.hurry || k.hurry && k.hasNews() {
			k.Look(ctx)
			next = now.Add(historyEvery)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// hasNews reports whether the logs have changed since the last look: a sealed file, a checkpoint, a
// chapter that has ended.
func (k *Retention) hasNews() bool { return k.fingerprint(k.of.Logs()) != k.seen }

func (k *Retention) fingerprint(logs map[engine.PartitionID]log.Partition) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		list := logs[id].Segments()
		if len(list) == 0 {
			continue
		}
		var newest event.LSN
		if c := logs[id].Checkpoints(); len(c) > 0 {
			newest = c[0].LSN
		}
		sealed := 0
		for _, s := range list {
			if s.Sealed > 0 {
				sealed++
			}
		}
		fmt.Fprint(&b, id, " ", len(list), " ", sealed, " ", list[0].First, " ", list[len(list)-1].First, " ", newest, "; ")
	}
	return b.String()
}

// Look deletes history that may go, beginning where most is gained. A broker looks once a minute.
func (k *Retention) Look(ctx context.Context) {
	o := outlook{now: k.of.Now(), rules: k.of.HistoryPolicies(), policyOf: k.policies(), bases: map[engine.PartitionID][]event.LSN{}}
	if o.rules == nil {
		return
	}
	o.disk, o.need = k.diskNeed()
	logs := k.of.Logs()
	k.seen = k.fingerprint(logs)
	if o.idle() {
		k.setHurry(logs, &o)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		p := logs[id]
		files, err := k.sealedFiles(ctx, id, p)
		if err != nil {
			k.logObstacle(id, "sealed files cannot be read: "+err.Error())
		}
		first, _ := p.Bounds()
		for _, f := range files {
			f.cold = f.end <= first
			o.files = append(o.files, f)
		}
		o.files = append(o.files, pendingChapters(id, p)...)
		for _, c := range p.Checkpoints() {
			o.saved += c.Stored
		}
		o.bases[id] = k.bases(id, p)
	}
	k.forgetRemoved(o.files)
	k.setHurry(logs, &o)
	if o.overBudget() || !k.began {
		k.measure(ctx, o.files)
		if ctx.Err() != nil || !maps.Equal(logs, k.of.Logs()) { // measuring takes time
			return
		}
		// policies may have changed, or an entity with a policy may have been deleted
		if o.rules, o.policyOf = k.of.HistoryPolicies(), k.policies(); o.rules == nil {
			return
		}
	}
	p := o.plan()
	if !k.began {
		k.began = true
		k.announce(&o, &p)
	}
	k.cutAll(ctx, logs, &o, &p)
	for _, b := range p.uncut {
		if k.failedAt[b.file.partition] != "" { // no checkpoint there is worth a base
			p.bodies = append(p.bodies, b)
		}
	}
	if len(p.bodies) == 0 || !k.setDropping(true) {
		return
	}
	k.aside(func() {
		defer k.setDropping(false)
		k.dropAll(ctx, logs, &o, &p)
	})
}

// bases returns where a log has checkpoints that a base can be made of: states in the encoding of
// this version.
func (k *Retention) bases(id engine.PartitionID, p log.Partition) (list []event.LSN) {
	was := k.usable[id]
	now := map[event.LSN]bool{}
	for _, c := range p.Checkpoints() {
		usable, known := was[c.LSN]
		if !known {
			usable = replay.Current(p, c.LSN)
		}
		if now[c.LSN] = usable; usable {
			list = append(list, c.LSN)
		}
	}
	k.usable[id] = now
	slices.Sort(list)
	return list
}

// setDropping notes whether a goroutine drops bodies, and reports whether that is a change.
func (k *Retention) setDropping(now bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.droppingBodies
	k.droppingBodies = now
	return was != now
}

// announce logs at the start of a run how much history the policies delete, and what is kept for
// now.
func (k *Retention) announce(o *outlook, p *plan) {
	whole := o.rules.Whole()
	kept := []any{"events", whole.Policy.Events.String(), "bodies", whole.Policy.Bodies.String(), "undo", whole.Policy.Undo.String(), "share", whole.Share}
	at := *o
	at.graceless = true
	if then := at.plan(); o.grace() && then.bytesFreed() > p.bytesFreed() {
		k.of.Logger().Warn("history from before the upgrade is deleted after a day, unless settings keep it: history.events, history.bodies, history.undo, history.share",
			append(kept, "bytes", then.bytesFreed()-p.bytesFreed(), "after", (o.rules.Since+upgradeGrace).Std().UTC())...)
	}
	if len(o.files) == 0 {
		return
	}
	k.of.Logger().Info("history that no policy keeps", append(kept, "bytes", p.bytesFreed(), "kept_by", strings.Join(p.held, "; "))...)
}

// setHurry turns the hurry on if history is kept only for a short time or is near its share, or if
// the disk has little room. In a hurry chapters are sealed at once, because history can only be
// deleted from sealed files before a checkpoint. If no history is kept at all, it seals only a
// chapter that has needed bodies, because a base after it did not release it.
func (k *Retention) setHurry(logs map[engine.PartitionID]log.Partition, o *outlook) {
	k.hurry = o.isUrgent()
	for id, p := range logs {
		upTo := event.LSN(0)
		switch {
		case k.hurry && o.keepsNothing():
			upTo = neededUpTo(p)
		case k.hurry:
			upTo = math.MaxUint64
		}
		k.of.Hurry(id, k.hurry, upTo)
	}
}

// neededUpTo returns where the log's first chapter ends, if it is before the base and was not
// removed. The chapters after it have not been tried: chapters are removed in order.
func neededUpTo(p log.Partition) (upTo event.LSN) {
	b, ok := p.(log.Bases)
	if !ok {
		return math.MaxUint64
	}
	base, _ := b.Base()
	first := uint32(0)
	for _, f := range p.Segments() {
		if f.Sealed == 0 && (first == 0 || f.Chapter == first) {
			first, upTo = f.Chapter, f.End
		}
	}
	if upTo >= base.LSN {
		return 0
	}
	return upTo
}

// pendingChapters returns the chapters of a log that have ended and are not sealed yet.
func pendingChapters(id engine.PartitionID, p log.Partition) (files []pastFile) {
	list := p.Segments()
	for _, s := range list {
		if s.Chapter == list[len(list)-1].Chapter {
			break
		}
		if s.Sealed == 0 && s.End > s.First {
			size := int64(s.End - s.First)
			files = append(files, pastFile{partition: id, name: s.File, first: s.First, end: s.End, newest: s.Until, stored: size, bodies: size, pending: true})
		}
	}
	return files
}

// cutAll removes whole files, beginning with the partition where most is gained.
func (k *Retention) cutAll(ctx context.Context, logs map[engine.PartitionID]log.Partition, o *outlook, p *plan) {
	gain := map[engine.PartitionID]int64{}
	for i := range o.files {
		if f := &o.files[i]; f.end <= p.cuts[f.partition] {
			gain[f.partition] += f.historyBytes()
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.cuts), func(a, b engine.PartitionID) int { return cmp.Or(cmp.Compare(gain[b], gain[a]), cmp.Compare(a, b)) }) {
		// a cut takes time, and a new policy may keep this history: the next look plans again
		if ctx.Err() != nil || k.of.HistoryPolicies() != o.rules {
			return
		}
		k.cutOne(ctx, id, logs[id], p.cuts[id], p.forced[id])
	}
}

// cutReason returns why history is deleted, for the log.
func cutReason(forced event.CutCause) string {
	switch forced {
	case event.CutForRoom:
		return "the disk has little room"
	case event.CutForShare:
		return "history exceeded its share of the disk"
	}
	return "no policy keeps it"
}

// cutOne removes history of a partition and logs the outcome. forced is why it removes more than
// the policies allow; 0: it does not.
func (k *Retention) cutOne(ctx context.Context, id engine.PartitionID, p log.Partition, upTo event.LSN, forced event.CutCause) {
	if forced != event.CutForRoom {
		upTo = k.boundByUnread(ctx, id, p, upTo)
	}
	now := cutState(p, upTo, forced != 0)
	if k.failedAt[id] == now {
		return
	}
	freed, err := k.Cut(ctx, p, upTo, forced != 0)
	if freed > 0 {
		first, _ := p.Bounds()
		k.of.Logger().Info("history deleted", "partition", id, "bytes", freed, "up_to", upTo, "log_begin", first, "reason", cutReason(forced))
		if forced != 0 {
			fact := &event.HistoryCut{LogPartition: uint32(id), Cause: forced, First: first, Bytes: uint64(freed)}
			if err := k.of.NoteCut(ctx, fact); err != nil && ctx.Err() == nil {
				k.of.Logger().Warn("early deletion of history not recorded in the log", "partition", id, "error", err)
			}
		}
	}
	if errors.Is(err, log.ErrTooLittle) {
		k.failedAt[id] = now
	}
	switch {
	case err == nil:
		k.clearObstacle(id)
		delete(k.failedAt, id)
	case ctx.Err() != nil:
	case errors.Is(err, log.ErrHeld), errors.Is(err, log.ErrTooLittle), errors.Is(err, log.ErrClosed):
		k.logObstacle(id, err.Error())
	default:
		k.of.Logger().Error("history cannot be deleted", "partition", id, "error", err)
	}
}

// boundByUnread bounds a cut by the unread bodies of settled messages: the cut ends before the
// first file with one.
func (k *Retention) boundByUnread(ctx context.Context, id engine.PartitionID, p log.Partition, upTo event.LSN) event.LSN {
	list, err := k.of.Unread(ctx, id)
	if err != nil {
		return 0
	}
	for _, b := range list {
		for _, s := range p.Segments() {
			if at := event.LSN(b.Position); s.First <= at && at < s.End {
				upTo = min(upTo, s.First)
			}
		}
	}
	return upTo
}

// cutState describes everything that decides whether a log can be cut. A cut takes long, so a
// failed one is repeated only after this has changed.
func cutState(p log.Partition, upTo event.LSN, forced bool) string {
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

// logObstacle logs what keeps a partition's history, unless it was the last obstacle logged for it.
func (k *Retention) logObstacle(id engine.PartitionID, what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.obstacles[id] != what {
		k.obstacles[id] = what
		k.of.Logger().Info("history not deleted yet", "partition", id, "reason", what)
	}
}

func (k *Retention) clearObstacle(id engine.PartitionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.obstacles, id)
}

// sealedFiles returns the sealed files of a log, oldest first. After an error the list ends early.
func (k *Retention) sealedFiles(ctx context.Context, id engine.PartitionID, p log.Partition) (files []pastFile, err error) {
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
		if files = append(files, f); len(files) == count { // the next file would be read whole
			break
		}
	}
	return files, nil
}

// sealedSuffix is the suffix of the names of sealed files.
const sealedSuffix = ".lbs"

// pastOf returns a sealed file as its summary describes it.
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

// forgetRemoved drops the data about files that no longer exist.
func (k *Retention) forgetRemoved(there []pastFile) {
	now := make(map[string]pastFile, len(there))
	for _, f := range there {
		if !f.pending {
			now[f.name] = f
		}
	}
	k.files = now
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.retryAt, func(name string, _ event.Time) bool { _, there := now[name]; return !there })
}

// policies returns a function that finds the policy of an entity by id. A deleted entity has no
// path: the policies of the namespace and of every path hold for it.
func (k *Retention) policies() func(event.EntityID) event.HistoryPolicy {
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

// diskNeed returns the size of the disk and how many bytes history has to free: history is deleted
// while the free space is less than twice the limit below which sends are refused.
func (k *Retention) diskNeed() (total, need int64) {
	total, free, low, err := k.of.Space()
	if err != nil {
		k.of.Logger().Warn("free space of the disk unknown", "error", err)
		return 0, 0
	}
	return total, max(0, 2*low-free)
}
