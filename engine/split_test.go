package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// S4-01, S4-02, S4-03, S4-12, SM-202: the places of the sixteen partitions of an entity, on few
// logs and on many. They are spread over all of them, in the same places at each call, in the event
// as in the catalogue, and a subscription's are with its topic's. A plain entity has one.
func TestPlacementOfSixteen(t *testing.T) {
	t.Parallel()
	for logs, most := range map[int]int{1: 16, 2: 8, 3: 6, 4: 4, 8: 2, 16: 1, 64: 1} {
		p := NewPartition(0, logs, index.New())
		p.Split(sixteen)
		for i := range 20 {
			path := fmt.Sprint("t", i)
			out := p.Decide(1, &PutEntity{Kind: event.Topic, Path: path, Properties: splitTopic()})
			if out.Reply.Err != nil {
				t.Fatal(out.Reply.Err)
			}
			made := out.Events[len(out.Events)-1].(*event.EntityCreated)
			if len(made.Hosts) != sixteen || made.KeyHash != event.KeyHash {
				t.Fatalf("%d hosts, key hash %d", len(made.Hosts), made.KeyHash)
			}
			n := map[byte]int{}
			for number, h := range made.Hosts {
				if n[h]++; int(h) != int(placePartition(made.Slice.Entity, uint8(number), logs)) {
					t.Errorf("%d logs: partition %d of %s is on %d", logs, number, path, h)
				}
			}
			if want := min(logs, sixteen); len(n) != want {
				t.Errorf("%d logs: %s is on %d of them, not %d", logs, path, len(n), want)
			}
			for h, got := range n {
				if got > most {
					t.Errorf("%d logs: %d partitions of %s are on %d", logs, got, path, h)
				}
			}
			hosts := slices.Clone(made.Hosts)
			adopt(p, &out)
			sub := PutEntity{Kind: event.Subscription, Path: path + "/Subscriptions/s", Properties: DefaultProperties(event.Subscription)}
			if err := askCatalogue(p, &sub); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{path, sub.Path} {
				if e, ok := p.index.Catalogue.Find(at); !ok || !slices.Equal(e.Hosts, hosts) || e.KeyHash != event.KeyHash {
					t.Errorf("%s: %+v, want hosts %v", at, e, hosts)
				}
			}
		}
		if err := put(p, "plain"); err != nil {
			t.Fatal(err)
		}
		if e, _ := p.index.Catalogue.Find("plain"); len(e.Hosts) != 1 || e.KeyHash != 0 {
			t.Errorf("a plain queue: %+v", e)
		}
	}
}

func splitTopic() event.Properties {
	p := DefaultProperties(event.Topic)
	p.EnablePartitioning = true
	return p
}

// SM-219, S4-59: an entity with an unreachable partition is neither created, changed nor deleted,
// and no event says otherwise. A plain entity on another partition is.
func TestPartOfItIsAway(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 4, index.New())
	p.Split(sixteen)
	topic := PutEntity{Kind: event.Topic, Path: "t", Properties: splitTopic()}
	sub := PutEntity{Kind: event.Subscription, Path: "t/Subscriptions/s", Properties: DefaultProperties(event.Subscription)}
	for _, cmd := range []*PutEntity{&topic, &sub} {
		if err := askCatalogue(p, cmd); err != nil {
			t.Fatal(err)
		}
	}
	later, changed := topic, sub
	later.Path, changed.Mode = "later", UpdateOnly
	changed.Properties.MaxDeliveryCount++
	other := sub
	other.Path = "t/Subscriptions/other"
	asks := []Command{&later, &changed, &other, &PutRule{Subscription: sub.Path, Rule: sql("r", "1=1")}, &DeleteRule{Subscription: sub.Path, Name: "$Default"},
		&DeleteEntity{Path: sub.Path}, &DeleteEntity{Path: "t"}}
	p.Avoid([]bool{false, false, true, false})
	for _, cmd := range asks {
		if out := p.Decide(1, cmd); code(out.Reply.Err) != Busy || len(out.Events) != 0 {
			t.Errorf("%T: %v, %d events", cmd, out.Reply.Err, len(out.Events))
		}
	}
	for i := range 8 {
		if err := put(p, fmt.Sprint("q", i)); err != nil {
			t.Errorf("a plain queue: %v", err)
		}
	}
	p.Avoid(make([]bool, 4))
	for _, cmd := range asks {
		if err := askCatalogue(p, cmd); err != nil {
			t.Errorf("%T, all there: %v", cmd, err)
		}
	}
}

