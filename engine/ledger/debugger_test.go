package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// replayedLogs holds all events of some logs, in the order in which a debugger passes them, with
// the states that a replay of each log reaches.
type replayedLogs struct {
	events []replayedEvent
	begin  [][sha256.Size]byte
}

type replayedEvent struct {
	log    log.PartitionID
	at     event.Time
	lsn    event.LSN
	number int
	i      int
	verb   string
	after  [sha256.Size]byte // of the log
}

func replayLogs(t *testing.T, src Source) *replayedLogs {
	t.Helper()
	all := &replayedLogs{}
	for _, id := range src.Partitions() {
		p, err := src.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		s := replay.Begin(p)
		all.begin = append(all.begin, s.Hash())
		for rec, err := range s.Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for i, ev := range rec.Events {
				e := replayedEvent{log: id, at: rec.At, lsn: rec.LSN, number: rec.Number, i: i, verb: verb(ev)}
				if err := s.Step(rec); err != nil {
					t.Fatal(err)
				}
				e.after = s.Hash()
				all.events = append(all.events, e)
			}
		}
	}
	slices.SortStableFunc(all.events, func(a, b replayedEvent) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.log, b.log)) })
	return all
}

// compare compares the debugger's states with those after n events.
func (all *replayedLogs) compare(t *testing.T, d *Debugger, n int) {
	t.Helper()
	p, ok := d.current()
	if ok != (n > 0) {
		t.Fatalf("behind %d events it has a current one: %v; at %d, trail from %d to %d, first mark at %d", n, ok, d.at, d.tail, d.head, d.list[0].at)
	}
	if ok {
		e := all.events[n-1]
		if is := (spot{p.book, e.lsn, e.number, e.i}); p.spot != is || p.book.ID() != e.log {
			t.Fatalf("behind %d events it is at %d/%d/%d/%d, not %+v", n, p.book.ID(), p.lsn, p.number, p.i, e)
		}
	}
	want := slices.Clone(all.begin)
	for _, e := range all.events[:n] {
		want[e.log] = e.after
	}
	for i := range d.books {
		h := sha256.New()
		if _, err := d.view(i, d.at).Encode(h); err != nil {
			t.Fatal(err)
		}
		if [sha256.Size]byte(h.Sum(nil)) != want[i] {
			t.Fatalf("another state of log %d behind %d events", i, n)
		}
	}
}

func (m *model) debugger(from *Instant, l limits) *Debugger {
	m.t.Helper()
	d, err := NewDebugger(m.t.Context(), New(m.dir, func(Line) error { return nil }), nil, func() time.Time { return time.UnixMilli(int64(m.now)) })
	if err != nil {
		m.t.Fatal(err)
	}
	d.limits = l
	if err := d.begin(m.t.Context(), &mark{}); err != nil {
		m.t.Fatal(err)
	}
	if from != nil {
		if err := d.leap(m.t.Context(), *from); err != nil && !errors.Is(err, errBeginning) {
			m.t.Fatalf("%v; want no error or errBeginning", err)
		}
	}
	m.t.Cleanup(d.Close)
	return d
}

var smallLimits = limits{trail: 8, trailBytes: 1 << 20, marks: 4, markBytes: 64 << 20, markDistance: 11}

// Wherever a debugger moves, forwards and backwards, from wherever it began, its states are those
// of a replay.
func TestDebuggerStates(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			all := replayLogs(t, m.dir)
			for _, l := range []limits{smallLimits, {trail: 3, marks: 64, markBytes: 1, markDistance: 5}, usualLimits} {
				d := m.debugger(nil, l)
				all.compare(t, d, 0)
				for n := range all.events { // each event, forwards
					if err := d.seek(t.Context(), d.at+1); err != nil {
						t.Fatal(err)
					}
					all.compare(t, d, n+1)
				}
				if err := d.seek(t.Context(), d.at+1); !errors.Is(err, errEnd) {
					t.Fatalf("behind the last event: %v", err)
				}
				for n := len(all.events); n > 0; n-- { // and backwards
					all.compare(t, d, n)
					if err := d.seek(t.Context(), d.at-1); err != nil {
						t.Fatalf("from %d: %v", n, err)
					}
				}
				all.compare(t, d, 0)
				all.wander(t, m, l)
			}
		})
	}
}

