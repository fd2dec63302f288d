package present

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// emptyTime is how long an answer without a row takes before it is given, and rowTime how long
	// one with a row: the caller sees the first row early, and goes on from there.
	emptyTime = time.Second
	rowTime   = 200 * time.Millisecond
)

// MessageStates returns the states that a [rows.MessagesQuery] can have.
func MessageStates() []string {
	return []string{"active", "locked", "deferred", "scheduled", "transferring"}
}

// ReadsMessages reports whether the answer to a query depends on the messages, and not only on
// their states. An error wraps [ErrQuestion].
func ReadsMessages(q *rows.MessagesQuery) (bool, error) {
	c, err := conditionOf(q.Where)
	return q.Bodies || c != nil && (c.ReadsProperties() || c.ReadsBodies()), err
}

// conditionOf compiles a condition; nil: there is none.
func conditionOf(where string) (*filter.Condition, error) {
	if where == "" {
		return nil, nil
	}
	c, err := filter.NewCondition(where, columns[:])
	if err != nil {
		return nil, fmt.Errorf("%w: where: %w", ErrQuestion, err)
	}
	return c, nil
}

// Messages returns a page of messages in the order of their sequence numbers. It reads bodies only
// if the query needs them. A partition that does not serve, and a message that cannot be read, are
// named in the answer. An error wraps [ErrQuestion] if the query is at fault, and [ErrNotFound] if
// there is no such entity.
func (n *Namespace) Messages(ctx context.Context, q rows.MessagesQuery) (rows.Messages, error) {
	s, err := n.newScan(q)
	if err != nil {
		return rows.Messages{}, err
	}
	e, queue, err := n.findQueue(ctx, q.Entity)
	if err != nil {
		return rows.Messages{}, err
	}
	defer s.reader.close()
	s.answer.At, s.answer.Entity = n.src.Now().Std().UTC(), address.Address{Entity: e.Path, SubQueue: queue}.String()
	for number, host := range e.Hosts {
		slice := event.Slice{Entity: e.ID, Partition: uint8(number)}
		before, last := slice.Numbers()
		if q.From > uint64(last) {
			continue
		}
		from := max(event.SequenceNumber(q.From), before+1)
		if s.isOver(ctx) {
			s.answer.Next = uint64(from)
			break
		}
		err := s.partition(ctx, int(host), slice, queue, from)
		if errors.Is(err, ErrAway) {
			s.miss(int(host))
			continue
		}
		if err != nil || s.answer.Next != 0 {
			return s.answer, err
		}
	}
	return s.answer, nil
}

