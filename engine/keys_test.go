package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The vectors of log-format.md 8, made by another program. They never change: messages of a key
// stay in one partition.
var keyVectors = []struct {
	key       string
	hash      uint64
	partition uint8
}{
	{"", 0xefd01f60ba992926, 6},
	{"\x00\xff", 0xacb64f88d28b68b8, 8},
	{" ", 0x4fe44ffecaff48aa, 10},
	{"0", 0xc1e42af088ff1b2c, 12},
	{"1", 0x7c3832dde020d3d6, 6},
	{"a", 0x82a2a958a9bece5b, 11},
	{"tenant-a", 0xa02bfa3261e19aa5, 5},
	{"tenant-q", 0x4ea845cc380414f1, 1},
	{"mySession", 0x722e9032dc3514dc, 12},
	{"myPartitionKey", 0x036b46a8d7a6c7e9, 9},
	{"Bestellung-äöü", 0x4ac7190d0b9896a2, 2},
	{"日本", 0x1230c55089fe4e43, 3},
	{strings.Repeat("x", 128), 0xf49aa9bdd01bd993, 3},
}

// SM-207, S4-25: a key has one partition, which never changes.
func TestKeyVectors(t *testing.T) {
	t.Parallel()
	wide := wideEntity(sixteen)
	for _, v := range keyVectors {
		if h := keyHash([]byte(v.key)); h != v.hash {
			t.Errorf("%q: hash %016x, want %016x", v.key, h, v.hash)
		}
		if p := wide.ofKey([]byte(v.key)); p != v.partition {
			t.Errorf("%q: partition %d, want %d", v.key, p, v.partition)
		}
	}
}

// S4-14: a million keys of a fixed list are spread evenly, each partition within 3 % of the mean,
// whatever part of the keys varies, and to the same partitions on any number of logs.
func TestKeysAreSpread(t *testing.T) {
	t.Parallel()
	const keys = 1_000_000
	wide := wideEntity(sixteen)
	var elsewhere []*Entity
	for _, logs := range []int{1, 3, 4, 64} {
		e := wideEntity(sixteen)
		for i := range e.Hosts {
			e.Hosts[i] = placePartition(e.ID, uint8(i), logs)
		}
		elsewhere = append(elsewhere, e)
	}
	for _, form := range []string{"%d", "tenant-%06d", "order/%d/line", "%x-0000", "%032b"} {
		var n [sixteen]int
		for i := range keys {
			key := fmt.Appendf(nil, form, i)
			at := wide.ofKey(key)
			for _, e := range elsewhere {
				if other := e.ofKey(key); other != at {
					t.Fatalf("%s is in partition %d, and with hosts %v in %d", key, at, e.Hosts, other)
				}
			}
			n[at]++
		}
		for p, got := range n {
			if mean := keys / sixteen; got < mean*97/100 || got > mean*103/100 {
				t.Errorf("%q: partition %d has %d keys of %d", form, p, got, mean)
			}
		}
	}
}

const sixteen = 16

// wideEntity returns a queue with that many partitions, on as many logs.
func wideEntity(partitions int) *Entity {
	e := &Entity{ID: 7, Kind: event.Queue, Path: "wide", Properties: testQueue(), activity: new(activity)}
	for i := range partitions {
		e.Hosts = append(e.Hosts, PartitionID(i))
	}
	return e
}

