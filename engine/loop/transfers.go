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
	// at a time. Of what is sent through an entity to one destination they bound what the courier
	// has been given.
	maxOpenTransfers = 256
	maxOpenBytes     = 4 << 20
	// maxOutstanding bounds what a log has given to its courier and not back, of all slices
	// together. The courier may have minOutstanding transfers from one slice to one destination all
	// the same: else destinations that have no room for a while would keep the others from being
	// reached.
	maxOutstanding = 16 << 10
	minOutstanding = 16
	// maxSpan is how far apart the numbers of transfers may be that go from a slice to an entity
	// with several partitions: while one of them waits for its partition the floor stays, and the
	// others remember whatever arrives above it.
	maxSpan = 16 * maxOpenTransfers
	// manyFloors is how many floors of a slice are kept before those of destinations that are no
	// more are dropped.
	manyFloors = 64
)

// transfers knows which queues of a partition have a standing order, and which messages are in
// transfer to other entities. It hears of every event that is decided, and of what is durable; what
// to do about it is decided in forwarder.go.
type transfers struct {
	// set once in New
	part    *engine.Partition
	courier engine.Sink // nil: nothing moves
	// the entity of an id; nil: it is no more. Since Resume
	entity  func(event.EntityID) *engine.Entity
	replies *replies

	// owned by the loop
	orders     map[orderKey]*order
	ready      fifo.Queue[*order]
	sources    map[event.Slice]*sliceTransfers // slices with transfers that are not over
	unreported fifo.Queue[*sliceTransfers]     // those with news for the courier
	// those with more for the courier than it may have now
	throttled   fifo.Queue[*sliceTransfers]
	outstanding int                 // transfers that the courier has
	floors      fifo.Queue[floorAt] // that are not durable yet
}

// orderKey names a queue that messages leave.
type orderKey struct {
	slice   event.Slice
	trigger event.Trigger
}

// order is that all messages of a queue are to move.
type order struct {
	orderKey
	destination event.EntityID // 0: the path that it was given names nothing
	marked      bool           // it is among the ready ones
}

// sliceTransfers is the transfers of a slice: those that the courier has, and those that it has not
// been told of yet.
type sliceTransfers struct {
	slice event.Slice
	byKey map[transferQueueKey]*transferQueue
	// the same, in the order in which they came up
	queues []*transferQueue
	floors map[event.EntityID]event.TransferNumber // that are durable, by destination
	// how many of those there were when entities that are no more were looked for last
	known     int
	marked    bool // it is among those with news
	throttled bool // it is among those with too much
}

// transferQueueKey names what leaves a slice for one destination, for one reason.
type transferQueueKey struct {
	trigger     event.Trigger
	destination event.EntityID
}

// transferQueue is the transfers of one kind that are not over.
type transferQueue struct {
	transferQueueKey
	untold fifo.Queue[event.TransferNumber] // that the courier does not have
	count  int                              // that it has
	bytes  int                              // of these
}

func (o *transferQueue) full() bool { return o.count >= maxOpenTransfers || o.bytes >= maxOpenBytes }

// transferQueue is the queue of one kind, which it makes when it does not exist.
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

// tidy drops a queue that has nothing left.
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

// active reports whether anything ever moves.
func (t *transfers) active() bool {
	return t.courier != nil && (len(t.orders) > 0 || len(t.sources) > 0)
}

// any reports whether there is something to do now.
func (t *transfers) any() bool {
	return t.ready.Len() > 0 || t.unreported.Len() > 0
}

// put gives a queue a standing order or changes the destination of the one that it has; nil takes
// the order back.
func (t *transfers) put(key orderKey, to *event.EntityID) {
	if t.courier == nil {
		return // nobody would carry it out
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

// markStored is called when a message of a slice became deliverable.
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

// resume gives the courier what a start finds in transfer. It is called once, before anything is
// asked.
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

// dropSlice forgets a slice whose entity is no more.
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
	// It goes behind what the courier was told of the slice and has not read yet: otherwise that
	// would wait for its destination for ever.
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

// countToMove is how many messages of a slice are to move.
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

// wake has the orders of an entity looked at: it may be open again for those who receive.
func (t *transfers) wake(e *engine.Entity) {
	for i := range e.Hosts {
		t.markStored(event.Slice{Entity: e.ID, Partition: uint8(i)})
	}
}

// waitsForOldest reports whether a transfer from a slice waits until the oldest of those to its
// destination is over.
func (t *transfers) waitsForOldest(id event.Slice, destination event.EntityID, n event.TransferNumber) bool {
	oldest, open := t.part.Index().LowestOpen(id, destination)
	if !open || n-oldest < maxSpan {
		return false
	}
	e := t.entity(destination)
	return e != nil && len(e.Hosts) > 1
}

// openTransfers is how many messages an order has in transfer to its present destination, and their
// bytes. Those to an earlier destination do not count: they may wait for long.
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
		// nobody has added up their bytes: all that the order ever put in transfer count
		all, size := t.part.Index().OpenTransfers(o.slice, o.trigger)
		return all, int(size)
	}
	return out.count, out.bytes
}

// unthrottle has throttled slices looked at again, as many as there is room for.
func (t *transfers) unthrottle() {
	for room := maxOutstanding - t.outstanding; room > 0 && t.throttled.Len() > 0; room-- {
		d := t.throttled.Pop()
		d.throttled = false
		t.markNews(d)
	}
}

// floorOf is the number below which all transfers of a slice to a destination are over, in memory.
func (t *transfers) floorOf(id event.Slice, destination event.EntityID) event.TransferNumber {
	x := t.part.Index()
	if n, open := x.LowestOpen(id, destination); open {
		return n
	}
	return x.NextTransfer(id)
}

// committed takes how far the log is durable, and so which floors are.
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

// path is the path of the entity of a slice; "": it is no more.
func (t *transfers) path(id event.Slice) string {
	if e, err := t.part.Entity(id); err == nil {
		return e.Path
	}
	return ""
}

// Outstanding is how many transfers the courier has, and the sum of those of all kinds: the same
// number.
func (l *Loop) Outstanding() (all, kinds int) {
	for _, d := range l.transfers.sources {
		for _, o := range d.queues {
			kinds += o.count
		}
	}
	return l.transfers.outstanding, kinds
}
