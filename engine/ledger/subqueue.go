package ledger

import (
	"context"
	"fmt"
	"iter"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// place splits the path of a question into the path of an entity and the sub-queue; Main: the
// entity as a whole.
func place(path string) (entity string, q event.SubQueue, err error) {
	if path == "" {
		return "", event.Main, nil
	}
	a, err := address.Parse(path)
	if err != nil {
		return "", event.Main, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	if a.Place || a.Number != 0 {
		return "", event.Main, fmt.Errorf("%w: %s is not an entity", ErrQuestion, a)
	}
	return a.Entity, a.SubQueue, nil
}

// has refuses a sub-queue that an entity cannot have.
func (e *life) has(q event.SubQueue) error {
	if e.kind == event.Topic && q == event.DeadLetter {
		return fmt.Errorf("%w: %s is a topic, which has no dead-letter queue; its subscriptions have one: %s/Subscriptions/NAME/$dlq", ErrQuestion, e.path, e.path)
	}
	return nil
}

// queueWatch tells which events of a log are about a sub-queue. Most events name a message and not
// its place, so the watch keeps the state of the entity along with the log.
type queueWatch struct {
	book    *book
	of      map[event.EntityID]bool
	queue   event.SubQueue
	state   *replay.State
	part    *narrow
	links   map[event.OriginID]bool // that were opened to the sub-queue
	touched []bool                  // by event of the newest record
	last    event.Event             // the event of it that was applied last
}

// take applies a record, and notes which of its events are about the sub-queue. It reports whether
// any is.
func (w *queueWatch) take(ctx context.Context, rec *replay.Record) (any bool, err error) {
	w.touched, w.last = w.touched[:0], nil
	// asked of each event in its turn: the state has the effect of the previous one
	err = w.state.ApplyOnly(rec, func(ev event.Event) bool {
		w.settle()
		w.touched, w.last = append(w.touched, w.isAbout(ev)), ev
		return w.part == nil || w.part.has(ev)
	})
	if err != nil {
		return false, err
	}
	w.settle()
	for i, ev := range rec.Events {
		w.book.see(ev)
		if said, err := w.link(ctx, ev); err != nil {
			return false, err
		} else if said {
			w.touched[i] = true
		}
		any = any || w.touched[i]
	}
	return any, nil
}

// settle looks where the messages of the event that was applied last are.
func (w *queueWatch) settle() {
	if n := len(w.touched); w.last != nil && !w.touched[n-1] {
		w.touched[n-1] = w.isAbout(w.last)
	}
}

// isAbout reports whether an event says that it is about the sub-queue, or names a message that is
// in it now.
func (w *queueWatch) isAbout(ev event.Event) (there bool) {
	switch ev := ev.(type) {
	case *event.LinkOpened:
		return w.of[ev.Slice.Entity] && ev.SubQueue == w.queue
	case *event.SettlementRefused:
		return w.of[ev.Slice.Entity] && ev.SubQueue == w.queue
	case *event.SliceDropped:
		return w.of[ev.Slice.Entity] && w.hasMessages(ev.Slice)
	}
	event.Named(ev, func(s event.Slice, number event.SequenceNumber) {
		if number != 0 && w.of[s.Entity] && !there {
			m, ok := w.state.Index.Message(s, number)
			there = ok && m.SubQueue == w.queue
		}
	})
	return there
}

// hasMessages reports whether a slice has messages in the sub-queue.
func (w *queueWatch) hasMessages(s event.Slice) bool {
	for st := index.Active; st <= index.Transferring; st++ {
		if w.state.Index.Count(s, w.queue, st) > 0 {
			return true
		}
	}
	return false
}

// link follows the links to the sub-queue: the event that closes one does not name the sub-queue.
func (w *queueWatch) link(ctx context.Context, ev event.Event) (about bool, err error) {
	c := ev.Common()
	if !w.of[c.Slice.Entity] {
		return false, nil
	}
	switch ev := ev.(type) {
	case *event.LinkOpened:
		w.links[c.Origin] = ev.SubQueue == w.queue
	case *event.LinkClosed:
		about, known := w.links[c.Origin]
		delete(w.links, c.Origin)
		if known {
			return about, nil
		}
		// it was opened before the state that the watch began with
		if err := w.book.learn(ctx, c.Origin); err != nil {
			return false, err
		}
		to, err := address.Parse(w.book.origins.Get(c.Origin).Entity)
		return err == nil && to.SubQueue == w.queue, nil
	}
	return false, nil
}

// queueRecords yields the records with events about the sub-queue of the selection.
// [Selection.wants] then knows which of a record's events are.
func (s *Selection) queueRecords(ctx context.Context, b *book) iter.Seq2[*replay.Record, error] {
	return func(yield func(*replay.Record, error) bool) {
		state, err := s.outset(b)
		if err != nil {
			yield(nil, err)
			return
		}
		w := &queueWatch{book: b, of: s.own, queue: s.queue, state: state, part: s.l.names.narrow(b.ID(), s.of...), links: make(map[event.OriginID]bool)}
		for rec, err := range w.part.records(ctx, state) {
			if err != nil {
				yield(nil, err)
				return
			}
			if s.before != nil && rec.LSN >= s.before[b.ID()] || s.over(rec) {
				return
			}
			about, err := w.take(ctx, rec)
			if err != nil {
				yield(nil, err)
				return
			}
			if !about || rec.LSN < s.after[b.ID()] {
				continue
			}
			s.touched[b.ID()] = w.touched
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// over reports whether nothing after a record can be wanted.
func (s *Selection) over(rec *replay.Record) bool {
	return s.search.Until != 0 && s.l.names.steady() && rec.At > s.search.Until
}

// outset returns a state from before everything that is wanted: the newest one kept, or the one
// that the log begins with.
func (s *Selection) outset(b *book) (*replay.State, error) {
	after, limit := s.after[b.ID()], event.LSN(0)
	from := s.search.From
	if !s.l.names.steady() {
		from = 0
	}
	if from > 0 {
		var err error
		if limit, err = s.l.limit(b, Instant{At: from - 1}, from-1); err != nil {
			return nil, err
		}
	}
	for _, c := range b.Checkpoints() {
		if c.LSN > after && c.LSN > limit {
			continue
		}
		if state := replay.Newest(b, c.LSN, nil); state.At() <= after || state.Index.LastAt() < from {
			return state, nil
		}
	}
	return replay.Begin(b), nil
}
