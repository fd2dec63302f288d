package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/model"
)

const root = "/data"

// stop is how the last run ended.
type stop int

const (
	stopClean stop = iota
	stopKill
	stopPower
)

// hook is asked before every call of the file system.
func (w *world) hook(c faultfs.Call) faultfs.Fault {
	if w.armed > 0 {
		if w.armed--; w.armed == 0 {
			w.note("dies at "+string(c.Op)+" "+c.Name, int64(c.N))
			w.crashed = true
			w.stats.CrashesInCalls++
			f := faultfs.Fault{Err: faultfs.ErrCrashed}
			if c.Op == faultfs.OpWrite && w.chance(70) {
				// where a page of the file or of the memory ends (log-format.md 5.1)
				f.Short = w.rng.IntN(pick(w.rng, 100, 5000)) &^ 7
			}
			return f
		}
	}
	if w.failing > 0 && (c.Op == faultfs.OpWrite || c.Op == faultfs.OpSync || c.Op == faultfs.OpDatasync || c.Op == faultfs.OpSyncDir || c.Op == faultfs.OpCreate || c.Op == faultfs.OpTruncate) {
		if w.failing--; w.failing == 0 {
			w.stats.IOErrors++
			f := faultfs.Fault{Err: pick(w.rng, syscall.EIO, syscall.ENOSPC)}
			switch c.Op {
			case faultfs.OpWrite:
				f.Short = w.rng.IntN(pick(w.rng, 2, 100, 5000)) &^ 7
			case faultfs.OpSync, faultfs.OpDatasync:
				f.DropPages = w.chance(50)
			}
			w.strike(c.Name, f.DropPages)
			w.note("fails at "+string(c.Op)+" "+c.Name, int64(c.N), int64(f.Short))
			if w.chance(10) {
				w.failing = 1 // and again
			}
			return f
		}
	}
	return faultfs.Fault{}
}

// strike notes which partitions an injected error concerns: the one that the file belongs to, or
// all of them. An error in a sync is known only when the sync ends, and other partitions may have
// failed and come back by then: so each has a note of its own.
func (w *world) strike(file string, drops bool) {
	own := slices.IndexFunc(w.parts, func(p *part) bool { return strings.HasPrefix(file, p.folder()+"/") })
	for i, p := range w.parts {
		if i == own || own < 0 {
			p.faulted, p.dropped = true, p.dropped || drops
		}
	}
}

// faulted reports whether an injected error was returned in this run whose consequences are not
// known yet.
func (w *world) faulted() bool {
	return slices.ContainsFunc(w.parts, func(p *part) bool { return p.faulted })
}

// whole notes that partitions have been recovered: what a sync lost before is known.
func (w *world) whole() {
	for _, p := range w.parts {
		p.dropped = p.dropped && p.faulted // on the way
	}
}

// crash ends the process here and now.
func (w *world) crash() {
	w.note("dies")
	w.crashed = true
}

// reborn brings a dead process back: the image it left, recovery, and on.
func (w *world) reborn() {
	for tries := 0; w.crashed; tries++ {
		how := stopKill
		if w.chance(w.o.power) {
			how = stopPower
		}
		if tries == 0 && w.faulted() {
			w.stats.FailedRuns++
		}
		w.image(how)
		deep := w.o.deep && !w.draining && tries < 4 && w.chance(40)
		w.armed, w.failing, w.crashed = 0, 0, false
		if deep {
			w.armed = 1 + w.rng.IntN(pick(w.rng, 8, 60))
		}
		w.restart(how)
		if w.ended {
			return
		}
		if w.crashed && deep {
			w.stats.CrashesInRecovery++
		}
		if !w.crashed && w.armed > 0 && w.chance(50) {
			w.armed = 0
		}
	}
}

