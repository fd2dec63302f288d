package ledger

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// EventColumns are the columns of the rows of [Ledger.Events] and [Ledger.Audit].
var EventColumns = []string{"Time", "Type", "Entity", "Number", "Detail", "By", "Place", "Event", "Reason"}

// eventAt is an event in the order of all logs.
type eventAt struct {
	book *book
	rec  *replay.Record
	i    int // index of the event in its record
}

func (h *eventAt) event() event.Event { return h.rec.Events[h.i] }

// merged yields the candidate events of all logs in the order of their ticks, each log in its own
// order.
func (s *Selection) merged(ctx context.Context) iter.Seq2[eventAt, error] {
	books := s.books
	if s.before != nil { // most looks at new events find them in one log, which needs no merging
		books = slices.DeleteFunc(slices.Clone(books), func(b *book) bool { return s.after[b.ID()] == s.before[b.ID()] })
	}
	if len(books) == 1 {
		return s.oneLog(ctx, books[0])
	}
	return func(yield func(eventAt, error) bool) {
		type head struct {
			tick
			book *book
			rec  *replay.Record
			next func() (*replay.Record, error, bool)
		}
		var heads []*head
		advance := func(h *head) (bool, error) {
			rec, err, more := h.next()
			if h.rec = rec; err == nil && more {
				h.tick = h.book.tick(rec.LSN, rec.At)
			}
			return more, err
		}
		if err := s.l.names.lookUpClocks(ctx, books...); err != nil {
			yield(eventAt{}, err)
			return
		}
		for _, b := range books {
			next, stop := iter.Pull2(s.records(ctx, b))
			defer stop()
			h := &head{book: b, next: next}
			more, err := advance(h)
			if err != nil {
				yield(eventAt{}, err)
				return
			}
			if more {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			h := slices.MinFunc(heads, func(a, b *head) int { return a.compare(b.tick) })
			for i, ev := range h.rec.Events {
				h.book.see(ev)
				if !yield(eventAt{h.book, h.rec, i}, nil) {
					return
				}
			}
			more, err := advance(h)
			if err != nil {
				yield(eventAt{}, err)
				return
			}
			if !more {
				heads = slices.DeleteFunc(heads, func(x *head) bool { return x == h })
			}
		}
	}
}

// oneLog is merged for one log.
func (s *Selection) oneLog(ctx context.Context, b *book) iter.Seq2[eventAt, error] {
	return func(yield func(eventAt, error) bool) {
		for rec, err := range s.records(ctx, b) {
			if err != nil {
				yield(eventAt{}, err)
				return
			}
			for i, ev := range rec.Events {
				b.see(ev)
				if !yield(eventAt{b, rec, i}, nil) {
					return
				}
			}
		}
	}
}

// Events tells what happened, event by event.
func (l *Ledger) Events(ctx context.Context, r Range) error {
	return l.events(ctx, r, nil)
}

// acts are the kinds of events that people and programs cause to entities, rules, clocks and
// partitions, to history, and to many messages at once.
var acts = []event.Kind{event.KindEntityCreated, event.KindEntityUpdated, event.KindEntityDeleted, event.KindRuleAdded, event.KindRuleUpdated,
	event.KindRuleRemoved, event.KindMessagesBatchDeleted, event.KindClockSet, event.KindPartitionFenced, event.KindPartitionRestarted, event.KindBackupMarked,
	event.KindHistoryPolicySet, event.KindHistoryCut, event.KindBodyErased, event.KindErasureFinished}

// Audit tells who created, changed, deleted and purged what, with the reason given.
func (l *Ledger) Audit(ctx context.Context, r Range) error {
	return l.events(ctx, r, acts)
}

// events tells the events of some kinds; nil: of all kinds that have a subject.
func (l *Ledger) events(ctx context.Context, r Range, kinds []event.Kind) error {
	s, err := l.Select(ctx, r)
	if err != nil {
		return err
	}
	if kinds != nil {
		s.search.Kinds = kinds
	}
	incomplete := s.incomplete()
	if s.of != nil && incomplete != nil {
		return incomplete
	}
	for _, id := range slices.Sorted(maps.Keys(s.missing)) {
		if err := l.unread(id, s.missing[id]); err != nil {
			return err
		}
	}
	shown := 0
	if r.After == nil {
		var err error
		if s.of != nil {
			err = horizonsOf(ctx, l, s.of...)
		} else {
			err = l.horizons(ctx, s.books...)
		}
		if err != nil {
			return err
		}
	}
	for h, err := range s.merged(ctx) {
		if err != nil {
			return err
		}
		ev := h.event()
		if kinds == nil && r.Types == nil && ev.Kind() == event.KindOriginDefined || !s.wants(h.book.ID(), h.rec, h.i) {
			continue
		}
		line, err := l.row(ctx, &h)
		if err != nil {
			return err
		}
		ok, err := s.where.matches(line.Fields)
		if err == nil && ok {
			shown++
			err = l.tell(line)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case r.After != nil: // the next answer may have the missing part
		return nil
	case incomplete != nil:
		return incomplete
	case shown == 0:
		return l.answer(print.Object{print.Named("Events", uint64(0))}, "no matching events%s", sinceThen(s.books...))
	}
	return nil
}

// row returns the line of an event. The next one reuses the memory of its fields.
func (l *Ledger) row(ctx context.Context, h *eventAt) (Line, error) {
	ev := h.event()
	c := ev.Common()
	if err := h.book.learn(ctx, c.Origin); err != nil {
		return Line{}, err
	}
	number, entity := event.SequenceNumber(0), ""
	event.Named(ev, func(s event.Slice, n event.SequenceNumber) {
		if s == c.Slice && number == 0 {
			number = n
		}
	})
	if c.Slice.Entity != 0 {
		entity = l.names.path(c.Slice.Entity)
	}
	act, who := verb(ev), h.book.who(c.Origin)
	at, place := h.book.stamp(h.rec)

	dst := append(append(append(l.text[:0], at...), "  "...), act...)
	dst = append(dst, "           "[min(10, len(act)):]...)
	dst = address.Of(entity, number).Append(dst)
	before := len(dst)
	dst = l.names.appendDetail(append(dst, "  "...), h.rec.At, ev)
	if len(dst) == before+len("  ") {
		dst = dst[:before]
	}
	behind := len(dst)
	if who != "" {
		dst = append(append(dst, "  "...), who...)
	}
	for _, other := range h.rec.Events {
		if why := h.reason(other); why != "" {
			dst = append(append(dst, "  because "...), quote(why)...)
		}
	}
	l.text = append(append(dst, "  "...), place...)
	text := string(l.text)

	fields := append(l.fields[:0], print.String("Time", at), print.String("Type", act), print.String("Entity", entity))
	if number != 0 {
		fields = append(fields, print.Uint64("Number", uint64(number)))
	}
	fields = append(fields, print.String("Detail", text[min(before+len("  "), behind):behind]), print.String("By", who), print.String("Place", place),
		print.String("Event", ev.Kind().String()))
	for _, other := range h.rec.Events {
		if why := h.reason(other); why != "" {
			fields = append(fields, print.String("Reason", print.Text([]byte(why))))
		}
	}
	l.fields = fields
	return Line{Part: Row, Text: text, Fields: fields}, nil
}

// reason returns the reason that another event of the record gives for it; "": none.
func (h *eventAt) reason(other event.Event) string {
	if why, ok := other.(*event.ReasonGiven); ok && h.event().Kind() != event.KindReasonGiven {
		return why.Reason
	}
	return ""
}
