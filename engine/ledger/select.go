package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Range tells which events are wanted. The zero value selects all of them.
type Range struct {
	Since, Until *Instant             // both inclusive
	Entity       string               // path, or that of a sub-queue, as in orders/$dlq; "": all
	Number       event.SequenceNumber // of a message of the entity; 0: all
	// of messages that were sent with this id, in all entities that they reached from there; "":
	// all
	MessageID string
	// kinds of events, or their names in the columns: locked, MessageLocked; nil: all
	Types []string
	Where string // condition on the columns; "": none
	// After is the LSN at which the search of each log begins; nil: the beginning.
	After map[log.PartitionID]event.LSN
	// before is the LSN at which the search of each log ends; nil: the end.
	before map[log.PartitionID]event.LSN
}

// maxSelected is the most messages that may have the requested id.
const maxSelected = 4096

// Selection is the part of the logs that a [Range] names: where in them to look, and which of the
// events there are wanted.
type Selection struct {
	l   *Ledger
	of  []*life                 // lives that have had the path; nil: every entity
	own map[event.EntityID]bool // the same lives by id
	// the only sub-queue of the entities that is wanted; Main: all of them
	queue event.SubQueue
	// with a queue: which events of the newest record of a log are about it
	touched map[log.PartitionID][]bool
	books   []*book
	search  log.Search
	// place that the range begins with, and place of its last frame; nil: the times in search are
	// used
	begin   *address.Address
	end     *address.Address
	related map[event.EntityID]bool // the entities, and for a topic its subscriptions
	nodes   map[node]bool           // messages; nil: all, and events that are about none
	types   map[string]bool         // kinds and verbs; nil: all
	where   *where
	after   map[log.PartitionID]event.LSN
	before  map[log.PartitionID]event.LSN // nil: the ends
	missing map[log.PartitionID]error     // logs of the selection that cannot be read
}

// Select finds where in the logs the events of a range may be. Its errors wrap [ErrQuestion] or
// [ErrNothing], or are those of the logs. A log that cannot be read is no error, unless it is the
// one with the entities: [Selection.Missing] returns it.
func (l *Ledger) Select(ctx context.Context, r Range) (*Selection, error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	s := &Selection{l: l, after: r.After, before: r.before, missing: make(map[log.PartitionID]error)}
	if s.where, err = newWhere("--where", r.Where); err != nil {
		return nil, err
	}
	if err := s.between(ctx, &r); err != nil {
		return nil, err
	}
	if err := s.ofTypes(r.Types); err != nil {
		return nil, err
	}
	entity, queue, err := place(r.Entity)
	if err != nil {
		return nil, err
	}
	ids := l.src.Partitions()
	if entity != "" {
		if s.of, err = n.livesWith(entity, queue); err != nil {
			return nil, err
		}
		ids = n.logs(s.of...)
		if queue != event.Main {
			s.queue, s.touched = queue, make(map[log.PartitionID][]bool)
		} else if !slices.Contains(ids, catalogue) {
			ids = append([]log.PartitionID{catalogue}, ids...)
		}
		s.own, s.related = make(map[event.EntityID]bool), make(map[event.EntityID]bool)
		for _, e := range s.of {
			s.own[e.id], s.related[e.id] = true, true
		}
		for id, e := range n.byID {
			if s.own[e.topic] {
				s.related[id] = true
			}
		}
	}
	for _, id := range ids {
		b, err := l.book(ctx, id)
		if err != nil {
			s.missing[id] = err
			continue
		}
		s.books = append(s.books, b)
	}
	if r.Number != 0 {
		if s.of == nil {
			return nil, fmt.Errorf("%w: name the entity of message %d", ErrQuestion, r.Number)
		}
		s.nodes = make(map[node]bool)
		for id := range s.own {
			s.nodes[node{event.Slice{Entity: id, Partition: r.Number.Partition()}, r.Number}] = true
		}
		return s, nil
	}
	if r.MessageID != "" {
		return s, s.findByID(ctx, []byte(r.MessageID))
	}
	return s, nil
}

