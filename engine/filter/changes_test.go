package filter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The changes of an action are properties to set, properties to remove, and system properties. The
// broker's additions take precedence over those of an action. The memory is reused.
func TestChangesAsValues(t *testing.T) {
	t.Parallel()
	r := compiledAction(t, "SET Color = 'red' SET n = 5 SET RuleName = 'mine' REMOVE x REMOVE id SET sys.Label = 'l' REMOVE sys.SessionId REMOVE absent", nil)
	var c Changes
	if err := r.Run(message(t, "color='blue' X=1"), ids(), &c); err != nil {
		t.Fatal(err)
	}
	got := event.RuleChanges{Set: event.Changes{{Name: "old"}}, Removed: []string{"old"}, System: event.Changes{{Name: "old"}}}
	c.Values(&got, event.Property{Name: "RuleName", Value: text("r")}, event.Property{Name: "id", Value: whole(1)})
	want := event.RuleChanges{
		Set: event.Changes{{Name: "RuleName", Value: text("r")}, {Name: "id", Value: whole(1)}, {Name: "color", Value: text("red")},
			{Name: "n", Value: longValue(5)}},
		Removed: []string{"X"},
		System:  event.Changes{{Name: "Label", Value: text("l")}, {Name: "SessionId"}},
	}
	if !cmp.Equal(got, want) {
		t.Errorf("%+v\nwant %+v (-want +got):\n%s", got, want, cmp.Diff(want, got))
	}
	var none Changes
	if none.Values(&got); len(got.Set)+len(got.Removed)+len(got.System) > 0 {
		t.Errorf("%+v; want len(got.Set) + len(got.Removed) + len(got.System) <= 0", got)
	}
}
