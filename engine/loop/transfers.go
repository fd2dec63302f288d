package loop

import (
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxOpenTransfers and maxOpenBytes bound what is in transfer from a queue to one destination
	// at a time. For messages sent through an entity, they bound what the courier has for one
	// destination.
	maxOpenTransfers = 256
	maxOpenBytes     = 4 << 20
	// maxOutstanding bounds the transfers that the courier of a log has, of all slices together.
	// The courier may always have minOutstanding transfers from one slice to one destination.
	// Otherwise destinations that are full for a while would block the others.
	maxOutstanding = 16 << 10
	minOutstanding = 16
	// maxSpan bounds how far apart the numbers of transfers from a slice to an entity with several
	// partitions may be. While one of them waits for its partition, the floor stays, and the other
	// partitions remember everything that arrives above it.
	maxSpan = 16 * maxOpenTransfers
	// manyFloors is the number of floors of a slice from which those of deleted destinations are
	// dropped.
	manyFloors = 64
)

// transfers knows which queues of a partition have a standing order, and which messages are in
// transfer to other entities. It is told of every decided event, and of what is durable;
// forwarder.go decides what to do about it.
type transfers struct {
	// set once in New
	part    *engine.Partition
	courier engine.Sink // nil: nothing moves
	// returns the entity with an id; nil: it was deleted. Set by Resume
	entity  func(event.EntityID) *engine.Entity
	replies *replies

	// owned by the loop
	orders     map[orderKey]*order
	ready      fifo.Queue[*order]
	sources    map[event.Slice]*sliceTransfers // slices with unfinished transfers
	unreported fifo.Queue[*sliceTransfers]     // slices with news for the courier
	// slices with more for the courier than it may have now
	throttled   fifo.Queue[*sliceTransfers]
	outstanding int                 // transfers that the courier has
	floors      fifo.Queue[floorAt] // floors that are not durable yet
}

// orderKey names a queue that messages leave.
type orderKey struct {
	slice   event.Slice
	trigger event.Trigger
}

// order is the standing order to move all messages of a queue.
type order struct {
	orderKey
	destination event.EntityID // 0: the path of the destination names no entity
	marked      bool           // is among the ready orders
}

// sliceTransfers holds the transfers of a slice, both the ones that the courier has and the ones it
// has not been told of yet.
type sliceTransfers struct {
	slice event.Slice
	byKey map[transferQueueKey]*transferQueue
	// the same queues, in the order of their creation
	queues []*transferQueue
	floors map[event.EntityID]event.TransferNumber // durable floors, by destination
	// number of floors when those of deleted entities were dropped last
	known     int
	marked    bool // is among the slices with news
	throttled bool // is among the throttled slices
}

// transferQueueKey names the transfers from a slice to one destination for one reason.
type transferQueueKey struct {
	trigger     event.Trigger
	destination event.EntityID
}

// transferQueue holds the unfinished transfers of one kind.
type transferQueue struct {
	transferQueueKey
	untold fifo.Queue[event.TransferNumber] // that the courier does not have
	count  int                              // that the courier has
	bytes  int                              // their bytes
}

func (o *transferQueue) full() bool { return o.count >= maxOpenTransfers || o.bytes >= maxOpenBytes }

// transferQueue returns the queue of one kind. It creates the queue if it does not exist.
func (d *sliceTransfers) transferQueue(trigger event.Trigger, destination event.EntityID) *transferQueue {
	key := transferQueueKey{trigger, destination}
	o := d.byKey[key]
	if o == nil {
		o = &transferQueue{transferQueueKey: key}
		if d.byKey == nil {
			d.byKey = map[transferQueueKey]*transferQueue{}
		}
		d.byKey[key], d.queues = o, append(d.queues, o)
	}
	return o
}

// tidy drops a queue that is empty.
func (d *sliceTransfers) tidy(o *transferQueue) {
	if o.count == 0 && o.untold.Len() == 0 {
		delete(d.byKey, o.transferQueueKey)
		d.queues = slices.DeleteFunc(d.queues, func(other *transferQueue) bool { return other == o })
	}
}

