package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// EventColumns are those of the rows of [Ledger.Events] and [Ledger.Audit].
var EventColumns = []string{"Time", "Type", "Entity", "Number", "Detail", "By", "Place", "Event", "Reason"}

// Range is which events are wanted. The zero value is all of them.
type Range struct {
	Since, Until *Instant // both inclusive
	Entity       string   // path; "": all
	Where        string   // condition on the columns; "": none
}

// happening is an event in the order of all logs.
type happening struct {
	book *book
	rec  *replay.Record
	i    int // of the event in its record
}

func (h *happening) event() event.Event { return h.rec.Events[h.i] }

// merged yields what a search finds in logs, by broker time, each log in its own order.
func merged(ctx context.Context, books []*book, s log.Search) iter.Seq2[happening, error] {
	return func(yield func(happening, error) bool) {
		type head struct {
			book *book
			rec  *replay.Record
			next func() (*replay.Record, error, bool)
		}
		var heads []*head
		advance := func(h *head) (bool, error) {
			rec, err, more := h.next()
			h.rec = rec
			return more, err
		}
		for _, b := range books {
			next, stop := iter.Pull2(replay.Found(ctx, b, s))
			defer stop()
			h := &head{book: b, next: next}
			more, err := advance(h)
			if err != nil {
				yield(happening{}, err)
				return
			}
			if more {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			h := slices.MinFunc(heads, func(a, b *head) int { return int(min(1, max(-1, a.rec.At-b.rec.At))) })
			for i, ev := range h.rec.Events {
				h.book.see(ev)
				if !yield(happening{h.book, h.rec, i}, nil) {
					return
				}
			}
			more, err := advance(h)
			if err != nil {
				yield(happening{}, err)
				return
			}
			if !more {
				heads = slices.DeleteFunc(heads, func(x *head) bool { return x == h })
			}
		}
	}
}

// scope is a range as logs are asked for it.
type scope struct {
	of      *life // nil: every entity
	books   []*book
	search  log.Search
	related map[event.EntityID]bool // the entity, and its topic or subscriptions
}

func (l *Ledger) scope(ctx context.Context, r *Range) (*scope, error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	s := &scope{}
	for i, at := range []*Instant{r.Since, r.Until} {
		if at == nil {
			continue
		}
		t, _, err := l.eras(ctx, *at)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.search.From = t
		} else {
			s.search.Until = t
		}
	}
	ids := l.src.Partitions()
	if r.Entity != "" {
		if s.of, err = n.find(r.Entity); err != nil {
			return nil, err
		}
		ids = n.logs(s.of)
		if !slices.Contains(ids, catalogue) {
			ids = append([]log.PartitionID{catalogue}, ids...)
		}
		if len(s.of.hosts) <= 1 && s.of.topic == 0 {
			s.search.Named, s.search.Slice = true, event.Slice{Entity: s.of.id}
		}
		s.related = map[event.EntityID]bool{s.of.id: true}
	}
	for _, id := range ids {
		b, err := l.book(ctx, id)
		if err != nil {
			if s.of != nil {
				return nil, err
			}
			if err := l.note("partition %d cannot be read, nothing of it is here: %s", id, word(err.Error())); err != nil {
				return nil, err
			}
			continue
		}
		s.books = append(s.books, b)
	}
	return s, nil
}

// wants tells whether an event is in the range.
func (s *scope) wants(h *happening) bool {
	if h.rec.At < s.search.From || s.search.Until != 0 && h.rec.At > s.search.Until {
		return false
	}
	if s.of == nil {
		return true
	}
	wanted := false
	event.Named(h.event(), func(slice event.Slice, _ event.SequenceNumber) { wanted = wanted || s.related[slice.Entity] })
	return wanted
}

// Events tells what happened, event by event.
func (l *Ledger) Events(ctx context.Context, r Range) error {
	return l.events(ctx, r, func(h *happening) bool { return h.event().Kind() != event.KindOriginDefined })
}

// acts are what people and programs did to entities, rules, clocks and partitions, and to many messages at once.
var acts = []event.Kind{event.KindEntityCreated, event.KindEntityUpdated, event.KindEntityDeleted, event.KindRuleAdded, event.KindRuleUpdated,
	event.KindRuleRemoved, event.KindMessagesBatchDeleted, event.KindClockSet, event.KindPartitionFenced, event.KindPartitionRestarted, event.KindBackupMarked}

// Audit tells who created, changed, deleted and purged what, with the reason that was given.
func (l *Ledger) Audit(ctx context.Context, r Range) error {
	return l.events(ctx, r, func(h *happening) bool { return slices.Contains(acts, h.event().Kind()) })
}

func (l *Ledger) events(ctx context.Context, r Range, wanted func(*happening) bool) error {
	w, err := newWhere(r.Where)
	if err != nil {
		return err
	}
	s, err := l.scope(ctx, &r)
	if err != nil {
		return err
	}
	shown := 0
	for h, err := range merged(ctx, s.books, s.search) {
		if err != nil {
			return err
		}
		if !wanted(&h) || !s.wants(&h) {
			continue
		}
		line, err := l.row(ctx, &h)
		if err != nil {
			return err
		}
		ok, err := w.matches(line.Fields)
		if err == nil && ok {
			shown++
			err = l.tell(line)
		}
		if err != nil {
			return err
		}
	}
	if shown == 0 {
		return l.answer(print.Object{print.Named("Events", uint64(0))}, "nothing of that kind happened")
	}
	return nil
}

// row is the line of an event.
func (l *Ledger) row(ctx context.Context, h *happening) (Line, error) {
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
	fields := print.Object{print.Named("Time", h.rec.At.String()), print.Named("Type", verb(ev)), print.Named("Entity", entity)}
	name := entity
	if number != 0 {
		fields = append(fields, print.Named("Number", uint64(number)))
		name = address.Of(entity, number).String()
	}
	detail, who, place := l.names.detail(h.rec.At, ev), h.book.who(c.Origin), address.At(h.book.ID(), h.rec.LSN)
	fields = append(fields, print.Named("Detail", detail), print.Named("By", who), print.Named("Place", place.String()), print.Named("Event", ev.Kind().String()))
	text := fmt.Sprintf("%s  %-10s %s", h.rec.At, verb(ev), name)
	for _, t := range []string{detail, who} {
		if t != "" {
			text += "  " + t
		}
	}
	if ev.Kind() != event.KindReasonGiven {
		for _, other := range h.rec.Events {
			if why, ok := other.(*event.ReasonGiven); ok && why.Reason != "" {
				fields = append(fields, print.Named("Reason", print.Text([]byte(why.Reason))))
				text += "  because " + quote(why.Reason)
			}
		}
	}
	return Line{Row, text + "  " + place.String(), fields}, nil
}
