package sim

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Stats counts what a run, or many, came across.
type Stats struct {
	Seeds, Operations, Replies, Refusals int64
	Frames, Records, Events              int64
	Deliveries, Swept, Copies            int64
	Kills, PowerLosses, CleanStops       int64
	CrashesInCalls, CrashesInRecovery    int64
	Recoveries, Cuts, CutBytes           int64
	RecordsLost                          int64
	Questions                            int64 // about the past
	// changes of the catalogue that were durable and not in force yet when the process ended
	CutOff                             int64
	IOErrors, FailedRuns               int64
	Checkpoints                        int64
	Flips, FlipsRefused, FlipsHarmless int64
	FlipsLate, RefusedByRule           int64
	Jumps, Pauses                      int64
	ClocksRefused, ClocksSet           int64
	StateCompared, ReplaysCompared     int64
	Ambiguous                          int64
	// messages that arrived; offers that a log did not take
	Moves, TurnedAway                     int64
	Fenced, FencedInOrder, RestartsInVain int64 // partitions
	// logs that were damaged; starts that refused one; requests that found it so
	Injured, PartitionsRefused, Busy int64
	// changes in the room, the memory and the answers of the disk
	Faults, Hangs int64
	// requests that a fault had turned away in front of a loop; those that a loop refused for one
	AwayByFault, BusyByFault int64
	// requests for memory that got none, from what can do with less, or wait
	MemoryRefused int64
	// refused or fenced partitions that came back while the others served
	Revived     int64
	IdleDeleted int64 // entities that nobody used
	StartWaits  int64 // pieces of I/O that a start had to wait for
	// syncs during which something else happened; frames written by then
	LongSyncs, WritesDuringSync int64
	DiedInSync                  int64 // crashes while a sync went on
	// chapters; crashes while one was being sealed; of those with a loss of power
	Sealed, DiedSealing, PowerCutsSealing int64
	// bases that were made, cuts that removed files, files that were written again without bodies
	Bases, FilesCut, FilesRevised int64
	// files and chapters of which a cut left some bodies
	FilesOfBodies int64
	// crashes while history was given back; of those with a loss of power
	DiedInSpace, PowerCutsInSpace int64
	// times that a partition was told to hurry; events of cuts before their time
	Hurries, CutsTold int64
	// bodies that were gone when a client read them; thorough looks
	LateReads, Tidied           int64
	ReasonsCut, HeadersTooLarge int64 // of dead letters
	// worlds with entities of several partitions; sends to them
	Split, RoutedByKey, RoutedInTurn int64
	// … that were refused before anybody looked at them, and go to another; changes that have to
	// wait for all
	Elsewhere, ChangesAway int64
	PortsLost              int64 // receivers that lost one port
	// times that a port stood still at what is shared; things that happened meanwhile
	StoodStill, Woven int64
	// deliveries that came too late for the last credit; drains that ended with the last port's
	// answer
	CreditUsed, DrainsJoint int64
	Yielded                 int64 // times that a port left credit to another one
	VirtualMillis           int64
	Reruns                  int64
	// events by kind, as found in the logs at the end
	Kinds        [128]int64
	Cells        [operations][features]int64
	Fates        map[move]int64
	Aborts       map[event.AbortCause]int64
	CrossCommits int64 // of transactions that also send to another entity
	// transactions that were not committed, and gave messages back
	GivenBack int64
}

// feature is what an operation can meet.
type feature int

const (
	ofPlain feature = iota
	ofSessions
	ofDetecting
	ofDeadLetter   // in the dead-letter queue
	ofTransferDead // in the transfer dead-letter queue
	ofSendDisabled
	ofReceiveDisabled
	ofDisabled
	ofExpiring  // a queue in which messages expire
	ofScheduled // with scheduled messages in the queue
	ofDeferred  // with deferred ones
	ofLocked    // with locked ones
	ofHeld      // with a session that is held
	ofTopic
	ofSubscription
	ofAction    // a publish whose copies a rule changed
	ofRuleError // … for which a rule could not be evaluated
	ofUnwanted  // … that nobody got
	ofVia       // sent through an entity to another
	ofStaged    // in a transaction
	ofDeleted   // the queue is gone
	ofRefused   // the answer was no
	ofLost      // the process died before the answer
	features
)

var featureNames = [features]string{"plain", "sessions", "duplicate detection", "dead-letter queue", "transfer dead-letter queue", "send-disabled", "receive-disabled", "disabled",
	"expiring", "scheduled", "deferred", "locked", "session held",
	"topic", "subscription", "action", "rule error", "unwanted", "via", "staged", "deleted", "refused", "lost"}

// impossible are the cells nothing can be in: no session operation without sessions, no refusal of
// what is never refused.
func impossible(op operation, f feature) bool {
	if op == opCommit || op == opRollback {
		return f != ofPlain && f != ofSessions && f != ofRefused && f != ofLost
	}
	sends, rules := op == opSend || op == opBatch, op == opPutRule || op == opDropRule
	switch f {
	case ofAction, ofRuleError, ofUnwanted, ofVia:
		return !sends
	case ofStaged:
		return !op.transactional()
	case ofTopic:
		return !sends && op != opCancel && op != opUpdate && op != opDelete && op != opAttach && op != opFlow && op != opSettle && op != opPeek
	case ofTransferDead:
		return sends || rules || op == opCancel || op == opUpdate || op == opDelete || op >= opRenewSession || op == opAccept
	}
	switch op {
	case opSend, opBatch, opCancel, opUpdate, opDelete, opList:
		return f == ofDeadLetter || op == opUpdate && f == ofDeleted // then it makes a new one
	case opFlow, opDetach:
		return f == ofRefused
	case opAccept, opSetState, opRenewSession:
		return f == ofPlain || f == ofDeadLetter
	case opGetState:
		return f == ofDeadLetter
	}
	return rules && (f == ofDeadLetter || f == ofDetecting || f == ofScheduled)
}

