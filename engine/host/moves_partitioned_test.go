package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// rereadsKeys is rereads for messages whose bodies begin with their partition key, up to a colon,
// if they have one.
func rereadsKeys(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error) {
	m, merged, err := rereads(stored, changes, ttl, see)
	if key, _, ok := bytes.Cut(stored, []byte(":")); ok {
		m.PartitionKey = key
	}
	return m, merged, err
}

// keyed returns a message, as it is sent, with its partition key at the start of its body.
func keyed(body string) engine.Message {
	m, _, _ := rereadsKeys([]byte(body), nil, 0, nil)
	return m
}

// newSplitFleet returns a fleet in which partitioned entities have sixteen partitions.
func newSplitFleet(t testing.TB, seed uint64, logs int) *fleet {
	f := fleetAtRest(t, seed, logs)
	f.split, f.reread = event.MaxEntityPartitions, rereadsKeys
	f.must(f.start())
	return f
}

// wide makes properties those of a partitioned entity.
func wide(p event.Properties) event.Properties {
	p.EnablePartitioning = true
	return p
}

// route sends a message to the partition that its key selects, or the next in turn; through another
// entity if to is not nil.
func (f *fleet) route(path, body string, to *engine.Entity) error {
	e := f.directory.find(strings.ToLower(path))
	cmd := &engine.Send{Entity: e, Messages: []engine.Message{keyed(body)}, Destination: to}
	target := engine.Target{Entity: e}
	f.must(asError(target.Place(cmd)))
	return f.ask(target.Host(cmd.Slice.Partition), cmd).Err
}

func asError(err *engine.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// spread returns which messages are in each partition of an entity, by body.
func (f *fleet) spread(path string, q event.SubQueue) map[string][]uint8 {
	f.t.Helper()
	e, found := f.directory.find(strings.ToLower(path)), map[string][]uint8{}
	for i, h := range e.Hosts {
		for m := range f.rules[h].Index().Browse(event.Slice{Entity: e.ID, Partition: uint8(i)}, q, 0) {
			body, err := f.parts[h].ReadBlob(m.Body, nil)
			f.must(err)
			if m.State != index.Transferring {
				found[string(body)] = append(found[string(body)], uint8(i))
			}
		}
	}
	return found
}

// SM-218, SM-261, S4-56, S4-57: messages move to partitioned entities, from them and between them,
// in every way: forwarded, as dead letters, as copies of a topic, and sent through another entity.
// Each arrives once, with its key, in the key's partition; those without a key are spread over all
// partitions.
func TestMovesBetweenPartitionedEntities(t *testing.T) {
	t.Parallel()
	plain := func(p event.Properties) event.Properties { return p }
	ways := map[string]func(f *fleet, shape func(event.Properties) event.Properties) func(body string) error{
		"forwarded": func(f *fleet, shape func(event.Properties) event.Properties) func(string) error {
			f.put(event.Queue, "a", shape(forwardTo("b")))
			return func(body string) error { return f.route("a", body, nil) }
		},
		"copies": func(f *fleet, shape func(event.Properties) event.Properties) func(string) error {
			f.put(event.Topic, "a", shape(testQueue()))
			f.subscription("a/Subscriptions/s", "1=1", "", "b")
			return func(body string) error { return f.route("a", body, nil) }
		},
		"sent through": func(f *fleet, shape func(event.Properties) event.Properties) func(string) error {
			f.put(event.Queue, "a", shape(testQueue()))
			return func(body string) error { return f.route("a", body, f.directory.find("b")) }
		},
		"dead letters": func(f *fleet, shape func(event.Properties) event.Properties) func(string) error {
			p := testQueue()
			p.ForwardDeadLetteredMessagesTo = "b"
			f.put(event.Queue, "a", shape(p))
			return func(body string) error { return f.route("a", body, nil) }
		},
	}
	for name, way := range ways {
		for shapes, of := range map[string][2]func(event.Properties) event.Properties{"N to P": {plain, wide}, "P to N": {wide, plain}, "P to P": {wide, wide}} {
			t.Run(name+", "+shapes, func(t *testing.T) {
				t.Parallel()
				f := newSplitFleet(t, 31, 3)
				to := f.put(event.Queue, "b", of[1](testQueue()))
				send := way(f, of[0])
				const keys, each, keyless = 20, 3, 64
				for i := range keys * each {
					f.must(send(fmt.Sprintf("key-%d:%d", i%keys, i/keys)))
				}
				for i := range keyless {
					f.must(send(fmt.Sprint(i)))
				}
				if name == "dead letters" {
					f.deadLetters("a")
				}
				f.settle()
				f.arrived(to, keys*each+keyless)
			})
		}
	}
}

// arrived checks that n messages are in an entity, once each, and those with a key in the partition
// of the key.
func (f *fleet) arrived(to *engine.Entity, n int) {
	f.t.Helper()
	got, keyless := f.spread(to.Path, event.Main), map[uint8]int{}
	if len(got) != n {
		f.t.Errorf("%d messages have arrived, not %d: %v", len(got), n, f.places())
	}
	for body, at := range got {
		m := keyed(body)
		cmd := &engine.Send{Messages: []engine.Message{m}}
		f.must(asError(engine.Target{Entity: to}.Place(cmd)))
		if len(at) != 1 || m.PartitionKey != nil && at[0] != cmd.Slice.Partition {
			f.t.Errorf("%s is in partitions %v, its key says %d", body, at, cmd.Slice.Partition)
		}
		if m.PartitionKey == nil {
			keyless[at[0]]++
		}
	}
	if len(keyless) != len(to.Hosts) {
		f.t.Errorf("those without a key are in %d partitions of %d: %v", len(keyless), len(to.Hosts), keyless)
	}
}

// SM-218, SM-262, P5: whatever call of the file system is the last one, messages accepted by a
// queue that forwards to a partitioned one arrive once: a message offered again is offered to the
// slice that has it already.
func TestMovesToPartitionsSurviveEveryCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				calls := movesToPartitions(t, seed, mode, 0)
				for k := 1; k <= calls; k++ {
					movesToPartitions(t, seed, mode, k)
				}
			}
		})
	}
}

