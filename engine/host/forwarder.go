package host

import (
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// maxOpenTransfers and maxOpenBytes bound what is in transfer from a queue to one destination at a time. Of what is sent through an entity to one
	// destination they bound what the courier has been given.
	maxOpenTransfers = 256
	maxOpenBytes     = 4 << 20
	// maxOutstanding bounds what a log has given to its courier and not back, of all slices together. The courier may have minOutstanding transfers from one slice to
	// one destination all the same: else destinations that have no room for a while would keep the others from being reached.
	maxOutstanding = 16 << 10
	minOutstanding = 16
	// maxSpan is how far apart the numbers of transfers may be that go from a slice to an entity with several partitions: while one of them waits for
	// its partition the floor stays, and the others remember whatever arrives above it.
	maxSpan = 16 * maxOpenTransfers
	// manyFloors is how many floors of a slice are kept before those of destinations that are no more are dropped.
	manyFloors = 64
)

// forwarder lets messages leave the slices of a partition for other entities: it puts those of queues with a standing order in
// transfer, and gives the courier, in order, all that are in transfer and durable. What comes back ends the transfers.
type forwarder struct {
	// set once in NewLoop
	part     *engine.Partition
	courier  engine.Sink // nil: nothing moves
	tooOften event.SubQueue
	lives    func(event.EntityID) *engine.Entity // the entity of an id; nil: it is no more. Since Resume
	recorder *recorder
	frames   *frames
	replies  *replies

	// owned by the loop
	orders      map[orderKey]*order
	ready       fifo[*order]
	sources     map[event.Slice]*outgoing // slices with transfers that are not over
	unreported  fifo[*outgoing]           // those with news for the courier
	throttled   fifo[*outgoing]           // those with more for the courier than it may have now
	outstanding int                       // transfers that the courier has
	floors      fifo[floorAt]             // that are not durable yet
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

// outgoing is the transfers of a slice: those that the courier has, and those that it has not been told of yet.
type outgoing struct {
	slice     event.Slice
	byKey     map[transferQueueKey]*transferQueue
	queues    []*transferQueue                        // the same, in the order in which they came up
	floors    map[event.EntityID]event.TransferNumber // that are durable, by destination
	known     int                                     // how many of those there were when entities that are no more were looked for last
	marked    bool                                    // it is among those with news
	throttled bool                                    // it is among those with too much
}

// transferQueueKey names what leaves a slice for one destination, for one reason.
type transferQueueKey struct {
	trigger     event.Trigger
	destination event.EntityID
}

// transferQueue is the transfers of one kind that are not over.
type transferQueue struct {
	transferQueueKey
	untold fifo[event.TransferNumber] // that the courier does not have
	count  int                        // that it has
	bytes  int                        // of these
}

func (o *transferQueue) full() bool { return o.count >= maxOpenTransfers || o.bytes >= maxOpenBytes }

// transferQueue is the queue of one kind, which it makes when it does not exist.
func (d *outgoing) transferQueue(trigger event.Trigger, destination event.EntityID) *transferQueue {
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
func (d *outgoing) tidy(o *transferQueue) {
	if o.count == 0 && o.untold.len() == 0 {
		delete(d.byKey, o.transferQueueKey)
		d.queues = slices.DeleteFunc(d.queues, func(other *transferQueue) bool { return other == o })
	}
}

// floorAt is a floor that holds when the log is durable up to an address.
type floorAt struct {
	at    event.LSN
	slice event.Slice
	floor
}

// active reports whether anything ever moves.
func (f *forwarder) active() bool {
	return f.courier != nil && (len(f.orders) > 0 || len(f.sources) > 0)
}

// any reports whether there is something to do now.
func (f *forwarder) any() bool {
	return f.ready.len() > 0 || f.unreported.len() > 0
}

// put gives a queue a standing order or changes the destination of the one that it has; nil takes the order back.
func (f *forwarder) put(key orderKey, to *event.EntityID) {
	if f.courier == nil {
		return // nobody would carry it out
	}
	if to == nil {
		if o := f.orders[key]; o != nil {
			delete(f.orders, key)
			f.ready.keep(func(other *order) bool { return other != o })
			if mutant.On(mutant.UnsetReleases) {
				index.Deliverable(f.part.Index(), key.slice)
			}
		}
		return
	}
	if f.orders == nil {
		f.orders = map[orderKey]*order{}
	}
	o := f.orders[key]
	if o == nil {
		o = &order{orderKey: key}
		f.orders[key] = o
	}
	o.destination = *to
	f.mark(o)
}

func (f *forwarder) mark(o *order) {
	if o != nil && !o.marked {
		o.marked = true
		f.ready.push(o)
	}
}

// stored is called when a message of a slice became deliverable.
func (f *forwarder) stored(id event.Slice) {
	if f != nil && len(f.orders) > 0 {
		f.mark(f.orders[orderKey{id, event.TriggerForward}])
		f.mark(f.orders[orderKey{id, event.TriggerDeadLetter}])
	}
}

// observe takes an event that has been applied.
func (f *forwarder) observe(ev event.Event) {
	if f.courier == nil {
		return
	}
	switch ev := ev.(type) {
	case *event.TransferStarted:
		d := f.outgoing(ev.Slice)
		for i := range ev.Sequences {
			d.transferQueue(ev.Trigger, ev.Destination).untold.push(ev.First + event.TransferNumber(i))
		}
		f.news(d)
	case *event.MessageHandedOver:
		d := f.outgoing(ev.Slice)
		d.transferQueue(event.TriggerVia, ev.Destination).untold.push(ev.Number)
		f.news(d)
	case *event.SliceDropped:
		f.dropped(ev.Slice)
	}
}

// resume gives the courier what a start finds in transfer. It is called once, before anything is asked.
func (f *forwarder) resume(lives func(event.EntityID) *engine.Entity) {
	if f.lives = lives; f.courier == nil {
		return
	}
	for _, t := range f.part.Index().Transfers() {
		if mutant.On(mutant.NotCarriedOn) && t.Trigger == event.TriggerVia {
			continue
		}
		d := f.outgoing(t.Slice)
		d.transferQueue(t.Trigger, t.Destination).untold.push(t.Number)
		f.news(d)
	}
}

func (f *forwarder) outgoing(id event.Slice) *outgoing {
	d := f.sources[id]
	if d == nil {
		d = &outgoing{slice: id}
		if f.sources == nil {
			f.sources = map[event.Slice]*outgoing{}
		}
		f.sources[id] = d
	}
	return d
}

func (f *forwarder) news(d *outgoing) {
	if !d.marked {
		d.marked = true
		f.unreported.push(d)
	}
}

// dropped forgets a slice whose entity is no more.
func (f *forwarder) dropped(id event.Slice) {
	for _, trigger := range [...]event.Trigger{event.TriggerForward, event.TriggerDeadLetter} {
		f.put(orderKey{id, trigger}, nil)
	}
	d := f.sources[id]
	if d == nil {
		return
	}
	for _, o := range d.queues {
		f.outstanding -= o.count
	}
	delete(f.sources, id)
	f.unreported.keep(func(other *outgoing) bool { return other != d })
	f.throttled.keep(func(other *outgoing) bool { return other != d })
	f.uncrowd()
	// It goes behind what the courier was told of the slice and has not read yet: otherwise that would wait for its destination for ever.
	gone := engine.Reply{Answer: &sliceGone{source: id}}
	if mutant.On(mutant.GoneBeforeTold) {
		f.courier.Post([]engine.Reply{gone})
		return
	}
	f.replies.hold(held{sink: f.courier, reply: gone})
}

// order takes the standing orders of an entity.
func (f *forwarder) order(cmd *ordered) {
	for i, h := range cmd.entity.Hosts {
		if h == f.part.ID() {
			slice := event.Slice{Entity: cmd.entity.ID, Partition: uint8(i)}
			f.put(orderKey{slice, event.TriggerForward}, cmd.forward)
			f.put(orderKey{slice, event.TriggerDeadLetter}, cmd.dead)
		}
	}
}

// waiting is how many messages of a slice are to move.
func (f *forwarder) waiting(id event.Slice) (n int) {
	x := f.part.Index()
	if f.orders[orderKey{id, event.TriggerForward}] != nil {
		n = x.Count(id, event.Main, index.Active)
	}
	if f.orders[orderKey{id, event.TriggerDeadLetter}] != nil {
		n += x.Count(id, event.DeadLetter, index.Active)
	}
	return n
}

// wake has the orders of an entity looked at: it may be open again for those who receive.
func (f *forwarder) wake(e *engine.Entity) {
	for i := range e.Hosts {
		f.stored(event.Slice{Entity: e.ID, Partition: uint8(i)})
	}
}

// failing takes an event that is about to be applied, and notes which message comes back with it.
func (f *forwarder) failing(ev event.Event, at event.LSN) {
	if ev, ok := ev.(*event.TransferFailed); ok {
		f.replies.recent.message(ev.Slice, ev.Sequence, at)
	}
}

// turn starts transfers and tells the courier.
func (f *forwarder) turn(now event.Time) {
	if !f.active() {
		return
	}
	for n := f.ready.len(); n > 0 && !f.frames.full(); n-- {
		o := f.ready.pop()
		o.marked = false
		if f.start(now, o) {
			f.mark(o)
		}
	}
	f.learn()
	for n := f.unreported.len(); n > 0; n-- {
		d := f.unreported.pop()
		d.marked = false
		f.tell(d)
	}
}

// start puts messages of a queue in transfer, and reports whether there may be more that could be.
func (f *forwarder) start(now event.Time, o *order) (more bool) {
	if o.trigger == event.TriggerDeadLetter && o.destination == 0 {
		return false // they wait where they are
	}
	count, bytes := f.open(o)
	if count >= maxOpenTransfers || bytes >= maxOpenBytes || f.spans(o.slice, o.destination, f.part.Index().NextTransfer(o.slice)) {
		return false // the end of one of them looks again
	}
	f.recorder.commitLarge()
	out := f.part.Decide(now, &engine.Forward{Slice: o.slice, Trigger: o.trigger, Destination: o.destination, TooOften: f.tooOften,
		Count: maxOpenTransfers - count, Bytes: maxOpenBytes - bytes})
	again := out.Again
	f.recorder.background(now, out)
	return again
}

// spans reports whether a transfer from a slice waits until the oldest of those to its destination is over.
func (f *forwarder) spans(id event.Slice, destination event.EntityID, n event.TransferNumber) bool {
	oldest, open := f.part.Index().LowestOpen(id, destination)
	if !open || n-oldest < maxSpan || mutant.On(mutant.SpanUnbound) {
		return false
	}
	e := f.lives(destination)
	return e != nil && len(e.Hosts) > 1
}

// open is how many messages an order has in transfer to its present destination, and their bytes. Those to an earlier destination do not count: they may
// wait for long.
func (f *forwarder) open(o *order) (count, bytes int) {
	d := f.sources[o.slice]
	if d == nil {
		return 0, 0
	}
	out := d.byKey[transferQueueKey{o.trigger, o.destination}]
	switch {
	case out == nil:
		return 0, 0
	case out.untold.len() > 0: // nobody has added up their bytes: all that the order ever put in transfer count
		all, size := f.part.Index().OpenTransfers(o.slice, o.trigger)
		return all, int(size)
	}
	return out.count, out.bytes
}

// over takes what became of transfers.
func (f *forwarder) over(now event.Time, cmd *transfersOver) {
	d := f.sources[cmd.source]
	if d == nil {
		return // the entity is no more
	}
	n := len(cmd.arrived) + len(cmd.failed)
	out := d.transferQueue(cmd.trigger, cmd.destination)
	f.outstanding -= n
	out.count -= n
	out.bytes -= cmd.bytes
	to := f.destinations(cmd)
	if len(cmd.arrived) > 0 {
		f.recorder.background(now, f.part.Decide(now, &engine.FinishTransfers{Slice: cmd.source, Numbers: cmd.arrived}))
	}
	for i := range cmd.failed {
		f.recorder.background(now, f.part.Decide(now, &cmd.failed[i]))
	}
	for _, destination := range to {
		f.floors.push(floorAt{f.frames.wrote, cmd.source, floor{destination, f.floorOf(cmd.source, destination)}})
	}
	f.mark(f.orders[orderKey{cmd.source, cmd.trigger}])
	waits := out.untold.len() > 0
	if e := f.lives(cmd.destination); e != nil && len(e.Hosts) > 1 { // also what leaves for other reasons may have waited for the oldest: see spans
		f.mark(f.orders[orderKey{cmd.source, event.TriggerForward}])
		f.mark(f.orders[orderKey{cmd.source, event.TriggerDeadLetter}])
		waits = slices.ContainsFunc(d.queues, func(o *transferQueue) bool { return o.untold.len() > 0 })
	}
	if waits {
		f.news(d)
	}
	d.tidy(out)
	f.uncrowd()
}

// uncrowd has throttled slices looked at again, as many as there is room for.
func (f *forwarder) uncrowd() {
	for room := maxOutstanding - f.outstanding; room > 0 && f.throttled.len() > 0; room-- {
		d := f.throttled.pop()
		d.throttled = false
		f.news(d)
	}
}

// destinations are the destinations of transfers that are about to be over.
func (f *forwarder) destinations(cmd *transfersOver) (to []event.EntityID) {
	note := func(n event.TransferNumber) {
		if _, t, ok := f.part.Index().Transfer(cmd.source, n); ok && !slices.Contains(to, t.Destination) {
			to = append(to, t.Destination)
		}
	}
	if len(cmd.arrived) > 0 {
		note(cmd.arrived[0]) // those of a stream have one
	}
	if len(cmd.failed) > 0 {
		note(cmd.failed[0].Number)
	}
	return to
}

// floorOf is the number below which all transfers of a slice to a destination are over, in memory.
func (f *forwarder) floorOf(id event.Slice, destination event.EntityID) event.TransferNumber {
	x := f.part.Index()
	if n, open := x.LowestOpen(id, destination); open && !mutant.On(mutant.FloorOfAll) {
		return n
	}
	return x.NextTransfer(id)
}

// learn finds out which floors have become durable.
func (f *forwarder) learn() {
	for f.floors.len() > 0 && f.floors.front().at < f.frames.writer.Durable() {
		at := f.floors.pop()
		if d := f.sources[at.slice]; d != nil {
			if len(d.floors) >= max(2*d.known, manyFloors) {
				maps.DeleteFunc(d.floors, func(to event.EntityID, _ event.TransferNumber) bool { return f.lives(to) == nil })
				d.known = len(d.floors)
			}
			if d.floors == nil {
				d.floors = map[event.EntityID]event.TransferNumber{}
			}
			d.floors[at.destination] = at.floor.floor
		}
	}
}

// tell gives the courier the next transfers of a slice, as soon as they are durable.
func (f *forwarder) tell(d *outgoing) {
	told := &handed{source: d.slice}
	for _, o := range d.queues {
		f.handOver(d, o, told)
	}
	if len(told.transfers) > 0 && mutant.On(mutant.ToldTooSoon) {
		f.courier.Post([]engine.Reply{{Answer: told}})
		return
	}
	if len(told.transfers) > 0 {
		f.replies.hold(held{sink: f.courier, reply: engine.Reply{Answer: told}})
	}
}

// handOver adds to what the courier is told as many transfers of one kind as it may have. When some of those end, it is told of more.
func (f *forwarder) handOver(d *outgoing, o *transferQueue, told *handed) {
	for o.untold.len() > 0 && !o.full() && !f.spans(d.slice, o.destination, *o.untold.front()) {
		if f.outstanding >= maxOutstanding && o.count >= minOutstanding {
			if !d.throttled {
				d.throttled = true
				f.throttled.push(d)
			}
			return
		}
		m, t, ok := f.part.Index().Transfer(d.slice, o.untold.pop())
		if !ok {
			continue
		}
		one := engine.TransferOf(&m, &t)
		if o.trigger == event.TriggerDeadLetter && !mutant.On(mutant.SourceAskedLate) {
			one.DeadLetterSource = f.path(d.slice) // the entity may be gone when the message leaves
		}
		told.add(one, d.floors)
		f.outstanding++
		o.count++
		o.bytes += one.Bytes()
	}
}

// path is the path of the entity of a slice; "": it is no more.
func (f *forwarder) path(id event.Slice) string {
	if e, err := f.part.Entity(id); err == nil {
		return e.Path
	}
	return ""
}

// add adds a transfer, with the floor of its destination.
func (h *handed) add(t engine.Transfer, floors map[event.EntityID]event.TransferNumber) {
	h.transfers = append(h.transfers, t)
	n, known := floors[t.Destination]
	if known && !slices.ContainsFunc(h.floors, func(fl floor) bool { return fl.destination == t.Destination }) {
		h.floors = append(h.floors, floor{t.Destination, n})
	}
}
