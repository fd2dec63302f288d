package ledger

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// When history is removed, a state stays: for each message that existed, its state and how many
// attempts had failed. The events before it are unknown, and a missing event does not mean that it
// did not happen.

// baseState is the state that the history of a log begins with.
type baseState struct {
	*index.Index
	tick
	lsn event.LSN
}

// beginning reads the state that the history of the log begins with.
func (b *book) beginning(ctx context.Context) (*baseState, error) {
	s := replay.Begin(b)
	for _, err := range s.Found(ctx, nil) { // nothing is found, or the base cannot be read
		if err != nil {
			return nil, err
		}
	}
	return &baseState{s.Index, tick{s.Index.LastAt(), s.Index.Clock()}, s.From}, nil
}

// latest returns the time from which the history of all the given logs is complete; false: none of
// it was removed.
func latest(books ...*book) (since tick, removed bool) {
	for _, b := range books {
		if at, _, gone := horizon(b); gone && (!removed || at.compare(since) > 0) {
			since, removed = at, true
		}
	}
	return since, removed
}

// sinceThen returns the time from which history is complete, as words for the end of a sentence;
// "": always.
func sinceThen(books ...*book) string {
	if since, removed := latest(books...); removed {
		return " since " + since.at.String()
	}
	return ""
}

// cut notes that part of the message's history was removed from a log.
func (s *story) cut(b *book, since tick) {
	for _, other := range s.cuts {
		if other == b {
			return
		}
	}
	if s.cuts = append(s.cuts, b); since.compare(s.since) > 0 {
		s.since = since
	}
}

// begin returns [book.beginning], which a story reads once.
func (s *story) begin(ctx context.Context, b *book) (*baseState, error) {
	if s.begins[b] == nil {
		begin, err := b.beginning(ctx)
		if err != nil {
			return nil, err
		}
		s.begins[b] = begin
	}
	return s.begins[b], nil
}

// restore notes the state of a message when the history of its log begins, if that does not have
// the events before.
func (v *visit) restore(ctx context.Context) error {
	if _, _, gone := horizon(v.book); !gone {
		return nil
	}
	begin, err := v.begin(ctx, v.book)
	if err != nil {
		return err
	}
	v.cut(v.book, begin.tick)
	row, there := begin.Message(v.slice, v.number)
	if !there {
		return nil
	}
	m := moment{tick: begin.tick, node: v.node, book: v.book, lsn: begin.lsn, kind: event.KindRowsRestored, verb: "known", detail: stateInWords(&row), count: row.DeliveryCount, row: &row}
	if row.EnqueuedAt != 0 {
		m.about = fmt.Sprintf("enqueued at %s, ", row.EnqueuedAt)
	}
	m.about += fmt.Sprintf("%d bytes", row.Body.Size)
	if row.InSession {
		m.session = &row.SessionID
		m.detail += ", session " + word(row.SessionID)
	}
	for _, t := range begin.Transfers() {
		if t.Slice == v.slice && t.Sequence == v.number {
			v.restoreMove(&m, &t)
		}
	}
	v.moments = append(v.moments, m)
	return nil
}

// restoreMove notes that the message was in transfer when history begins.
func (v *visit) restoreMove(m *moment, t *index.Transfer) {
	m.move, m.step = move{v.slice, t.Number}, departs
	for i := range v.moments {
		if v.moments[i].move == m.move { // its end, or its beginning, is known
			return
		}
	}
	v.moving, v.to = t.Number, t.Destination
	v.look(1) // the message it became may be older than the state
}

// lose notes that the history of the message in an entity was removed, if it was.
func (v *visit) lose(ctx context.Context, to *life) error {
	for _, id := range v.n.logs(to) {
		b := v.l.books[id]
		if _, _, gone := horizon(b); !gone {
			continue
		}
		begin, err := v.begin(ctx, b)
		if err != nil {
			return err
		}
		for _, slice := range v.n.slices(to, id) {
			if begin.Arrived(slice, v.slice, v.moving) {
				v.cut(b, begin.tick)
				v.lost = to
			}
		}
	}
	return nil
}

// stateWord returns the word, in capitals, for the state of an existing message.
func stateWord(m *index.Message) string {
	switch {
	case m.State == index.Transferring:
		return "MOVING"
	case m.State == index.Locked, m.State == index.DeferredLocked:
		return "LOCKED"
	case m.SubQueue != event.Main:
		return "DEAD-LETTERED"
	case m.State == index.Deferred:
		return "DEFERRED"
	case m.State == index.Scheduled:
		return "SCHEDULED"
	}
	return "WAITING"
}