// wander takes a debugger to random places.
func (all *replayedLogs) wander(t *testing.T, m *model, l limits) {
	for range 3 {
		i := m.rng.IntN(len(all.events))
		from := &Instant{At: all.events[i].at}
		d := m.debugger(from, l)
		n := 0
		for n < len(all.events) && all.events[n].at <= from.At {
			n++
		}
		for range 40 {
			all.compare(t, d, n)
			step := m.rng.IntN(60) - 30
			err := d.seek(t.Context(), d.at+int64(step))
			want := max(0, min(len(all.events), n+step))
			if want != n+step && !errors.Is(err, errEnd) && !errors.Is(err, errBeginning) || want == n+step && err != nil {
				t.Fatalf("from %d by %d of %d: %v", n, step, len(all.events), err)
			}
			n = want
		}
	}
}

// A debugger stops at all events that match a breakpoint and at no others, forwards and backwards.
func TestDebuggerBreaks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		m := newModel(t, seed)
		all := replayLogs(t, m.dir)
		var want []int
		for i, e := range all.events {
			if e.verb == "dead" || e.verb == "lost" {
				want = append(want, i+1)
			}
		}
		if len(want) < 10 {
			t.Fatalf("%d of them", len(want))
		}
		d := m.debugger(nil, smallLimits)
		if err := d.Do(t.Context(), "break type IN ('dead', 'lost')"); err != nil {
			t.Fatal(err)
		}
		for _, n := range want {
			if err := d.ahead(t.Context()); err != nil {
				t.Fatal(err)
			}
			all.compare(t, d, n)
		}
		if err := d.ahead(t.Context()); !errors.Is(err, errEnd) {
			t.Fatalf("%+v; want errors.Is(err, errEnd)", err)
		}
		all.compare(t, d, len(all.events))
		slices.Reverse(want)
		for _, n := range want {
			if n == len(all.events) { // it is there
				continue
			}
			if err := d.behind(t.Context()); err != nil {
				t.Fatal(err)
			}
			all.compare(t, d, n)
		}
		if err := d.behind(t.Context()); !errors.Is(err, errBeginning) {
			t.Fatalf("%+v; want errors.Is(err, errBeginning)", err)
		}
		all.compare(t, d, 0)
	}
}