// movesToPartitions is movesUntil from a queue to a partitioned one.
func movesToPartitions(t *testing.T, seed uint64, mode faultfs.Mode, k int) int {
	f := newSplitFleet(t, seed, 2)
	f.put(event.Queue, "b", wide(testQueue()))
	f.put(event.Queue, "a", wide(forwardTo("b")))
	before := f.disk.Calls()
	if k > 0 {
		f.disk.CrashAt(before + k)
	}
	accepted := map[string]bool{}
	for _, body := range []string{"1", "x:2", "3", "4", "y:5", "6"} {
		if f.dead() == nil && f.route("a", body, nil) == nil {
			accepted[body] = true
		}
	}
	if f.dead() == nil {
		f.settle()
	}
	calls := f.disk.Calls() - before
	if k > 0 {
		if f.dead() == nil {
			f.err = faultfs.ErrCrashed
		}
		f.crash(mode)
		f.settle()
	}
	got := f.places()
	for body := range accepted {
		if strings.Join(got[body], " ") != "b" {
			t.Fatalf("seed %d, dies at %d, %s: %s is at %v", seed, k, mode, body, got[body])
		}
	}
	for body, at := range got {
		if len(at) != 1 {
			t.Fatalf("seed %d, dies at %d, %s: %s is at %v", seed, k, mode, body, at)
		}
	}
	return calls
}

// P6: see maxSpan.
func TestMovesSpan(t *testing.T) {
	t.Parallel()
	f := newSplitFleet(t, 33, 2)
	to := f.put(event.Queue, "b", wide(testQueue()))
	from := f.put(event.Queue, "a", forwardTo("b"))
	stuck := event.Slice{Entity: to.ID, Partition: 5}
	host := f.loops[to.Hosts[stuck.Partition]]
	id := event.Slice{Entity: from.ID}
	for i := range f.couriers {
		offer := f.couriers[i].Offer
		f.couriers[i].Offer = func(p engine.PartitionID, req engine.Request) bool {
			if cmd, ok := req.Command.(*engine.Import); ok && cmd.Slice == stuck && f.now < 1<<62 {
				return false
			}
			return offer(p, req)
		}
	}
	f.must(f.route("a", "tenant-a:first", nil)) // of partition 5
	sent := 1
	for ; sent < maxSpan+3*maxOpenTransfers; sent += 64 {
		cmd := &engine.Send{Entity: from, Slice: id}
		for i := range 64 {
			// of partition 6
			cmd.Messages = append(cmd.Messages, keyed(fmt.Sprintf("1:%d", sent+i)))
		}
		f.must(f.ask(from.Hosts[0], cmd).Err)
	}
	f.settle()
	x := f.rules[from.Hosts[0]].Index()
	if oldest, open := x.LowestOpen(id, to.ID); !open || oldest != 1 {
		t.Fatalf("the oldest open transfer is %d, %v", oldest, open)
	}
	if next := x.NextTransfer(id); next > maxSpan+maxOpenTransfers+1 || next <= maxSpan {
		t.Fatalf("transfers go on up to %d", next)
	}
	f.now = 1 << 62
	f.settle()
	if got := len(f.spread("b", event.Main)); got != sent || f.outstanding() != 0 || host.Err() != nil {
		t.Errorf("%d of %d messages are there, %d with the courier", got, sent, f.outstanding())
	}
}