// findQueue returns the entity and the sub-queue that a path names.
func (n *Namespace) findQueue(ctx context.Context, path string) (e Entry, q event.SubQueue, err error) {
	a, err := address.Parse(path)
	if err != nil {
		return e, q, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	if a.Place || a.Number != 0 {
		return e, q, fmt.Errorf("%w: %s is not the path of an entity", ErrQuestion, a)
	}
	if e, err = n.find(ctx, a.Entity); err != nil {
		return e, q, err
	}
	if e.Kind == event.Topic && a.SubQueue == event.DeadLetter {
		err = fmt.Errorf("%w: %s is a topic, which has no dead-letter queue; its subscriptions have one: %s/Subscriptions/NAME/$dlq", ErrQuestion, e.Path, e.Path)
	}
	return e, a.SubQueue, err
}

// A scan looks for the rows of one answer.
type scan struct {
	n     *Namespace
	q     rows.MessagesQuery
	began time.Time
	// states that rows can have
	states []index.State
	where  *filter.Condition // nil: every message matches
	reader *bodyReader
	m      index.Message // the current one: one allocation for all
	values [columnCount]event.Value
	size   int // bytes of the rows in JSON, about

	answer rows.Messages
}

func (n *Namespace) newScan(q rows.MessagesQuery) (*scan, error) {
	s := &scan{n: n, q: q, began: n.clock(), answer: rows.Messages{Messages: []rows.Message{}}, reader: &bodyReader{src: n.src}}
	if n.readers != nil {
		s.reader.reader = n.readers()
	}
	var err error
	if s.q.Top, err = topOf(q.Top); err != nil {
		return nil, err
	}
	if s.states, err = statesOf(q.State); err != nil {
		return nil, err
	}
	s.where, err = conditionOf(q.Where)
	return s, err
}

// statesOf returns the states of messages that have the name of a state in an answer.
func statesOf(name string) ([]index.State, error) {
	switch {
	case name == "":
		return nil, nil
	case strings.EqualFold(name, "locked"):
		return []index.State{index.Locked, index.DeferredLocked}, nil
	case !slices.ContainsFunc(MessageStates(), func(s string) bool { return strings.EqualFold(s, name) }):
		return nil, fmt.Errorf("%w: unknown state %.40q; the states are %s", ErrQuestion, name, strings.Join(MessageStates(), ", "))
	}
	for _, st := range []index.State{index.Active, index.Deferred, index.Scheduled, index.Transferring} {
		if strings.EqualFold(st.String(), name) {
			return []index.State{st}, nil
		}
	}
	return nil, nil
}

// partition adds the rows of one partition. It sets next if the answer is full.
func (s *scan) partition(ctx context.Context, host int, slice event.Slice, q event.SubQueue, from event.SequenceNumber) error {
	err := s.n.snapshot(ctx, host, func(state *index.Snapshot) {
		s.reader.partition = host
		for m := range state.All(slice, q, from) {
			s.m = m
			if s.isOver(ctx) || !s.take(ctx, &s.m) {
				s.answer.Next = uint64(m.Sequence)
				break
			}
			s.answer.Scanned++
		}
	})
	return cmp.Or(err, ctx.Err())
}

// isOver reports whether the answer has to be given now. One message at least is always scanned.
func (s *scan) isOver(ctx context.Context) bool {
	if s.answer.Scanned == 0 {
		return false
	}
	rowCount := len(s.answer.Messages)
	if rowCount >= s.q.Top || ctx.Err() != nil {
		return true
	}
	took := s.n.clock().Sub(s.began)
	return took >= emptyTime || rowCount > 0 && took >= rowTime
}

// take adds a message to the answer if the query selects it. It returns false if the answer has no
// room for it.
func (s *scan) take(ctx context.Context, m *index.Message) bool {
	if len(s.states) > 0 && !slices.Contains(s.states, m.State) || s.q.Session != nil && (!m.InSession || m.SessionID != *s.q.Session) {
		return true
	}
	s.reader.look(m)
	if !s.matches(ctx, m) {
		return true
	}
	row := newMessage(m)
	if s.q.Bodies {
		s.reader.fill(ctx, &row)
	}
	size := sizeOf(&row)
	if size > rows.MaxBytes-reservedBytes {
		row.Content, row.Unread = nil, "it does not fit into an answer"
		size = sizeOf(&row)
	}
	if s.size+size > rows.MaxBytes-reservedBytes && len(s.answer.Messages) > 0 {
		return false
	}
	s.size += size
	s.answer.Messages = append(s.answer.Messages, row)
	return true
}

// matches reports whether a message meets the condition. Messages for which that cannot be found
// out are counted.
func (s *scan) matches(ctx context.Context, m *index.Message) bool {
	if s.where == nil {
		return true
	}
	setColumns(&s.values, m)
	ok, err := s.where.MatchRow(s.values[:])
	var properties *filter.Message
	var body []byte
	unread := ""
	if ok && s.where.ReadsProperties() {
		properties, unread = s.reader.properties(ctx)
	}
	if ok && s.where.ReadsBodies() && unread == "" {
		body, _, unread = s.reader.body(ctx)
	}
	switch {
	case !ok:
	case unread != "":
		ok, err = s.where.MatchUnread()
	default:
		ok, err = s.where.MatchMessage(properties, body)
	}
	if err != nil {
		unread = err.Error()
	}
	if !ok && unread != "" {
		if s.answer.Undecided++; s.answer.Undecided == 1 {
			s.answer.UndecidedReason = fmt.Sprintf("message %d: %.300s", m.Sequence, unread)
		}
	}
	return ok
}

// miss notes that a partition does not serve.
func (s *scan) miss(host int) {
	if !slices.Contains(s.answer.Missing, host) {
		s.answer.Missing = append(s.answer.Missing, host)
	}
}