// Breakpoints on counts are after the events that made them true.
func TestDebuggerCounts(t *testing.T) {
	t.Parallel()
	m := newModel(t, 7)
	all := replayLogs(t, m.dir)
	d := m.debugger(nil, smallLimits)
	counts := func() int {
		c := d.countAt(d.l.names.byPath["orders"][0], event.Main, d.at)
		return c.Active
	}
	var want []int
	was := 0
	for n := range all.events {
		if err := d.seek(t.Context(), int64(n+1)); err != nil {
			t.Fatal(err)
		}
		is := counts()
		if is > 3 && was <= 3 {
			want = append(want, n+1)
		}
		was = is
	}
	if len(want) == 0 {
		t.Fatal("it is never so")
	}
	if err := errors.Join(d.Do(t.Context(), "break when orders.active > 3"), d.Do(t.Context(), "go begin")); err != nil {
		t.Fatal(err)
	}
	for _, n := range want {
		if err := d.ahead(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.compare(t, d, n)
	}
}

// The debugger prints the same at a place as the answer to the question about the state there.
func TestDebuggerPrints(t *testing.T) {
	t.Parallel()
	m := newModel(t, 3)
	all := replayLogs(t, m.dir)
	var lines []Line
	d := m.debugger(nil, smallLimits)
	d.l.tell = keep(&lines)
	for range 20 {
		at := all.events[m.rng.IntN(len(all.events))].at
		if err := d.leap(t.Context(), Instant{At: at}); err != nil && !errors.Is(err, errBeginning) {
			t.Fatalf("%v; want no error or errBeginning", err)
		}
		lines = nil
		if err := d.Do(t.Context(), "print orders"); err != nil {
			t.Fatal(err)
		}
		got := rowsOf(lines)
		counts, err := m.ask(func(l *Ledger) error { return l.At(t.Context(), Instant{At: at}, "orders", false) })
		if err != nil {
			t.Fatal(err)
		}
		messages, err := m.ask(func(l *Ledger) error { return l.At(t.Context(), Instant{At: at}, "orders", true) })
		if err != nil {
			t.Fatal(err)
		}
		if want := append(rowsOf(counts), rowsOf(messages)...); !slices.Equal(got, want) {
			t.Fatalf("at %v:\n%s\nwant\n%s", at, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// rowsOf returns the rows of an answer, as text.
func rowsOf(lines []Line) (list []string) {
	for _, l := range lines {
		if l.Part == Row {
			list = append(list, l.Text)
		}
	}
	return list
}

// The output of the commands for a small history, for people and for programs.
func TestDebuggerShows(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	d := m.debugger(nil, usualLimits)
	var lines []Line
	d.l.tell = keep(&lines)
	do := func(command string) string {
		t.Helper()
		lines = nil
		if err := d.Do(t.Context(), command); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		var texts []string
		for _, l := range lines {
			texts = append(texts, l.Text)
			p, err := l.Fields.AppendJSON(nil)
			if err != nil || !json.Valid(p) {
				t.Errorf("%s: %s, %v", command, p, err)
			}
		}
		return strings.Join(texts, "\n")
	}
	if got := do("where"); got != "before the first event" {
		t.Errorf(`%q, want "before the first event"`, got)
	}
	do("break type = 'sent' AND entity = 'orders'")
	got := do("c")
	for _, want := range []string{"  sent       orders#1  id 0-1, ", "\n  orders#1: not there → active\n  orders: active 0 → 1 · size 0 → "} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	if got := do("b 1000"); got != "history begins here\nbefore the first event" {
		t.Errorf(`%q, want "history begins here\nbefore the first event"`, got)
	}
	if got := do("n 100000"); !strings.HasPrefix(got, "history ends here\n") || !strings.Contains(got, "@") {
		t.Errorf(`%q; want strings.HasPrefix(got, "history ends here\n") && strings.Contains(got, "@")`, got)
	}
	if got := do("help"); !strings.Contains(got, "no rule is run again") || strings.Count(got, "\n") != len(debugCommands()) {
		t.Errorf(`%q; want strings.Contains(got, "no rule is run again") && strings.Count(got, "\n") == len(debugCommands())`, got)
	}
	if got := do("l 3"); strings.Count(got, "\n") != 3 { // at the end: three before it, and itself
		t.Errorf(`%q; want strings.Count(got, "\n") == 3`, got)
	}
	if got := do("delete 1"); got != "breakpoint 1 is removed" {
		t.Errorf(`%q, want "breakpoint 1 is removed"`, got)
	}
	for _, bad := range []string{"nix", "n -1", "n 1x", "break", "break type IN", "break when orders", "break when nobody.active > 1", "delete 9", "go nowhere", "p @0/8", "p nobody", "p orders#999999",
		"go @1/17", "break \x1b[31m"} {
		if err := d.Do(t.Context(), bad); !errors.Is(err, ErrQuestion) && !errors.Is(err, ErrNothing) {
			t.Errorf("%q: %v; want ErrQuestion or ErrNothing", bad, err)
		} else if strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q steers a terminal", err)
		}
	}
	if err := d.Do(t.Context(), "q"); !errors.Is(err, ErrQuit) {
		t.Errorf("%+v; want errors.Is(err, ErrQuit)", err)
	}
}

// The memory of marks is bounded, however many events are passed, and the kept marks are spread
// over them.
func TestDebuggerMarks(t *testing.T) {
	t.Parallel()
	m := newModel(t, 5)
	d := m.debugger(nil, limits{trail: 4, trailBytes: 1 << 20, marks: 100, markBytes: 3000, markDistance: 4})
	if err := d.seek(t.Context(), 1<<40); !errors.Is(err, errEnd) {
		t.Fatalf("%+v; want errors.Is(err, errEnd)", err)
	}
	if n := d.keptBytes(); n > 3000 || len(d.list) < 3 {
		t.Errorf("%d marks of %d bytes", len(d.list), n)
	}
	if len(d.trail) > 4 {
		t.Errorf("a trail of %d", len(d.trail))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		if err := d.seek(t.Context(), 1+rng.Int64N(d.head)); err != nil {
			t.Fatal(err)
		}
	}
}
