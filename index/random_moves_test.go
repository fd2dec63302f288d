package index

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// movedFrom is the expected data of a message that came from elsewhere.
type movedFrom struct {
	hops   uint8
	source string
	first  event.SequenceNumber
}

// passage is a way between two slices.
type passage struct{ from, to event.Slice }

// moveModel has the same data about moves as an index, in the simplest form.
type moveModel struct {
	given   map[event.Slice]event.TransferNumber
	open    map[event.Slice]map[event.TransferNumber]Transfer
	arrived map[passage]map[event.TransferNumber]bool // all there ever were
	floor   map[passage]event.TransferNumber
	from    map[event.Slice]map[event.SequenceNumber]movedFrom

	// What the sources of arrivals would know: numbers given out and not arrived yet.
	numbers map[event.Slice]event.TransferNumber
	pending map[passage][]event.TransferNumber
}

func newMoveModel() moveModel {
	return moveModel{map[event.Slice]event.TransferNumber{}, map[event.Slice]map[event.TransferNumber]Transfer{}, map[passage]map[event.TransferNumber]bool{},
		map[passage]event.TransferNumber{}, map[event.Slice]map[event.SequenceNumber]movedFrom{},
		map[event.Slice]event.TransferNumber{}, map[passage][]event.TransferNumber{}}
}

func (m *moveModel) apply(ev event.Event) {
	id := ev.Common().Slice
	switch ev := ev.(type) {
	case *event.TransferStarted:
		for i, seq := range ev.Sequences {
			m.start(Transfer{id, ev.First + event.TransferNumber(i), seq, ev.Destination, ev.Trigger})
		}
	case *event.MessageHandedOver:
		m.start(Transfer{id, ev.Number, ev.Sequence, ev.Destination, event.TriggerVia})
	case *event.TransfersFinished:
		for _, n := range ev.Numbers {
			delete(m.open[id], n)
		}
	case *event.TransferFailed:
		delete(m.open[id], ev.Number)
	case *event.SourceForgotten:
		delete(m.arrived, passage{ev.Source, id})
		delete(m.floor, passage{ev.Source, id})
	case *event.MessageEnqueued:
		m.arrive(id, ev.Sequence, ev.Arrival)
	case *event.MessageScheduled:
		m.arrive(id, ev.Sequence, ev.Arrival)
	case *event.DuplicateDropped:
		m.arrive(id, 0, ev.Arrival)
	case *event.MessagePublished:
		m.arrive(id, 0, ev.Arrival)
		m.copies(id.Partition, ev.Copies, m.origin(ev.Arrival))
	case *event.ScheduledActivated:
		m.rename(id, ev.Sequence, ev.NewSequence)
	case *event.ScheduledPublished:
		m.copies(id.Partition, ev.Copies, m.from[id][ev.Sequence])
	case *event.SliceDropped:
		delete(m.given, id)
		delete(m.open, id)
		delete(m.from, id)
		maps.DeleteFunc(m.arrived, func(p passage, _ map[event.TransferNumber]bool) bool { return p.to == id })
		maps.DeleteFunc(m.floor, func(p passage, _ event.TransferNumber) bool { return p.to == id })
	}
}

func (m *moveModel) start(t Transfer) {
	if m.open[t.Slice] == nil {
		m.open[t.Slice] = map[event.TransferNumber]Transfer{}
	}
	m.open[t.Slice][t.Number], m.given[t.Slice] = t, t.Number
}

func (m *moveModel) arrive(id event.Slice, seq event.SequenceNumber, a *event.Arrival) {
	if a == nil {
		return
	}
	p := passage{a.Source, id}
	if m.arrived[p] == nil {
		m.arrived[p] = map[event.TransferNumber]bool{}
	}
	m.arrived[p][a.Number], m.floor[p] = true, max(m.floor[p], a.Floor)
	m.know(id, seq, m.origin(a))
}

func (*moveModel) origin(a *event.Arrival) movedFrom {
	if a == nil {
		return movedFrom{}
	}
	return movedFrom{a.Hops, a.DeadLetterSource, a.First}
}

func (m *moveModel) know(id event.Slice, seq event.SequenceNumber, from movedFrom) {
	if m.from[id] == nil {
		m.from[id] = map[event.SequenceNumber]movedFrom{}
	}
	m.from[id][seq] = from
}

func (m *moveModel) copies(partition uint8, copies []event.Copy, from movedFrom) {
	for _, c := range copies {
		m.know(event.Slice{Entity: c.Subscription, Partition: partition}, c.Sequence, from)
	}
}

func (m *moveModel) rename(id event.Slice, from, to event.SequenceNumber) {
	if was, ok := m.from[id][from]; ok {
		m.know(id, to, was)
	}
}

