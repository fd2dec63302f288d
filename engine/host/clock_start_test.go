package host

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// indexAt returns an index whose newest record has the time given, and that has a decision about
// the clock.
func indexAt(t event.Time, c index.Clock) *index.Index {
	x := index.New()
	if c.Number != 0 {
		x.Apply(t, &event.ClockSet{Number: c.Number, From: t - event.Time(c.Shift), To: t})
	}
	x.Apply(t, &event.OriginDefined{ID: 1})
	return x
}

// reliability.md 1.4: which clocks are refused, to the millisecond, and where broker time begins.
func TestClockRules(t *testing.T) {
	t.Parallel()
	wall := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := event.TimeOf(wall)
	const hour, day = event.Time(3_600_000), event.Time(86_400_000)
	for name, c := range map[string]struct {
		newest  event.Time // 0: there is no record
		rules   ClockRules
		refused string
		at      event.Time
		gap     time.Duration
		decided AcceptClock
	}{
		"nothing there":                   {at: now},
		"an hour behind":                  {newest: now + hour, at: now + hour},
		"more than an hour behind":        {newest: now + hour + 1, refused: "before the newest event"},
		"behind, the clock":               {newest: now + hour, rules: ClockRules{Accept: AcceptWall}, at: now, decided: AcceptWall},
		"as good as together, the clock":  {newest: now + 600_000, rules: ClockRules{Accept: AcceptWall}, at: now + 600_000},
		"as good as together, the log":    {newest: now - 600_000, rules: ClockRules{Accept: AcceptLog}, at: now},
		"down, the clock":                 {newest: now - 2*hour, rules: ClockRules{Accept: AcceptWall}, at: now, decided: AcceptWall},
		"down, the log":                   {newest: now - 2*hour, rules: ClockRules{Accept: AcceptLog}, at: now - 2*hour, decided: AcceptLog},
		"the clock is right":              {newest: now + hour + 1, rules: ClockRules{Accept: AcceptWall}, at: now, decided: AcceptWall},
		"the log is right":                {newest: now + hour + 1, rules: ClockRules{Accept: AcceptLog}, at: now + hour + 1, decided: AcceptLog},
		"ten minutes down":                {newest: now - 600_000, at: now},
		"more than ten minutes down":      {newest: now - 600_001, at: now, gap: 600_001 * time.Millisecond},
		"400 days down":                   {newest: now - 400*day, at: now, gap: 9600 * time.Hour},
		"more than 400 days down":         {newest: now - 400*day - 1, refused: "after the newest event"},
		"down for long, the clock":        {newest: now - 4000*day, rules: ClockRules{Accept: AcceptWall}, at: now, decided: AcceptWall},
		"down for long, the log":          {newest: now - 4000*day, rules: ClockRules{Accept: AcceptLog}, at: now - 4000*day, decided: AcceptLog},
		"further than the settings allow": {newest: now - 2*hour, rules: ClockRules{MaxGap: time.Hour}, refused: "clock.max-gap"},
		"before the program":              {rules: ClockRules{Earliest: wall.Add(1)}, refused: "before this program"},
		"the day of the program":          {rules: ClockRules{Earliest: wall}, at: now},
		"before the program, the log":     {newest: now + 9*day, rules: ClockRules{Earliest: wall.Add(1), Accept: AcceptLog}, at: now + 9*day, decided: AcceptLog},
		"before the program, no log":      {rules: ClockRules{Earliest: wall.Add(1), Accept: AcceptLog}, refused: "before this program"},
		"before the program, the clock":   {newest: now + 9*day, rules: ClockRules{Earliest: wall.Add(1), Accept: AcceptWall}, refused: "before this program"},
	} {
		states := []*index.Index{index.New(), nil, index.New()}
		if c.newest != 0 {
			states[2] = indexAt(c.newest, index.Clock{})
		}
		s, err := c.rules.Begin(wall, states)
		if c.refused != "" {
			if e := (*ClockError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "2030-01-01T00:00:00Z") {
				t.Errorf("%s: refused with %v", name, err)
			}
			continue
		}
		if err != nil || s.At != c.at || s.Gap != c.gap || s.Decided != c.decided {
			t.Errorf("%s: %+v, %v; want s.At == c.at && s.Gap == c.gap && s.Decided == c.decided", name, s, err)
		}
		for i, set := range s.Sets {
			if want := c.decided != AcceptNone && states[i] != nil; want != (set != nil) {
				t.Errorf("%s: partition %d gets %+v", name, i, set)
			}
		}
	}
}

