package ledger

import (
	"context"
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// mostRecords is the most events in one answer of [Ledger.Log], without the rest of its last frame:
// the next question continues after it.
const mostRecords = 100_000

// Memory keeps the origins in the logs of a source, its entities, and where its history begins, for
// a source that answers many questions. It may be used by several goroutines.
type Memory struct {
	mu      sync.Mutex // guards the following fields
	origins map[log.PartitionID]*rememberedOrigins
	begins  map[log.PartitionID]rememberedBegin
	// entities are those of the catalogue's log from first up to end. They are never changed.
	entities   *names // nil: none are remembered
	first, end event.LSN
}

// rememberedBegin is when the history of a log begins that begins with a base.
type rememberedBegin struct {
	base event.LSN
	tick
}

type rememberedOrigins struct {
	known map[event.OriginID]bool
	print.Origins
}

// mostRemembered is the most origins of a log that are remembered.
const mostRemembered = 1 << 16

// Remember makes the ledger use the origins and entities that earlier ledgers have found, and add
// to them.
func (l *Ledger) Remember(m *Memory) { l.memory = m }

// names returns the remembered entities of a log with these bounds, and the LSN from which on they
// are unknown.
func (m *Memory) names(first, end event.LSN) (n *names, from event.LSN) {
	if m == nil {
		return nil, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entities == nil || m.first != first || m.end > end {
		return nil, 0
	}
	return m.entities, m.end
}

// keepNames keeps the entities of a log that has these bounds.
func (m *Memory) keepNames(n *names, first, end event.LSN) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entities, m.first, m.end = n, first, end; len(n.byID) > mostRemembered {
		m.entities = nil
	}
}

// recall adds the remembered origins to a book, and when its history begins.
func (m *Memory) recall(b *book) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if base, ok := b.Base(); ok && m.begins[b.ID()].base == base.LSN {
		b.base, b.begins = base.LSN, m.begins[b.ID()].tick
	}
	if r := m.origins[b.ID()]; r != nil {
		for id := range r.known {
			b.known[id] = true
			b.origins.Define(&event.OriginDefined{ID: id, Origin: r.Get(id)})
		}
	}
}

// keep remembers the origins that a book has found, and when its history begins.
func (m *Memory) keep(b *book) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.origins == nil {
		m.origins, m.begins = make(map[log.PartitionID]*rememberedOrigins), make(map[log.PartitionID]rememberedBegin)
	}
	if b.begins != (tick{}) {
		m.begins[b.ID()] = rememberedBegin{b.base, b.begins}
	}
	r := m.origins[b.ID()]
	if r == nil || len(r.known)+len(b.known) > mostRemembered {
		r = &rememberedOrigins{known: make(map[event.OriginID]bool)}
		m.origins[b.ID()] = r
	}
	for id := range b.known {
		r.known[id] = true
		r.Define(&event.OriginDefined{ID: id, Origin: b.origins.Get(id)})
	}
}

// namespaceSource is a source that knows which namespace it is.
type namespaceSource interface{ Namespace() format.Namespace }

// Log tells the contents of a log from an LSN on, event by event in its order: first where the log
// begins, then rows with the fields that log dump prints, last where to continue. One answer covers
// at most about 100,000 events.
func (l *Ledger) Log(ctx context.Context, id log.PartitionID, from event.LSN, bodies bool) error {
	ids := l.src.Partitions()
	if int(id) >= len(ids) {
		return fmt.Errorf("%w of partition %d; there are %d partitions", ErrNothing, id, len(ids))
	}
	b, err := l.book(ctx, id)
	if err != nil {
		return err
	}
	namespace := ""
	if src, ok := l.src.(namespaceSource); ok {
		namespace = src.Namespace().ID
	}
	first, end := b.Bounds()
	if err := l.answer(print.Object{print.Named("Namespace", namespace), print.Named("Partitions", uint64(len(ids))), print.Named("First", uint64(first))},
		"partition %d begins at LSN %d", id, first); err != nil {
		return err
	}
	// after the line above, so that the caller knows which log this is: it may be another log than
	// the one of which the caller has that much
	if from > end {
		return fmt.Errorf("%w from LSN %d on: the log of partition %d ends at LSN %d", ErrNothing, from, id, end)
	}
	l.memory.recall(b)
	r := logRows{l: l, b: b, events: print.Events{Origins: &b.origins}}
	if bodies {
		r.events.ReadBlob = b.ReadBlob
	}
	next, err := r.run(ctx, max(from, first), end)
	if err != nil {
		return err
	}
	l.memory.keep(b)
	return l.answer(print.Object{print.Named("Next", uint64(next)), print.Named("More", next < end)}, "up to LSN %d", next)
}

// logRows tells the events of a log.
type logRows struct {
	l      *Ledger
	b      *book
	events print.Events
	fields []byte // of the latest row, as JSON; their memory is reused
	shown  int
}

// run tells the events of the frames from an LSN on and below another, and returns where it
// stopped.
func (r *logRows) run(ctx context.Context, from, end event.LSN) (next event.LSN, err error) {
	begun := false
	for rec, err := range replay.Records(ctx, r.b, from) {
		if err == nil && !begun {
			err, begun = r.b.gone(from), true
		}
		if err != nil {
			return 0, err
		}
		if rec.LSN >= end || r.shown >= mostRecords && rec.Number == 1 {
			return rec.LSN, nil
		}
		for _, ev := range rec.Events {
			r.b.see(ev)
			if err := r.tell(ctx, rec, ev); err != nil {
				return 0, err
			}
		}
	}
	if !begun {
		err = r.b.gone(from)
	}
	return end, err
}

func (r *logRows) tell(ctx context.Context, rec *replay.Record, ev event.Event) error {
	if err := r.b.learn(ctx, ev.Common().Origin); err != nil {
		return err
	}
	fields, err := r.events.AppendJSON(r.fields[:0], &print.Entry{Partition: r.b.ID(), LSN: rec.LSN, At: rec.At, Event: ev})
	if err != nil {
		return err
	}
	r.shown, r.fields = r.shown+1, fields
	return r.l.tell(Line{Part: Row, json: fields})
}
