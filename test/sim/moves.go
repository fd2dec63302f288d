package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Messages that move. The couriers are real and are given their turns by hand; what they ask loops
// for waits beside the inboxes, for any time, and some of it is turned away. The model says what a
// loop puts in transfer, and what comes of each thing that a courier asks. What it may ask is
// checked here: a message may be taken to its destination once its transfer is durable, and as it
// is at its source; a transfer may be over once the message is durable at its destination; and a
// floor may stand once all transfers below it are durably over.

// offered is what a courier asked a loop for.
type offered struct {
	from *part
	req  engine.Request
	tag  uint64               // under which the simulation asks
	over loop.TransferResults // … where it tells of ends
	ends bool

	answered bool // … and its courier knows what came of it
}

// courier makes the courier of a partition.
func (w *world) courier(p *part) *background.Courier {
	return background.NewCourier(background.CourierOptions{Home: engine.PartitionID(p.id), Reread: w.reread, Entity: w.byID, Logger: w.logger(),
		FailuresTo: w.o.failuresTo, Memory: w.memory,
		Read: func(b event.Blob, dst []byte) (int, error) {
			n, err := p.plog.ReadInto(b, dst)
			if err != nil && !w.gone() {
				w.broken("I1", "partition %d: what is in transfer cannot be read: %v", p.id, err)
			}
			return n, err
		},
		Offer: func(to engine.PartitionID, req engine.Request) bool {
			q := w.parts[to]
			cmd, imports := req.Command.(*engine.Import)
			if imports {
				w.mayLeave(cmd)
			}
			if q.away || imports && !w.draining && w.refusing(q) {
				w.stats.TurnedAway++
				return false
			}
			o := &offered{from: p, req: req, tag: w.tag()}
			if over, ends := req.Command.(*loop.TransferResults); ends {
				o.over, o.ends = *over, true
				o.over.Arrived = slices.Clone(over.Arrived) // the loop works in it
			}
			q.offers = append(q.offers, o)
			return true
		},
		Damaged: func(err error) {
			if !w.gone() {
				w.broken("I1", "partition %d: %v", p.id, err)
			}
		}})
}

// mayLeave checks that nothing leaves a slice that is gone, once its courier knows that it is.
func (w *world) mayLeave(cmd *engine.Import) {
	if from := w.queueOf(cmd.Source.Entity); from.forgotten && !w.gone() {
		w.broken("I21", "%s is no more, its courier was told, and offers %d messages of it", from.path, len(cmd.Items))
	}
}

// refusing reports whether a log takes nothing now; once it does so, that lasts for a while.
func (w *world) refusing(p *part) bool {
	if p.shut == 0 && w.chance(3) {
		p.shut = 1 + w.rng.IntN(6)
	}
	if p.shut == 0 {
		return false
	}
	p.shut--
	return true
}

// byID is the version of an entity that clients see.
func (w *world) byID(id event.EntityID) *engine.Entity {
	if q := w.queueOf(id); q != nil && !q.ended {
		return q.entity
	}
	return nil
}

func (w *world) queueOf(id event.EntityID) *queue {
	for _, q := range w.queues {
		if q.host != nil && q.slice.Entity == id {
			return q
		}
	}
	return nil
}

// byPath is the entity of a lower-cased path, as clients see it.
func (w *world) byPath(lower string) *engine.Entity {
	for _, q := range w.living() {
		if strings.ToLower(q.path) == lower {
			return q.entity
		}
	}
	return nil
}