// image makes the disk what the crash left of it, and forgets what only lived in memory.
func (w *world) image(how stop) {
	if how == stopPower {
		w.stats.PowerLosses++
		w.stats.PowerCutsInSpace += int64(bit(w.spaces.died))
		w.stats.PowerCutsSealing += int64(bit(w.spaces.sealed))
		w.disk = w.disk.Crash(w.rng, faultfs.PowerLoss)
		w.boot++
	} else {
		w.stats.Kills++
		w.disk = w.disk.Crash(w.rng, faultfs.Kill)
	}
	w.note("image", int64(how))
	w.spaces.died, w.spaces.sealed, w.spaces.forRoom, w.spaces.unsaid = false, false, false, false
	w.ran(how)
	w.forget()
	for _, p := range w.parts {
		if how == stopPower || p.dropped {
			p.needKill = p.needPower
			w.hist.powerLostIn(p)
		}
	}
	w.hist.restarted()
	w.pause()
}

// pause is the time between two runs. The wall clock may be set meanwhile.
func (w *world) pause() {
	if w.chance(20) {
		w.offset += time.Duration(w.rng.Int64N(int64(20*time.Second))) - 10*time.Second
	}
	if w.o.jumps && !w.draining && w.chance(20) {
		w.jump()
	}
	if !w.draining && w.chance(30) {
		w.mono += time.Duration(w.rng.Int64N(int64(pick(w.rng, 200*time.Millisecond, 10*time.Second, time.Hour))))
	}
}

func (w *world) forget() {
	w.stopSyncs()
	w.stopSpace()
	for _, p := range w.parts {
		w.forgetPart(p)
	}
	for _, q := range w.queues {
		q.lines = [model.TransferDeadQueue + 1]*line{}
	}
	for _, t := range w.transactions { // what was staged is gone
		t.ended, t.staged, t.seen = true, nil, nil
	}
	w.receivers, w.admin, w.collector, w.refusals = nil, nil, nil, map[moveKey]model.Refusal{}
	clear(w.sends)
}

// restart opens what a stop left, damaged or not.
func (w *world) restart(how stop) {
	if w.o.damage && !w.draining && w.chance(60) {
		if w.damaged(how) {
			return
		}
	}
	w.reopen(how)
}

// documented reports whether a refusal is one that log-format.md 5.5 announces: pages were dropped
// by a failed sync and the note about it could not be written.
func (w *world) documented(c *log.CorruptError) bool {
	return w.parts[c.Partition].dropped && !w.hasFault(int(c.Partition))
}

func (w *world) hasFault(partition int) bool {
	_, err := w.disk.ReadFile(filepath.Join(root, "partitions", fmt.Sprintf("%02d", partition), "fault"))
	return err == nil
}

// reopen starts a process over the disk. It leaves w.crashed set when that process died on the way.
func (w *world) reopen(how stop) {
	err := w.open(how, false)
	var c *log.CorruptError
	switch {
	case w.crashed:
		return
	case err == nil:
		w.whole()
		return
	case errors.As(err, &c) && w.repaired(c):
		w.reopen(how)
		return
	case errors.As(err, &c) && w.documented(c):
		w.note("refused as documented")
		w.stats.RefusedByRule++
		w.ended = true
		return
	case w.faulted():
		w.crashed = true // the process gives up
		return
	}
	w.broken("F3", "nothing was damaged, and the start is refused: %v", err)
}

// open recovers everything, checks what was recovered, and begins to serve.
func (w *world) open(how stop, damaged bool) error {
	w.injure()
	w.spaces.errors = w.stats.IOErrors
	w.disk.Hook(w.hook)
	w.disk.During(w.during)
	if err := w.openStore(); err != nil {
		return err
	}
	states, err := w.replay(damaged)
	if err != nil || w.ended || w.crashed {
		return err
	}
	begin := w.beginTime(states)
	w.began = begin
	w.clock = begin.Clock(w, w.logger())
	w.newest, w.read = int64(begin.At), w.mono
	for _, p := range w.running() {
		if err := w.lead(p, states[p.id]); err != nil {
			return err
		}
	}
	if err := w.setClocks(begin); err != nil {
		return err
	}
	w.configureAll()
	w.orderAll(w.running()...)
	for _, p := range w.running() { // what was due is ended before the first client is served
		if w.recover(p); w.crashed {
			return nil
		}
		w.turn(p, nil)
		if w.ifStopped(); w.crashed {
			return nil
		}
	}
	w.started = w.broker()
	return nil
}