// compare compares an index with the model.
func (m *moveModel) compare(x *Index) error {
	var want []Transfer
	for id, open := range m.open {
		var counts [triggers]int
		lowest := map[event.EntityID]event.TransferNumber{}
		for n, t := range open {
			want = append(want, t)
			if counts[t.Trigger]++; lowest[t.Destination] == 0 || n < lowest[t.Destination] {
				lowest[t.Destination] = n
			}
			got, again, ok := x.Transfer(id, n)
			if !ok || again != t || got.Sequence != t.Sequence || got.State != Transferring {
				return fmt.Errorf("transfer %+v of message %+v, not %+v", again, got, t)
			}
		}
		for trigger := event.TriggerForward; trigger <= event.TriggerVia; trigger++ {
			if n, _ := x.OpenTransfers(id, trigger); n != counts[trigger] {
				return fmt.Errorf("slice %v has %d open transfers by %v, not %d", id, n, trigger, counts[trigger])
			}
		}
		for destination, n := range lowest {
			if got, ok := x.LowestOpen(id, destination); !ok || got != n {
				return fmt.Errorf("slice %v: lowest open transfer to %d is %d, not %d", id, destination, got, n)
			}
		}
	}
	slices.SortFunc(want, func(a, b Transfer) int {
		return compareSlices(a.Slice, b.Slice)*2 + int(min(max(int64(a.Number)-int64(b.Number), -1), 1))
	})
	if got := x.Transfers(); !slices.Equal(got, want) {
		return fmt.Errorf("transfers:\n%v\nnot\n%v", got, want)
	}
	for id, n := range m.given {
		if got := x.NextTransfer(id); got != n+1 {
			return fmt.Errorf("slice %v: the next transfer is %d, not %d", id, got, n+1)
		}
	}
	return m.compareArrivals(x)
}

func (m *moveModel) compareArrivals(x *Index) error {
	for p, arrived := range m.arrived {
		for n := event.TransferNumber(1); n <= m.numbers[p.from]+1; n++ {
			if got := x.Arrived(p.to, p.from, n); got != (arrived[n] || n < m.floor[p]) {
				return fmt.Errorf("transfer %d from %v to %v has arrived: %t", n, p.from, p.to, got)
			}
		}
		if !slices.Contains(x.ArrivalSources(p.to), p.from) {
			return fmt.Errorf("%v does not know that something came from %v", p.to, p.from)
		}
	}
	for id, messages := range m.from {
		if s := x.slices.byID[id]; s != nil {
			if n, kept := s.sources(); n != kept {
				return fmt.Errorf("slice %v has %d messages from dead-letter queues and keeps %d paths", id, n, kept)
			}
		}
		for seq, want := range messages {
			got, ok := x.Message(id, seq)
			if ok && (got.Hops != want.hops || got.DeadLetterSource != want.source || want.first != 0 && got.EnqueuedSequence != want.first) {
				return fmt.Errorf("message %+v of %v came from %+v", got, id, want)
			}
		}
	}
	return nil
}

// sources is how many messages of a slice have a known dead-letter source, and how many paths the
// slice keeps for them.
func (s *slice) sources() (n, kept int) {
	leaf := (*node)(nil)
	s.rows.root.each(0, func(p place) bool {
		if p.source() != "" {
			n++
		}
		if p.leaf != leaf && p.leaf.extra != nil {
			kept += len(p.leaf.extra.sources)
		}
		leaf = p.leaf
		return true
	})
	return n, kept
}

// arrival is the next or an earlier one of a way to a slice.
func (w *walk) arrival(to event.Slice) *event.Arrival {
	m := &w.moves
	p := passage{event.Slice{Entity: event.EntityID(100 + w.rng.IntN(3)), Partition: uint8(w.rng.IntN(2))}, to}
	for range w.rng.IntN(4) {
		m.numbers[p.from]++
		m.pending[p] = append(m.pending[p], m.numbers[p.from])
	}
	if len(m.pending[p]) == 0 {
		return nil
	}
	a := &event.Arrival{Source: p.from, Floor: m.pending[p][0], Hops: uint8(1 + w.rng.IntN(event.MaxHops)), First: event.SequenceNumber(1 + w.rng.IntN(1000))}
	i := w.rng.IntN(len(m.pending[p]))
	a.Number = m.pending[p][i]
	m.pending[p] = slices.Delete(m.pending[p], i, i+1)
	if a.Number < m.floor[p] { // it had failed, and is tried again with a number of its own
		return nil
	}
	if w.rng.IntN(2) == 0 {
		a.DeadLetterSource = fmt.Sprintf("queue-%d", w.rng.IntN(2))
	}
	if w.rng.IntN(2) == 0 {
		a.Changes = w.blob()
	}
	return a
}

// maybeArrival is nil for most messages.
func (w *walk) maybeArrival(to event.Slice) *event.Arrival {
	if w.still || w.rng.IntN(4) > 0 {
		return nil
	}
	return w.arrival(to)
}

func (w *walk) weights() int {
	if w.still {
		return stillWeights
	}
	return operationWeights
}

