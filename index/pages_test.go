package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// paged has slots and a queue, and their expected contents.
type paged struct {
	s          slots[int]
	q          queue[int]
	table, row []int
}

// values are those of the slots and those of the queue.
func (p *paged) values() []int {
	all := []int{0}
	for _, value := range p.s.all() {
		all = append(all, *value)
	}
	for n := p.q.head; n < p.q.end; n++ {
		all = append(all, *p.q.at(n))
	}
	return all
}

// Slots and queues of some pages change at random; copies taken on the way, as snapshots take them,
// stay as they were.
func TestPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 4))
		v := &versions{now: 1}
		var s slots[int]
		var q queue[int]
		table, row := []int{0}, []int(nil) // expected contents of s and q
		first := 0
		var kept []paged
		compare := func(p paged) {
			if got, want := p.values(), slices.Concat(p.table, p.row); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v, not %v", seed, got, want)
			}
		}
		for step := range 6000 {
			switch op := rng.IntN(20); {
			case op < 7:
				if n := int(s.add(v, step)); n == len(table) {
					table = append(table, step)
				} else {
					table[n] = step
				}
				if n := q.add(v, step); n != first+len(row) {
					t.Fatalf("seed %d: number %d comes after %d", seed, n, first+len(row)-1)
				}
				row = append(row, step)
			case op < 12 && len(table) > 1:
				n := 1 + rng.IntN(len(table)-1)
				if table[n] != 0 {
					*s.edit(v, uint32(n)), table[n] = -step, -step
				}
				if len(row) > 0 {
					n := rng.IntN(len(row))
					*q.edit(v, first+n), row[n] = -step, -step
				}
			case op < 18 && len(row) > 0 && (step/1500)%2 == 1:
				q.drop(v)
				first, row = first+1, row[1:]
				if n := 1 + rng.IntN(len(table)-1); table[n] != 0 {
					s.remove(v, uint32(n))
					table[n] = 0
				}
			case op == 18 && len(kept) < 3:
				kept = append(kept, paged{s, q, slices.Clone(table), slices.Clone(row)})
				v.frozen, v.now = v.now, v.now+1
			case op == 19 && len(kept) > 0:
				compare(kept[0])
				if kept = kept[1:]; len(kept) == 0 {
					v.frozen = 0
				}
			}
		}
		compare(paged{s, q, table, row})
	}
}
