package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	one := Target{Entity: &Entity{ID: 7, Hosts: []PartitionID{4}}}
	three := Target{Entity: &Entity{ID: 7, Hosts: []PartitionID{4, 0, 9}}}
	random := event.LockToken{1, 2, 3, 15: 0xab}
	for _, c := range []struct {
		name      string
		of        Target
		partition uint8
		want      uint8
	}{
		{"a token says where its lock is", three, three.OfToken(random.In(2)), 2},
		{"one from before, of an entity that had one partition", one, one.OfToken(random), 0},
		{"one that nobody gave out", three, three.OfToken(random), 0},
		{"the first number of a partition", three, three.OfSequence(1<<48 | 1), 1},
		{"the last one", three, three.OfSequence(2<<48 - 1), 1},
		{"a number of an entity with one partition", one, one.OfSequence(12), 0},
		{"a number in no partition", three, three.OfSequence(3<<48 | 1), 0},
		{"a number no engine gave out", three, three.OfSequence(1<<64 - 1), 0},
		{"a session of an entity with one partition", one, one.OfSession([]byte("s")), 0},
		{"a session goes by its id", three, three.OfSession([]byte("mySession")), 0x722e9032dc3514dc % 3},
	} {
		if c.partition != c.want {
			t.Errorf("%s: partition %d, want %d", c.name, c.partition, c.want)
		}
		if slice, want := c.of.Slice(c.partition), (event.Slice{Entity: 7, Partition: c.want}); slice != want {
			t.Errorf("%s: %v, want %v", c.name, slice, want)
		}
		if host, want := c.of.Host(c.partition), c.of.Entity.Hosts[c.want]; host != want {
			t.Errorf("%s: hosted by %d, want %d", c.name, host, want)
		}
	}
}

// SM-212: a peek begins in the partition of the number and continues to the last one.
func TestPartitionsFrom(t *testing.T) {
	t.Parallel()
	one, three := Target{Entity: wideEntity(1)}, Target{Entity: wideEntity(3)}
	for _, c := range []struct {
		of          Target
		from        event.SequenceNumber
		first, last uint8
	}{
		{one, 0, 0, 0}, {one, 12, 0, 0}, {one, 3 << 48, 0, 0}, {three, 0, 0, 2}, {three, 1<<48 - 1, 0, 2}, {three, 1 << 48, 1, 2}, {three, 2<<48 | 7, 2, 2},
		{three, 3 << 48, 3, 2}, {three, 1<<64 - 1, 3, 2},
	} {
		if first, last := c.of.Partitions(c.from); first != c.first || last != c.last {
			t.Errorf("from %#x: partitions %d to %d, want %d to %d", uint64(c.from), first, last, c.first, c.last)
		}
	}
}

// S4-39, S4-42: a send without a key that is refused before a partition looked at it is tried once
// in every other partition that serves, however many other sends take their turns meanwhile.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	e := wideEntity(16)
	cmd := &Send{Entity: e, Messages: []Message{{ID: []byte("m")}}}
	if err := (Target{Entity: e}).Place(cmd); err != nil {
		t.Fatal(err)
	}
	tried := map[uint8]bool{cmd.Slice.Partition: true}
	for range 40 {
		for range 3 {
			e.nextInTurn() // another send
		}
		if _, ok := cmd.Elsewhere(func(PartitionID) bool { return true }); !ok {
			break
		}
		if tried[cmd.Slice.Partition] {
			t.Fatalf("partition %d is tried twice", cmd.Slice.Partition)
		}
		tried[cmd.Slice.Partition] = true
	}
	if len(tried) != 16 {
		t.Errorf("%d partitions are tried, there are 16", len(tried))
	}
}
