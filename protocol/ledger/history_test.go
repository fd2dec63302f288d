package ledger

import (
	"context"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// HistoryPolicies implements [engine.Histories].
func (f *fake) HistoryPolicies() *engine.HistoryPolicies { return f.histories.Catalogue.History() }

// PutHistoryPolicy implements [engine.Histories].
func (f *fake) PutHistoryPolicy(ctx context.Context, cmd engine.PutHistoryPolicy) error {
	if err := f.act(ctx, cmd.Origin, cmd.Why); err != nil {
		return err
	}
	ev, err := cmd.Event(f.HistoryPolicies())
	if err != nil {
		return err
	}
	if ev != nil {
		f.histories.Apply(start, ev)
	}
	return nil
}

// Policies are set, shown and removed; the namespace's are shown with them, and no request changes
// those.
func TestHistoryPolicies(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const path, gone = "/$ledger/v1/history/policies", "/$ledger/v1/history/policies/delete"
	const namespace = `{"namespace":{"events":"7d","bodies":"1d","undo":"1d","share":20,"beforeSends":false},"policies":[`
	a.is(a.do("GET", path, ""), namespace+`]}`)
	a.is(a.do("POST", path, `{"pattern":"Orders/*","bodies":"none","events":"36h"}`, caller.ReasonHeader, "INC-4711"), namespace+`{"pattern":"Orders/*","events":"1d12h","bodies":"none"}]}`)
	if a.fake.by.Principal != "ops" || a.fake.why != (event.ReasonGiven{Reason: "INC-4711"}) {
		t.Errorf(`%+v, %+v; want a.fake.by.Principal == "ops" && a.fake.why == (event.ReasonGiven{Reason: "INC-4711"})`, a.fake.by, a.fake.why)
	}
	a.is(a.do("POST", path, `{"pattern":"orders/eu","undo":"7d"}`), namespace+`{"pattern":"orders/eu","undo":"7d"},{"pattern":"Orders/*","events":"1d12h","bodies":"none"}]}`)
	a.is(a.do("POST", path, `{"pattern":"orders/eu","history":{"undo":"unlimited","events":"90m"}}`), namespace+`{"pattern":"orders/eu","events":"1h30m","undo":"unlimited"},{"pattern":"Orders/*","events":"1d12h","bodies":"none"}]}`)
	a.is(a.do("POST", gone, `{"pattern":"orders/EU"}`), namespace+`{"pattern":"Orders/*","events":"1d12h","bodies":"none"}]}`)
	for body, fragment := range map[string]string{
		``: "pattern is empty", `{"pattern":"","events":"7d"}`: "pattern is empty", `{"pattern":"a"}`: "is empty", `{"pattern":"a","events":"soon"}`: "retention events",
		`{"pattern":"a b","events":"7d"}`: "not allowed in a path", `{"pattern":"a","share":3}`: "unknown field", `{"pattern":"a","undo":"0s"}`: "from 1ms",
		`{"pattern":"a","events":"7d","history":{"undo":"7d"}}`: "inside history and outside it", `{"pattern":"a","history":{"undo":"64MiB"}}`: "retention undo: \"64MiB\" is not a duration from 1ms to 36500d, none or unlimited: it is a size",
		`{"pattern":"a","history":{"share":3}}`: "unknown field", `{"pattern":"a","history":"7d"}`: "cannot be read", `{"pattern":"a","history":{}}`: "is empty",
	} {
		a.refused(a.do("POST", path, body), 400, "invalid", fragment)
	}
	a.refused(a.do("POST", gone, `{"pattern":"orders/eu"}`), 404, "not-found", "There is no history policy")
	a.fake.fail = engine.Refuse(engine.Busy, "The server is busy.")
	a.refused(a.do("POST", path, `{"pattern":"a","undo":"7d"}`), 503, "busy", "busy")
}