// floorAt is a floor that holds when the log is durable up to an address.
type floorAt struct {
	at    event.LSN
	slice event.Slice
	Floor
}

// active reports whether messages can move.
func (t *transfers) active() bool {
	return t.courier != nil && (len(t.orders) > 0 || len(t.sources) > 0)
}

// any reports whether there is something to do now.
func (t *transfers) any() bool {
	return t.ready.Len() > 0 || t.unreported.Len() > 0
}

// put gives a queue a standing order or changes the destination of the order it has; nil takes the
// order back.
func (t *transfers) put(key orderKey, to *event.EntityID) {
	if t.courier == nil {
		return // without a courier it cannot be carried out
	}
	if to == nil {
		if o := t.orders[key]; o != nil {
			delete(t.orders, key)
			t.ready.Keep(func(other *order) bool { return other != o })
		}
		return
	}
	if t.orders == nil {
		t.orders = map[orderKey]*order{}
	}
	o := t.orders[key]
	if o == nil {
		o = &order{orderKey: key}
		t.orders[key] = o
	}
	o.destination = *to
	t.mark(o)
}

func (t *transfers) mark(o *order) {
	if o != nil && !o.marked {
		o.marked = true
		t.ready.Push(o)
	}
}

// markStored marks the orders of a slice in which a message became deliverable.
func (t *transfers) markStored(id event.Slice) {
	if t != nil && len(t.orders) > 0 {
		t.mark(t.orders[orderKey{id, event.TriggerForward}])
		t.mark(t.orders[orderKey{id, event.TriggerDeadLetter}])
	}
}

// decided takes an event that has been applied.
func (t *transfers) decided(ev event.Event) {
	if t.courier == nil {
		return
	}
	switch ev := ev.(type) {
	case *event.TransferStarted:
		d := t.ofSlice(ev.Slice)
		for i := range ev.Sequences {
			d.transferQueue(ev.Trigger, ev.Destination).untold.Push(ev.First + event.TransferNumber(i))
		}
		t.markNews(d)
	case *event.MessageHandedOver:
		d := t.ofSlice(ev.Slice)
		d.transferQueue(event.TriggerVia, ev.Destination).untold.Push(ev.Number)
		t.markNews(d)
	case *event.SliceDropped:
		t.dropSlice(ev.Slice)
	}
}

// resume gives the courier everything that a start finds in transfer. It is called once, before any
// request.
func (t *transfers) resume(lives func(event.EntityID) *engine.Entity) {
	if t.entity = lives; t.courier == nil {
		return
	}
	for _, is := range t.part.Index().Transfers() {
		d := t.ofSlice(is.Slice)
		d.transferQueue(is.Trigger, is.Destination).untold.Push(is.Number)
		t.markNews(d)
	}
}

func (t *transfers) ofSlice(id event.Slice) *sliceTransfers {
	d := t.sources[id]
	if d == nil {
		d = &sliceTransfers{slice: id}
		if t.sources == nil {
			t.sources = map[event.Slice]*sliceTransfers{}
		}
		t.sources[id] = d
	}
	return d
}

func (t *transfers) markNews(d *sliceTransfers) {
	if !d.marked {
		d.marked = true
		t.unreported.Push(d)
	}
}

// dropSlice forgets a slice whose entity was deleted.
func (t *transfers) dropSlice(id event.Slice) {
	for _, trigger := range [...]event.Trigger{event.TriggerForward, event.TriggerDeadLetter} {
		t.put(orderKey{id, trigger}, nil)
	}
	d := t.sources[id]
	if d == nil {
		return
	}
	for _, o := range d.queues {
		t.outstanding -= o.count
	}
	delete(t.sources, id)
	t.unreported.Keep(func(other *sliceTransfers) bool { return other != d })
	t.throttled.Keep(func(other *sliceTransfers) bool { return other != d })
	t.unthrottle()
	// The courier has to read this after everything it was told of the slice before. Otherwise that
	// would wait for its destination forever.
	gone := engine.Reply{Answer: &SliceGone{Source: id}}
	t.replies.hold(heldReply{sink: t.courier, reply: gone})
}