// A partition that was away at a decision, or whose log does not have it yet, applies it later; one
// that misses nothing is unchanged.
func TestClockCatchesUp(t *testing.T) {
	t.Parallel()
	wall := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := event.TimeOf(wall)
	const tenYears, day = event.Time(315_360_000_000), event.Time(86_400_000)
	ahead := index.Clock{Number: 2, Shift: -int64(tenYears)}
	states := []*index.Index{indexAt(now-1000, ahead), indexAt(now+tenYears-2000, index.Clock{}), indexAt(now-5, ahead), indexAt(now-9, index.Clock{Number: 1, Shift: 7})}
	s, err := ClockRules{}.Begin(wall, states)
	if err != nil || s.At != now || s.Decided != AcceptNone {
		t.Fatalf("%+v, %v; want s.At == now && s.Decided == AcceptNone", s, err)
	}
	for i, by := range []event.Time{0, -tenYears, 0, -tenYears - 7} {
		switch set := s.Sets[i]; {
		case set == nil != (by == 0):
			t.Errorf("partition %d gets %+v", i, set)
		case set != nil && (set.To-set.From != by || set.Number != 2 || set.Basis != event.BasisCatalogue || set.From < states[i].LastAt()):
			t.Errorf("partition %d, newest %v, gets %+v", i, states[i].LastAt(), set)
		}
	}
	states[3] = indexAt(now+1000*day, ahead) // and a decision of its own: both at once
	s, err = ClockRules{Accept: AcceptWall}.Begin(wall, states)
	if err != nil || s.At != now {
		t.Fatalf("%+v, %v; want s.At == now", s, err)
	}
	for i, by := range []event.Time{-1000 * day, -tenYears - 1000*day, -1000 * day, -1000 * day} {
		if set := s.Sets[i]; set.To-set.From != by || set.Number != 3 || set.To != now || set.From < states[i].LastAt() {
			t.Errorf("partition %d, newest %v, gets %+v", i, states[i].LastAt(), set)
		}
	}
}

// clockStart runs what a namespace does at its start with the clock, with every call of the disk in
// order.
func clockStart(t *testing.T, disk *faultfs.FS, wall time.Time, accept AcceptClock) ([]*index.Index, error) {
	t.Helper()
	store, err := log.Open(t.Context(), "/data", log.Options{FS: disk, Partitions: 3, Manual: true})
	if err != nil {
		return nil, err
	}
	var parts []log.Partition
	var states []*index.Index
	for _, id := range store.Partitions() {
		p, err := store.Open(t.Context(), id)
		if err != nil {
			return nil, err
		}
		s := replay.Newest(p, 0, nil)
		if err := s.Run(t.Context(), replay.Watch{}); err != nil {
			return nil, err
		}
		parts, states = append(parts, p), append(states, s.Index)
	}
	begin, err := ClockRules{Accept: accept}.Begin(wall, states)
	if err != nil {
		return nil, err
	}
	var loops []*loop.Loop
	for i, p := range parts {
		w, err := p.Lead(t.Context())
		if err != nil {
			return nil, err
		}
		loops = append(loops, loop.New(engine.NewPartition(engine.PartitionID(i), 3, states[i]), p, w, loop.Options{Inline: true, CheckpointBytes: -1,
			Clock: func() event.Time { return begin.At }, Tokens: newTokens(), Logger: slog.New(slog.DiscardHandler)}))
	}
	for i, set := range begin.Sets {
		if set != nil {
			if err := loops[i].SetClock(set, ""); err != nil {
				return nil, err
			}
		}
	}
	return states, nil
}

