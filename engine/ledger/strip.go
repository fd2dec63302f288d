package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	usualBuckets = 120
	usualStrip   = event.Time(24 * time.Hour / time.Millisecond)
)

// StripQuery selects the range of a strip.
type StripQuery struct {
	From    *Instant // nil: a day before To, or where history begins if that is later
	To      *Instant // nil: the newest record that the logs had when they were opened
	Buckets int      // at most, up to [rows.Max]; 0: 120
}

// ParseStrip parses the arguments from, to and buckets. An instant later than now means now. The
// error wraps [ErrQuestion].
func ParseStrip(v url.Values, now time.Time) (q StripQuery, err error) {
	instant := func(name string) *Instant {
		text := v.Get(name)
		if text == "" || err != nil {
			return nil
		}
		i, wrong := ParseInstant(text, now)
		switch {
		case errors.Is(wrong, ErrQuestion):
			err = fmt.Errorf("%s: %w", name, wrong)
		case wrong != nil:
			err = fmt.Errorf("%w: %s: %w", ErrQuestion, name, wrong)
		case i.Place == nil:
			i.At = min(i.At, event.TimeOf(now))
		}
		return &i
	}
	q.From, q.To = instant("from"), instant("to")
	if text := v.Get("buckets"); text != "" && err == nil {
		if q.Buckets, err = strconv.Atoi(text); err != nil || q.Buckets < 1 || q.Buckets > rows.Max {
			err = fmt.Errorf("%w: buckets is %.20q, and must be a whole number from 1 to %d", ErrQuestion, text, rows.Max)
		}
	}
	return q, err
}

// A strip is being made for [Ledger.Strip].
type strip struct {
	l       *Ledger
	books   []*book
	missing []int
	horizon event.Time // 0: nothing was removed

	from, to, step event.Time // ms
	bytes          []uint64   // of each bucket
	marks          []stripMark
	acts           int // of the range, in marks or not
}

type stripMark struct {
	tick
	rows.StripMark
}

// Strip returns how many bytes of records the logs have for each bucket of a range of time, and the
// newest rows of [Ledger.Audit] in it.
//
// The bytes of sealed files come from the index of record blocks. The frames of a block are read
// only if a bucket ends between them. The rest of a log has no index and is read once, for bytes
// and changes.
func (l *Ledger) Strip(ctx context.Context, q StripQuery) (*rows.Strip, error) {
	if q.Buckets < 0 || q.Buckets > rows.Max {
		return nil, fmt.Errorf("%w: buckets is %d, and must be 1 to %d", ErrQuestion, q.Buckets, rows.Max)
	}
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	s := &strip{l: l}
	if err := s.open(ctx, n); err != nil {
		return nil, err
	}
	if err := s.setRange(ctx, q); err != nil {
		return nil, err
	}
	for _, b := range s.books {
		var damage *log.CorruptError
		p := &stripLog{strip: s, book: b, bytes: make([]uint64, len(s.bytes))}
		switch err := p.read(ctx); {
		case errors.As(err, &damage):
			s.missing = append(s.missing, int(b.ID()))
		case err != nil:
			return nil, err
		default:
			s.add(p)
		}
	}
	return s.answer(n), nil
}

// open opens the logs, and finds out where their history begins.
func (s *strip) open(ctx context.Context, n *names) error {
	for _, id := range s.l.src.Partitions() {
		b, err := s.l.book(ctx, id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.missing = append(s.missing, int(id))
			continue
		}
		s.l.memory.recall(b)
		s.books = append(s.books, b)
		if at, _, gone := horizon(b); gone {
			s.horizon = max(s.horizon, at.at)
		}
	}
	return n.lookUpClocks(ctx, s.books...)
}