func (s *Selection) between(ctx context.Context, r *Range) error {
	for i, at := range []*Instant{r.Since, r.Until} {
		if at == nil {
			continue
		}
		t, _, err := s.l.eras(ctx, *at)
		if err != nil {
			return err
		}
		if i == 0 {
			s.search.From, s.begin = t, at.Place
		} else {
			s.search.Until, s.end = t, at.Place
		}
	}
	return nil
}

// verbKinds are the kinds of events that a verb may describe, for verbs that replace a kind's own
// verb for some of its events (see verb).
var verbKinds = map[string][]event.Kind{
	"arrived":      {event.KindMessageEnqueued, event.KindMessageScheduled, event.KindMessagePublished},
	"session-lost": {event.KindSessionReleased},
	"link-lost":    {event.KindLinkClosed},
}

// ofTypes notes which events are wanted, and their kinds.
func (s *Selection) ofTypes(types []string) error {
	for _, t := range types {
		kinds := slices.Clone(verbKinds[strings.ToLower(t)])
		for k := range event.Kind(255) {
			if k.String() != "" && (strings.EqualFold(k.String(), t) || k.Verb() == strings.ToLower(t)) {
				kinds = append(kinds, k)
			}
		}
		if len(kinds) == 0 {
			return fmt.Errorf("%w: --type: unknown type %q; the types are sent, locked, completed, lost, dead and so on, or names of events such as MessageLocked", ErrQuestion, t)
		}
		if s.types == nil {
			s.types = make(map[string]bool)
		}
		s.types[strings.ToLower(t)] = true
		s.search.Kinds = append(s.search.Kinds, kinds...)
	}
	return nil
}

// findByID finds the messages that were sent with an id.
func (s *Selection) findByID(ctx context.Context, id []byte) error {
	s.nodes = make(map[node]bool)
	for _, b := range s.books {
		for rec, err := range replay.Found(ctx, b, log.Search{MessageID: id}) {
			if err != nil {
				return err
			}
			for _, ev := range rec.Events {
				if !bytes.Equal(event.MessageIDOf(ev), id) {
					continue
				}
				event.Named(ev, func(slice event.Slice, number event.SequenceNumber) {
					if number != 0 && (s.of == nil || s.own[slice.Entity]) {
						s.nodes[node{slice, number}] = true
					}
				})
				if len(s.nodes) > maxSelected {
					return fmt.Errorf("%w: more than %d messages have the id %s", ErrQuestion, maxSelected, quote(id))
				}
			}
		}
	}
	switch err := s.incomplete(); {
	case len(s.nodes) > 0:
		return nil
	case err != nil: // it may have the message
		return err
	}
	return fmt.Errorf("%w of a message with the id %s", ErrNothing, quote(id))
}

// searches returns the searches for a selection in a log.
func (s *Selection) searches(b *book) (list []log.Search) {
	add := func(slice event.Slice, number event.SequenceNumber) {
		q := s.search
		q.Named, q.Slice, q.Number = true, slice, number
		list = append(list, q)
	}
	switch {
	case s.nodes != nil:
		for x := range s.nodes {
			if host, ok := s.l.names.host(x.slice); ok && host == b.ID() {
				add(x.slice, x.number)
			}
		}
	case s.of != nil && len(s.related) <= maxNarrow:
		for id := range s.related {
			e := s.l.names.byID[id]
			for _, slice := range s.l.names.slices(e, b.ID()) {
				add(slice, 0)
			}
			if b.ID() == catalogue {
				add(event.Slice{Entity: id}, 0)
			}
		}
	default:
		list = append(list, s.search)
	}
	return list
}

