package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxNodes bounds how many messages one story follows: a message to a topic with 2,000 subscriptions has as many copies.
const maxNodes = 4096

// node is a message under one number: copies, moves and schedules give it others.
type node struct {
	slice  event.Slice
	number event.SequenceNumber
}

// moment is one thing that happened to a message.
type moment struct {
	node
	book    *book
	lsn     event.LSN
	seq     int // in the order of its log
	at      event.Time
	origin  event.OriginID
	kind    event.Kind
	verb    string
	detail  string
	token   event.LockToken
	until   event.Time // of a lock
	count   uint32     // failed attempts
	cause   event.Cause
	wanted  event.Wanted
	reason  string  // with description, as it is shown
	about   string  // id, subject and size, as shown
	session *string // message session that it is put into; nil: none
}

// tell tells what was read of a message.
func (s *story) tell(ctx context.Context) error {
	l := s.l
	if err := s.tellHead(ctx); err != nil {
		return err
	}
	for i := range s.moments {
		if err := l.tellMoment(s, &s.moments[i]); err != nil {
			return err
		}
	}
	sentence := s.sentence()
	if f := s.fate(); f.words == "WAITING" {
		waits, err := s.waitsFor(ctx, f)
		if err != nil {
			return err
		}
		sentence += waits
	}
	if n := s.repeats(); n > 0 {
		sentence = strings.TrimPrefix(sentence+"; ", "; ") + many(n, "message with its id came later and was dropped as a duplicate", "messages with its id came later and were dropped as duplicates")
	}
	if sentence != "" {
		if err := l.answer(print.Object{print.Named("Sentence", sentence)}, "in a sentence: %s", sentence); err != nil {
			return err
		}
	}
	return cmp.Or(tellEnd(l, s), s.missing)
}

// story is what was found of a message.
type story struct {
	l       *Ledger
	n       *names
	first   node // the one that was asked for, or that has the id
	moments []moment
	tokens  map[event.LockToken]bool
	more    bool // there are more copies than are followed
	// missing says which logs cannot be read that may have a message with the id; nil: all can.
	missing error
}

// read finds all there is to tell, in the order in which it happened: of the message that an entity has
// under a number, or of all messages with an id.
func (l *Ledger) read(ctx context.Context, e *life, of address.Address, messageID string) (*story, error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	s := &story{l: l, n: n, tokens: make(map[event.LockToken]bool)}
	f := &following{story: s, seen: make(map[node]bool)}
	if messageID != "" {
		if err := f.withID(ctx, []byte(messageID)); err != nil {
			return nil, err
		}
	} else {
		s.first = node{event.Slice{Entity: e.id, Partition: of.Number.Partition()}, of.Number}
		f.add(s.first)
	}
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	if len(s.moments) == 0 {
		if s.missing != nil {
			return nil, s.missing
		}
		if messageID != "" {
			return nil, fmt.Errorf("%w of a message with the id %s", ErrNothing, quote(messageID))
		}
		return nil, fmt.Errorf("%w of %s", ErrNothing, of)
	}
	s.order()
	for b, ids := range s.origins() {
		if err := b.learn(ctx, ids...); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *story) origins() map[*book][]event.OriginID {
	list := make(map[*book][]event.OriginID)
	for i := range s.moments {
		m := &s.moments[i]
		list[m.book] = append(list[m.book], m.origin)
	}
	return list
}

// order merges what the logs have: each log keeps its order, and between logs time decides, at equal times cause and effect.
func (s *story) order() {
	rank := func(m *moment) int {
		switch m.verb {
		case "arrived":
			return 1
		case "moved", "move-failed":
			return 2
		}
		return 0
	}
	byLog := make(map[log.PartitionID][]moment)
	for _, m := range s.moments {
		byLog[m.book.ID()] = append(byLog[m.book.ID()], m)
	}
	var rows [][]moment
	for _, row := range byLog {
		slices.SortFunc(row, func(a, b moment) int { return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.seq, b.seq)) })
		rows = append(rows, slices.CompactFunc(row, func(a, b moment) bool { return a.lsn == b.lsn && a.seq == b.seq && a.node == b.node }))
	}
	slices.SortFunc(rows, func(a, b []moment) int { return cmp.Compare(a[0].book.ID(), b[0].book.ID()) })
	s.moments = s.moments[:0]
	for {
		next := -1
		for i, row := range rows {
			if len(row) > 0 && (next < 0 || cmp.Or(cmp.Compare(row[0].at, rows[next][0].at), cmp.Compare(rank(&row[0]), rank(&rows[next][0]))) < 0) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		s.moments, rows[next] = append(s.moments, rows[next][0]), rows[next][1:]
	}
}
