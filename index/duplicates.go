package index

import (
	"crypto/sha256"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// idKey stands for a message-id in the duplicate history: half of a SHA-256, so that ids of any length cost the same and no
// two of them are taken for one.
type idKey [16]byte

func keyOf(t event.IDType, id []byte) (k idKey) {
	var room [513]byte
	p := append(append(room[:0], byte(t)), id...)
	sum := sha256.Sum256(p)
	copy(k[:], sum[:])
	return k
}

// seen is one entry of the history.
type seen struct {
	until    event.Time
	original event.SequenceNumber
}

// entry is an entry in the order in which they were made.
type entry struct {
	key   idKey
	until event.Time
}

// maxForget is how many entries that are over go with each new one. A few: a long history must not make one send pay for all.
const maxForget = 4

// history is the duplicate history of a slice: which ids were accepted lately (semantics.md 11). Entries that are over go
// when new ones come.
type history struct {
	byKey map[idKey]seen
	order []entry
	head  int // of order
}

func newHistory() *history { return &history{byKey: map[idKey]seen{}} }

// remember enters an id that was accepted at a time.
func (h *history) remember(now event.Time, k idKey, s seen) {
	if s.until <= now {
		return
	}
	for left := maxForget; h.head < len(h.order); {
		e := h.order[h.head]
		if h.byKey[e.key].until == e.until { // else another has replaced it: that one is not part of the state, nor counted
			if e.until > now || left == 0 {
				break
			}
			left--
		}
		h.forget(e)
		h.head++
	}
	if h.head > 1024 && h.head > len(h.order)/2 {
		h.order = append(h.order[:0], h.order[h.head:]...)
		h.head = 0
	}
	h.byKey[k] = s
	h.order = append(h.order, entry{k, s.until})
}

// forget drops an entry, unless the id was accepted again since.
func (h *history) forget(e entry) {
	if s, ok := h.byKey[e.key]; ok && s.until == e.until {
		delete(h.byKey, e.key)
	}
	if len(h.byKey) == 0 && len(h.order) > peak { // maps do not give memory back
		h.byKey = map[idKey]seen{}
	}
}

// over counts the entries that would go next, up to a limit.
func (h *history) over(now event.Time, limit int) (n int) {
	for _, e := range h.order[h.head:] {
		if n == limit || e.until > now {
			break
		}
		if h.byKey[e.key].until == e.until {
			n++
		}
	}
	return n
}

// entries are those of the history in the order in which they were made, without the ones that another has replaced.
func (h *history) entries(yield func(idKey, seen) bool) {
	for _, e := range h.order[h.head:] {
		if s, ok := h.byKey[e.key]; ok && s.until == e.until {
			if !yield(e.key, s) {
				return
			}
		}
	}
}