// SM-208, S4-23, S4-27, S4-29, S4-34, S4-37: the key of a message, and that messages sent together
// have the same one.
func TestPlace(t *testing.T) {
	t.Parallel()
	const a, q, mine = 5, 1, 12 // partitions of tenant-a, tenant-q and mySession
	plain, detects := wideEntity(sixteen), wideEntity(sixteen)
	detects.Properties.RequiresDuplicateDetection = true
	session := func(id string) Message { return Message{ID: []byte("m"), SessionID: []byte(id), HasSession: true} }
	key := func(k string) Message { return Message{ID: []byte("m"), PartitionKey: []byte(k)} }
	via := func(m Message, k string) Message { m.ViaPartitionKey = []byte(k); return m }
	id := func(id string) Message { return Message{ID: []byte(id)} }
	for _, c := range []struct {
		name     string
		entity   *Entity
		messages []Message
		through  bool // the message is sent through the entity to another
		want     int  // -1: any; -2: refused
	}{
		{"a session id", plain, []Message{session("mySession")}, false, mine},
		{"the empty session id is one", plain, []Message{session("")}, false, 6},
		{"a session id before a partition key", plain, []Message{{SessionID: []byte("mySession"), HasSession: true, PartitionKey: []byte("tenant-a")}}, false, mine},
		{"a partition key", plain, []Message{key("tenant-a")}, false, a},
		{"a partition key before a message-id", detects, []Message{{ID: []byte("tenant-q"), PartitionKey: []byte("tenant-a")}}, false, a},
		{"a message-id where duplicates are found", detects, []Message{id("tenant-q")}, false, q},
		{"a message-id where they are not is no key", plain, []Message{id("tenant-q")}, false, -1},
		{"a via-partition-key at last", plain, []Message{via(id("m"), "tenant-q")}, false, q},
		{"others come before it", plain, []Message{via(key("tenant-a"), "tenant-q")}, false, a},
		{"of what is sent through the entity it is the first", plain, []Message{via(key("tenant-a"), "tenant-q")}, true, q},
		{"without it what is sent through goes by its own", plain, []Message{key("tenant-a")}, true, a},
		{"a batch with one key", plain, []Message{key("tenant-a"), key("tenant-a")}, false, a},
		{"a batch without key", plain, []Message{id("1"), id("2")}, false, -1},
		{"a batch with two keys", plain, []Message{key("tenant-a"), key("tenant-q")}, false, -2},
		{"a batch with two keys of one partition", plain, []Message{key("0"), key("mySession")}, false, -2},
		{"a batch with a key and none", plain, []Message{key("tenant-a"), id("1")}, false, -2},
		{"a batch with none and a key", plain, []Message{id("1"), key("tenant-a")}, false, -2},
		{"a batch with two ids where duplicates are found", detects, []Message{id("1"), id("2")}, false, -2},
		{"a batch with two sessions", plain, []Message{session("1"), session("2")}, false, -2},
	} {
		cmd := &Send{Messages: c.messages}
		if c.through {
			cmd.Destination = wideEntity(1)
		}
		err := Target{Entity: c.entity}.Place(cmd)
		switch {
		case c.want == -2:
			if err == nil || err.Code != NotAllowed {
				t.Errorf("%s: %v; want err != nil && err.Code == NotAllowed", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case (cmd.Others != 0) != (c.want == -1):
			t.Errorf("%s: %d others", c.name, cmd.Others)
		case cmd.Others == 0 && cmd.Slice != event.Slice{Entity: 7, Partition: uint8(c.want)}:
			t.Errorf("%s: %v, want partition %d", c.name, cmd.Slice, c.want)
		}
	}
}

// SM-209: an entity with one partition takes any batch, and its keys choose nothing.
func TestPlaceOfOne(t *testing.T) {
	t.Parallel()
	cmd := &Send{Messages: []Message{{PartitionKey: []byte("tenant-a")}, {PartitionKey: []byte("tenant-q")}}}
	if err := (Target{Entity: wideEntity(1)}).Place(cmd); err != nil || cmd.Slice != (event.Slice{Entity: 7}) || cmd.Others != 0 {
		t.Errorf("%v, %v, %d others", err, cmd.Slice, cmd.Others)
	}
}

// SM-213, S4-38: sends without a key take turns, whatever version of the entity each of them knows,
// and a batch stays whole.
func TestTurns(t *testing.T) {
	t.Parallel()
	of := wideEntity(sixteen)
	var n [sixteen]int
	for i := range 160 {
		if i == 80 {
			next := wideEntity(sixteen)
			next.Succeed(of)
			of = next
		}
		cmd := &Send{Messages: make([]Message, 1+i%3)}
		if err := (Target{Entity: of}).Place(cmd); err != nil {
			t.Fatal(err)
		}
		n[cmd.Slice.Partition]++
	}
	for p, got := range n {
		if got != 10 {
			t.Errorf("partition %d got %d of 160 sends, not 10", p, got)
		}
	}
}

// S4-38, docs/decisions/0066: in the turn, the partitions that one log hosts are next to each
// other, and each comes once.
func TestTurnsByLog(t *testing.T) {
	t.Parallel()
	hosts := []byte{3, 0, 1, 0, 2, 2, 3, 1, 0, 1, 1, 2, 3, 3, 0, 2}
	e := View(index.Entity{ID: 7, Kind: event.Queue, Path: "wide", Hosts: hosts}, nil)
	for range 2 {
		var seen [sixteen]bool
		changes := 0
		for i := range sixteen {
			p := e.nextInTurn()
			if seen[p] {
				t.Errorf("partition %d comes twice in one turn", p)
			}
			if seen[p] = true; i > 0 && e.Hosts[p] < e.Hosts[e.activity.order[i-1]] {
				t.Errorf("partition %d of log %d comes behind those of log %d", p, e.Hosts[p], e.Hosts[e.activity.order[i-1]])
			} else if i > 0 && e.Hosts[p] != e.Hosts[e.activity.order[i-1]] {
				changes++
			}
		}
		if changes != 3 {
			t.Errorf("the log changes %d times in a turn, not 3", changes)
		}
	}
}
