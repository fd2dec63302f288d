package index

import (
	"container/heap"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// lock is the lock of a message, or of a session.
type lock struct {
	token    event.LockToken
	slice    event.Slice
	sequence event.SequenceNumber // 0: of a session
	session  uint32               // slot of the session it is the lock of
	until    event.Time           // 0: of a message that is locked as long as its session
}

// peak is the number of slots from which on an empty table is made anew.
const peak = 1 << 16

// lockTable finds locks by slot, by token, and, those that end by time, by that.
type lockTable struct {
	slots[lock]
	byTok map[event.LockToken]uint32
	ends  deadlines
}

func newLockTable() lockTable {
	return lockTable{slots: newSlots[lock](), byTok: map[event.LockToken]uint32{}, ends: newDeadlines()}
}

func (t *lockTable) add(l lock) uint32 {
	if _, ok := t.byTok[l.token]; ok {
		panic(fmt.Sprintf("index: lock token %v is in use", l.token))
	}
	slot := t.slots.add(l)
	t.byTok[l.token] = slot
	if l.until != 0 {
		t.ends.add(l.until, slot)
	}
	return slot
}

func (t *lockTable) at(slot uint32) *lock { return &t.table[slot] }

func (t *lockTable) remove(slot uint32) {
	l := t.at(slot)
	if l.until != 0 {
		t.ends.remove(l.until, slot)
	}
	delete(t.byTok, l.token)
	t.slots.remove(slot)
	if len(t.byTok) == 0 && len(t.table) > peak { // give its memory back
		t.slots, t.byTok = newSlots[lock](), map[event.LockToken]uint32{}
	}
}

// extend moves a lock's end.
func (t *lockTable) extend(slot uint32, until event.Time) {
	l := t.at(slot)
	t.ends.remove(l.until, slot)
	l.until = until
	t.ends.add(until, slot)
}

// bucketBits is the width of a deadline bucket: 64 ms. A lock's end is noticed at most that late; using its token notices
// it at once.
const bucketBits = 6

// bucket is the number of a bucket.
type bucket int64

func bucketOf(t event.Time) bucket { return bucket(t >> bucketBits) }

func (b bucket) Before(o bucket) bool { return b < o }

// deadlines holds lock slots by the time their locks end. An empty bucket stays until its time comes: the next lock is
// likely to end then, too.
type deadlines struct {
	buckets map[bucket]*roaring.Bitmap
	keys    heapOf[bucket] // the keys of buckets
}

func newDeadlines() deadlines { return deadlines{buckets: map[bucket]*roaring.Bitmap{}} }

func (d *deadlines) add(t event.Time, slot uint32) {
	k := bucketOf(t)
	b := d.buckets[k]
	if b == nil {
		b = roaring.New()
		d.buckets[k] = b
		heap.Push(&d.keys, k)
	}
	b.Add(slot)
}

func (d *deadlines) remove(t event.Time, slot uint32) {
	d.buckets[bucketOf(t)].Remove(slot)
}

// first returns the earliest bucket and the time at which all in it are due.
func (d *deadlines) first() (*roaring.Bitmap, event.Time) {
	for len(d.keys) > 0 {
		k := d.keys[0]
		if b := d.buckets[k]; !b.IsEmpty() {
			return b, event.Time((k + 1) << bucketBits)
		}
		heap.Pop(&d.keys)
		delete(d.buckets, k)
	}
	return nil, 0
}
