package present

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// start is the time at which tests begin.
const start event.Time = 1_700_000_000_000

// fake is a source with two partitions; partition 0 has the catalogue.
type fake struct {
	logs  [2]*index.Index
	away  map[int]bool // partitions that do not serve
	looks atomic.Int32

	bodies []byte                  // of messages, at their positions
	erased map[event.Position]bool // bodies that are no longer kept
	reads  atomic.Int32
}

func newFake() *fake {
	return &fake{logs: [2]*index.Index{index.New(), index.New()}, away: map[int]bool{}}
}

// entity makes an entity and returns its id.
func (f *fake) entity(kind event.EntityKind, path string, hosts ...byte) event.EntityID {
	id := f.logs[0].Catalogue.NextID()
	f.logs[0].Apply(start, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: id}}, EntityKind: kind, Path: path, Hosts: hosts})
	return id
}

// put enqueues messages into partition number of an entity at a time.
func (f *fake) put(host int, id event.EntityID, number uint8, at event.Time, n int) {
	x, s := f.logs[host], event.Slice{Entity: id, Partition: number}
	for range n {
		x.Apply(at, &event.MessageEnqueued{Envelope: event.Envelope{Slice: s}, Sequence: x.NextSequence(s), EnqueuedAt: at, Body: event.Blob{Size: 100}})
	}
}

func (f *fake) Now() event.Time { return start + 10_000 }

func (f *fake) Entries(context.Context) ([]Entry, error) {
	return EntriesOf(&f.logs[0].Catalogue), nil
}

func (f *fake) Look(_ context.Context, partition int, read func(*index.Index)) error {
	if f.away[partition] {
		return fmt.Errorf("partition %d: %w", partition, ErrAway)
	}
	f.looks.Add(1)
	read(f.logs[partition])
	return nil
}

func (f *fake) Snapshot(ctx context.Context, partition int) (s *index.Snapshot, err error) {
	err = f.Look(ctx, partition, func(x *index.Index) { s = x.Snapshot() })
	return s, err
}

func (f *fake) Body(_ context.Context, _ int, b event.Blob, dst []byte) (int, error) {
	f.reads.Add(1)
	switch at := int(b.Position); {
	case f.erased[b.Position]:
		return 0, fmt.Errorf("position %d: %w", b.Position, event.ErrErased)
	case at+int(b.Size) > len(f.bodies):
		return 0, errors.New("the checksum is wrong")
	default:
		return copy(dst, f.bodies[at:]), nil
	}
}

func (f *fake) Activity(context.Context) ([]Activity, error) { return nil, ErrNotRecorded }

// some returns a namespace with a few entities.
func some() *fake {
	f := newFake()
	orders, carts := f.entity(event.Queue, "Orders", 1), f.entity(event.Queue, "carts", 0, 1)
	f.entity(event.Queue, "empty", 0)
	f.entity(event.Topic, "orders-topic", 1)
	f.put(1, orders, 0, start+3_000, 5)
	f.put(0, carts, 0, start+5_000, 1)
	f.put(1, carts, 1, start+1_000, 2)
	return f
}

// paths returns the paths of a page.
func paths(page rows.Entities) string {
	var list []string
	for i := range page.Entities {
		list = append(list, page.Entities[i].Path)
	}
	return strings.Join(list, " ")
}

