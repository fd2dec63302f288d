package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// apart is a namespace of two logs, with a queue in each: "from" is the one with the entity 1, "to"
// the one with the entity 2.
type apart struct {
	*logdir.Dir
	writers  [2]log.Writer
	from, to int // logs of the queues
	clock    uint64
}

func newApart(t *testing.T, from int) *apart {
	t.Helper()
	d := &apart{Dir: logdir.Open(t, t.TempDir(), log.Options{Partitions: 2}), from: from, to: 1 - from}
	for i := range d.writers {
		_, d.writers[i] = d.Lead(log.PartitionID(i))
	}
	for i, path := range []string{"from", "to"} {
		d.at(0, 1000, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}}, EntityKind: event.Queue, Path: path,
			HashVersion: 1, Hosts: []byte{[]byte{byte(d.from), byte(d.to)}[i]}, Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}})
	}
	return d
}

func (d *apart) at(in int, at event.Time, ev event.Event) event.LSN {
	return d.Append(d.writers[in], at, ev)
}

// set sets the clock of both logs.
func (d *apart) set(from, to event.Time) {
	d.clock++
	for i, basis := range []event.ClockBasis{event.BasisWall, event.BasisCatalogue} {
		d.at(i, to, &event.ClockSet{Number: d.clock, Basis: basis, From: from, To: to, Wall: to})
	}
}

// moving returns the events of a message that moves from one queue to the other and is completed
// there.
func (d *apart) moving(n event.SequenceNumber) []func(event.Time) {
	of := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	id, token := fmt.Appendf(nil, "m%d", n), event.LockToken{byte(n)}
	return []func(event.Time){
		func(at event.Time) {
			d.at(d.from, at, &event.MessageEnqueued{Envelope: of(1), Sequence: n, MessageID: id, EnqueuedAt: at})
		},
		func(at event.Time) {
			d.at(d.from, at, &event.TransferStarted{Envelope: of(1), Destination: 2, Trigger: event.TriggerForward, First: event.TransferNumber(n), Sequences: []event.SequenceNumber{n}})
		},
		func(at event.Time) {
			d.at(d.to, at, &event.MessageEnqueued{Envelope: of(2), Sequence: n, MessageID: id, EnqueuedAt: at,
				Arrival: &event.Arrival{Source: event.Slice{Entity: 1}, Number: event.TransferNumber(n), Hops: 1, First: n}})
		},
		func(at event.Time) {
			d.at(d.from, at, &event.TransfersFinished{Envelope: of(1), Numbers: []event.TransferNumber{event.TransferNumber(n)}})
		},
		func(at event.Time) {
			d.at(d.to, at, &event.MessageLocked{Envelope: of(2), Sequence: n, Token: token, LockedUntil: at + 60_000})
		},
		func(at event.Time) {
			d.at(d.to, at, &event.MessageCompleted{Envelope: of(2), Sequence: n, Token: token})
		},
	}
}

// story returns the types of a message's story, its state, and the sentence.
func (d *apart) story(t *testing.T, of string) (types, state, sentence string) {
	t.Helper()
	a, err := address.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	var lines []Line
	if err := New(d, keep(&lines)).Story(t.Context(), a, ""); err != nil {
		t.Fatalf("%s: %v", of, err)
	}
	for _, l := range lines {
		if l.Part == Answer {
			state, sentence = state+valueOf(l.Fields, "State"), sentence+valueOf(l.Fields, "Sentence")
		}
	}
	return strings.Join(column(lines, "Type"), " "), state, sentence
}

// A move has the order of its steps: at the same time, if the clock of one log is ahead, and if a
// clock is set back between any two of them, more than once.
func TestMovesAreInOrder(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	for from := range 2 {
		d := newApart(t, from)
		now, n := event.Time(100*hour), event.SequenceNumber(0)
		var want []string
		for set := -1; set < 6; set++ { // before which event the clock is set
			for _, ahead := range []event.Time{0, 5} { // of the log with "from"
				n++
				for i, happen := range d.moving(n) {
					if i == set {
						d.set(now+ahead, now-hour)
						now -= hour
					}
					at := now
					if i == 0 || i == 1 || i == 3 {
						at += ahead
					}
					happen(at)
				}
				want = append(want, fmt.Sprintf("log %d, set in front of %d, ahead by %d", from, set, ahead))
			}
		}
		for i, what := range want {
			for _, of := range []string{"from", "to"} {
				types, state, sentence := d.story(t, fmt.Sprintf("%s#%d", of, i+1))
				list := strings.Fields(types)
				at := func(verb string) int { return slices.Index(list, verb) }
				if len(list) != 6 || at("sent") != 0 || at("moving") != 1 || at("arrived") != 2 || at("moved") < 3 || at("locked") < 3 || at("completed") < at("locked") {
					t.Errorf("%s: %s", what, types)
				}
				if state != "completed" || strings.Contains(sentence, "-") || strings.Contains(sentence, "h0m") {
					t.Errorf("%s: %s, %s", what, state, sentence)
				}
			}
		}
	}
}

// A source that is told late, after the message was completed at its destination, does not turn it
// into a message that only moved.
func TestMoveToldLate(t *testing.T) {
	t.Parallel()
	d := newApart(t, 0)
	steps := d.moving(1)
	for i, k := range []int{0, 1, 2, 4, 5, 3} {
		steps[k](2000 + event.Time(i))
	}
	if types, state, _ := d.story(t, "from#1"); state != "completed" || types != "sent moving arrived locked completed moved" {
		t.Errorf("%s: %s", types, state)
	}
}

// If a clock was set back, questions about several logs have the events before that first.
func TestLogsAreMergedByClock(t *testing.T) {
	t.Parallel()
	d := newApart(t, 0)
	steps, others := d.moving(1), d.moving(2)
	steps[0](10_000)
	others[0](11_000)
	steps[1](12_000)
	steps[2](12_000)
	d.set(20_000, 5000)
	steps[3](6000)
	steps[4](7000)
	steps[5](8000)
	var lines []Line
	if err := New(d, keep(&lines)).Events(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(column(lines, "Type"), " "), "created created sent sent moving arrived clock-set clock-set moved locked completed"; got != want {
		t.Errorf("events: %s\nwant %s", got, want)
	}
	lines = nil
	if err := New(d, keep(&lines)).When(t.Context(), "from.messages = 1 AND to.active = 1", nil); err != nil {
		t.Fatal(err)
	}
	if got, want := valueOf(lines[0].Fields, "Time"), event.Time(6000).String(); got != want {
		t.Errorf("when: %s\nwant %s", lines[0].Text, want)
	}
}