// depart starts transfers from one of the queues: of messages that may move.
func (w *walk) depart(t *turn) {
	ev := &event.TransferStarted{Envelope: t.env, Destination: event.EntityID(200 + w.rng.IntN(2)), Trigger: event.TriggerForward, First: w.x.NextTransfer(t.id)}
	if t.q == event.DeadLetter {
		ev.Trigger = event.TriggerDeadLetter
	}
	for m := range w.x.Movable(t.id, t.q) {
		if w.rng.IntN(5) == 0 {
			break
		}
		if m.Hops < event.MaxHops {
			ev.Sequences = append(ev.Sequences, m.Sequence)
		} else if t.q == event.Main {
			w.apply(&event.MessageDeadLettered{Envelope: t.env, Sequence: m.Sequence, Cause: event.CauseHopLimit, Changes: w.blob(),
				SubQueue: event.SubQueue(w.rng.IntN(2)) * event.TransferDeadLetter})
			break
		}
	}
	if len(ev.Sequences) > 0 {
		w.apply(ev)
	}
}

func (w *walk) handOver(t *turn) {
	id := []event.Slice{plain, inSessions, news}[w.rng.IntN(3)]
	w.apply(&event.MessageHandedOver{Envelope: event.Envelope{Slice: id}, Sequence: w.x.NextSequence(id), MessageID: t.messageID, EnqueuedAt: w.now, Body: w.blob(),
		Destination: event.EntityID(200 + w.rng.IntN(2)), Number: w.x.NextTransfer(id)})
}

// land ends some open transfers.
func (w *walk) land(*turn) {
	open := w.x.Transfers()
	if len(open) == 0 {
		return
	}
	at := w.rng.IntN(len(open))
	t := open[at]
	if w.rng.IntN(4) == 0 {
		q := event.DeadLetter
		if t.Trigger != event.TriggerDeadLetter {
			q += event.SubQueue(w.rng.IntN(2))
		}
		w.apply(&event.TransferFailed{Envelope: event.Envelope{Slice: t.Slice}, Number: t.Number, Sequence: t.Sequence, SubQueue: q, Why: event.RefusedFull + event.Refusal(w.rng.IntN(4)), Changes: w.blob()})
		return
	}
	ev := &event.TransfersFinished{Envelope: event.Envelope{Slice: t.Slice}}
	for _, o := range open[at:] {
		if o.Slice == t.Slice && w.rng.IntN(3) > 0 {
			ev.Numbers = append(ev.Numbers, o.Number)
		}
	}
	w.apply(ev)
}

func (w *walk) forgetSource(t *turn) {
	sources := w.x.ArrivalSources(t.id)
	if len(sources) == 0 || w.rng.IntN(20) > 0 {
		return
	}
	gone := sources[w.rng.IntN(len(sources))]
	w.apply(&event.SourceForgotten{Envelope: t.env, Source: gone})
	delete(w.moves.pending, passage{gone, t.id})
}

// reserve gives out numbers, some of which a transaction uses later.
func (w *walk) reserve(t *turn) {
	if t.sub {
		return
	}
	ev := &event.NumbersReserved{Envelope: t.env, First: w.x.NextSequence(t.id), Count: uint32(1 + w.rng.IntN(3))}
	w.apply(ev)
	for i := range ev.Count {
		if w.rng.IntN(2) == 0 {
			w.reserved = append(w.reserved, reservation{t.id, ev.First + event.SequenceNumber(i)})
		}
	}
	w.apply(&event.TransactionAborted{Envelope: t.env, Cause: event.AbortTimedOut})
}

type reservation struct {
	id  event.Slice
	seq event.SequenceNumber
}

func (w *walk) commit(*turn) {
	if len(w.reserved) < 3 {
		return
	}
	i := w.rng.IntN(len(w.reserved))
	r := w.reserved[i]
	w.reserved = slices.Delete(w.reserved, i, i+1)
	sessions := r.id == inSessions
	env := event.Envelope{Slice: r.id}
	w.apply(&event.TransactionCommitted{Envelope: env, Operations: 1})
	w.apply(&event.MessageScheduled{Envelope: env, Sequence: r.seq, Reserved: true, SessionID: w.session(), HasSession: sessions, InSession: sessions,
		ScheduledFor: w.now + event.Time(w.rng.IntN(3000)), Body: w.blob()})
}

// movesOf returns the answers to an engine's queries about a slice's moves.
func movesOf(b *bytes.Buffer, x *Index, id event.Slice) {
	fmt.Fprint(b, x.NextTransfer(id), x.ArrivalSources(id), " ")
	for t := event.TriggerForward; t <= event.TriggerVia; t++ {
		n, size := x.OpenTransfers(id, t)
		fmt.Fprint(b, n, size, " ")
	}
	for _, q := range []event.SubQueue{event.Main, event.DeadLetter} {
		for m := range x.Movable(id, q) {
			fmt.Fprint(b, m, " ")
		}
	}
	for destination := range event.EntityID(2) {
		n, ok := x.LowestOpen(id, 200+destination)
		fmt.Fprint(b, n, ok, " ")
	}
	fmt.Fprintln(b, x.Transfers())
}
