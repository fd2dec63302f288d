package servicebus

import (
	"iter"
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// unsettledDelivery is a delivery that the peer has to settle.
type unsettledDelivery struct {
	link   *link
	token  event.LockToken
	until  event.Time // end of the lock, as far as this connection knows
	header uint32     // bytes of the message without its body

	verdict verdict      // in the transaction
	in      *transaction // the open transaction in which the peer has settled it; nil: none
}

// expired reports whether the lock has ended, as far as this connection knows. A lock under a
// message session ends with the session, and one that a transaction relies on not before the end of
// the transaction.
func (u *unsettledDelivery) expired(now event.Time) bool {
	return u.until <= now && u.link.filter == nil && u.in == nil
}

// waits registers a delivery that the peer has to settle.
func (s *session) waits(id uint32, u unsettledDelivery) {
	s.unsettled.add(id, u)
	u.link.receiver.unsettled++
	s.c.outstanding.add(u.token, sentDelivery{s, id})
}

// forget removes a delivery that need not be settled any more, and returns it.
func (s *session) forget(d *deliveryEntry) unsettledDelivery {
	u := s.unsettled.remove(d)
	u.link.receiver.unsettled--
	s.c.outstanding.remove(u.token)
	return u
}

// drop is forget for a delivery that is settled, or whose lock has ended. A later disposition for
// it is refused, or not answered if its link is gone by then.
func (s *session) drop(d *deliveryEntry) unsettledDelivery {
	id := d.id
	u := s.forget(d)
	if u.link.detached {
		s.silent.note(id)
	} else {
		s.settled.note(id, u.link.at.path)
	}
	u.link.receiver.pass()
	return u
}

// forgetAll removes all deliveries.
func (s *session) forgetAll() {
	for d := range s.unsettled.all() {
		s.forget(d)
	}
	s.unsettled = deliveries{}
}

// deliveries holds the unsettled deliveries by delivery-id, which is the order in which they were
// sent. Settled ones stay in it until add removes them. Ids wrap around, and are never further
// apart than 2^31.
type deliveries struct {
	list  []deliveryEntry
	count int // without the settled ones
}

// deliveryEntry is an entry of deliveries. In a settled entry, gap is the known number of settled
// entries in a row from this one on.
type deliveryEntry struct {
	id, gap uint32
	unsettledDelivery
}

// keptDeliveries is the maximum number of entries for which memory is kept while there are none.
const keptDeliveries = 1024

// add appends the newest delivery. It removes the settled entries when they are the majority, so
// each costs little.
func (o *deliveries) add(id uint32, u unsettledDelivery) {
	if n := len(o.list); n >= 64 && n > 2*o.count {
		o.list = slices.DeleteFunc(o.list, func(d deliveryEntry) bool { return d.gap > 0 })
	}
	o.list = append(o.list, deliveryEntry{id: id, unsettledDelivery: u})
	o.count++
}

// remove marks an entry as settled and returns its delivery.
func (o *deliveries) remove(d *deliveryEntry) unsettledDelivery {
	u := d.unsettledDelivery
	d.gap, d.unsettledDelivery = 1, unsettledDelivery{}
	if o.count--; o.count == 0 {
		if o.list = o.list[:0]; cap(o.list) > keptDeliveries {
			o.list = nil
		}
	}
	return u
}

// find returns the entry with an id, nil if that delivery is not waiting to be settled. The pointer
// is valid until the next add.
func (o *deliveries) find(id uint32) *deliveryEntry {
	i := o.from(id)
	if i == len(o.list) || o.list[i].id != id || o.list[i].gap > 0 {
		return nil
	}
	return &o.list[i]
}

// from returns the place of the first entry with that id or a later one.
func (o *deliveries) from(id uint32) int {
	if len(o.list) == 0 {
		return 0
	}
	base := o.list[0].id
	at := int32(id - base)
	if at <= 0 {
		return 0
	}
	if int(at) < len(o.list) && o.list[at].id == id { // as long as no id is missing
		return int(at)
	}
	return sort.Search(len(o.list), func(i int) bool { return int32(o.list[i].id-base) >= at })
}

// all iterates over the deliveries that wait to be settled, in order. They may be removed during
// the iteration.
func (o *deliveries) all() iter.Seq[*deliveryEntry] {
	list := o.list
	return func(yield func(*deliveryEntry) bool) {
		for i := 0; i < len(list); i += max(1, int(list[i].gap)) {
			if list[i].gap == 0 && !yield(&list[i]) {
				return
			}
		}
	}
}

// in appends the ids, from first to n after it, that wait to be settled, in order. Its cost depends
// on their number.
func (o *deliveries) in(ids []uint32, first, n uint32) []uint32 {
	for i := o.next(o.from(first)); i < len(o.list) && o.list[i].id-first <= n; i = o.next(i + 1) {
		ids = append(ids, o.list[i].id)
	}
	return ids
}

// next returns the place of the first entry from i on that waits to be settled. It notes the length
// of the gap that it skipped, so that later calls need not step through it.
func (o *deliveries) next(i int) int {
	from := i
	for i < len(o.list) && o.list[i].gap > 0 {
		i += int(o.list[i].gap)
	}
	for from < i {
		gap := o.list[from].gap
		o.list[from].gap = uint32(i - from)
		from += int(gap)
	}
	return i
}