// replay is the state of each partition, as its log has it; nil where the partition is refused, and
// where the run or the process has ended on the way.
func (w *world) replay(damaged bool) (states []*index.Index, err error) {
	for _, p := range w.parts {
		if p.away = p.corruption != nil; p.away {
			w.refuse(p)
			states = append(states, nil)
			continue
		}
		x, err := w.recovered(p, w.store.Open, damaged)
		if err != nil || x == nil {
			return nil, err
		}
		states = append(states, x)
	}
	return states, nil
}

// recovered is the state of a partition, as its log has it; nil where the run or the process has
// ended on the way.
func (w *world) recovered(p *part, open func(context.Context, log.PartitionID) (log.Partition, error), damaged bool) (_ *index.Index, err error) {
	ctx := context.Background()
	if p.plog, err = open(ctx, log.PartitionID(p.id)); err != nil {
		return nil, err
	}
	s := replay.Newest(p.plog, 0, func(c log.CheckpointInfo, err error) { w.say("unusable", fmt.Sprintf("%s: %v", c.File, err)) })
	if err := s.Run(ctx, replay.Watch{}); err != nil {
		return nil, err
	}
	rec := p.plog.Recovery()
	w.note("recovered", int64(p.id), int64(rec.Records), int64(s.Events), rec.CutBytes)
	w.stats.Recoveries++
	if rec.CutBytes > 0 {
		w.stats.Cuts++
		w.stats.CutBytes += rec.CutBytes
	}
	p.stops = w.stopped(p, p.how, damaged)
	w.survived(p, s.Index, p.how, damaged)
	if w.ended || w.crashed {
		return nil, nil
	}
	return s.Index, nil
}

// lead takes the lead of a partition and makes its loop.
func (w *world) lead(p *part, state *index.Index) error {
	writer, err := p.plog.Lead(context.Background())
	if err != nil {
		return err
	}
	p.writer = &simWriter{ManualWriter: writer.(log.ManualWriter), p: p, sizes: sizes{of: map[int]int{}}}
	p.state = engine.NewPartition(engine.PartitionID(p.id), len(w.parts), state)
	to := loop.Options{Elsewhere: w.elsewhereOf(p), Clock: w.clock.Now, Tokens: p.token,
		Logger: w.logger(), CheckpointBytes: w.o.checkpointBytes, StartBytes: w.o.startBytes, Inline: true, Properties: w.see, Reread: w.reread, FailuresTo: w.o.failuresTo, NoMemory: func() bool { return w.faults.noMemory }, Memory: w.memory}
	if p.courier = nil; w.o.moves {
		p.courier = w.courier(p)
		to.Courier = p.courier
	}
	p.loop = loop.New(p.state, p.plog, p.writer, to)
	if p.id == 0 {
		p.state.Avoid(w.avoided())
		p.state.Split(w.o.split)
	}
	p.ledIn = w.boot
	p.model.Keep()
	p.needKill, p.needPower, p.noted = p.model.Records, p.model.Records, p.model.Records
	p.shadow = newShadow(w, p)
	return nil
}

