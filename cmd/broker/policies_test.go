package broker_test

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// The retention in the settings applies at each start, and is an event if it changes something.
// Removed settings keep their last value, and so do policies set by a request of the broker's own
// API.
func TestHistoryPolicies(t *testing.T) {
	t.Parallel()
	data, given := "", settings.History{Policy: event.HistoryPolicy{Events: 7 * 86_400_000, Bodies: event.KeepNone}}
	b := harness.Start(t, func(s *settings.Settings) { data, s.History = s.Storage.Data, given })
	shows := func(want wire.HistoryPolicies) {
		t.Helper()
		got, err := connect(t, b.ConnectionString(), admin.Options{}).HistoryPolicies(t.Context())
		if err != nil || got.Namespace != want.Namespace || len(got.Policies) != len(want.Policies) {
			t.Fatalf("%+v, %v; want got.Namespace == want.Namespace && len(got.Policies) == len(want.Policies)", got, err)
		}
		for i := range want.Policies {
			if got.Policies[i] != want.Policies[i] {
				t.Errorf("%+v, want %+v", got.Policies[i], want.Policies[i])
			}
		}
	}
	want := wire.HistoryPolicies{Namespace: wire.NamespaceHistory{HistoryPolicy: wire.HistoryPolicy{Events: "7d", Bodies: "none", Undo: "1d"}, Share: 20}}
	shows(want)
	c := connect(t, b.ConnectionString(), admin.Options{Reason: "INC-4711"})
	orders, gone := wire.HistoryPolicy{Pattern: "orders/*", Bodies: "90d"}, wire.HistoryPolicy{Pattern: "gone", Undo: "none"}
	for _, p := range []wire.HistoryPolicy{gone, orders} {
		_, err := c.SetHistoryPolicy(t.Context(), p)
		must(t, err)
	}
	if all, err := c.DeleteHistoryPolicy(t.Context(), "gone"); err != nil || len(all.Policies) != 1 {
		t.Errorf("%+v, %v; want len(all.Policies) == 1", all, err)
	}
	if _, err := c.DeleteHistoryPolicy(t.Context(), "gone"); err == nil || !strings.Contains(err.Error(), "There is no history policy") {
		t.Errorf("deleted twice: %v", err)
	}
	want.Policies = []wire.HistoryPolicy{orders}
	b.Crash() // and starts again, with the same settings: no event
	shows(want)
	b.Stop()
	var dump strings.Builder
	must(t, tools.Dump(&dump, data, tools.DumpOptions{Partition: 0, JSON: true}))
	for part, times := range map[string]int{`"Event":"HistoryPolicySet"`: 4, `"Policy":{"Events":"7d","Bodies":"none"}`: 1, `"Reason":"settings of the start"`: 1, `"Pattern":"gone","Removed":true`: 1, "INC-4711": 3} {
		if n := strings.Count(dump.String(), part); n != times {
			t.Errorf("%d of %s in the dump\n%s", n, part, dump.String())
		}
	}
}

// Policies of entities in the settings are events at the first start that has them, unless the log
// already has them. Other policies in the log stay.
func TestHistoryPoliciesOfSettings(t *testing.T) {
	t.Parallel()
	data := ""
	b := harness.Start(t, func(s *settings.Settings) {
		data = s.Storage.Data
		s.History.Patterns = []settings.PatternPolicy{{Pattern: "orders/*", Policy: event.HistoryPolicy{Bodies: event.KeepNone}}}
	})
	c := connect(t, b.ConnectionString(), admin.Options{})
	_, err := c.SetHistoryPolicy(t.Context(), wire.HistoryPolicy{Pattern: "audit", Events: "unlimited"})
	must(t, err)
	b.Crash()
	all, err := connect(t, b.ConnectionString(), admin.Options{}).HistoryPolicies(t.Context())
	if err != nil || len(all.Policies) != 2 || all.Policies[0].Pattern != "orders/*" || all.Policies[0].Bodies != "none" || all.Policies[1].Pattern != "audit" {
		t.Errorf(`%+v, %v; want len(all.Policies) == 2 && all.Policies[0].Pattern == "orders/*" && all.Policies[0].Bodies == "none" && all.Policies[1].Pattern == "audit"`, all, err)
	}
	b.Stop()
	var dump strings.Builder
	must(t, tools.Dump(&dump, data, tools.DumpOptions{Partition: 0, JSON: true}))
	if n := strings.Count(dump.String(), `"Pattern":"orders/*"`); n != 1 {
		t.Errorf("said %d times\n%s", n, dump.String())
	}
}
