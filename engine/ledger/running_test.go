package ledger_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
)

// A slow answer tells its progress before the result.
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
	late := ledger.Instant{At: history.Begins + event.Time(23*time.Hour/time.Millisecond)}
	for name, ask := range map[string]func(*ledger.Ledger) error{
		"when": func(l *ledger.Ledger) error { return l.When(t.Context(), history.Queue(0)+".dead > 999999999", nil) },
		"why": func(l *ledger.Ledger) error {
			return l.Why(t.Context(), address.Address{Entity: history.Queue(0), SubQueue: event.DeadLetter})
		},
		"at": func(l *ledger.Ledger) error { return l.At(t.Context(), late, history.Queue(0), false) },
		"diff": func(l *ledger.Ledger) error {
			return l.Diff(t.Context(), ledger.Instant{At: history.Begins}, late, history.Queue(0), false)
		},
		"debug, continue": func(l *ledger.Ledger) error {
			d, err := ledger.NewDebugger(t.Context(), l, nil, time.Now)
			if err != nil {
				return err
			}
			defer d.Close()
			for _, command := range []string{"break number = 999999999", "continue"} {
				if err := d.Do(t.Context(), command); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		var lines []ledger.Line
		if err := ask(ledger.New(s, func(l ledger.Line) error { lines = append(lines, l); return nil })); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		said := slices.IndexFunc(lines, func(l ledger.Line) bool { return l.Part == ledger.Note && strings.HasPrefix(l.Text, "running: ") })
		// diff first tells what it compares
		answered := slices.IndexFunc(lines, func(l ledger.Line) bool { return l.Part == ledger.Answer && !strings.HasPrefix(l.Text, "from ") })
		if said < 0 || answered >= 0 && answered < said {
			t.Errorf("%s: of %d lines number %d is the first to say that it is running; the answer is number %d", name, len(lines), said, answered)
		}
		if last := lines[len(lines)-1]; strings.HasPrefix(last.Text, "running: ") {
			t.Errorf("%s ends with %q", name, last.Text)
		}
	}
}
