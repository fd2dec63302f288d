package index

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// lock is the lock of a message, or of a session.
type lock struct {
	token    event.LockToken
	slice    event.Slice
	sequence event.SequenceNumber // 0: of a session
	session  uint32               // slot of the locked session
	until    event.Time           // 0: of a message that is locked as long as its session
}

// peak is the number of slots from which on an emptied table is made again, so that its memory is
// freed.
const peak = 1 << 16

// lockTable finds locks by slot, by token, and by the time of their end. A snapshot sees the slots.
type lockTable struct {
	slots[lock]
	versions *versions
	byToken  tokens
	ends     deadlines // without those that are held
	// slots of held locks, which do not end by time for now, and how often each is held; nil: none
	held map[uint32]uint32
}

func newLockTable(v *versions) lockTable {
	return lockTable{versions: v, byToken: newTokens(), ends: newDeadlines()}
}

func (t *lockTable) add(l lock) uint32 {
	h := half(l.token)
	other := t.byToken.halves[h]
	if other != 0 && t.at(other).token == l.token || t.byToken.others[l.token] != 0 {
		panic(fmt.Sprintf("index: lock token %v is in use", l.token))
	}
	slot := t.slots.add(t.versions, l)
	if other == 0 {
		t.byToken.halves[h] = slot
	} else {
		t.byToken.others[l.token] = slot
	}
	if l.until != 0 {
		t.ends.add(l.until, slot)
	}
	return slot
}

func (t *lockTable) remove(slot uint32) {
	l := t.at(slot)
	t.leaveEnds(slot)
	delete(t.held, slot)
	t.byToken.remove(l.token, slot)
	t.slots.remove(t.versions, slot)
	if t.byToken.len() == 0 && t.end > peak { // free its memory
		t.slots, t.byToken, t.ends.links = slots[lock]{}, newTokens(), nil
	}
}

// find returns the slot of the lock with a token; 0: there is none.
func (t *lockTable) find(token event.LockToken) uint32 {
	if slot := t.byToken.halves[half(token)]; slot != 0 && t.at(slot).token == token {
		return slot
	}
	return t.byToken.others[token]
}

// tokens finds slots by token. It looks up the token's first half, which is as random as the whole
// and for which maps are faster. The lock in the slot shows whether the whole token is the same.
type tokens struct {
	halves map[uint64]uint32
	// slots of later tokens with the same first half
	others map[event.LockToken]uint32
}

func newTokens() tokens {
	return tokens{halves: map[uint64]uint32{}, others: map[event.LockToken]uint32{}}
}

func half(token event.LockToken) uint64 { return binary.LittleEndian.Uint64(token[:8]) }

func (t *tokens) len() int { return len(t.halves) + len(t.others) }

func (t *tokens) remove(token event.LockToken, slot uint32) {
	if h := half(token); len(t.others) == 0 || t.halves[h] == slot {
		delete(t.halves, h)
	} else {
		delete(t.others, token)
	}
}

// extend moves a lock's end.
func (t *lockTable) extend(slot uint32, until event.Time) {
	t.leaveEnds(slot)
	t.edit(t.versions, slot).until = until
	t.enterEnds(slot)
}

// enterEnds and leaveEnds add and remove the end of a lock, if it ends by time and is not held.
func (t *lockTable) enterEnds(slot uint32) {
	if until := t.at(slot).until; until != 0 && t.held[slot] == 0 {
		t.ends.add(until, slot)
	}
}

func (t *lockTable) leaveEnds(slot uint32) {
	if until := t.at(slot).until; until != 0 && t.held[slot] == 0 {
		t.ends.remove(until, slot)
	}
}

func (t *lockTable) hold(slot uint32) {
	t.leaveEnds(slot)
	if t.held == nil {
		t.held = map[uint32]uint32{}
	}
	t.held[slot]++
}

func (t *lockTable) unhold(slot uint32) {
	switch t.held[slot] {
	case 0:
	case 1:
		delete(t.held, slot)
		t.enterEnds(slot)
	default:
		t.held[slot]--
	}
}

