package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// pendingKind says what a reply of the engine belongs to.
type pendingKind uint8

const (
	pendingFree pendingKind = iota
	pendingSend
	pendingSettle
	pendingReceiver // deliveries; until its detach is answered
	pendingDetach
	pendingRequest // of a $management node
)

// pending is a request the engine has not answered, or an attached receiver.
type pending struct {
	kind       pendingKind
	settled    bool // the peer wants no answer
	generation uint32
	next       int32  // in the free list
	size       uint32 // bytes counted against Limits.BufferedIn
	expected   uint32 // bytes counted in conn.expected
	delivery   uint32 // delivery-id
	link       *link
	request    *request
	outcome    engine.SettleOutcome
}

// pendings is a table with a stable number for each entry, so that a tag costs no map.
type pendings struct {
	table      []pending
	free       int32 // first free entry + 1
	unanswered int   // entries that one answer is to come for, and that the peer waits for
}

// asked tells that an entry is a request of the peer's.
func (p *pending) asked() bool {
	return p.kind == pendingSend || p.kind == pendingSettle || p.kind == pendingRequest
}

// add stores p and returns the tag that finds it.
func (t *pendings) add(p pending) uint64 {
	if p.asked() {
		t.unanswered++
	}
	i := t.free - 1
	if i < 0 {
		t.table = append(t.table, p)
		return uint64(len(t.table) - 1)
	}
	e := &t.table[i]
	t.free = e.next
	p.generation = e.generation
	*e = p
	return uint64(p.generation)<<32 | uint64(i)
}

// get finds an entry; nil for a tag that is no longer in use. The pointer is good until the next add.
func (t *pendings) get(tag uint64) *pending {
	i := uint32(tag)
	if int(i) >= len(t.table) {
		return nil
	}
	e := &t.table[i]
	if e.kind == pendingFree || e.generation != uint32(tag>>32) {
		return nil
	}
	return e
}

func (t *pendings) remove(tag uint64) {
	e := t.get(tag)
	if e == nil {
		return
	}
	if e.asked() {
		t.unanswered--
	}
	*e = pending{generation: e.generation + 1, next: t.free}
	t.free = int32(uint32(tag)) + 1
}