// TestEntities: orders, selections and pages of entities.
func TestEntities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q     rows.Query
		pages string // separated by |
		total int
	}{
		{rows.Query{}, "carts empty Orders orders-topic", 4},
		{rows.Query{Sort: "PATH"}, "carts empty Orders orders-topic", 4},
		{rows.Query{Sort: "active"}, "Orders carts empty orders-topic", 4},
		{rows.Query{Sort: "oldest"}, "carts Orders empty orders-topic", 4},
		{rows.Query{Sort: "SizeBytes", Top: 1}, "Orders|carts|empty|orders-topic", 4},
		{rows.Query{Top: 3}, "carts empty Orders|orders-topic", 4},
		{rows.Query{Prefix: "ORD"}, "Orders orders-topic", 2},
		{rows.Query{Prefix: "ord", Kind: "queue"}, "Orders", 1},
		{rows.Query{Prefix: "none"}, "", 0},
	} {
		n := New(some(), time.Now)
		var pages []string
		for {
			page, err := n.Entities(t.Context(), c.q)
			if err != nil || page.Total != c.total {
				t.Fatalf("%+v: total %d, %v; want %d", c.q, page.Total, err, c.total)
			}
			pages = append(pages, paths(page))
			if c.q.After = page.Next; page.Next == "" {
				break
			}
		}
		if got := strings.Join(pages, "|"); got != c.pages {
			t.Errorf("%+v: %s; want %s", c.q, got, c.pages)
		}
	}
}

// TestInvalidQueries: the error names what exists.
func TestInvalidQueries(t *testing.T) {
	t.Parallel()
	n := New(some(), time.Now)
	for _, c := range []struct {
		q    rows.Query
		want string
	}{
		{rows.Query{Sort: "age"}, "the sorts are path, active,"},
		{rows.Query{Kind: "table"}, "the kinds are queue, subscription, topic"},
		{rows.Query{Top: -1}, "1 to 200"},
		{rows.Query{Top: 201}, "1 to 200"},
		{rows.Query{After: "orders"}, "next of another page"},
		{rows.Query{After: "!/orders"}, "next of another page"},
	} {
		if _, err := n.Entities(t.Context(), c.q); !errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.q, err, c.want)
		}
	}
	if _, err := n.Entity(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such entity: %v", err)
	}
}

