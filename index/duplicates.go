package index

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// idKey is the key of a message-id in the duplicate history: half of a SHA-256, so that ids of any
// length cost the same and no two of them are confused.
type idKey [16]byte

// keyed is added to the type of an id that counts together with a key. The key's length follows.
const keyed = 0x80

func keyOf(of *event.Identity) (k idKey) {
	var room [1 + 2 + 2*512]byte
	p := append(room[:0], byte(of.Type))
	if of.Keyed {
		p[0] |= keyed
		p = binary.BigEndian.AppendUint16(p, uint16(len(of.Key)))
		p = append(p, of.Key...)
	}
	sum := sha256.Sum256(append(p, of.ID...))
	copy(k[:], sum[:])
	return k
}

// acceptedID is one entry of the history.
type acceptedID struct {
	key      idKey
	until    event.Time // 0: the id was accepted again since, with a later entry
	original event.SequenceNumber
}

// maxForget is how many expired entries are dropped with each new one. It is small, so that one
// send does not pay for a long history.
const maxForget = 4

// keptHistory is the part of a duplicate history that a snapshot sees. The owner changes it with
// the slice's own.
type keptHistory struct {
	order queue[acceptedID] // oldest first
	count int               // number of those that are not replaced
}

// history is the duplicate history of a slice: the ids that were accepted lately (semantics.md 11).
// Expired entries are dropped when new ones are added.
type history struct {
	of    *slice
	byKey map[idKey]int // places in the order
}

func newHistory(s *slice) *history {
	s.seen = new(keptHistory)
	return &history{of: s, byKey: map[idKey]int{}}
}

// find returns the entry of an id.
func (h *history) find(k idKey) (acceptedID, bool) {
	n, ok := h.byKey[k]
	if !ok {
		return acceptedID{}, false
	}
	return *h.of.seen.order.at(n), true
}

// remember adds an id that was accepted at a time.
func (h *history) remember(now event.Time, k idKey, s acceptedID) {
	if s.until <= now {
		return
	}
	order := &h.of.seen.order
	for left := maxForget; order.head < order.end; order.drop(&h.of.shared.versions) {
		e := order.at(order.head)
		if e.until == 0 { // replaced entries are neither counted nor part of the state
			continue
		}
		if e.until > now || left == 0 {
			break
		}
		left--
		h.forget(e.key)
	}
	s.key = k
	h.enter(s)
}

// enter appends an entry, which replaces the one of the same id.
func (h *history) enter(s acceptedID) {
	kept, v := h.of.seen, &h.of.shared.versions
	if n, twice := h.byKey[s.key]; twice {
		kept.order.edit(v, n).until = 0
		kept.count--
	}
	h.byKey[s.key] = kept.order.add(v, s)
	kept.count++
}

// forget drops the entry of an id.
func (h *history) forget(k idKey) {
	delete(h.byKey, k)
	// maps do not free memory
	if h.of.seen.count--; h.of.seen.count == 0 && h.of.seen.order.end-h.of.seen.order.before > peak {
		h.byKey = map[idKey]int{}
	}
}

// countExpired counts the entries that would be dropped next, up to a limit.
func (h *history) countExpired(now event.Time, limit int) (n int) {
	order := &h.of.seen.order
	for i := order.head; i < order.end && n < limit; i++ {
		switch e := order.at(i); {
		case e.until > now:
			return n
		case e.until != 0:
			n++
		}
	}
	return n
}

// entries yields the entries of the history from the oldest on, without the replaced ones.
func (h *keptHistory) entries(yield func(*acceptedID) bool) {
	for i := h.order.head; i < h.order.end; i++ {
		if e := h.order.at(i); e.until != 0 && !yield(e) {
			return
		}
	}
}
