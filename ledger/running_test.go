package ledger_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/ledger"
	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
)

// What takes its time says how far it has come, before the answer.
func TestRunning(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "day")
	if err := history.Make(t.Context(), dir, history.Options{Events: 150_000, Dead: 100, Queues: 1, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	s, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, ask := range map[string]func(*ledger.Ledger) error{
		"when": func(l *ledger.Ledger) error { return l.When(t.Context(), history.Queue(0)+".dead > 999999999", nil) },
		"why": func(l *ledger.Ledger) error {
			return l.Why(t.Context(), address.Address{Entity: history.Queue(0), SubQueue: event.DeadLetter})
		},
	} {
		var lines []ledger.Line
		if err := ask(ledger.New(s, func(l ledger.Line) error { lines = append(lines, l); return nil })); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first := lines[0]; first.Part != ledger.Note || !strings.HasPrefix(first.Text, "running: ") {
			t.Errorf("%s begins with %q", name, first.Text)
		}
		if last := lines[len(lines)-1]; last.Part == ledger.Note {
			t.Errorf("%s ends with %q", name, last.Text)
		}
	}
}