// reread is [host.Options.Reread] for bodies of the simulation.
func (w *world) reread(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (m engine.Message, merged []byte, err error) {
	m.Body = slices.Clone(stored)
	if m.TimeToLive = ttl; ttl < 0 {
		m.TimeToLive = time.Duration(binary.BigEndian.Uint32(stored[ttlAt:])) * time.Millisecond
	}
	m.ID, m.IDType = []byte{'m', stored[nameAt]}, event.IDType(stored[typeAt])
	m.ScheduledFor = event.Time(binary.BigEndian.Uint64(stored[dueAt:]))
	d := w.draft(stored)
	p := d.Changed(changes...)
	m.SessionID, m.HasSession = []byte(p.Session), p.HasSession
	merged = model.Merge(changes)
	m.Header = int(binary.BigEndian.Uint32(stored[headerAt:])) + len(merged)
	if see != nil {
		w.see(stored, see)
		see.User = see.User[:0]
		for name, v := range p.Values {
			see.User = append(see.User, event.Property{Name: name, Value: valueOf(v)})
		}
		slices.SortFunc(see.User, func(a, b event.Property) int { return cmp.Compare(a.Name, b.Name) })
		if see.System[filter.SessionID] = (event.Value{}); p.HasSession {
			see.System[filter.SessionID] = event.Value{Type: event.String, Text: p.Session}
		}
	}
	return m, merged, nil
}

func valueOf(v any) event.Value {
	switch v := v.(type) {
	case int64:
		return event.Value{Type: event.Long, Bits: uint64(v)}
	case string:
		return event.Value{Type: event.String, Text: v}
	case model.Token:
		return event.Value{Type: event.UUID, Text: string(v[:])}
	}
	return event.Value{}
}

// draft is a message as it was sent, by its body.
func (w *world) draft(body []byte) *model.Draft {
	l := w.hist.of(body)
	a := ask{sent: []*sent{&l.sent}}
	return &a.drafts()[0]
}

// order says that the messages of a queue move, as the loop knows it.
type order struct {
	q      *queue
	dead   bool
	to     event.EntityID
	marked bool
}

type orderKey struct {
	q    *queue
	dead bool
}

// target is where a path leads; ok is false when nothing moves.
func (w *world) target(path string) (to event.EntityID, ok bool) {
	if path == "" {
		return 0, false
	}
	if e := w.byPath(strings.ToLower(path)); e != nil && e.Kind != event.Subscription {
		to = e.ID
	}
	return to, true
}

// orders are the orders of an entity at the moment when partitions are told of them.
func (w *world) orders(q *queue) (all [2]*event.EntityID) {
	for i, path := range [...]string{q.entity.Properties.ForwardTo, q.entity.Properties.ForwardDeadLetteredMessagesTo} {
		if to, ok := w.target(path); ok {
			all[i] = &to
		}
	}
	return all
}

// order takes orders.
func (s *shadow) order(q *queue, orders [2]*event.EntityID) {
	for i, to := range orders {
		k := orderKey{q, i == 1}
		o := s.orders[k]
		switch {
		case to == nil && o != nil:
			delete(s.orders, k)
			s.ready = slices.DeleteFunc(s.ready, func(other *order) bool { return other == o })
		case to != nil:
			if o == nil {
				o = &order{q: q, dead: k.dead}
				s.orders[k] = o
			}
			o.to = *to
			s.markOrder(o)
		}
	}
}

func (s *shadow) markOrder(o *order) {
	if o != nil && !o.marked {
		o.marked = true
		s.ready = append(s.ready, o)
	}
}

// movable: a message became deliverable.
func (s *shadow) movable(q *queue) {
	s.markOrder(s.orders[orderKey{q, false}])
	s.markOrder(s.orders[orderKey{q, true}])
}

// forward starts transfers.
func (s *shadow) forward(now int64) {
	n := len(s.ready)
	for range n {
		o := s.ready[0]
		s.ready = s.ready[1:]
		o.marked = false
		if o.dead && o.to == 0 {
			continue
		}
		if o.dead && slices.ContainsFunc(o.q.model.Live, func(m *model.Message) bool { return m.Dead && m.State == model.Active && m.Hops == model.MaxHops }) {
			s.w.fate(model.ForwardDead, staysThere, tooOften)
		}
		s.skip()
		again := s.m.Forward(now, o.q.model, o.dead, s.w.idOf(o.to), s.w.o.failuresTo == event.TransferDeadLetter)
		s.unasked()
		if s.heard(); again {
			s.markOrder(o)
		}
	}
}

// idOf is the model's id of an entity, from 1; 0: of none.
func (w *world) idOf(id event.EntityID) int {
	if q := w.queueOf(id); q != nil {
		return q.n + 1
	}
	return 0
}

// reorder tells the partitions where messages go, when an entity was changed or deleted.
func (w *world) reorder(q *queue) {
	if !w.o.moves {
		return
	}
	for _, o := range w.living() {
		to := func(path string) bool { return strings.EqualFold(path, q.path) }
		if p := &o.entity.Properties; o == q || to(p.ForwardTo) || to(p.ForwardDeadLetteredMessagesTo) {
			if o.refused() {
				continue
			}
			o.host.inbox = append(o.host.inbox, &ask{op: opOrder, q: o, tag: w.tag(), orders: w.orders(o), cmd: loop.Order(o.entity, w.byPath)})
		}
	}
}

// orderAll is what a start does, of some partitions.
func (w *world) orderAll(of ...*part) {
	all := slices.DeleteFunc(w.living(), func(q *queue) bool {
		return q.entity.Properties.ForwardTo == "" && q.entity.Properties.ForwardDeadLetteredMessagesTo == ""
	})
	slices.SortFunc(all, func(a, b *queue) int { return cmp.Compare(strings.ToLower(a.path), strings.ToLower(b.path)) })
	for _, q := range all {
		if !slices.Contains(of, q.host) {
			continue
		}
		q.host.loop.Prepare(loop.Order(q.entity, w.byPath))
		q.host.shadow.order(q, w.orders(q))
	}
}

// forgetSources forgets what came from entities that are gone, as a start does.
func (w *world) forgetSources(p *part, now int64) {
	for _, mq := range p.model.Queues {
		var from []int
		for source := range mq.Arrived {
			if _, exists := w.decided(w.queues[source-1]); !exists && !mq.Dropped {
				from = append(from, source)
			}
		}
		slices.Sort(from)
		for _, source := range from {
			p.model.Forget(now, mq, source)
		}
	}
}

// hand gives a loop, and its shadow, some of what couriers ask for.
func (p *part) handOffers() (given []*offered) {
	n := len(p.offers)
	if !p.w.draining && p.w.chance(50) {
		n = p.w.rng.IntN(n + 1)
	}
	given = p.offers[:n:n]
	p.offers = p.offers[n:]
	for _, o := range given {
		req := o.req
		if !o.ends {
			req.Sink, req.Tag = p, o.tag
			p.given = append(slices.DeleteFunc(p.given, func(o *offered) bool { return o.answered }), o)
		}
		p.loop.Offer(req)
	}
	return given
}

// carried works out what comes of what couriers ask for: first the transfers that are over, then
// what arrives, as much as one group may have.
func (s *shadow) carried(now int64, all []*offered) {
	for _, o := range all {
		if o.ends {
			s.over(now, o.over)
		}
	}
	for _, o := range all {
		if !o.ends {
			s.arrivals = append(s.arrivals, o)
		}
	}
	for len(s.arrivals) > 0 && s.budget.arrived < maxUnasked {
		o := s.arrivals[0]
		s.arrivals = s.arrivals[1:]
		s.skip()
		s.imports(now, o, o.req.Command.(*engine.Import))
		s.budget.arrived += s.add()
	}
}

// over is the end of transfers.
func (s *shadow) over(now int64, over loop.TransferResults) {
	w := s.w
	q := w.queueOf(over.Source.Entity)
	if q.model.Dropped {
		return
	}
	var numbers []uint64
	for _, n := range over.Arrived {
		numbers = append(numbers, uint64(n))
		w.mustBeThere(q, uint64(n))
	}
	s.skip()
	s.m.Finish(now, q.model, numbers)
	for i := range over.Failed {
		f := &over.Failed[i]
		w.mayFail(q, triggers[over.Trigger], f)
		w.failure(over.Trigger, f.SubQueue, f.Back, refusals[f.Refusal.Code])
		s.m.Fail(now, q.model, uint64(f.Number), f.Header, className(f.Refusal.Code), f.Refusal.Text, f.Back, f.SubQueue == event.TransferDeadLetter)
	}
	s.unasked()
	s.heard()
	if over.Trigger != event.TriggerVia { // no order puts those in transfer
		s.markOrder(s.orders[orderKey{q, over.Trigger == event.TriggerDeadLetter}])
	}
}

// mustBeThere checks that a message is durable at its destination before its source forgets it
// (I21).
func (w *world) mustBeThere(q *queue, n uint64) {
	m := q.model.Moving(n)
	if m == nil || m.Transfer.To == 0 {
		w.broken("I21", "%s: transfer %d is over, and was not open", q.path, n)
	}
	to := w.queues[m.Transfer.To-1]
	if to.model.Dropped {
		return
	}
	a := to.model.Arrived[q.n+1]
	if a == nil || a.Moved[n] == 0 {
		w.broken("I21", "%s: transfer %d is over, and %s never got message %d: it is lost", q.path, n, to.path, m.Seq)
	}
	if s := to.host.shadow; a.Moved[n] > s.durable {
		w.broken("I21", "%s: transfer %d is over, and message %d is not durable in %s: that is record %d, %d are", q.path, n, m.Seq, to.path, a.Moved[n], s.durable)
	}
}

// imports works out what becomes of messages that arrive.
func (s *shadow) imports(now int64, o *offered, cmd *engine.Import) {
	w, to, from := s.w, s.w.queueOf(cmd.Slice.Entity), s.w.queueOf(cmd.Source.Entity)
	x := want{tag: o.tag, ask: &ask{op: opImport, q: to, offer: o}, at: now}
	to.used = max(to.used, now)
	if s.m.NoSends {
		x.refusal = model.Busy
		s.w.stats.BusyByFault++
		s.hold(x)
		return
	}
	if to.model.Dropped {
		x.refusal = model.NoEntity
		s.hold(x)
		return
	}
	w.mayFloor(from, to, uint64(cmd.Floor))
	var items []model.Arriving
	for i := range cmd.Items {
		items = append(items, w.arriving(from, &cmd.Items[i]))
	}
	if w.inOrder(from, to, items); len(items) > 0 {
		if m := from.model.Moving(items[0].Number); m != nil && cmd.Waits != (m.Transfer.Trigger != model.Forward) {
			w.broken("I21", "%s: what was %s is offered to %s as if it waited for room: %v", from.path, triggerNames[m.Transfer.Trigger], to.path, cmd.Waits)
		}
	}
	x.committed = s.m.Import(now, to.model, from.n+1, uint64(cmd.Floor), items, cmd.Waits)
	for i := range x.committed {
		w.landing(from, items[i].Number, x.committed[i])
	}
	if to.kind == event.Topic {
		w.stats.Copies += int64(len(s.m.Copies))
	}
	s.heard()
	s.hold(x)
}

// mayFloor checks that all transfers below a floor are over, durably (13.4).
func (w *world) mayFloor(from, to *queue, floor uint64) {
	if from.model.Dropped {
		return
	}
	for n := uint64(1); n < floor; n++ {
		if m := from.model.Moving(n); m != nil && m.Transfer.To == to.n+1 {
			w.broken("I21", "%s: transfer %d to %s is open, and the floor is %d", from.path, n, to.path, floor)
		}
		if o := from.model.Over[n]; o.To == to.n+1 && o.Record > from.host.shadow.durable {
			w.broken("I21", "%s: transfer %d to %s is over by record %d, %d are durable, and the floor is %d", from.path, n, to.path, o.Record, from.host.shadow.durable, floor)
		}
	}
}

// arriving is a message on its way, which must be as its source has it.
func (w *world) arriving(from *queue, item *engine.Arriving) model.Arriving {
	n := uint64(item.Number)
	it := model.Arriving{Number: n, Hops: int(item.Hops), First: uint64(item.First), Source: item.DeadLetterSource, Changes: bytes.Clone(item.Changes)}
	it.Draft = *w.draft(item.Message.Body)
	it.Draft.Header += len(it.Changes)
	// as its sender said it, however clocks were set since
	it.Draft.For = int64(binary.BigEndian.Uint64(item.Message.Body[dueAt:]))
	m := from.model.Moving(n)
	if m == nil { // it was offered before, or its entity is gone
		it.Draft.TTL = item.Message.TimeToLive.Milliseconds()
		it.Draft.Session, it.Draft.HasSession = string(item.Message.SessionID), item.Message.HasSession
		return it
	}
	if m.Solid > from.host.shadow.durable {
		w.broken("I21", "%s: message %d leaves with transfer %d, which is not durable", from.path, m.Seq, n)
	}
	w.leaving[moveKey{from.n, n}] = m.Seq
	must := model.Arriving{Number: n, Hops: m.Hops + 1, First: m.From, Source: m.Source, Changes: model.Merge(m.Changes)}
	if must.First == 0 {
		must.First = m.Seq
	}
	ttl := m.OwnTTL
	switch {
	case m.Transfer.Trigger == model.ForwardDead:
		must.Source = from.path
	case m.Transfer.Trigger == model.Via:
		ttl = it.Draft.TTL
	}
	p := it.Draft.Changed(m.Changes...)
	it.Draft.TTL, it.Draft.Session, it.Draft.HasSession = ttl, p.Session, p.HasSession
	if from.ended { // whose path nobody knows any more
		must.Source = it.Source
	}
	if it.Hops != must.Hops || it.First != must.First || it.Source != must.Source || !bytes.Equal(it.Changes, must.Changes) ||
		!bytes.Equal(item.Message.Body, m.Body) || item.Message.TimeToLive.Milliseconds() != ttl {
		w.broken("I21", "%s: message %d leaves as number %d of %q after %d moves, with %d bytes and %d of changes, living %v; it must as %d of %q, %d, %d and %d, %d ms",
			from.path, m.Seq, it.First, it.Source, it.Hops, len(item.Message.Body), len(it.Changes), item.Message.TimeToLive,
			must.First, must.Source, must.Hops, len(m.Body), len(must.Changes), ttl)
	}
	return it
}

// imported compares the answer of a destination with what it must be, and gives it to the courier.
func (p *part) imported(r *engine.Reply, x *want) {
	w := p.w
	got, _ := r.Answer.(engine.Arrivals)
	if x.refusal == model.Accepted && len(got) != len(x.committed) {
		w.broken("I21", "%s takes %d messages in, it must %d", x.ask.q.path, len(got), len(x.committed))
	}
	for i, refused := range got {
		is := model.Accepted
		if refused != nil {
			is = refusals[refused.Code]
		}
		w.note("landed", int64(is))
		w.stats.Moves += int64(bit(is == model.Accepted))
		if must := x.committed[i]; is != must.Refusal {
			w.broken("I21", "%s answers %v to message %d of those that arrive, it must %v (known %v)", x.ask.q.path, is, i, must.Refusal, must.Known)
		}
	}
	o := x.ask.offer
	o.answered = true
	back := *r
	back.Tag = o.req.Tag
	o.req.Sink.Post([]engine.Reply{back})
}

// className is what an error is called in the reason of a dead letter.
func className(c engine.Code) string {
	switch c {
	case engine.Disabled:
		return "MessagingEntityDisabledException"
	case engine.NotFound:
		return "MessagingEntityNotFoundException"
	case engine.EntityFull, engine.QuotaExceeded:
		return "QuotaExceededException"
	case engine.MessageTooLarge:
		return "MessageSizeExceededException"
	case engine.InvalidArgument:
		return "ArgumentException"
	case engine.NoMatchingSubscription:
		return "NoMatchingSubscriptionException"
	}
	return "InvalidOperationException"
}

// carry gives the courier of a partition a turn.
func (w *world) carry(p *part) {
	if p.courier == nil {
		return
	}
	w.note("courier", int64(p.id))
	p.rest = int64(p.courier.Turn(w.clock.Now()))
}

// nothingCarried checks that a courier has nothing when nothing is left, and that its loop agrees.
func (w *world) nothingCarried(p *part) {
	if p.courier == nil {
		return
	}
	all, ofKinds := p.loop.Outstanding()
	if streams, batches, bytes := p.courier.Counts(); all+ofKinds+streams+batches+bytes != 0 {
		w.broken("I26", "partition %d: nothing is left, and %d transfers are outstanding, %d of all kinds; the courier has %d streams, %d batches and %d bytes",
			p.id, all, ofKinds, streams, batches, bytes)
	}
}
