package engine

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A policy of history is an event with its reason if it changes something, and no event otherwise.
// Fields of the namespace that are not given stay; the policy of a pattern is replaced.
func TestPutHistoryPolicy(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	by := &Origin{Link: "ledger"}
	why := event.ReasonGiven{Reason: "audit"}
	week, none := event.HistoryPolicy{Events: 7 * 86_400_000}, event.HistoryPolicy{Bodies: event.KeepNone}
	for i, step := range []struct {
		cmd     PutHistoryPolicy
		want    string
		refused Code
	}{
		{cmd: PutHistoryPolicy{Why: event.ReasonGiven{Reason: "from now on"}}, want: `HistoryPolicySet, because "from now on" "" of 0 by 0`},
		{cmd: PutHistoryPolicy{}},
		{cmd: PutHistoryPolicy{Policy: week, Why: why}, want: `HistoryPolicySet, because "audit" "" of 0 by 0`},
		{cmd: PutHistoryPolicy{Policy: week}},
		{cmd: PutHistoryPolicy{Share: 20}, want: "HistoryPolicySet"},
		{cmd: PutHistoryPolicy{BeforeSends: BeforeSendsNo}},
		{cmd: PutHistoryPolicy{BeforeSends: BeforeSendsYes, Policy: none}, want: "HistoryPolicySet"},
		{cmd: PutHistoryPolicy{Pattern: "Orders/*", Policy: none, Origin: by, Why: why}, want: `OriginDefined, HistoryPolicySet, because "audit" "" of 0 by 1`},
		{cmd: PutHistoryPolicy{Pattern: "orders/*", Policy: none, Origin: by}},
		{cmd: PutHistoryPolicy{Pattern: "orders/*", Policy: week, Origin: by}, want: "HistoryPolicySet"},
		{cmd: PutHistoryPolicy{Pattern: "orders/*"}, refused: InvalidArgument},
		{cmd: PutHistoryPolicy{Pattern: "/", Policy: week}, refused: InvalidArgument},
		{cmd: PutHistoryPolicy{Pattern: "other", Remove: true}, refused: NotFound},
		{cmd: PutHistoryPolicy{Pattern: "ORDERS/*", Remove: true, Origin: by, Why: why}, want: `HistoryPolicySet, because "audit" "" of 0 by 1`},
		{cmd: PutHistoryPolicy{Pattern: "ORDERS/*", Remove: true}, refused: NotFound},
	} {
		out := p.Decide(event.Time(i+1), &step.cmd)
		var refusal *Error
		if got := record(out.Events); got != step.want || errors.As(out.Reply.Err, &refusal) != (step.refused != 0) || refusal != nil && refusal.Code != step.refused {
			t.Errorf("%d: %s, %v; want got == step.want && errors.As(out.Reply.Err, &refusal) == (step.refused != 0) && (refusal == nil || refusal.Code == step.refused)", i, got, out.Reply.Err)
		}
		if len(out.Events) > 0 {
			adopt(p, &out)
		}
	}
	whole := p.HistoryPolicies().Whole()
	if whole.Policy != (event.HistoryPolicy{Events: week.Events, Bodies: event.KeepNone, Undo: index.DefaultHistory.Policy.Undo}) || whole.Share != 20 || !whole.BeforeSends {
		t.Errorf("%+v; want whole.Policy == (event.HistoryPolicy{Events: week.Events, Bodies: event.KeepNone, Undo: index.DefaultHistory.Policy.Undo}) && whole.Share == 20 && whole.BeforeSends", whole)
	}
	for i := range maxHistoryPolicies + 1 {
		out := p.Decide(100, &PutHistoryPolicy{Pattern: "q" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), Policy: week})
		if (out.Reply.Err != nil) != (i == maxHistoryPolicies) {
			t.Fatalf("policy %d: %v", i, out.Reply.Err)
		}
		if len(out.Events) > 0 {
			adopt(p, &out)
		}
	}
}
