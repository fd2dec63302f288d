package servicebus

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
)

// pendingKind is the subject of a reply of the engine.
type pendingKind uint8

const (
	pendingFree pendingKind = iota
	pendingSend
	pendingSettle
	pendingReceiver // deliveries; until the detach of the receiver is answered
	pendingDetach
	pendingRequest   // of a $management node
	pendingDischarge // the end of a transaction that the peer waits for
	pendingRollback  // the same, without the peer waiting
)

// pendingEntry is a request that the engine has not answered, or an attached receiver.
type pendingEntry struct {
	kind       pendingKind
	settled    bool // the peer wants no answer
	generation uint32
	next       int32  // in the free list
	size       uint32 // bytes of the request
	paid       uint32 // bytes of size in chunks that are paid for
	// maximum bytes of the answer, or the number of bytes that its other costs count as
	expected uint32
	kept     uint32 // bytes of expected that take memory
	delivery uint32 // delivery-id
	link     *link
	request  *request
	outcome  engine.SettleOutcome
	ends     endRequest
	in       *transaction // transaction that the request is part of, or ends; nil: none
}

// pendings is a table with a stable number for each entry, so that finding an entry by its tag
// needs no map. It keeps the counts that the connection's limits bound.
type pendings struct {
	table      []pendingEntry
	free       int32 // first free entry + 1
	unanswered int   // entries that get one answer, for which the peer waits
	requests   int   // unanswered entries of $management nodes
	// requests for messages by number or for rules: each answer holds them whole
	taking   int
	detaches int // receivers that wait until no more deliveries can arrive
	ends     int // of transactions
	bytes    int // of all entries
	paid     int // bytes in chunks that are paid for
	expected int // maximum bytes of all answers
	kept     int // bytes of expected that take memory
}

// count adds an entry to the counts, or with -1 removes it.
func (t *pendings) count(p *pendingEntry, n int) {
	t.bytes += n * int(p.size)
	t.paid += n * int(p.paid)
	t.expected += n * int(p.expected)
	t.kept += n * int(p.kept)
	switch p.kind {
	case pendingSend, pendingSettle:
		t.unanswered += n
	case pendingDischarge:
		t.unanswered += n
		t.ends += n
	case pendingRollback:
		t.ends += n
	case pendingRequest:
		t.unanswered += n
		t.requests += n
		if p.request.takes {
			t.taking += n
		}
	case pendingDetach:
		t.detaches += n
	}
}

// add stores p and returns the tag that finds it.
func (t *pendings) add(p pendingEntry) uint64 {
	t.count(&p, 1)
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

// get returns an entry; nil for a tag that is no longer in use. The pointer is valid until the next
// add.
func (t *pendings) get(tag uint64) *pendingEntry {
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

// unread tells the engine that the data of its answers to requests will not be read.
func (t *pendings) unread() {
	for i := range t.table {
		if p := &t.table[i]; p.kind == pendingRequest {
			p.request.read.Store(true)
		}
	}
}

// delivers reports whether an entry will settle a delivery that the peer made in a session.
func (t *pendings) delivers(s *session, id uint32) bool {
	if t.unanswered == 0 {
		return false
	}
	return slices.ContainsFunc(t.table, func(p pendingEntry) bool {
		return (p.kind == pendingSend || p.kind == pendingDischarge) && !p.settled && p.delivery == id && p.link.s == s
	})
}

func (t *pendings) remove(tag uint64) {
	e := t.get(tag)
	if e == nil {
		return
	}
	t.count(e, -1)
	*e = pendingEntry{generation: e.generation + 1, next: t.free}
	t.free = int32(uint32(tag)) + 1
}