// records yields the candidate records of a log.
func (s *Selection) records(ctx context.Context, b *book) iter.Seq2[*replay.Record, error] {
	if s.queue != event.Main {
		return s.queueRecords(ctx, b)
	}
	list := s.searches(b)
	if len(list) == 0 {
		return func(func(*replay.Record, error) bool) {}
	}
	found := replay.FoundAny(ctx, b, s.after[b.ID()], list)
	if s.before == nil {
		return found
	}
	return func(yield func(*replay.Record, error) bool) {
		begun := false
		for rec, err := range found {
			if err == nil && !begun {
				err, begun = b.gone(s.after[b.ID()]), true
			}
			if err == nil && rec.LSN >= s.before[b.ID()] || !yield(rec, err) || err != nil {
				return
			}
		}
		if err := b.gone(s.after[b.ID()]); err != nil && !begun {
			yield(nil, err)
		}
	}
}

// wants reports whether an event of the newest record of a log is in the range, apart from the
// condition on its columns.
func (s *Selection) wants(id log.PartitionID, rec *replay.Record, i int) bool {
	at, ev := rec.At, rec.Events[i]
	if at < s.search.From && !in(s.begin, id) || s.search.Until != 0 && at > s.search.Until {
		return false
	}
	// other frames may have the same millisecond
	if in(s.begin, id) && rec.LSN < s.begin.LSN || in(s.end, id) && rec.LSN > s.end.LSN {
		return false
	}
	if s.types != nil && !s.types[strings.ToLower(ev.Kind().String())] && !s.types[verb(ev)] {
		return false
	}
	if s.search.Kinds != nil && !slices.Contains(s.search.Kinds, ev.Kind()) {
		return false
	}
	if s.queue != event.Main && !s.touched[id][i] {
		return false
	}
	if s.of == nil && s.nodes == nil {
		return true
	}
	wanted := false
	event.Named(ev, func(slice event.Slice, number event.SequenceNumber) {
		wanted = wanted || (s.related == nil || s.related[slice.Entity]) && (s.nodes == nil || s.nodes[node{slice, number}])
	})
	return wanted
}

// in reports whether a place is in a log.
func in(place *address.Address, id log.PartitionID) bool {
	return place != nil && log.PartitionID(place.Partition) == id
}

// Partitions returns the logs that may have an event of the selection.
func (s *Selection) Partitions() (ids []log.PartitionID) {
	for _, b := range s.books {
		ids = append(ids, b.ID())
	}
	return ids
}

// Missing returns the logs that may have an event of the selection but cannot be read, with the
// reasons.
func (s *Selection) Missing() map[log.PartitionID]error { return s.missing }

// incomplete returns the reasons why logs cannot be read, as one error; nil: all can.
func (s *Selection) incomplete() (all error) {
	for _, id := range slices.Sorted(maps.Keys(s.missing)) {
		all = errors.Join(all, s.missing[id])
	}
	return all
}

// Records yields the candidate records of a log. Origins that they define are known from then on.
func (s *Selection) Records(ctx context.Context, id log.PartitionID) iter.Seq2[*replay.Record, error] {
	b := s.l.books[id]
	return func(yield func(*replay.Record, error) bool) {
		for rec, err := range s.records(ctx, b) {
			if err == nil {
				for _, ev := range rec.Events {
					b.see(ev)
				}
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Wants reports whether an event of a record is in the range.
func (s *Selection) Wants(ctx context.Context, id log.PartitionID, rec *replay.Record, i int) (bool, error) {
	if !s.wants(id, rec, i) {
		return false, nil
	}
	if s.where.set == nil {
		return true, nil
	}
	line, err := s.l.row(ctx, &eventAt{s.l.books[id], rec, i})
	if err != nil {
		return false, err
	}
	return s.where.matches(line.Fields)
}

// Origin returns an origin of a log.
func (s *Selection) Origin(ctx context.Context, id log.PartitionID, origin event.OriginID) (event.Origin, error) {
	b := s.l.books[id]
	err := b.learn(ctx, origin)
	return b.origins.Get(origin), err
}

// Path returns the path of an entity, existing or deleted.
func (s *Selection) Path(id event.EntityID) string { return s.l.names.path(id) }

// Type returns the type of an event, in the word that all answers use.
func Type(ev event.Event) string { return verb(ev) }
