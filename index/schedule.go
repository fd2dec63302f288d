package index

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// scheduled is what is kept of a message that is to become active, beside its row.
type scheduled struct {
	slice    event.Slice
	sequence event.SequenceNumber
	at       event.Time
	ttl      time.Duration // the sender's own as sent; 0: none
}

// schedule finds scheduled messages by slot and by time. Slot 0 is never used.
type schedule struct {
	slots []scheduled
	free  []uint32
	byAt  atHeap // every slot in use, and some that are not any more
	live  int
}

func newSchedule() schedule { return schedule{slots: make([]scheduled, 1)} }

func (t *schedule) add(s scheduled) uint32 {
	var slot uint32
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
		t.slots[slot] = s
	} else {
		slot = uint32(len(t.slots))
		t.slots = append(t.slots, s)
	}
	t.live++
	t.enter(slot)
	return slot
}

// enter puts a slot in use into the order of times.
func (t *schedule) enter(slot uint32) {
	s := &t.slots[slot]
	heap.Push(&t.byAt, due{s.at, s.sequence, s.slice, slot})
}

func (t *schedule) remove(slot uint32) {
	t.slots[slot] = scheduled{}
	t.free = append(t.free, slot)
	if t.live--; t.live == 0 {
		t.byAt = nil
		if len(t.slots) > peak { // give its memory back
			*t = newSchedule()
		}
		return
	}
	if len(t.byAt) > 64 && len(t.byAt) > 4*t.live { // cancelled ones, most of them
		kept := t.byAt[:0]
		for _, d := range t.byAt {
			if t.current(d) {
				kept = append(kept, d)
			}
		}
		t.byAt = kept
		heap.Init(&t.byAt)
	}
}

func (t *schedule) current(d due) bool {
	s := &t.slots[d.slot]
	return s.sequence == d.sequence && s.slice == d.slice && s.at == d.at
}

// first is the one to become active next: by time, then by number (semantics.md 7.6).
func (t *schedule) first() (scheduled, bool) {
	for len(t.byAt) > 0 {
		if d := t.byAt[0]; t.current(d) {
			return t.slots[d.slot], true
		}
		heap.Pop(&t.byAt)
	}
	return scheduled{}, false
}

type due struct {
	at       event.Time
	sequence event.SequenceNumber
	slice    event.Slice
	slot     uint32
}

type atHeap []due

func (h atHeap) Len() int { return len(h) }
func (h atHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sequence, b.sequence), compareSlices(a.slice, b.slice)) < 0
}
func (h atHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *atHeap) Push(x any)   { *h = append(*h, x.(due)) }
func (h *atHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	*h = old[:len(old)-1]
	return d
}
