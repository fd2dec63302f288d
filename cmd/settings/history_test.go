package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// How long history is kept is said by flag, environment or file; what is not said is left to the
// log.
func TestHistory(t *testing.T) {
	t.Parallel()
	s, err := Load(Sources{})
	if err != nil || !cmp.Equal(s.History, History{}) {
		t.Errorf("by default %+v, %v (-want +got):\n%s", s.History, err, cmp.Diff(History{}, s.History))
	}
	s, err = Load(Sources{File: write(t, "c.yaml", "history-events: 7d\nhistory-share: 20\nhistory-before-sends: false\n", 0o644),
		Env: environment("LEDGERBUS_HISTORY_UNDO", "unlimited"), Flags: map[string][]string{"history-bodies": {"none"}, "history-before-sends": {"true"}}})
	want := History{Policy: event.HistoryPolicy{Events: 7 * 86_400_000, Bodies: event.KeepNone, Undo: event.KeepForever}, Share: 20, BeforeSends: engine.BeforeSendsYes}
	if err != nil || !cmp.Equal(s.History, want) {
		t.Errorf("%+v, %v (-want +got):\n%s", s.History, err, cmp.Diff(want, s.History))
	}
	for word, texts := range map[string][]string{"history-events": {"", "0s", "week", "-1h"}, "history-share": {"0", "101", "x"}, "history-before-sends": {"", "maybe"}} {
		for _, text := range texts {
			if _, err := Load(Sources{Flags: map[string][]string{word: {text}}}); err == nil || !strings.Contains(err.Error(), "--"+word) {
				t.Errorf(`--%s %q: %v; want err != nil && strings.Contains(err.Error(), "--"+word)`, word, text, err)
			}
		}
	}
}
