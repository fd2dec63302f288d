package ledger

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
)

// metrics are the counts of an entity that questions name.
var metrics = []struct {
	name string
	of   func(*count) int
}{
	{"messages", func(c *count) int { return c.messages() }},
	{"active", func(c *count) int { return c.Active }},
	{"dead", func(c *count) int { return c.DeadLetter }},
	{"scheduled", func(c *count) int { return c.Scheduled }},
	{"transfer", func(c *count) int { return c.Transfer }},
	{"transferdead", func(c *count) int { return c.TransferDeadLetter }},
	{"locked", func(c *count) int { return c.Locked }},
	{"deferred", func(c *count) int { return c.Deferred }},
	{"size", func(c *count) int { return int(c.Bytes) }},
}

// term is one comparison of a condition.
type term struct {
	path    string
	of      *life
	metric  func(*count) int
	compare string
	limit   int
}

var (
	termText = regexp.MustCompile(`^([^\s<>=!]+)\.([A-Za-z]+)\s*(<=|>=|!=|<>|=|<|>)\s*(\d{1,15})$`)
	and      = regexp.MustCompile(`(?i)\s+and\s+`)
)

// parseTerms reads a condition: orders.active > 1000 AND orders.locked = 0.
func parseTerms(text string) (terms []term, err error) {
	for _, part := range and.Split(strings.TrimSpace(text), -1) {
		m := termText.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, fmt.Errorf("%w: %q is no condition: orders.active > 1000 AND orders.locked = 0", ErrQuestion, part)
		}
		t := term{path: m[1], compare: m[3]}
		for _, k := range metrics {
			if strings.EqualFold(k.name, m[2]) {
				t.metric = k.of
			}
		}
		if t.metric == nil {
			var list []string
			for _, k := range metrics {
				list = append(list, k.name)
			}
			return nil, fmt.Errorf("%w: there is no count %q: %s", ErrQuestion, m[2], strings.Join(list, ", "))
		}
		t.limit, _ = strconv.Atoi(m[4]) // 15 digits
		terms = append(terms, t)
	}
	return terms, nil
}

func (t *term) holds(n int) bool {
	switch t.compare {
	case "<":
		return n < t.limit
	case "<=":
		return n <= t.limit
	case ">":
		return n > t.limit
	case ">=":
		return n >= t.limit
	case "=":
		return n == t.limit
	}
	return n != t.limit
}

// around is how many events are shown before and behind what made a condition true.
const around = 5

// When tells the first event that made a condition true, and those around it.
func (l *Ledger) When(ctx context.Context, condition string, since *Instant) error {
	terms, err := parseTerms(condition)
	if err != nil {
		return err
	}
	n, err := l.catalogue(ctx)
	if err != nil {
		return err
	}
	w := watching{l: l, terms: terms, t: &then{n: n, logs: make(map[log.PartitionID]*replay.State)}}
	from, start := Instant{}, era{}
	if since != nil {
		at, eras, err := l.eras(ctx, *since)
		if err != nil {
			return err
		}
		from, start = Instant{At: at, Place: since.Place}, eras[0]
	}
	var ids []log.PartitionID
	for i := range terms {
		if terms[i].of, err = n.find(terms[i].path); err != nil {
			return err
		}
		ids = append(ids, n.logs(terms[i].of)...)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		b, err := l.book(ctx, id)
		if err != nil {
			return err
		}
		s := replay.Begin(b)
		if since != nil {
			if s, err = l.state(ctx, b, from, from.At, start); err != nil {
				return err
			}
		}
		w.t.logs[id] = s
	}
	return w.run(ctx, condition)
}

// watching replays logs together, and looks at a condition.
type watching struct {
	l     *Ledger
	terms []term
	t     *then
	last  []Line // newest events
}

type replayed struct {
	book  *book
	state *replay.State
	rec   *replay.Record
	next  func() (*replay.Record, error, bool)
}

func (w *watching) run(ctx context.Context, condition string) error {
	var heads []*replayed
	for id, s := range w.t.logs {
		next, stop := iter.Pull2(s.Records(ctx))
		defer stop()
		heads = append(heads, &replayed{book: w.l.books[id], state: s, next: next})
	}
	slices.SortFunc(heads, func(a, b *replayed) int { return int(a.book.ID()) - int(b.book.ID()) })
	for i := 0; i < len(heads); {
		more, err := heads[i].advance()
		if err != nil {
			return err
		}
		if i++; !more {
			heads = slices.Delete(heads, i-1, i)
			i--
		}
	}
	was := w.holds() // before anything is seen
	if was {
		return w.l.answer(print.Object{print.Named("Condition", condition), print.Named("Found", true)}, "it is so from the beginning: %s", condition)
	}
	rest := -1 // events still to be shown behind it
	for len(heads) > 0 {
		h := slices.MinFunc(heads, func(a, b *replayed) int { return int(min(1, max(-1, a.rec.At-b.rec.At))) })
		before := was
		if err := h.state.Apply(h.rec); err != nil {
			return err
		}
		was = w.holds()
		done, err := w.look(ctx, h, !before && was && rest < 0, &rest, condition)
		if err != nil || done {
			return err
		}
		more, err := h.advance()
		if err != nil {
			return err
		}
		if !more {
			heads = slices.DeleteFunc(heads, func(x *replayed) bool { return x == h })
		}
	}
	if rest < 0 {
		return w.l.answer(print.Object{print.Named("Condition", condition), print.Named("Found", false)}, "never: %s", condition)
	}
	return nil
}

func (h *replayed) advance() (bool, error) {
	rec, err, more := h.next()
	h.rec = rec
	return more, err
}

func (w *watching) holds() bool {
	for i := range w.terms {
		t := &w.terms[i]
		c := w.t.count(t.of)
		if !t.holds(t.metric(&c)) {
			return false
		}
	}
	return true
}

// look shows a record if it is around what is looked for.
func (w *watching) look(ctx context.Context, h *replayed, now bool, rest *int, condition string) (done bool, err error) {
	for i := range h.rec.Events {
		h.book.see(h.rec.Events[i])
		x := happening{h.book, h.rec, i}
		if !w.about(&x) {
			continue
		}
		line, err := w.l.row(ctx, &x)
		if err != nil {
			return false, err
		}
		if *rest > 0 {
			*rest--
			if err := w.l.tell(line); err != nil {
				return false, err
			}
			continue
		}
		if *rest < 0 {
			w.last = append(w.last, line)
			if len(w.last) > 2*around {
				w.last = slices.Delete(w.last, 0, 1)
			}
		}
	}
	if now {
		place := address.At(h.book.ID(), h.rec.LSN)
		if err := w.l.answer(print.Object{print.Named("Condition", condition), print.Named("Found", true), print.Named("Time", h.rec.At.String()), print.Named("Place", place.String())},
			"first at %s, %s", h.rec.At, place); err != nil {
			return false, err
		}
		for _, line := range w.last {
			if err := w.l.tell(line); err != nil {
				return false, err
			}
		}
		*rest = around
	}
	if *rest == 0 {
		return true, nil
	}
	return false, nil
}

// about tells whether an event is one of the entities that the condition names.
func (w *watching) about(h *happening) bool {
	for i := range w.terms {
		of, id := w.terms[i].of, h.event().Common().Slice.Entity
		if of.id == id || of.topic != 0 && of.topic == id {
			return true
		}
	}
	return false
}