// covered counts an operation by what it meets.
func (w *world) covered(a *ask) {
	if a.op >= operations || a.q.model == nil {
		return
	}
	c := &w.stats.Cells[a.op]
	m := a.q.model
	s := &m.Settings
	at := func(f feature, is bool) {
		if is {
			c[f]++
		}
	}
	at(ofPlain, !s.Sessions && s.Window == 0)
	at(ofSessions, s.Sessions)
	at(ofDetecting, s.Window > 0)
	at(ofDeadLetter, a.sub == model.DeadQueue)
	at(ofSendDisabled, s.NoSend && !s.NoReceive)
	at(ofReceiveDisabled, s.NoReceive && !s.NoSend)
	at(ofDisabled, s.NoReceive && s.NoSend)
	at(ofExpiring, s.TTL > 0)
	at(ofTransferDead, a.sub == model.TransferDeadQueue)
	at(ofVia, a.to != nil)
	at(ofStaged, a.txn != nil)
	at(ofDeleted, m.Dropped)
	at(ofTopic, a.q.kind == event.Topic)
	at(ofSubscription, a.q.kind == event.Subscription)
	var have [model.Transferring + 1]bool
	for _, x := range m.Live {
		have[x.State] = true
	}
	at(ofScheduled, have[model.Scheduled])
	at(ofDeferred, have[model.Deferred])
	at(ofLocked, have[model.Locked])
	for _, ses := range m.Sessions {
		if ses.Holder != (model.Token{}) {
			at(ofHeld, true)
			break
		}
	}
}

// coveredCopies counts a publish by what came of it.
func (w *world) coveredCopies(op operation, copies []model.Copy) {
	c := &w.stats.Cells[op]
	w.stats.Copies += int64(len(copies))
	if len(copies) == 0 {
		c[ofUnwanted]++
	}
	for _, m := range copies {
		switch {
		case m.Message.Dead:
			c[ofRuleError]++
		case len(m.Message.Changes) > 0:
			c[ofAction]++
		}
	}
}

// unanswered counts what a crash leaves without an answer.
func (w *world) unanswered(p *part) {
	for _, a := range p.inbox {
		if a.op < operations {
			w.stats.Cells[a.op][ofLost]++
		}
		if a.op == opEnforce {
			w.stats.CutOff++
		}
	}
	if p.shadow == nil {
		return
	}
	for _, x := range p.shadow.waiting {
		if x.ask != nil && x.ask.op < operations {
			w.stats.Cells[x.ask.op][ofLost]++
		}
	}
}

// Empty lists the cells that nothing was in.
func (s *Stats) Empty() (cells []string) {
	for op := range operations {
		for f := range features {
			if s.Cells[op][f] == 0 && !impossible(op, f) {
				cells = append(cells, op.String()+" × "+featureNames[f])
			}
		}
	}
	return cells
}

// Add adds the counters of another run.
func (s *Stats) Add(o Stats) {
	a, b := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		if f := a.Field(i); f.CanInt() {
			f.SetInt(f.Int() + b.Field(i).Int())
		}
	}
	for k, n := range o.Kinds {
		s.Kinds[k] += n
	}
	s.Fates, s.Aborts = added(s.Fates, o.Fates), added(s.Aborts, o.Aborts)
	for op := range o.Cells {
		for f, n := range o.Cells[op] {
			s.Cells[op][f] += n
		}
	}
}

// added is counters with those of another run.
func added[K comparable](all, more map[K]int64) map[K]int64 {
	if all == nil {
		all = map[K]int64{}
	}
	for k, n := range more {
		all[k] += n
	}
	return all
}

// counted counts an event by what it says.
func (w *world) counted(ev event.Event) {
	w.comesFrom(ev)
	switch ev := ev.(type) {
	case *event.MessageDeadLettered:
		if ev.Cause == event.CauseHopLimit && ev.SubQueue == event.TransferDeadLetter {
			w.fate(model.Forward, toTransferDeadLetters, tooOften)
		} else if ev.Cause == event.CauseHopLimit {
			w.fate(model.Forward, toDeadLetters, tooOften)
		}
	case *event.TransactionAborted:
		if w.stats.Aborts == nil {
			w.stats.Aborts = map[event.AbortCause]int64{}
		}
		w.stats.Aborts[ev.Cause]++
	}
}

func (s Stats) String() string {
	var out strings.Builder
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).CanInt() {
			fmt.Fprintf(&out, "%s %d, ", v.Type().Field(i).Name, v.Field(i).Int())
		}
	}
	out.WriteString("by kind:")
	for k, n := range s.Kinds {
		if n > 0 {
			fmt.Fprintf(&out, " %v %d", event.Kind(k), n)
		}
	}
	return out.String()
}