// Each partition may store an equal part of the entity's quota, and can be full while the others
// are not.
func TestQuotaOfAPart(t *testing.T) {
	t.Parallel()
	e := wideEntity(sixteen)
	e.Properties.MaxSizeMegabytes, e.Properties.MaxMessageSizeKilobytes = 16, 1024
	p := NewPartition(0, 1, index.New())
	p.Configure(e)
	send := func(partition uint8) Code {
		out := p.Decide(1, &Send{Entity: e, Slice: Target{Entity: e}.Slice(partition), Messages: []Message{{ID: []byte("m"), Body: make([]byte, 1<<18)}}})
		for _, ev := range out.Events {
			if made, ok := ev.(*event.MessageEnqueued); ok {
				made.Body.Size = uint32(len(made.Body.Data)) // as the log does
			}
		}
		adopt(p, &out)
		return code(out.Reply.Err)
	}
	for _, partition := range []uint8{0, 7} {
		for i := range 4 {
			if c := send(partition); c != 0 {
				t.Errorf("partition %d, message %d of 4: %v", partition, i+1, c)
			}
		}
		if c := send(partition); c != EntityFull {
			t.Errorf("partition %d: %v behind a megabyte of its own", partition, c)
		}
	}
}

// SM-160, docs: duplicate-detection: in an entity with several partitions the same id under another
// key is another message, in any order, also in one batch; under the same key, or without one, it
// is a duplicate. The state knows it from the events alone.
func TestDuplicatesByKey(t *testing.T) {
	t.Parallel()
	for partitions, want := range map[int]int{1: 1, sixteen: 5} {
		e := wideEntity(partitions)
		e.Properties.RequiresDuplicateDetection, e.Properties.DuplicateDetectionWindow = true, 1e12
		p := NewPartition(0, 1, index.New())
		p.Configure(e)
		id := []byte("same")
		stored := 0
		for range 2 {
			for _, m := range []Message{{ID: id}, {ID: id, PartitionKey: []byte("a")}, {ID: id, PartitionKey: []byte("b")}, {ID: id, SessionID: []byte("a"), HasSession: true},
				{ID: id, HasSession: true}, {ID: id, SessionID: []byte("b"), HasSession: true, PartitionKey: []byte("b")}, {ID: id, SessionID: []byte("c"), HasSession: true, ScheduledFor: 50}} {
				m.Body = []byte("x")
				out := p.Decide(1, &Send{Entity: e, Slice: event.Slice{Entity: e.ID, Partition: uint8(partitions - 1)}, Messages: []Message{m, m}})
				if out.Reply.Err != nil {
					t.Fatal(out.Reply.Err)
				}
				for _, ev := range out.Events {
					switch ev := ev.(type) {
					case *event.MessageEnqueued:
						stored++
						if wide := partitions > 1 && (m.HasSession || m.PartitionKey != nil); ev.Keyed != wide {
							t.Errorf("%d partitions: keyed is %v of %+v", partitions, ev.Keyed, m)
						}
					case *event.MessageScheduled:
						stored++
					}
				}
				adopt(p, &out)
			}
		}
		if stored != want {
			t.Errorf("%d partitions: %d messages stored, want %d", partitions, stored, want)
		}
	}
}