// If a start dies at any point while it applies a decision, the next start completes it, with the
// flag or without: every deadline has moved once, in every partition, and the logs agree.
func TestClockSetSurvives(t *testing.T) {
	t.Parallel()
	wall := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const tenYears = 87600 * time.Hour
	disk := faultfs.New()
	store := logdir.Open(t, "/data", log.Options{FS: disk, Partitions: 3, Manual: true})
	ahead := event.TimeOf(wall.Add(tenYears))
	for i, id := range store.Partitions() {
		_, w := store.Lead(id)
		at := ahead - event.Time(2-i)*500 // the last partition has the newest record
		w.Batch().AppendRecord(at, []event.Event{&event.MessageEnqueued{Envelope: event.Envelope{Slice: handEntity}, Sequence: 1,
			EnqueuedAt: at, ExpiresAt: at + 60_000}}, log.Durable)
		w.Append(w.Batch())
	}
	store.Close()
	finished := map[bool]int{}
	for k, ended := 1, false; !ended; k++ {
		for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
			for _, again := range []AcceptClock{AcceptWall, AcceptNone} {
				name := fmt.Sprintf("call %d, %v, then %d", k, mode, again)
				d := disk.Clone()
				d.CrashAt(k)
				if _, err := clockStart(t, d, wall, AcceptWall); err == nil {
					ended = true // k is after its last call
				}
				d = d.Crash(rand.New(rand.NewPCG(uint64(k), 1)), mode)
				states, err := clockStart(t, d, wall.Add(time.Minute), again)
				// nothing was decided yet
				if e := (*ClockError)(nil); errors.As(err, &e) && again == AcceptNone {
					d = d.Crash(rand.New(rand.NewPCG(uint64(k), 1)), faultfs.Kill)
					states, err = clockStart(t, d, wall.Add(time.Minute), AcceptWall)
				} else if err == nil && again == AcceptNone {
					finished[ended]++
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var by event.Time
				for i, x := range states {
					m, ok := x.Message(handEntity, 1)
					sent := ahead - event.Time(2-i)*500
					if i == 0 {
						by = m.EnqueuedAt - sent
					}
					if !ok || m.EnqueuedAt-sent != by || m.ExpiresAt-m.EnqueuedAt != 60_000 || x.Clock() != states[0].Clock() || x.LastAt() > event.TimeOf(wall.Add(time.Hour)) {
						t.Fatalf("%s: partition %d: %+v, moved by %d, the first by %d; %+v, newest %v", name, i, m, m.EnqueuedAt-sent, by, x.Clock(), x.LastAt())
					}
				}
				if shift := time.Duration(by) * time.Millisecond; shift != -tenYears && shift != -tenYears+time.Minute {
					t.Fatalf("%s: moved by %v", name, shift)
				}
			}
		}
	}
	if finished[false] == 0 {
		t.Error("no start without the flag had anything to finish")
	}
}

// A downtime of two hours is reported before anything is written, and so before the downtime ends a
// lock or anything else.
func TestDowntimeIsToldFirst(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	open := func(wall time.Time, notices func(log.Store, []string)) (*Namespace, log.Store) {
		store, err := log.Open(t.Context(), "/data", log.Options{FS: disk, Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(t.Context(), store, Options{Time: &manualClocks{wall: wall}, Notices: func(list []string) { notices(store, list) }})
		if err != nil {
			t.Fatal(err)
		}
		return n, store
	}
	end := func(store log.Store) event.LSN {
		p, err := store.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, end := p.Bounds()
		return end
	}
	wall := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	n, store := open(wall, func(log.Store, []string) { t.Error("a new directory has something to say") })
	if _, err := n.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "q", Properties: testQueue()}); err != nil {
		t.Fatal(err)
	}
	q, err := n.Resolve("q")
	if err != nil {
		t.Fatal(err)
	}
	slice := q.Slice(0)
	scheduled := engine.Message{ID: []byte("s"), Body: []byte("s"), ScheduledFor: event.TimeOf(wall.Add(time.Hour))}
	if _, err := n.ask(t.Context(), q.Host(0), &engine.Send{Entity: q.Entity, Slice: slice, Messages: []engine.Message{scheduled}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	before, told := end(store), false
	n, store = open(wall.Add(2*time.Hour), func(store log.Store, list []string) {
		told = true
		if len(list) != 1 || !strings.Contains(list[0], "2h0m0s ahead") || end(store) != before {
			t.Errorf("told %q with the log at %d, it ended at %d", list, end(store), before)
		}
	})
	if !told || n.slots[0].running.Load().part.Index().Scheduled(slice) != 0 {
		t.Errorf("told %t, %d are scheduled still", told, n.slots[0].running.Load().part.Index().Scheduled(slice))
	}
	if err := errors.Join(n.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
}
