package present

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// fakeBroker is a [Source] whose activity a test sets.
type fakeBroker struct {
	Source
	t        *testing.T
	now      event.Time
	entities []Entry
	since    map[int]event.Time // of partitions that serve
	counts   map[event.Slice]*SliceActivity
	n        *Namespace
}

// watched returns a broker with the entities a, on partition 0, and b, which is on partitions 0 and
// 1. It started at 12:00:00.
func watched(t *testing.T) *fakeBroker {
	t.Helper()
	began := event.TimeOf(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	b := &fakeBroker{t: t, now: began, since: map[int]event.Time{0: began, 1: began}, counts: map[event.Slice]*SliceActivity{},
		entities: []Entry{{ID: 1, Path: "a", Hosts: []byte{0}}, {ID: 2, Path: "b", Hosts: []byte{0, 1}}}}
	b.n = New(b, func() time.Time { return b.now.Std() })
	return b
}

func (b *fakeBroker) Now() event.Time                                     { return b.now }
func (b *fakeBroker) Entries(context.Context) ([]Entry, error)            { return b.entities, nil }
func (b *fakeBroker) Look(context.Context, int, func(*index.Index)) error { return ErrAway }
func (b *fakeBroker) Activity(context.Context) (list []Activity, err error) {
	for id, since := range b.since {
		a := Activity{Partition: id, Since: since}
		for slice, c := range b.counts {
			if b.host(slice) == id {
				a.Slices = append(a.Slices, *c)
			}
		}
		list = append(list, a)
	}
	return list, nil
}

// host returns the partition of a slice.
func (b *fakeBroker) host(s event.Slice) int {
	for i := range b.entities {
		if e := &b.entities[i]; e.ID == s.Entity {
			return int(e.Hosts[s.Partition])
		}
	}
	return 0
}

// receives counts messages that arrive in a slice.
func (b *fakeBroker) receives(id event.EntityID, partition uint8, n uint64) {
	s := event.Slice{Entity: id, Partition: partition}
	if b.counts[s] == nil {
		b.counts[s] = &SliceActivity{Slice: s}
	}
	b.counts[s].Received += n
}

// restart makes a partition serve, with counts of zero.
func (b *fakeBroker) restart(partition int) {
	for s := range b.counts {
		if b.host(s) == partition {
			delete(b.counts, s)
		}
	}
	b.since[partition] = b.now
}

// after lets time pass and takes a sample.
func (b *fakeBroker) after(d time.Duration) {
	b.now = b.now.Add(d)
	b.n.sample(b.t.Context())
}

// rate shows how many messages per second an entity receives; "-": it is not known.
func (b *fakeBroker) rate(path string) string {
	b.t.Helper()
	e, err := b.n.Entity(b.t.Context(), path)
	if err != nil {
		b.t.Fatal(err)
	}
	if e.Rates == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", e.Rates.Received)
}

// series shows the points of an entity: "00:20=5" is a point at that time of the hour with five
// received messages, "00:20=5!1" one to which partition 1 may have more.
func (b *fakeBroker) series(path, step string) string {
	b.t.Helper()
	s, err := b.n.Series(b.t.Context(), path, step)
	if err != nil {
		b.t.Fatal(err)
	}
	var points []string
	for _, p := range s.Points {
		text := fmt.Sprintf("%s=%d", p.At.Format("04:05"), p.Received)
		for _, id := range p.Missing {
			text += fmt.Sprintf("!%d", id)
		}
		points = append(points, text)
	}
	return strings.Join(points, " ")
}

func (b *fakeBroker) shows(path, step, want string) {
	b.t.Helper()
	if got := b.series(path, step); got != want {
		b.t.Errorf("%s of %q is\n%s, want\n%s", step, path, got, want)
	}
}

// Rates are those of the last 5 to 15 s.
func TestRates(t *testing.T) {
	t.Parallel()
	b := watched(t)
	var got []string
	note := func() { got = append(got, b.rate("a")+" "+b.rate("b")) }
	note()
	for _, n := range []uint64{10, 0, 0, 0, 0} {
		b.receives(1, 0, n)
		b.receives(2, 0, n)
		b.receives(2, 1, n)
		b.after(5 * time.Second)
		note()
	}
	if want := []string{"- -", "2 4", "1 2", "0.6667 1.333", "0 0", "0 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// While a partition does not answer, only the others' rates count. When it is back, what it did
// meanwhile is no rate of the last seconds.
func TestRatesWithoutPartition(t *testing.T) {
	t.Parallel()
	b := watched(t)
	second := func() {
		for range 4 {
			b.receives(2, 0, 5)
			b.receives(2, 1, 10)
			b.after(5 * time.Second)
		}
	}
	second()
	was := b.since[1]
	if got := b.rate("b"); got != "3" {
		t.Errorf("before: %s", got)
	}
	delete(b.since, 1)
	second()
	if got := b.rate("b"); got != "1" {
		t.Errorf("away: %s", got)
	}
	b.since[1] = was
	b.receives(2, 1, 10)
	b.after(5 * time.Second)
	b.receives(2, 1, 10)
	b.after(5 * time.Second)
	if got := b.rate("b"); got != "2.333" { // 5 in 15 s, and 10 in 5 s
		t.Errorf("back: %s", got)
	}
	b.now = b.now.Add(time.Minute) // the sampler does not run
	if got := b.rate("b"); got != "-" {
		t.Errorf("late: %s", got)
	}
}

// A message that is published arrives once in the namespace, and in each subscription.
func TestTotalCountsPublishedOnce(t *testing.T) {
	t.Parallel()
	b := watched(t)
	b.receives(1, 0, 10)
	b.receives(2, 0, 10)
	b.counts[event.Slice{Entity: 2}].Copies = 10
	b.after(5 * time.Second)
	b.shows("b", "20s", "00:00=10")
	b.shows("", "20s", "00:00=10")
	now, err := b.n.Now(t.Context())
	if err != nil || now.Rates == nil || now.Rates.Received != 2 {
		t.Errorf("%+v, %v", now.Rates, err)
	}
}

// A series has a point for each step since the broker started, of an hour or a day at most.
func TestSeries(t *testing.T) {
	t.Parallel()
	b := watched(t)
	b.shows("a", "20s", "")
	for i := range uint64(10) {
		b.receives(1, 0, i)
		b.receives(2, 1, 100)
		b.after(5 * time.Second)
	}
	b.shows("a", "20s", "00:00=6 00:20=22 00:40=17")
	b.shows("b", "20s", "00:00=400 00:20=400 00:40=200")
	b.shows("", "20s", "00:00=406 00:20=422 00:40=217")
	b.shows("A", "", "00:00=6 00:20=22 00:40=17")
	b.shows("", "10m", "00:00=1045")
	for range 26 * 60 * 12 {
		b.receives(1, 0, 1)
		b.after(5 * time.Second)
	}
	for step, want := range map[string]struct{ points, full int }{"20s": {180, 4}, "10m": {144, 120}} {
		s, err := b.n.Series(t.Context(), "a", step)
		if err != nil || len(s.Points) != want.points || s.Step*1000 != want.full*5000 {
			t.Fatalf("%s: %d points, step %d, %v", step, len(s.Points), s.Step, err)
		}
		for _, p := range s.Points[:want.points-1] {
			if p.Received != uint32(want.full) {
				t.Errorf("%s: %+v", step, p)
			}
		}
	}
}

// All counts are in a point.
func TestPointHasAllCounts(t *testing.T) {
	t.Parallel()
	b := watched(t)
	s := event.Slice{Entity: 1}
	b.counts[s] = &SliceActivity{Slice: s, Received: 1, Delivered: 2, Completed: 3, Failed: 4, Died: 5}
	b.after(5 * time.Second)
	got, err := b.n.Series(t.Context(), "a", "20s")
	want := rows.Point{At: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), Received: 1, Delivered: 2, Completed: 3, Failed: 4, Died: 5}
	if err != nil || got.Entity != "a" || got.Step != 20 || len(got.Points) != 1 || fmt.Sprint(got.Points[0]) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", got, err)
	}
	e, err := b.n.Entity(t.Context(), "a")
	if want := (rows.Rates{Received: 0.2, Delivered: 0.4, Completed: 0.6, Failed: 0.8, Died: 1}); err != nil || *e.Rates != want {
		t.Errorf("%+v, %v", e.Rates, err)
	}
}

// A time without samples is missing where nobody can tell which point its counts belong to; where
// one point has all of it, they count.
func TestSeriesWithGap(t *testing.T) {
	t.Parallel()
	b := watched(t)
	for _, after := range []time.Duration{5, 5, 5, 5, 5, 45, 5, 5, 5} {
		b.receives(1, 0, 1)
		b.after(after * time.Second)
	}
	b.shows("a", "20s", "00:00=4 01:20=1") // 20 to 80 s: not whole
	b.shows("a", "10m", "00:00=9")
}

// Where one of its partitions does not answer, a point of an entity says that it is missing.
func TestSeriesWithoutPartition(t *testing.T) {
	t.Parallel()
	b := watched(t)
	samples := func(n int) {
		for range n {
			b.receives(2, 0, 1)
			b.receives(2, 1, 10)
			b.after(5 * time.Second)
		}
	}
	samples(8)
	delete(b.since, 1)
	samples(8)
	b.shows("b", "20s", "00:00=44 00:20=44 00:40=4!1 01:00=4!1")
	b.restart(1)
	samples(4)
	b.shows("b", "20s", "00:00=44 00:20=44 00:40=4!1 01:00=4!1 01:20=44")
	b.shows("", "20s", "00:00=44 00:20=44 00:40=4!1 01:00=4!1 01:20=44")
	b.shows("a", "20s", "00:00=0 00:20=0 00:40=0 01:00=0 01:20=0")
	b.shows("b", "10m", "00:00=140")
}

// An entity has no points of the time before it was made, and none of an earlier one's.
func TestSeriesOfNewEntity(t *testing.T) {
	t.Parallel()
	b := watched(t)
	for range 4 {
		b.receives(1, 0, 1)
		b.after(5 * time.Second)
	}
	delete(b.counts, event.Slice{Entity: 1})
	b.entities[0].ID, b.entities[0].CreatedAt = 3, b.now
	b.receives(3, 0, 7)
	b.after(5 * time.Second)
	b.shows("a", "20s", "00:20=7")
	b.shows("", "20s", "00:00=4 00:20=7")
}

// An entity that is active gets the ring of the one that was idle longest. What was counted before
// is not known then.
func TestRingsOfTheActive(t *testing.T) {
	t.Parallel()
	b := watched(t)
	b.n.sampler.entities = newRings(1)
	b.receives(1, 0, 1)
	b.after(5 * time.Second)
	b.receives(2, 0, 2)
	b.after(15 * time.Second)
	b.shows("b", "20s", "00:00=2") // idle until then
	b.shows("a", "20s", "")        // 5 s of it are not known
	b.after(10 * time.Second)
	b.shows("a", "20s", "00:20=0")
	b.receives(1, 0, 5)
	b.after(10 * time.Second)
	b.shows("a", "20s", "00:20=5")
	b.receives(1, 0, 5)
	b.receives(2, 0, 5) // one of them gets the ring, and nothing is known of the other
	b.after(10 * time.Second)
	got := []string{b.series("a", "20s"), b.series("b", "20s")}
	if slices.Sort(got); !slices.Equal(got, []string{"", "00:20=5 00:40=5"}) && !slices.Equal(got, []string{"", "00:40=5"}) {
		t.Errorf("%q", got)
	}
}

// Wrong questions are refused with what exists; a directory has no series.
func TestSeriesRefused(t *testing.T) {
	t.Parallel()
	b := watched(t)
	if _, err := b.n.Series(t.Context(), "a", "1m"); !errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), "20s") || !strings.Contains(err.Error(), "10m") {
		t.Error(err)
	}
	if _, err := b.n.Series(t.Context(), "c", "20s"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	directory := New(&fakeDirectory{Source: b}, time.Now)
	if _, err := directory.Series(t.Context(), "a", "20s"); !errors.Is(err, ErrNotRecorded) {
		t.Error(err)
	}
	if e, err := directory.Entity(t.Context(), "a"); err != nil || e.Rates != nil {
		t.Errorf("%+v, %v", e.Rates, err)
	}
}

