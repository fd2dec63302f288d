package engine

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// 9.2: a description, and then a reason, that would make the header too large are cut, also those
// of one token among several, and those that the broker gives after a settlement. The log keeps the
// whole texts.
func TestDeadLetterReasonsAreCut(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.MaxDeliveryCount = 1
	long := strings.Repeat("x", 4096)
	const header = 62 << 10
	empty := deadLetterChanges("", "").Size()
	for _, c := range []struct {
		name                string
		how                 SettleOutcome
		header              int
		changes             event.Changes
		reason, description string
	}{
		{"fits", MoveToDeadLetter, 60 << 10, deadLetterChanges("why", long[:2048]), "why", long[:2048]},
		{"description", MoveToDeadLetter, header, deadLetterChanges("why", long), "why", long[:maxChanges-header-empty-len("why")-1]},
		{"reason", MoveToDeadLetter, header, deadLetterChanges(long, "because"), long[:maxChanges-header-empty-1], ""},
		{"neither", MoveToDeadLetter, maxChanges - empty + 1, deadLetterChanges("why", "because"), headerReason, headerText},
		{"the broker's", Abandon, maxChanges - empty - 30, nil, "MaxDeliveryCountExceeded", "Messag"},
	} {
		s := newScript()
		s.put(new(strings.Builder), &PutEntity{Kind: event.Queue, Path: "orders", Properties: p})
		first, second := event.LockToken{1}, event.LockToken{2}
		for _, cmd := range []Command{
			&Send{Slice: testSlice, Messages: []Message{{ID: []byte("x"), Body: []byte("x")}, {ID: []byte("x"), Body: []byte("x")}}},
			&Receive{Slice: testSlice, Token: first}, &Receive{Slice: testSlice, Token: second},
			&Settle{Slice: testSlice, Token: first, More: []event.LockToken{second}, Outcome: c.how,
				Changes: c.changes, Headers: []int{c.header}, Reason: "given", Description: long},
		} {
			if got := s.ask(cmd); got.Err != nil {
				t.Fatal(c.name, got.Err)
			}
		}
		if n := s.part.index.Count(testSlice, event.DeadLetter, index.Active); n != 2 {
			t.Fatalf("%s: %d dead letters", c.name, n)
		}
		for seq := event.SequenceNumber(1); seq <= 2; seq++ {
			m, _ := s.part.index.Message(testSlice, seq)
			at := m.Changes[0]
			changes := s.frame.blobs[at.Position:][:at.Size]
			reason, description := toldIn(t, changes)
			if seq == 1 && c.how == MoveToDeadLetter { // nothing is known of it
				if string(changes) != string(c.changes.Append(nil)) {
					t.Errorf("%s: the other one has %.50q and %.50q", c.name, reason, description)
				}
			} else if seq == 2 && (reason != c.reason || description != c.description) {
				t.Errorf("%s: %.50q and %.50q of %d bytes, want %.50q and %.50q of %d bytes", c.name, reason, description, len(description),
					c.reason, c.description, len(c.description))
			}
		}
	}
}

// A settlement of many messages is one record, which has to fit into a frame of the log, whatever
// it contains for each of them.
func TestSettlementFitsARecord(t *testing.T) {
	t.Parallel()
	m := newMachine()
	q := m.queue(1, testQueue())
	for name, cmd := range map[string]Settle{
		"changes":     {Outcome: Abandon, Changes: event.Changes{{Name: strings.Repeat("n", 60<<10)}}},
		"reason":      {Outcome: MoveToDeadLetter, Reason: strings.Repeat("r", 60<<10)},
		"description": {Outcome: MoveToDeadLetter, Description: strings.Repeat("d", 60<<10)},
	} {
		cmd.Slice, cmd.More = q, make([]event.LockToken, maxPublish>>16)
		if r := m.ask(&cmd); refusal(r) != LockLost {
			t.Errorf("%s: %v; want refusal(r) == LockLost", name, r.Err)
		}
		cmd.More = make([]event.LockToken, maxPublish/(60<<10))
		if r := m.ask(&cmd); refusal(r) != InvalidArgument {
			t.Errorf("%s, too many: %v", name, r.Err)
		}
	}
}
