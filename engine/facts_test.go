package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Every outcome has its name in the log, and so has every code that a send or a settlement is
// refused with.
func TestFactsInTheLogsWords(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[SettleOutcome]event.Wanted{Complete: event.WantedComplete, Abandon: event.WantedAbandon,
		Release: event.WantedRelease, Defer: event.WantedDefer, MoveToDeadLetter: event.WantedDeadLetter} {
		if got := outcome.Wanted(); got != want {
			t.Errorf("outcome %d is %v in the log, it must be %v", outcome, got, want)
		}
	}
	seen := map[event.Refusal]Code{}
	for _, code := range []Code{LockLost, SessionLockLost, Disabled, NotAllowed, InvalidArgument, MessageTooLarge, EntityFull, Busy,
		NoMatchingSubscription, NotFound, Timeout} {
		why := code.Refusal()
		if other, twice := seen[why]; twice {
			t.Errorf("codes %d and %d are both %v in the log", code, other, why)
		}
		if seen[why] = code; (why == event.RefusedOther) != (code == Timeout) {
			t.Errorf("code %d is %v in the log", code, why)
		}
	}
}

// The refusal of a settlement is noted with the message, as long as that is known, and with several
// tokens, with the message of the wrong one.
func TestRefusalIsAboutOneToken(t *testing.T) {
	t.Parallel()
	s := newScript()
	live, wrong := event.LockToken{15: 1}, event.LockToken{15: 9}
	s.run(t, "queue orders lock=30s\nsend a\nreceive")
	origin := &Origin{Link: "worker"}
	for _, c := range []struct {
		cmd   Command
		about event.LockToken
	}{
		{&Settle{Slice: s.slice, Token: live, More: []event.LockToken{wrong}, Outcome: Complete, Origin: origin}, wrong},
		{&Settle{Slice: s.slice, Token: wrong, More: []event.LockToken{live}, Outcome: Complete, Origin: origin}, wrong},
		{&Settle{Slice: s.slice, Token: live, More: []event.LockToken{live}, Outcome: Complete, Origin: origin}, live},
		{&Settle{Slice: s.slice, SubQueue: event.DeadLetter, Token: live, Outcome: MoveToDeadLetter, Origin: origin}, live},
		{&Renew{Slice: s.slice, Tokens: []event.LockToken{live, wrong}, Origin: origin}, wrong},
		{&Settle{Slice: event.Slice{Entity: 77}, Token: live, Outcome: Complete, Origin: origin}, live},
	} {
		out := s.part.Decide(s.now, c.cmd)
		if out.Reply.Err == nil || out.Note == nil || out.Note.Origin != origin {
			t.Errorf("%+v is refused with %v, and noted as %+v", c.cmd, out.Reply.Err, out.Note)
			continue
		}
		fact := out.Note.Fact.(*event.SettlementRefused)
		if known := fact.Slice == s.slice && c.about == live; fact.Token != c.about || (fact.Sequence == 1) != known {
			t.Errorf("%+v is noted as %+v", c.cmd, fact)
		}
	}
	if out := s.part.Decide(s.now, &Settle{Slice: s.slice, Token: live, Outcome: Complete}); out.Note != nil {
		t.Errorf("what was accepted is noted: %+v", out.Note)
	}
}

// The first fact of an origin defines it; later ones use the number.
func TestFactsDefineTheirOrigin(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	note := &Note{Origin: &Origin{Link: "worker"}, Fact: &event.SettlementRefused{Envelope: event.Envelope{Slice: testSlice},
		Wanted: event.WantedRenew, Why: event.RefusedLockLost, Missed: 3}}
	for i, want := range []int{2, 1} {
		out := p.Decide(1, note)
		if len(out.Events) != want || !out.Lazy {
			t.Fatalf("time %d: %v, lazy: %t", i, out.Events, out.Lazy)
		}
		ev := out.Events[want-1].(*event.SettlementRefused)
		if ev.Origin != 1 || ev.Missed != 3 {
			t.Errorf("time %d: %+v", i, ev)
		}
		p.Adopt(&out)
		for _, ev := range out.Events {
			p.Apply(1, ev)
		}
	}
}