// recover does what a start does before anything is asked: nobody holds a session any more, and
// what a deletion left behind goes.
func (w *world) recover(p *part) {
	now := w.now(p)
	p.starting = true
	p.begin(now)
	p.loop.DropUnknown()
	p.loop.Recover()
	if p.loop.Err() == nil && !w.crashed {
		p.loop.Resume(w.byID)
	}
	p.starting = false
	for _, mq := range p.model.Queues {
		if _, exists := w.decided(w.queues[mq.ID]); !exists && !mq.Dropped {
			p.model.Drop(now, mq)
		}
	}
	p.model.Restart(now)
	p.model.Due(now)
	w.forgetSources(p, now)
	p.model.News = nil
	if p.loop.Err() != nil { // while it waited for the disk
		if !w.crashed && !p.faulted {
			w.broken("I27", "partition %d stopped, and no error was injected: %v", p.id, p.loop.Err())
		}
		w.crashed = true
		return
	}
	p.shadow.handedOn()
	for _, mq := range p.model.Queues {
		q, soonest := w.queues[mq.ID], int64(0)
		for _, m := range mq.Live {
			if m.State == model.Active && !m.Dead && m.ExpiresAt != 0 && (soonest == 0 || m.ExpiresAt < soonest) {
				soonest = m.ExpiresAt
			}
		}
		q.soonest = 0
		if at := p.state.Index().Soonest(q.slice); at != event.EndOfTime {
			q.soonest = int64(at)
		}
		if soonest != 0 && (q.soonest == 0 || q.soonest > soonest) {
			w.differs(p)
			w.broken("I14", "%s: the first message expires at %d, it is expected at %d", q.path, soonest, q.soonest)
		}
	}
}

// survived finds the prefix of the decisions that the log kept, and takes the model there.
func (w *world) survived(p *part, x *index.Index, how stop, damaged bool) {
	n := p.records()
	if w.gone() {
		return
	}
	need := p.needKill
	// then the tail is judged as after a power loss (log-format.md 5.3 rule 4)
	if damaged && how != stopClean && w.hasFault(p.id) {
		need = p.needPower
	}
	if n < need && damaged && n >= p.noted && w.residual(p, how) {
		w.note("ambiguous", int64(p.id), int64(n), int64(need))
		w.stats.Ambiguous++
		w.ended = true
		return
	}
	if n < need {
		w.broken("I1", "partition %d: %d records survived, %d were acknowledged or shown (of %d written at the most)", p.id, n, need, p.appended)
	}
	if n > p.appended {
		w.broken("I2", "partition %d: %d records survived, only %d were written", p.id, n, p.appended)
	}
	if n < p.needKill { // locks that were written, but not synced
		w.hist.powerLostIn(p)
	}
	w.stats.RecordsLost += int64(p.model.Records - n)
	p.model.Rewind(n)
	w.unsaid(p, n)
	p.appended = n
	p.ends = slices.DeleteFunc(p.ends, func(f frame) bool { return f.upto > n })
	maps.DeleteFunc(p.facts, func(record int, _ noted) bool { return record > n })
	p.needKill, p.needPower = min(p.needKill, n), min(p.needPower, n)
	if p.id == 0 {
		w.catalogue = slices.DeleteFunc(w.catalogue, func(s setting) bool { return s.record > n })
		w.catalogued(x)
	}
	w.equal(p, x)
	w.contents(p, x)
	w.replays(p, x, true)
}

// residual reports whether damage to the newest commits may pass for a torn tail (reliability.md
// 3.4, 6): not when the stop was clean, nor when only the process died and nothing else was wrong.
// Damage in several places can also take the frame with the boot id away, and an end that is
// missing since the last progress note leaves no trace.
func (w *world) residual(p *part, how stop) bool {
	return how != stopClean && (p.ledIn != w.boot || p.dropped || !w.o.bootKnown || w.flips > 1)
}

// stop ends the process cleanly and starts it again.
func (w *world) stop() {
	w.note("stop")
	w.stopSpace()
	w.relieve()
	for _, p := range w.running() {
		w.turn(p, p.inbox)
		p.inbox = nil
		if !w.gone() {
			w.finishRun(p)
		}
		if !w.gone() && !p.failed() {
			w.settle(p)
		}
		if w.gone() || p.failed() || p.loop.Err() != nil {
			w.crashed = true
			return
		}
	}
	for _, p := range w.running() {
		end := p.writer.Batch().LSN()
		if err := p.writer.Close(); err != nil || w.gone() {
			w.crashed = true
			return
		}
		// as Loop.Close does
		if w.o.checkpointBytes >= 0 && w.chance(80) && w.o.checkpointBytes < never {
			p.plog.SaveCheckpoint(end, encoded(p.state.Index()))
			w.stats.Checkpoints++
		}
		if w.gone() {
			return
		}
	}
	if err := w.store.Close(); err != nil || w.gone() {
		w.crashed = true
		return
	}
	w.allGiven()
	w.stats.CleanStops++
	w.tidy()
	for _, p := range w.running() {
		p.needKill, p.needPower, p.noted = p.model.Records, p.model.Records, p.model.Records
	}
	if len(w.running()) == len(w.parts) {
		w.ran(stopClean)
	} else { // nobody vouches for the ends of all logs
		w.ran(stopKill)
	}
	w.forget()
	w.hist.restarted()
	w.pause()
	w.restart(stopClean)
}