// fakeDirectory is a [Source] that does not know what happened.
type fakeDirectory struct{ Source }

func (*fakeDirectory) Activity(context.Context) ([]Activity, error) { return nil, ErrNotRecorded }

// A broker is asked every five seconds, until its end.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := watched(t)
		b.receives(1, 0, 20)
		began := time.Now()
		clock := &clockedBroker{fakeBroker: b, began: began}
		n := New(clock, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.Watch(ctx)
		}()
		time.Sleep(sampleEvery + time.Millisecond)
		e, err := n.Entity(t.Context(), "a")
		if err != nil || e.Rates == nil || e.Rates.Received != 4 {
			t.Errorf("%+v, %v", e.Rates, err)
		}
		cancel()
		<-done
	})
}

// clockedBroker is a [fakeBroker] whose time is that of a bubble.
type clockedBroker struct {
	*fakeBroker
	began time.Time
}

func (c *clockedBroker) Now() event.Time { return c.now.Add(time.Since(c.began)) }

// The rings of 1,000 entities take 6.6 MB, however many entities are active.
func TestMemoryOfRings(t *testing.T) {
	r := newRings(mostRings)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for at := range event.Time(3) {
		for id := range event.EntityID(2 * mostRings) {
			r.of(id+1, at+1)
		}
	}
	took := heap() - before
	t.Logf("%d rings take %d bytes", r.order.Len(), took)
	if took > 7_000_000 || r.order.Len() != mostRings {
		t.Errorf("%d rings take %d bytes", r.order.Len(), took)
	}
	runtime.KeepAlive(r)
}