// setRange sets the range and its buckets, which are whole seconds long.
func (s *strip) setRange(ctx context.Context, q StripQuery) (err error) {
	if q.To != nil {
		s.to, _, err = s.l.eras(ctx, *q.To)
	} else {
		for _, b := range s.books {
			s.to = max(s.to, b.Recovery().Newest)
		}
	}
	if err == nil && s.to == 0 {
		err = fmt.Errorf("%w: the logs have no records", ErrNothing)
	}
	if s.from = max(0, s.to-usualStrip); s.horizon < s.to {
		s.from = max(s.from, s.horizon)
	}
	if err == nil && q.From != nil {
		s.from, _, err = s.l.eras(ctx, *q.From)
	}
	if err == nil && s.from > s.to {
		err = fmt.Errorf("%w: from is %s, which is after %s", ErrQuestion, s.from, s.to)
	}
	if err != nil {
		return err
	}
	const second = 1000
	most := event.Time(cmp.Or(q.Buckets, usualBuckets))
	s.step = max(1, roundUp(s.to-s.from, most*second)) * second
	s.bytes = make([]uint64, max(1, roundUp(s.to-s.from, s.step)))
	return nil
}

// roundUp returns a quotient, rounded up.
func roundUp(a, b event.Time) event.Time { return (a + b - 1) / b }

// has reports whether a time is in the range.
func (s *strip) has(at event.Time) bool { return s.from <= at && at <= s.to }

// bucket returns the number of the bucket of a time in the range. The last one includes the end.
func (s *strip) bucket(at event.Time) int {
	return min(int((at-s.from)/s.step), len(s.bytes)-1)
}

// add adds what a log has.
func (s *strip) add(p *stripLog) {
	for i, n := range p.bytes {
		s.bytes[i] += n
	}
	s.marks, s.acts = append(s.marks, p.marks...), s.acts+p.acts
	s.l.memory.keep(p.book)
}

// answer returns the strip.
func (s *strip) answer(n *names) *rows.Strip {
	out := &rows.Strip{From: s.from.Std(), To: s.to.Std(), Step: int64(s.step / 1000), Marks: []rows.StripMark{}, Missing: s.missing}
	for i := range s.bytes {
		at := s.from + event.Time(i)*s.step
		b := rows.StripBucket{At: at.Std(), Bytes: &s.bytes[i], Passes: n.passes(at, at+s.step)}
		if at < s.horizon {
			b.Bytes = nil
		}
		out.Buckets = append(out.Buckets, b)
	}
	slices.SortStableFunc(s.marks, func(a, b stripMark) int { return a.compare(b.tick) })
	for _, m := range newest(s.marks) {
		out.Marks = append(out.Marks, m.StripMark)
	}
	out.More = s.acts - len(out.Marks)
	if s.horizon > 0 {
		at := s.horizon.Std()
		out.Horizon = &at
	}
	slices.Sort(out.Missing)
	return out
}

// newest returns the last marks of a list, as many as an answer has.
func newest(list []stripMark) []stripMark { return list[max(0, len(list)-rows.Max):] }

// passes returns how many eras have a part of the time from one instant up to another; nil: one.
func (n *names) passes(from, to event.Time) *int {
	passes := 0
	for _, e := range n.clocks {
		if e.from < to && from <= e.until {
			passes++
		}
	}
	if passes == 1 {
		return nil
	}
	return &passes
}

// newMark returns the mark of an event.
func (s *strip) newMark(ctx context.Context, h *eventAt) (stripMark, error) {
	line, err := s.l.row(ctx, h)
	if err != nil {
		return stripMark{}, err
	}
	m := stripMark{tick: h.book.tick(h.rec.LSN, h.rec.At)}
	m.At, m.Text = h.rec.At.Std(), line.Text
	const most = 1000 // bytes; the text is ASCII wherever clients chose it
	if len(m.Text) > most {
		m.Text = strings.ToValidUTF8(m.Text[:most], "") + "…"
	}
	for i := range line.Fields {
		f := &line.Fields[i]
		text, _ := f.Value().(string)
		switch f.Name {
		case "Type":
			m.Type = text
		case "Entity":
			m.Entity = text
		case "By":
			m.By = text
		case "Place":
			m.Place = text
		}
	}
	return m, nil
}