// order takes the standing orders of an entity.
func (t *transfers) order(cmd *ordersCommand) {
	for i, h := range cmd.entity.Hosts {
		if h == t.part.ID() {
			slice := event.Slice{Entity: cmd.entity.ID, Partition: uint8(i)}
			t.put(orderKey{slice, event.TriggerForward}, cmd.forward)
			t.put(orderKey{slice, event.TriggerDeadLetter}, cmd.dead)
		}
	}
}

// countToMove returns how many messages of a slice are to move.
func (t *transfers) countToMove(id event.Slice) (n int) {
	x := t.part.Index()
	if t.orders[orderKey{id, event.TriggerForward}] != nil {
		n = x.Count(id, event.Main, index.Active)
	}
	if t.orders[orderKey{id, event.TriggerDeadLetter}] != nil {
		n += x.Count(id, event.DeadLetter, index.Active)
	}
	return n
}

// wake marks the orders of an entity, which may be open to receivers again.
func (t *transfers) wake(e *engine.Entity) {
	for i := range e.Hosts {
		t.markStored(event.Slice{Entity: e.ID, Partition: uint8(i)})
	}
}

// waitsForOldest reports whether a transfer from a slice waits until the oldest transfer to its
// destination has ended.
func (t *transfers) waitsForOldest(id event.Slice, destination event.EntityID, n event.TransferNumber) bool {
	oldest, open := t.part.Index().LowestOpen(id, destination)
	if !open || n-oldest < maxSpan {
		return false
	}
	e := t.entity(destination)
	return e != nil && len(e.Hosts) > 1
}

// openTransfers returns how many messages an order has in transfer to its present destination, and
// their bytes. Transfers to an earlier destination do not count: they may wait for long.
func (t *transfers) openTransfers(o *order) (count, bytes int) {
	d := t.sources[o.slice]
	if d == nil {
		return 0, 0
	}
	out := d.byKey[transferQueueKey{o.trigger, o.destination}]
	switch {
	case out == nil:
		return 0, 0
	case out.untold.Len() > 0:
		// their bytes have not been added up: everything the order put in transfer counts
		all, size := t.part.Index().OpenTransfers(o.slice, o.trigger)
		return all, int(size)
	}
	return out.count, out.bytes
}

// unthrottle marks throttled slices, as many as there is room for.
func (t *transfers) unthrottle() {
	for room := maxOutstanding - t.outstanding; room > 0 && t.throttled.Len() > 0; room-- {
		d := t.throttled.Pop()
		d.throttled = false
		t.markNews(d)
	}
}

// floorOf returns the number below which all transfers of a slice to a destination have ended, in
// memory.
func (t *transfers) floorOf(id event.Slice, destination event.EntityID) event.TransferNumber {
	x := t.part.Index()
	if n, open := x.LowestOpen(id, destination); open {
		return n
	}
	return x.NextTransfer(id)
}

// committed takes how far the log is durable, and so which floors are durable.
func (t *transfers) committed(durable event.LSN) {
	for t.floors.Len() > 0 && t.floors.Front().at < durable {
		at := t.floors.Pop()
		if d := t.sources[at.slice]; d != nil {
			if len(d.floors) >= max(2*d.known, manyFloors) {
				maps.DeleteFunc(d.floors, func(to event.EntityID, _ event.TransferNumber) bool { return t.entity(to) == nil })
				d.known = len(d.floors)
			}
			if d.floors == nil {
				d.floors = map[event.EntityID]event.TransferNumber{}
			}
			d.floors[at.Destination] = at.Number
		}
	}
}

// path returns the path of the entity of a slice; "": it was deleted.
func (t *transfers) path(id event.Slice) string {
	if e, err := t.part.Entity(id); err == nil {
		return e.Path
	}
	return ""
}

// Outstanding returns how many transfers the courier has, and the sum over all kinds, which is the
// same number.
func (l *Loop) Outstanding() (all, kinds int) {
	for _, d := range l.transfers.sources {
		for _, o := range d.queues {
			kinds += o.count
		}
	}
	return l.transfers.outstanding, kinds
}
