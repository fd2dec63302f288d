package engine

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-113: properties that settlements add, together over 64 KiB, send the message to the dead-letter queue, without the last of
// them. (The properties it was sent with are not counted in.)
func TestHeaderSizeExceeded(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		h := byHand(t, testQueue())
		h.fill(1, 0)
		r := h.receiver(1, event.Main)
		h.turn(&Attach{r}, &Flow{Receiver: r, Limit: 1})
		abandon := func(size int) {
			t.Helper()
			token := h.got[0].Delivery().Token
			h.got = nil
			if got := h.ask(&Settle{Slice: handEntity, Token: token, Outcome: Abandon, Changes: make([]byte, size)}); got.Err != nil {
				t.Fatal(got.Err)
			}
		}
		abandon(40 << 10)
		h.turn(&Flow{Receiver: r, Limit: 2})
		if !over {
			abandon(24 << 10)
			if h.count(event.Main, index.Active) != 1 {
				t.Error("64 KiB are too much")
			}
			continue
		}
		abandon(24<<10 + 1)
		m, ok := h.loop.part.index.Message(handEntity, 1)
		if !ok || m.SubQueue != event.DeadLetter || len(m.Changes) != 2 || m.Changes[0].Size != 40<<10 {
			t.Fatalf("%+v", m)
		}
		why, err := h.plog.ReadBlob(m.Changes[1], nil)
		if err != nil || !strings.Contains(string(why), "HeaderSizeExceeded") {
			t.Errorf("dead-lettered with %q, %v", why, err)
		}
	}
}

// 9.2: a description, and then a reason, that would make the header too large are cut, also those of one token among several, and
// those that the broker gives after a settlement. The log keeps the whole texts.
func TestDeadLetterReasonsAreCut(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.MaxDeliveryCount = 1
	long := strings.Repeat("x", 4096)
	const header = 62 << 10
	empty := len(deadLetterChanges("", ""))
	for _, c := range []struct {
		name                string
		how                 SettleOutcome
		header              int
		changes             []byte
		reason, description string
	}{
		{"fits", MoveToDeadLetter, 60 << 10, deadLetterChanges("why", long[:2048]), "why", long[:2048]},
		{"description", MoveToDeadLetter, header, deadLetterChanges("why", long), "why", long[:maxChanges-header-empty-len("why")-3]},
		{"reason", MoveToDeadLetter, header, deadLetterChanges(long, "because"), long[:maxChanges-header-empty-3], ""},
		{"neither", MoveToDeadLetter, maxChanges - empty + 1, deadLetterChanges("why", "because"), headerReason, headerText},
		{"the broker's", Abandon, maxChanges - empty - 30, nil, "MaxDeliveryCountExceeded", "Messag"},
	} {
		h := byHand(t, p)
		h.fill(2, 0)
		r := h.receiver(1, event.Main)
		h.turn(&Attach{r}, &Flow{Receiver: r, Limit: 2})
		cmd := &Settle{Slice: handEntity, Token: h.got[0].Delivery().Token, More: []event.LockToken{h.got[1].Delivery().Token}, Outcome: c.how,
			Changes: c.changes, Headers: []int{c.header}, Reason: "given", Description: long}
		h.got = nil
		if got := h.ask(cmd); got.Err != nil {
			t.Fatal(c.name, got.Err)
		}
		if n := h.count(event.DeadLetter, index.Active); n != 2 {
			t.Fatalf("%s: %d dead letters", c.name, n)
		}
		for seq := event.SequenceNumber(1); seq <= 2; seq++ {
			m, _ := h.loop.part.index.Message(handEntity, seq)
			changes, err := h.plog.ReadBlob(m.Changes[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			reason, description := told(t, changes)
			if seq == 1 && c.how == MoveToDeadLetter { // of which nothing is known
				if string(changes) != string(c.changes) {
					t.Errorf("%s: the other one has %.50q and %.50q", c.name, reason, description)
				}
			} else if seq == 2 && (reason != c.reason || description != c.description) {
				t.Errorf("%s: %.50q and %.50q of %d bytes, want %.50q and %.50q of %d bytes", c.name, reason, description, len(description),
					c.reason, c.description, len(c.description))
			}
		}
	}
}
