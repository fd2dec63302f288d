package model

import (
	"slices"
	"strings"
	"testing"
)

// S4-09: the hash of keys, as log-format.md 8 has it, is what the model computes by itself.
func TestHashVectors(t *testing.T) {
	for _, v := range []struct {
		key       string
		hash      uint64
		partition int
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
	} {
		if h, p := Hash(v.key), OfKey(v.key, 16); h != v.hash || p != v.partition {
			t.Errorf("%q is %016x in %d, it must be %016x in %d", v.key, h, p, v.hash, v.partition)
		}
	}
}

// S4-35, S4-37: which key counts, who is next without one, and who is asked when that one is away.
func TestRoute(t *testing.T) {
	e := Partitioned{Queues: make([]*Queue, 16)}
	ids := Partitioned{Queues: make([]*Queue, 16), Duplicates: true}
	for _, c := range []struct {
		name string
		by   *Partitioned
		sent []Keys
		at   int
		any  bool
		r    Refusal
	}{
		{"a session comes first", &e, []Keys{{Session: "tenant-a", HasSession: true, Partition: "tenant-q"}}, 5, false, Accepted},
		{"an empty session is one", &e, []Keys{{HasSession: true, Partition: "a"}}, 6, false, Accepted},
		{"a key", &e, []Keys{{Partition: "tenant-q", ID: "a", Via: "1"}}, 1, false, Accepted},
		{"an id is no key", &e, []Keys{{ID: "a"}}, 0, true, Accepted},
		{"but where duplicates are found", &ids, []Keys{{ID: "a", Via: "1"}}, 11, false, Accepted},
		{"the last resort", &e, []Keys{{Via: "1"}}, 6, false, Accepted},
		{"the next in turn", &e, []Keys{{}, {}}, 1, true, Accepted},
		{"distinct keys", &e, []Keys{{Partition: "a"}, {Partition: "1"}}, 0, false, NotAllowed},
		{"a key and none", &e, []Keys{{Partition: "a"}, {}}, 0, false, NotAllowed},
	} {
		if at, any, r := c.by.Route(c.sent, c.by); at != c.at || any != c.any || r != c.r {
			t.Errorf("%s: partition %d, any %v, %v; it must be %d, %v, %v", c.name, at, any, r, c.at, c.any, c.r)
		}
	}
	tried := []int{1}
	for range 4 {
		at, ok := e.Elsewhere(tried, func(p int) bool { return p < 4 })
		if !ok {
			break
		}
		tried = append(tried, at)
	}
	if slices.Sort(tried); !slices.Equal(tried, []int{0, 1, 2, 3}) {
		t.Errorf("partitions 0 to 3 are served, and %v were tried", tried)
	}
}
