package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// History policies come from flag, environment or file. The log has those that are not given.
func TestHistory(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{})
	if err != nil || !cmp.Equal(s.History, History{}) {
		t.Errorf("by default %+v, %v (-want +got):\n%s", s.History, err, cmp.Diff(History{}, s.History))
	}
	s, err = Load(Sources{File: write(t, "c.yaml", "history:\n  events: 7d\n  share: 20\n  before-sends: false\n", 0o644),
		Env: environment("LEDGERBUS_HISTORY_UNDO", "unlimited"), Flags: map[string][]string{"history.bodies": {"none"}, "history.before-sends": {"true"}}})
	want := History{Policy: event.HistoryPolicy{Events: 7 * 86_400_000, Bodies: event.KeepNone, Undo: event.KeepForever}, Share: 20, BeforeSends: engine.BeforeSendsYes}
	if err != nil || !cmp.Equal(s.History, want) {
		t.Errorf("%+v, %v (-want +got):\n%s", s.History, err, cmp.Diff(want, s.History))
	}
	for word, texts := range map[string][]string{"events": {"", "0s", "week", "-1h"}, "share": {"0", "101", "x"}, "before-sends": {"", "maybe"}} {
		for _, text := range texts {
			if _, err := Load(Sources{Flags: map[string][]string{"history." + word: {text}}}); err == nil || !strings.Contains(err.Error(), "--history-"+word) {
				t.Errorf(`--history-%s %q: %v; want err != nil && strings.Contains(err.Error(), "--history-"+word)`, word, text, err)
			}
		}
	}
}
