package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxNodes bounds how many messages one story follows: a message to a topic with 2,000
// subscriptions has that many copies.
const maxNodes = 4096

// node is a message under one number: copies, moves and schedules have other numbers.
type node struct {
	slice  event.Slice
	number event.SequenceNumber
}

// moment is one event of a message.
type moment struct {
	node
	tick
	book    *book
	lsn     event.LSN
	seq     int // in the order of its log
	origin  event.OriginID
	kind    event.Kind
	verb    string
	detail  string
	token   event.LockToken
	until   event.Time // of a lock
	count   uint32     // failed attempts
	cause   event.Cause
	wanted  event.Wanted
	reason  string         // with description, as shown
	about   string         // id, subject and size, as shown
	session *string        // message session of the message; nil: none
	row     *index.Message // the message's state when history begins; nil: this is an event
	move    move           // the move that it is a step of
	step    step
}

// move is a transfer of a message to another entity. The zero value is none.
type move struct {
	source event.Slice
	number event.TransferNumber
}

// step is a part of a move. Each comes after the one before it, whatever the clocks of their logs
// say.
type step int

const (
	departs step = iota
	arrives
	leaves // the source learns that it has arrived, or that it was refused
	steps
)

// tell tells what was found of a message.
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
		sentence = strings.TrimPrefix(sentence+"; ", "; ") + many(n, "later message with its id was dropped as a duplicate", "later messages with its id were dropped as duplicates")
	}
	if sentence != "" {
		if err := l.answer(print.Object{print.Named("Sentence", sentence)}, "in a sentence: %s", sentence); err != nil {
			return err
		}
	}
	return cmp.Or(tellEnd(l, s), s.missing)
}

// story holds what was found of a message.
type story struct {
	l       *Ledger
	n       *names
	first   node // the message of the question, or the first one with the id
	moments []moment
	tokens  map[event.LockToken]bool
	more    bool // there are more copies than are followed
	// missing tells which logs that may have a message with the id cannot be read; nil: all can.
	missing error
	// cuts are the logs whose history has only a part of the message's events, and since is the
	// time from which they have all of them.
	cuts   []*book
	since  tick
	lost   *life // destination whose history no longer has the message; nil: none
	begins map[*book]*baseState
}

// read finds everything there is to tell, in the order in which it happened: of the message with a
// number in an entity, or of all messages with an id.
func (l *Ledger) read(ctx context.Context, e *life, of address.Address, messageID string) (*story, error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.names.lookUpClocks(ctx, l.books[catalogue]); err != nil {
		return nil, err
	}
	s := &story{l: l, n: n, tokens: make(map[event.LockToken]bool), begins: make(map[*book]*baseState)}
	f := &follower{story: s, seen: make(map[node]bool)}
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
		return nil, s.nothing(of, messageID)
	}
	s.order()
	for b, ids := range s.origins() {
		if err := b.learn(ctx, ids...); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// nothing returns the error about a message that appears neither in events nor in the states that
// history begins with.
func (s *story) nothing(of address.Address, messageID string) error {
	what, why := of.String(), "it did not exist then"
	if messageID != "" {
		what, why = "a message with the id "+quote(messageID), "message ids from before that are unknown"
	}
	var books []*book
	for _, b := range s.l.books {
		if messageID != "" || slices.Contains(s.cuts, b) {
			books = append(books, b)
		}
	}
	if since, removed := latest(books...); removed {
		return fmt.Errorf("%w of %s: history begins at %s, and %s", ErrNothing, what, since.at, why)
	}
	return fmt.Errorf("%w of %s", ErrNothing, what)
}

func (s *story) origins() map[*book][]event.OriginID {
	list := make(map[*book][]event.OriginID)
	for i := range s.moments {
		m := &s.moments[i]
		list[m.book] = append(list[m.book], m.origin)
	}
	return list
}

// order merges the moments of the logs: each log keeps its order, a move has that of its steps, and
// else broker time decides.
func (s *story) order() {
	byLog := make(map[log.PartitionID][]moment)
	for _, m := range s.moments {
		byLog[m.book.ID()] = append(byLog[m.book.ID()], m)
	}
	var rows [][]moment
	left := make(map[move]*[steps]int) // steps of moves that are not in order yet
	for _, row := range byLog {
		slices.SortFunc(row, func(a, b moment) int { return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.seq, b.seq)) })
		row = slices.CompactFunc(row, func(a, b moment) bool { return a.lsn == b.lsn && a.seq == b.seq && a.node == b.node })
		rows = append(rows, row)
		for i := range row {
			if m := row[i].move; m != (move{}) {
				if left[m] == nil {
					left[m] = &[steps]int{}
				}
				left[m][row[i].step]++
			}
		}
	}
	slices.SortFunc(rows, func(a, b []moment) int { return cmp.Compare(a[0].book.ID(), b[0].book.ID()) })
	early := func(m *moment) bool { // an earlier step of the move comes later in the list
		if m.move == (move{}) {
			return false
		}
		return slices.ContainsFunc(left[m.move][:m.step], func(n int) bool { return n > 0 })
	}
	s.moments = s.moments[:0]
	for {
		var next *[]moment
		waits := false
		for i := range rows {
			if len(rows[i]) == 0 {
				continue
			}
			head := &rows[i][0]
			switch is := early(head); {
			case next == nil, waits && !is, waits == is && head.compare((*next)[0].tick) < 0:
				next, waits = &rows[i], is
			}
		}
		if next == nil {
			return
		}
		m := (*next)[0]
		if m.move != (move{}) {
			left[m.move][m.step]--
		}
		s.moments, *next = append(s.moments, m), (*next)[1:]
	}
}
