package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// asRows returns the contents of a tree, by number: the row, its origin and its changes.
func asRows(root *node) map[event.SequenceNumber]string {
	all := map[event.SequenceNumber]string{}
	root.each(0, func(p place) bool {
		all[p.sequence()] = fmt.Sprint(*p.row(), p.origin(), p.changes())
		return true
	})
	return all
}

// check returns what is wrong with the shape of a tree.
func (n *node) check(t *testing.T, root bool) (live int) {
	t.Helper()
	if n.level == 0 {
		room := 0
		for i := range fan {
			room += int(n.used >> i & 1)
			live += int(n.live >> i & 1)
		}
		if n.live&^n.used != 0 || room != len(n.rows) || live == 0 && !root || n.extra != nil && n.extra.origins.others != nil && len(n.extra.origins.others) != room {
			t.Fatalf("leaf %d: live %x, used %x, %d rows, %+v", n.number, n.live, n.used, len(n.rows), n.extra)
		}
		return live
	}
	for i, kid := range n.kids {
		if (kid != nil) != (n.live>>i&1 != 0) {
			t.Fatalf("branch %d of level %d: live %x, kid %d: %v", n.number, n.level, n.live, i, kid)
		}
		if kid != nil {
			if kid.level != n.level-1 || kid.number != n.number<<fanBits|uint64(i) {
				t.Fatalf("branch %d of level %d has %d of level %d for kid %d", n.number, n.level, kid.number, kid.level, i)
			}
			live += kid.check(t, false)
		}
	}
	if root && n.live&(n.live-1) == 0 {
		t.Fatalf("a root of level %d with one kid", n.level)
	}
	return live
}

// frozen is rows that must not change any more.
type frozen struct {
	rows rows
	want map[event.SequenceNumber]string
}

// Rows come with growing numbers, close together and far apart, change, and go from anywhere; trees
// frozen on the way stay as they were.
func TestTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		v := &versions{now: 1}
		var tree rows
		model := map[event.SequenceNumber]string{}
		note := func(seq event.SequenceNumber) {
			p := tree.find(seq)
			model[seq] = fmt.Sprint(*p.row(), p.origin(), p.changes())
		}
		var kept []frozen
		last := event.SequenceNumber(rng.Uint64N(1 << 40))
		var there []event.SequenceNumber
		growing := true
		for step := range 3000 {
			if rng.IntN(300) == 0 {
				growing = !growing
			}
			switch op := rng.IntN(10); {
			case op < 4 && growing || len(there) == 0:
				last += event.SequenceNumber(1 + rng.IntN(2)*rng.IntN(3))
				if rng.IntN(60) == 0 {
					last += event.SequenceNumber(rng.Uint64N(1 << (5 + rng.IntN(25))))
				}
				*tree.insert(v, last) = row{size: uint32(step), marks: in(event.Main, Active)}
				if rng.IntN(4) == 0 {
					tree.find(last).setOrigin(last + event.SequenceNumber(step/500%2)*event.SequenceNumber(step))
				}
				there = append(there, last)
				note(last)
			case op < 7:
				seq := there[rng.IntN(len(there))]
				tree.edit(v, seq).count++
				if rng.IntN(4) == 0 {
					tree.find(seq).addChange(event.Blob{Size: uint32(step)})
				}
				note(seq)
			case op < 9 || !growing:
				i := min(rng.IntN(len(there)), rng.IntN(len(there))) // the older ones rather
				tree.remove(v, there[i])
				delete(model, there[i])
				there = slices.Delete(there, i, i+1)
			case len(kept) < 3:
				kept = append(kept, frozen{tree, maps.Clone(model)})
				v.frozen, v.now = v.now, v.now+1
			default:
				if got := asRows(kept[0].rows.root); !maps.Equal(got, kept[0].want) {
					t.Fatalf("seed %d, step %d: a frozen tree has changed (-want +got):\n%s", seed, step, cmp.Diff(kept[0].want, got))
				}
				if kept = kept[1:]; len(kept) == 0 {
					v.frozen = 0
				}
			}
			if tree.edit(v, last+1) != nil || tree.find(last+70).leaf != nil {
				t.Fatalf("seed %d, step %d: there is what never came", seed, step)
			}
			if step%50 == 0 {
				if got := asRows(tree.root); !maps.Equal(got, model) {
					t.Fatalf("seed %d, step %d: %d rows, not %d (-want +got):\n%s", seed, step, len(got), len(model), cmp.Diff(model, got))
				}
				if tree.root != nil && tree.root.check(t, true) != len(model) {
					t.Fatalf("seed %d, step %d: another number of rows", seed, step)
				}
			}
		}
	}
}

// Going through a tree begins at any number, there or not, and ends when it is told to.
func TestTreeFrom(t *testing.T) {
	t.Parallel()
	v := &versions{now: 1}
	var tree rows
	all := []event.SequenceNumber{3, 63, 64, 66, 5000, 5001, 300_000, 1 << 33}
	for _, seq := range all {
		*tree.insert(v, seq) = row{marks: in(event.Main, Active)}
	}
	for _, from := range []event.SequenceNumber{0, 1, 3, 4, 63, 64, 65, 67, 4999, 5000, 5002, 299_999, 300_001, 1 << 33, 1<<33 + 1, 1 << 60, 1<<64 - 1} {
		var got []event.SequenceNumber
		tree.root.each(from, func(p place) bool {
			got = append(got, p.sequence())
			return len(got) < 3
		})
		i, _ := slices.BinarySearch(all, from)
		if want := all[i:min(i+3, len(all))]; !slices.Equal(got, want) {
			t.Errorf("from %d: %v, want %v", from, got, want)
		}
	}
}
