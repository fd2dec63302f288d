package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Policies of entities are in the config file. A mistake is reported with its line.
func TestHistoryPatterns(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "history:\n  events: 30d\n  policies:\n  - pattern: Orders/*\n    bodies: none\n  - {pattern: audit, events: unlimited, bodies: 365d, undo: 36h}\n", 0o600)
	s, err := Load(Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	want := []PatternPolicy{{Pattern: "Orders/*", Policy: event.HistoryPolicy{Bodies: event.KeepNone}, Where: file + ":4: history.policies[0]"},
		{Pattern: "audit", Policy: event.HistoryPolicy{Events: event.KeepForever, Bodies: 365 * 86_400_000, Undo: 36 * 3_600_000}, Where: file + ":6: history.policies[1]"}}
	if !slices.Equal(s.History.Patterns, want) || s.History.Policy.Events != 30*86_400_000 {
		t.Errorf("%+v; want slices.Equal(s.History.Patterns, want) && s.History.Policy.Events == 30*86_400_000", s.History)
	}
	file = write(t, "wrong.yaml", "history-policies:\n- {pattern: a, bodies: soon}\n- {pattern: a b, bodies: 1h}\n- {pattern: A, undo: none, undo: 1d}\n- {pattern: c}\n- {pattern: d, share: 3, events: 1d}\n- 7\n", 0o600)
	_, err = Load(Sources{File: file})
	for _, part := range []string{`:2: history-policies[0].bodies: "soon" is not a duration from 1ms to 36500d, none or unlimited: it does not begin with a number`, `:3: history-policies[1]: The pattern contains ' '`, `:4: history-policies[2].undo: given twice`, `:4: history-policies[2]: two policies are for "A"`,
		`:5: history-policies[3]: sets nothing`, `:6: history-policies[4].share: unknown key`, `:7: history-policies[5]: must have the key pattern`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
	if _, err = Load(Sources{File: write(t, "no.yaml", "history-policies: none\n", 0o600)}); err == nil || !strings.Contains(err.Error(), "must be a list of policies") {
		t.Errorf(`%+v; want err != nil && strings.Contains(err.Error(), "must be a list of policies")`, err)
	}
}