// damaged flips bits at rest, or cuts a file of the log short, and starts: the store must refuse,
// or nothing acknowledged may be missing. Refused damage is repaired. It reports whether the
// process is started, or dead.
func (w *world) damaged(how stop) bool {
	files := slices.DeleteFunc(w.disk.Files(root), func(name string) bool {
		p, _ := w.disk.ReadFile(name)
		return len(p) == 0 || strings.HasSuffix(name, ".tmp") || strings.Contains(name, "/cut/")
	})
	if w.chance(75) {
		if wal := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !strings.Contains(name, "/wal/") }); len(wal) > 0 {
			files = wal
		}
	}
	if len(files) == 0 {
		return false
	}
	name := files[w.rng.IntN(len(files))]
	if w.chance(50) {
		name = files[len(files)-1]
	}
	before, _ := w.disk.ReadFile(name)
	armed := w.armed
	w.armed, w.failing = 0, 0 // one thing at a time: what is reported must be the damage
	w.flips = pick(w.rng, 1, 1, 3)
	end := len(before)
	if w.chance(90) { // not in room: there is much of it, and little to find
		for end > 1 && before[end-1] == 0xff {
			end--
		}
	}
	for range w.flips {
		off := w.rng.IntN(end)
		if w.chance(30) { // near the end
			off = end - 1 - w.rng.IntN(min(end, 200))
		}
		w.disk.Flip(name, int64(off), 1<<w.rng.IntN(8))
		w.note("flip "+name, int64(off))
	}
	w.stats.Flips++
	// the end is missing instead
	if w.flips == 1 && strings.Contains(name, "/wal/") && w.chance(25) {
		w.disk.WriteFile(name, before[:w.rng.IntN(end)])
		w.note("cut short " + name)
		w.flips = 2
	}
	err := w.open(how, true)
	if w.crashed || w.ended {
		return true
	}
	var c *log.CorruptError
	if err == nil {
		w.stats.FlipsHarmless++
		w.whole()
		after, _ := w.disk.ReadFile(name)
		w.latent = append(w.latent, flip{name, before, after})
		return true
	}
	if errors.As(err, &c) && w.repaired(c) {
		w.disk.WriteFile(name, before)
		w.close()
		return false
	}
	if !errors.As(err, &c) && !errors.Is(err, log.ErrFormat) {
		w.broken("F4", "damage of %s is reported as %v", name, err)
	}
	w.say("refused", err) // which of two faults is named first is not decided by the seed
	w.note("refused")
	w.stats.FlipsRefused++
	w.close()
	w.disk.WriteFile(name, before)
	w.armed = armed
	return false
}

// close gives the directory back after a start that was refused.
func (w *world) close() {
	if w.store != nil {
		w.store.Close()
	}
}

// flip is damage that did no harm when it was new.
type flip struct {
	name          string
	before, after []byte
}

// repaired puts back what was damaged earlier and is refused only now: a note that nothing depended
// on then.
func (w *world) repaired(c *log.CorruptError) bool {
	for i, f := range w.latent {
		if now, err := w.disk.ReadFile(f.name); err == nil && strings.HasSuffix(f.name, c.File) && bytes.Equal(now, f.after) {
			w.note("late refusal of " + f.name)
			w.stats.FlipsLate++
			w.close()
			w.disk.WriteFile(f.name, f.before)
			w.latent = slices.Delete(w.latent, i, i+1)
			return true
		}
	}
	return false
}
