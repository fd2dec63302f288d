package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// A disk with little room, one that hangs, and memory that is short (docs/decisions/0039 to 0041)
// come and go in some worlds. Which requests they keep from being carried out is worked out here
// once more: those are refused as busy and leave no trace, and everything else goes on.

// faults are what the world suffers from now; the zero value is none.
type faults struct {
	rng          *rand.Rand // nil: nothing ever
	room         log.Room   // on the one disk of all partitions
	noMemory     bool       // for what lasts
	littleMemory bool       // for what can do with less, or wait
	little       *rand.Rand // says when memory is little
}

// changeFaults has something begin or end now and then.
func (w *world) changeFaults(p *part) {
	s := &w.faults
	if s.rng == nil || w.draining {
		return
	}
	if s.little.IntN(20) == 0 {
		s.littleMemory = !s.littleMemory
		w.note("little memory", int64(bit(s.littleMemory)))
	}
	if s.rng.IntN(12) != 0 {
		return
	}
	switch s.rng.IntN(4) {
	case 0, 1:
		s.room = pick(s.rng, log.RoomEnough, log.RoomEnough, log.RoomLow, log.RoomCritical, log.RoomNone)
	case 2:
		s.noMemory = !s.noMemory && s.rng.IntN(2) == 0
	default:
		p.writer.hangs = !p.writer.hangs && s.rng.IntN(2) == 0
		w.stats.Hangs += int64(bit(p.writer.hangs))
	}
	w.stats.Faults++
	w.note("faults", int64(s.room), int64(bit(s.noMemory)), int64(p.id), int64(bit(p.writer.hangs)))
}

// relieve ends all of it.
func (w *world) relieve() {
	w.faults.room, w.faults.noMemory, w.faults.littleMemory = log.RoomEnough, false, false
	for _, p := range w.parts {
		if p.writer != nil {
			p.writer.hangs = false
		}
	}
}

// DiskState is the state that the world has chosen. It hides that a frame waits for room, because
// what is refused then may change within a turn.
func (t *simWriter) DiskState() log.DiskState {
	s := log.DiskState{Room: t.p.w.faults.room}
	if t.hangs {
		s.Hangs = time.Unix(1, 0)
	}
	return s
}

// weight is how much a request adds to the log.
type weight int

const (
	light  weight = iota
	ending        // it settles, removes, or moves the end of a lock
	change        // by a new value
	growth        // for good
)

// weight is that of a request that nobody has decided on yet. The weights of sends and of changes
// of the catalogue are worked out elsewhere.
func (a *ask) weight() weight {
	switch a.op {
	case opSetState:
		if len(a.state) > 0 && a.txn == nil {
			return change
		}
	case opSettle, opSettleMany, opStale, opRenew, opRenewSession, opRecall, opCancel, opPurge, opDelete, opDropRule:
	default:
		return light
	}
	if a.txn != nil {
		return light
	}
	return ending
}

// admits reports whether a request of that weight is carried out.
func (s *faults) admits(n weight) bool {
	least := map[log.Room]weight{log.RoomEnough: growth + 1, log.RoomLow: growth, log.RoomCritical: change, log.RoomNone: ending}[s.room]
	return n == light || n < least && (n < growth || !s.noMemory)
}

// isNew reports whether a request is turned away while the disk hangs.
func (a *ask) isNew() bool {
	switch a.op {
	case opSend, opBatch, opPutRule, opUpdate:
		return true
	case opRecall:
		return a.txn == nil
	}
	return false
}

// kept hands a request to the front of a partition's mailbox, and reports whether it got in. One
// that must not get in is answered as busy at once.
func (w *world) kept(p *part, a *ask) bool {
	full := w.faults.room == log.RoomNone
	if !full && !p.writer.hangs {
		return true
	}
	var answer answers
	req := engine.Request{Command: a.cmd, Sink: &answer, Tag: a.tag}
	kept := len(loop.Admit(p.writer, []engine.Request{req})) == 1
	if must := a.isNew() || full && a.weight() >= ending; kept == must {
		w.broken("S4 (faults)", "partition %d: request %d (%v) is let in: %v; the disk is full: %v, hangs: %v", p.id, a.tag, a.op, kept, full, p.writer.hangs)
	}
	if kept {
		return true
	}
	var e *engine.Error
	if len(answer) != 1 || answer[0].Tag != a.tag || !errors.As(answer[0].Err, &e) || e.Code != engine.Busy {
		w.broken("S4 (faults)", "partition %d: request %d (%v) is turned away with %+v", p.id, a.tag, a.op, answer)
	}
	if w.elsewhere(a, a.sending()) {
		w.submit(a)
		return false
	}
	w.stats.AwayByFault++
	w.note("fault", int64(a.op), int64(a.tag))
	if w.admin == a || a.op == opUpdate || a.op == opDelete || a.op == opPutRule || a.op == opDropRule {
		w.administered(a, false)
		return false
	}
	w.hist.answered(a, &want{at: a.asked, refusal: model.Busy}, &engine.Reply{})
	return false
}

// answers are replies that came at once.
type answers []engine.Reply

// Post implements engine.Sink.
func (a *answers) Post(replies []engine.Reply) { *a = append(*a, replies...) }

// suffers is what a loop looks at when its turn begins.
func (s *shadow) suffers() {
	s.halted = s.p.writer.hangs
	s.m.NoSends = !s.w.faults.admits(growth)
}

// scarce says that facts may not use the reserve.
func (s *shadow) scarce() bool { return s.w.faults.room >= log.RoomCritical }

// withFaults refuses what there is no room for before it is decided on.
func (s *shadow) withFaults(a *ask, x *want) bool {
	if s.w.faults.admits(a.weight()) {
		return false
	}
	x.refusal = model.Busy
	s.w.stats.BusyByFault++
	return true
}

// full refuses sends that there is no room for, or no memory.
func (s *shadow) full(a *ask, x *want) bool {
	if !s.m.NoSends || a.op != opSend && a.op != opBatch {
		return false
	}
	x.refusal = model.Busy
	s.w.stats.BusyByFault++
	return true
}