// bucketBits sets the width of a deadline bucket: 64 ms. A lock's end is noticed at most that late;
// using its token notices it at once.
const bucketBits = 6

// bucket is the number of a bucket.
type bucket int64

func bucketOf(t event.Time) bucket { return bucket(t >> bucketBits) }

func (b bucket) Before(o bucket) bool { return b < o }

// deadlines holds lock slots by the time their locks end.
type deadlines struct {
	buckets map[bucket]*deadlineBucket
	// of all buckets that are not empty, and perhaps of some empty ones; the first one is not empty
	keys  heapOf[bucket]
	idle  []bucket     // those that are not in the heap, and some that are in it again
	links []neighbours // of the slots in one bucket, by slot
	// the last one requested: the next lock is likely to end in the same one
	last   bucket
	lastIs *deadlineBucket // nil: there was none
}

// deadlineBucket is the list of slots of the locks that end in it.
type deadlineBucket struct {
	first  uint32 // 0: there are none
	count  int
	queued bool // it is in the heap
	idle   bool // it is in the list of idle ones
}

// neighbours are the slots before and after a slot in its list; 0: there is none.
type neighbours struct{ before, behind uint32 }

// maxIdle is how many empty buckets are kept: the next lock is likely to end in one of them.
const maxIdle = 16

func newDeadlines() deadlines { return deadlines{buckets: map[bucket]*deadlineBucket{}} }

// bucket returns a bucket; nil: there is none.
func (d *deadlines) bucket(k bucket) *deadlineBucket {
	if d.lastIs == nil || d.last != k {
		d.last, d.lastIs = k, d.buckets[k]
	}
	return d.lastIs
}

func (d *deadlines) add(t event.Time, slot uint32) {
	k := bucketOf(t)
	b := d.bucket(k)
	if b == nil {
		b = new(deadlineBucket)
		d.buckets[k], d.lastIs = b, b
	}
	if !b.queued {
		b.queued = true
		d.keys.push(k)
	}
	if n := int(slot) + 1 - len(d.links); n > 0 {
		d.links = append(d.links, make([]neighbours, n)...)
	}
	d.links[slot] = neighbours{behind: b.first}
	if b.first != 0 {
		d.links[b.first].before = slot
	}
	b.first = slot
	b.count++
}

func (d *deadlines) remove(t event.Time, slot uint32) {
	b := d.bucket(bucketOf(t))
	l := d.links[slot]
	if l.before != 0 {
		d.links[l.before].behind = l.behind
	} else {
		b.first = l.behind
	}
	if l.behind != 0 {
		d.links[l.behind].before = l.before
	}
	if b.count--; b.count > 0 {
		return
	}
	for len(d.keys) > 0 {
		b := d.buckets[d.keys[0]]
		if b.count > 0 {
			break
		}
		b.queued = false
		if k := d.keys.pop(); !b.idle {
			b.idle = true
			d.idle = append(d.idle, k)
		}
	}
	if len(d.idle) > maxIdle {
		d.tidy()
	}
}

// tidy drops idle buckets.
func (d *deadlines) tidy() {
	for _, k := range d.idle {
		if b := d.buckets[k]; b.queued {
			b.idle = false
		} else {
			delete(d.buckets, k)
		}
	}
	d.idle, d.lastIs = d.idle[:0], nil
}

// first returns the earliest bucket and the time at which all its locks are due; nil: there is
// none.
func (d *deadlines) first() (*deadlineBucket, event.Time) {
	if len(d.keys) == 0 {
		return nil, 0
	}
	k := d.keys[0]
	return d.buckets[k], event.Time((k + 1) << bucketBits)
}

// of yields the slots of a bucket, in no particular order.
func (d *deadlines) of(b *deadlineBucket) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for slot := b.first; slot != 0 && yield(slot); slot = d.links[slot].behind {
		}
	}
}