// TestEntity: the counts of the partitions of an entity are added, and those of a partition that
// does not serve are said to be missing.
func TestEntity(t *testing.T) {
	t.Parallel()
	f := some()
	n := New(f, time.Now)
	e, err := n.Entity(t.Context(), "CARTS")
	if err != nil || e.Messages != 3 || e.Active != 3 || e.Oldest == nil || !e.Oldest.Equal((start + 1_000).Std()) || e.Missing != nil || e.SizeBytes < 300 {
		t.Errorf("%+v, %v", e, err)
	}
	f.away[1] = true
	e, err = n.Entity(t.Context(), "carts")
	if err != nil || e.Messages != 1 || !slices.Equal(e.Missing, []int{1}) || !e.Oldest.Equal((start + 5_000).Std()) {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestNow: the sums over all entities.
func TestNow(t *testing.T) {
	t.Parallel()
	f := some()
	now, err := New(f, time.Now).Now(t.Context())
	if err != nil || now.Entities != 4 || now.Messages != 8 || now.Oldest.Entity != "carts" || now.Missing != nil {
		t.Errorf("%+v, %v", now, err)
	}
	f.away[1] = true
	now, err = New(f, time.Now).Now(t.Context())
	if err != nil || now.Messages != 1 || !slices.Equal(now.Missing, []int{1}) {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestManyAsk: counts are used again for a second, so many viewers cost as much as one.
func TestManyAsk(t *testing.T) {
	t.Parallel()
	f := some()
	at := time.Unix(0, 0)
	n := New(f, func() time.Time { return at })
	ask := func() int32 {
		before := f.looks.Load()
		for range 20 {
			if _, err := n.Entities(t.Context(), rows.Query{Sort: "active"}); err != nil {
				t.Fatal(err)
			}
		}
		return f.looks.Load() - before
	}
	first := ask()
	if again := ask(); first != 2 || again != 0 {
		t.Errorf("%d looks, and %d within a second; want 2 and 0", first, again)
	}
	if at = at.Add(freshFor); ask() != first {
		t.Error("counts are older than a second")
	}
}

// TestPageWhileCountsChange: a page goes on where the one before ended, whatever the counts are by
// then.
func TestPageWhileCountsChange(t *testing.T) {
	t.Parallel()
	f := some()
	at := time.Unix(0, 0)
	n := New(f, func() time.Time { return at })
	page, err := n.Entities(t.Context(), rows.Query{Sort: "active", Top: 2})
	if err != nil || paths(page) != "Orders carts" {
		t.Fatalf("%s, %v", paths(page), err)
	}
	f.put(0, f.entity(event.Queue, "new", 0), 0, start+9_000, 2)
	at = at.Add(freshFor)
	page, err = n.Entities(t.Context(), rows.Query{Sort: "active", Top: 2, After: page.Next})
	if err != nil || paths(page) != "new empty" {
		t.Errorf("%s, %v", paths(page), err)
	}
}

func BenchmarkFirstPage(b *testing.B) {
	f := newFake()
	for i := range 10_000 {
		id := f.entity(event.Queue, fmt.Sprintf("queues/%04d", i), byte(i%2))
		f.put(i%2, id, 0, start+event.Time(i), i%3)
	}
	for b.Loop() {
		if _, err := New(f, time.Now).Entities(b.Context(), rows.Query{Sort: "oldest", Top: 200}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSessions: pages of sessions, which are in several partitions, in the order of their ids.
func TestSessions(t *testing.T) {
	t.Parallel()
	f := newFake()
	id := f.entity(event.Queue, "carts", 0, 1)
	put := func(host int, session string, n int) {
		x, s := f.logs[host], event.Slice{Entity: id, Partition: uint8(host)}
		for range n {
			x.Apply(start, &event.MessageEnqueued{Envelope: event.Envelope{Slice: s}, Sequence: x.NextSequence(s), EnqueuedAt: start,
				InSession: true, HasSession: true, SessionID: []byte(session), Body: event.Blob{Size: 10}})
		}
	}
	put(1, "d", 4)
	put(0, "c", 3)
	put(1, "", 1)
	put(0, "b", 2)
	put(0, "e", 5)
	n := New(f, time.Now)
	pages := func(top int) string {
		var all []string
		var after *string
		for {
			list, err := n.Sessions(t.Context(), "carts", top, after)
			if err != nil || list.Total != 5 || list.Missing != nil {
				t.Fatalf("%+v, %v", list, err)
			}
			var page []string
			for _, s := range list.Sessions {
				page = append(page, fmt.Sprintf("%q:%d", s.ID, s.Active))
			}
			all = append(all, strings.Join(page, " "))
			if after = list.Next; after == nil {
				return strings.Join(all, " | ")
			}
		}
	}
	for top, want := range map[int]string{
		0: `"":1 "b":2 "c":3 "d":4 "e":5`,
		5: `"":1 "b":2 "c":3 "d":4 "e":5`,
		2: `"":1 "b":2 | "c":3 "d":4 | "e":5`,
		1: `"":1 | "b":2 | "c":3 | "d":4 | "e":5`,
	} {
		if got := pages(top); got != want {
			t.Errorf("top %d: %s; want %s", top, got, want)
		}
	}
	f.away[1] = true
	list, err := n.Sessions(t.Context(), "carts", 0, nil)
	if err != nil || list.Total != 3 || !slices.Equal(list.Missing, []int{1}) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestNotRecorded: what the end of a log does not have is named.
func TestNotRecorded(t *testing.T) {
	t.Parallel()
	n := New(some(), time.Now).Ended()
	now, err := n.Now(t.Context())
	page, err2 := n.Entities(t.Context(), rows.Query{})
	list, err3 := n.Sessions(t.Context(), "carts", 0, nil)
	if err := errors.Join(err, err2, err3); err != nil || fmt.Sprint(now.NotRecorded, page.NotRecorded, list.NotRecorded) != "[rates running] [rates] [holder]" {
		t.Errorf("%v %v %v, %v", now.NotRecorded, page.NotRecorded, list.NotRecorded, err)
	}
}
