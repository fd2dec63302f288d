package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
)

var (
	benchEvents = flag.Int("events", 300_000, "of the history that benchmarks make")
	benchDir    = flag.String("day", "", "a directory that go run ./test/history/make has made, in place of one that benchmarks make")
)

// day returns a directory with a day of history.
func day(b *testing.B, o history.Options) string {
	b.Helper()
	if *benchDir != "" {
		return *benchDir
	}
	dir := filepath.Join(b.TempDir(), "day")
	o.Events = *benchEvents
	if err := history.Make(b.Context(), dir, o); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkQuestions measures questions about a day of history, each with a directory that is
// opened for it, as commands do: a process that keeps running opens it once. With -day DIR the
// figures are those of docs/performance.md.
func BenchmarkQuestions(b *testing.B) {
	dir := day(b, history.Options{Dead: 3, Lost: 20, Checkpoint: 1_000_000})
	noon := history.Begins + 12*60*60*1000
	last := middle(b, dir)
	questions := []struct {
		name string
		ask  func(context.Context, *ledger.Ledger) error
	}{
		{"story", func(ctx context.Context, l *ledger.Ledger) error {
			return l.Story(ctx, address.Of(history.Queue(0), last), "")
		}},
		{"message-id", func(ctx context.Context, l *ledger.Ledger) error {
			return l.Story(ctx, address.Address{}, history.MessageID(0, last))
		}},
		{"at", func(ctx context.Context, l *ledger.Ledger) error {
			return l.At(ctx, ledger.Instant{At: noon}, history.Queue(0), false)
		}},
		{"diff", func(ctx context.Context, l *ledger.Ledger) error {
			return l.Diff(ctx, ledger.Instant{At: noon}, ledger.Instant{At: noon + 60*60*1000}, history.Queue(0), false)
		}},
		{"when", func(ctx context.Context, l *ledger.Ledger) error {
			return l.When(ctx, history.Queue(0)+".dead > 999999999", nil)
		}},
		{"why", func(ctx context.Context, l *ledger.Ledger) error {
			return l.Why(ctx, address.Address{Entity: history.Queue(0), SubQueue: event.DeadLetter})
		}},
		{"audit", func(ctx context.Context, l *ledger.Ledger) error { return l.Audit(ctx, ledger.Range{}) }},
		{"strip", func(ctx context.Context, l *ledger.Ledger) error {
			_, err := l.Strip(ctx, ledger.StripQuery{})
			return err
		}},
	}
	for _, q := range questions {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				s, err := log.Open(b.Context(), dir, log.Options{Shared: true})
				if err != nil {
					b.Fatal(err)
				}
				if err := q.ask(b.Context(), ledger.New(s, func(ledger.Line) error { return nil })); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("story-again", func(b *testing.B) { // as a process that keeps running asks
		s, err := log.Open(b.Context(), dir, log.Options{Shared: true})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		l := ledger.New(s, func(ledger.Line) error { return nil })
		for n := event.SequenceNumber(1); b.Loop(); n++ {
			if err := l.Story(b.Context(), address.Of(history.Queue(0), 1+n*7919%last), ""); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// middle returns a message of the first queue about half-way.
func middle(b *testing.B, dir string) event.SequenceNumber {
	b.Helper()
	s, err := log.Open(b.Context(), dir, log.Options{Shared: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for n := event.SequenceNumber(1 << 24); n > 1; n /= 2 {
		if ledger.New(s, func(ledger.Line) error { return nil }).Story(b.Context(), address.Of(history.Queue(0), n), "") == nil {
			return n
		}
	}
	b.Fatal(fmt.Errorf("%s has no messages in %s", dir, history.Queue(0)))
	return 0
}

// BenchmarkDebugger measures steps backwards from the end of a history, and moving back to an event
// far before it.
func BenchmarkDebugger(b *testing.B) {
	dir := day(b, history.Options{Dead: 30, Lost: 20, Checkpoint: 1_000_000})
	s, err := log.Open(b.Context(), dir, log.Options{Shared: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for name, commands := range map[string][]string{"back": {"go end", "back"}, "back-300": {"go end", "back 300"}, "reverse": {"break type = 'created'", "go end", "reverse"},
		"continue": {"break detail = 'nothing'", "go begin", "continue"}} {
		b.Run(name, func(b *testing.B) {
			d, err := ledger.NewDebugger(b.Context(), ledger.New(s, func(ledger.Line) error { return nil }), nil, time.Now)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			for _, c := range commands[:len(commands)-1] {
				if err := d.Do(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := d.Do(b.Context(), commands[len(commands)-1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
