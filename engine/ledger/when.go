package ledger

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
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

// longNames are the names that lists of entities have for some of the metrics, in lower case.
var longNames = map[string]string{"deadletter": "dead", "transferdeadletter": "transferdead", "sizebytes": "size"}

// ofSubQueue are the counts that a sub-queue has.
var ofSubQueue = []string{"messages", "locked", "deferred"}

// Comparison is a term of a condition on counts, such as orders.active > 1000.
type Comparison struct {
	Path string // of the entity
	// the only sub-queue whose messages are counted; Main: all of the entity's
	Queue   event.SubQueue
	Count   string // name of the count, in lower case
	Compare string // <, <=, >, >=, =, != or <>
	Limit   int
}

// String returns the comparison as it is written.
func (c *Comparison) String() string {
	return fmt.Sprintf("%s.%s %s %d", address.Address{Entity: c.Path, SubQueue: c.Queue}, c.Count, c.Compare, c.Limit)
}

// term is one comparison of a condition.
type term struct {
	Comparison
	of     []*life // lives that have had the path
	metric func(*count) int
	sums   []sum // what is counted
}

// sum is a slice of an entity whose count is taken in the state of its log.
type sum struct {
	life  *life
	of    *index.Index
	slice event.Slice
}

var (
	termText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([^\s<>=!]+)\.([A-Za-z]+)\s*(<=|>=|!=|<>|=|<|>)\s*(\d{1,15})$`)
	})
	and = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\s+and\s+`) })
)

// ParseComparisons parses a condition, such as orders.active > 1000 AND orders.locked = 0. An error
// wraps [ErrQuestion].
func ParseComparisons(text string) (list []Comparison, err error) {
	terms, err := parseTerms(text)
	for i := range terms {
		list = append(list, terms[i].Comparison)
	}
	return list, err
}

// parseTerms parses a condition.
func parseTerms(text string) (terms []term, err error) {
	for _, part := range and().Split(strings.TrimSpace(text), -1) {
		m := termText().FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, fmt.Errorf("%w: %q is not a condition: write one such as orders.active > 1000 AND orders.locked = 0", ErrQuestion, part)
		}
		t := term{Comparison: Comparison{Count: strings.ToLower(m[2]), Compare: m[3]}}
		if t.Path, t.Queue, err = place(m[1]); err != nil {
			return nil, err
		}
		if name, ok := longNames[t.Count]; ok {
			t.Count = name
		}
		for _, k := range metrics {
			if k.name == t.Count {
				t.metric = k.of
			}
		}
		if t.metric == nil {
			var list []string
			for _, k := range metrics {
				list = append(list, k.name)
			}
			return nil, fmt.Errorf("%w: unknown count %q; the counts are %s", ErrQuestion, m[2], strings.Join(list, ", "))
		}
		if t.Queue != event.Main && !slices.Contains(ofSubQueue, t.Count) {
			return nil, fmt.Errorf("%w: %s has no count %s; a sub-queue has %s", ErrQuestion, m[1], t.Count, strings.Join(ofSubQueue, ", "))
		}
		t.Limit, _ = strconv.Atoi(m[4]) // 15 digits
		terms = append(terms, t)
	}
	return terms, nil
}

// find finds the entities that the term is about.
func (t *term) find(n *names) (err error) {
	t.of, err = n.livesWith(t.Path, t.Queue)
	return err
}

// IsMet reports whether a count satisfies the comparison.
func (c *Comparison) IsMet(n int) bool {
	switch c.Compare {
	case "<":
		return n < c.Limit
	case "<=":
		return n <= c.Limit
	case ">":
		return n > c.Limit
	case ">=":
		return n >= c.Limit
	case "=":
		return n == c.Limit
	}
	return n != c.Limit
}

// around is the number of events shown before and after the one that made a condition true.
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
	w := watcher{l: l, condition: condition, terms: terms, t: &pastState{n: n, logs: make(map[log.PartitionID]*replay.State)}, parts: make(map[log.PartitionID]*narrow)}
	from, start := Instant{}, era{}
	if since != nil {
		at, eras, err := l.eras(ctx, *since)
		if err != nil {
			return err
		}
		from, start = Instant{At: at, Place: since.Place}, eras[0]
		w.instant, w.at, w.era = from, at, start.number
	}
	var ids []log.PartitionID
	var books []*book
	for i := range terms {
		if err := terms[i].find(n); err != nil {
			return err
		}
		w.of = append(w.of, terms[i].of...)
		ids = append(ids, n.logs(terms[i].of...)...)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		b, err := l.book(ctx, id)
		if err != nil {
			return err
		}
		books = append(books, b)
	}
	if begins, removed := latest(books...); removed && since == nil {
		w.since = begins.at
		// only from here on do all the logs know the state
		since, from, start = &from, Instant{At: begins.at}, era{number: begins.clock.Number}
		w.instant, w.at, w.era = from, from.At, start.number
	}
	for _, b := range books {
		id := b.ID()
		s := replay.Begin(b)
		if since != nil {
			if s, err = l.state(ctx, b, from, from.At, start, w.of...); err != nil {
				return err
			}
		}
		w.t.logs[id] = s
		w.parts[id] = n.narrow(id, w.of...)
		for i := range terms {
			for _, e := range terms[i].of {
				for _, slice := range n.slices(e, id) {
					terms[i].sums = append(terms[i].sums, sum{e, s.Index, slice})
				}
			}
		}
	}
	return w.run(ctx)
}

// watcher replays logs together, and checks a condition.
type watcher struct {
	l         *Ledger
	condition string
	terms     []term
	// when history begins; 0: nothing was removed, or the question says since when
	since   event.Time
	t       *pastState
	parts   map[log.PartitionID]*narrow
	of      []*life
	instant Instant         // up to which the logs have been passed
	at      event.Time      // of the instant
	era     uint64          // its number
	place   address.Address // of the instant
	was     bool
	last    []spot // newest events about entities of the condition
	rest    int    // events still to be shown after the one found; -1: none was found
	look    progress
}

// spot is the place of an event.
type spot struct {
	book   *book
	lsn    event.LSN
	number int // of the record in its frame
	i      int // of the event in the record
}

type replayedLog struct {
	tick  // of rec
	book  *book
	state *replay.State
	part  *narrow
	rec   *replay.Record
	next  func() (*replay.Record, error, bool)
}

func (w *watcher) run(ctx context.Context) error {
	var heads []*replayedLog
	for id, s := range w.t.logs {
		heads = append(heads, &replayedLog{book: w.l.books[id], state: s, part: w.parts[id]})
	}
	slices.SortFunc(heads, func(a, b *replayedLog) int { return int(a.book.ID()) - int(b.book.ID()) })
	w.rest, w.was = -1, w.isMet()
	if w.was { // before any event is passed
		text := "true from the beginning: " + w.condition
		if w.since != 0 {
			text = fmt.Sprintf("already true when history begins, at %s: %s", w.since, w.condition)
		}
		if err := w.answer(true, text); err != nil {
			return err
		}
		return horizonsOf(ctx, w.l, w.of...)
	}
	done := false
	var err error
	if len(heads) == 1 {
		h := heads[0]
		for rec, e := range h.part.records(ctx, h.state) {
			if err = e; err != nil {
				break
			}
			h.rec = rec
			if done, err = w.pass(ctx, h); done || err != nil {
				break
			}
		}
	} else {
		done, err = w.together(ctx, heads)
	}
	if err == nil && !done && w.rest < 0 {
		if err := horizonsOf(ctx, w.l, w.of...); err != nil {
			return err
		}
		text := "never: " + w.condition
		if w.since != 0 {
			text = fmt.Sprintf("never since %s: %s", w.since, w.condition)
		}
		err = w.answer(false, text)
	}
	return err
}

// answer reports whether the condition came true, and since when that is known.
func (w *watcher) answer(found bool, text string, more ...print.Field) error {
	fields := append(print.Object{print.Named("Condition", w.condition), print.Named("Found", found)}, more...)
	if w.since != 0 {
		fields = append(fields, print.Named("KnownSince", w.since.String()))
	}
	return w.l.answer(fields, "%s", text)
}

// together passes through the records of several logs, in the order of their ticks.
func (w *watcher) together(ctx context.Context, heads []*replayedLog) (done bool, err error) {
	var live []*replayedLog
	for _, h := range heads {
		if err := w.l.names.lookUpClocks(ctx, h.book); err != nil {
			return false, err
		}
		next, stop := iter.Pull2(h.part.records(ctx, h.state))
		defer stop()
		h.next = next
		more, err := h.advance()
		if err != nil {
			return false, err
		}
		if more {
			live = append(live, h)
		}
	}
	for len(live) > 0 {
		h := slices.MinFunc(live, func(a, b *replayedLog) int { return a.compare(b.tick) })
		if done, err := w.pass(ctx, h); done || err != nil {
			return done, err
		}
		more, err := h.advance()
		if err != nil {
			return false, err
		}
		if !more {
			live = slices.DeleteFunc(live, func(x *replayedLog) bool { return x == h })
		}
	}
	return false, nil
}

func (h *replayedLog) advance() (bool, error) {
	rec, err, more := h.next()
	if h.rec = rec; err == nil && more {
		h.tick = h.book.tick(rec.LSN, rec.At)
	}
	return more, err
}

// pass applies a record, and checks whether the condition has come true with it.
func (w *watcher) pass(ctx context.Context, h *replayedLog) (done bool, err error) {
	concerned := false
	for i, ev := range h.rec.Events {
		h.book.see(ev)
		if !w.about(ev) {
			continue
		}
		concerned = true
		if w.rest < 0 {
			if len(w.last) == 2*around {
				w.last = append(w.last[:0], w.last[1:]...)
			}
			w.last = append(w.last, spot{h.book, h.rec.LSN, h.rec.Number, i})
			continue
		}
		line, err := w.l.row(ctx, &eventAt{h.book, h.rec, i})
		if err == nil {
			err = w.l.tell(line)
		}
		if w.rest--; err != nil || w.rest == 0 {
			return true, err
		}
	}
	if err := h.part.apply(h.state, h.rec); err != nil {
		return false, err
	}
	if w.rest < 0 {
		if err := w.l.tellProgress(&w.look, len(h.rec.Events), h.rec.At, "not yet true"); err != nil {
			return false, err
		}
	}
	if !concerned || w.rest >= 0 {
		return false, nil
	}
	w.before(h)
	before := w.was
	if w.was = w.isMet(); before || !w.was {
		return false, nil
	}
	w.rest = around
	return false, w.tellFound(ctx, h)
}

// tellFound tells the event that made the condition true, and those before it.
func (w *watcher) tellFound(ctx context.Context, h *replayedLog) error {
	place := address.At(h.book.ID(), h.rec.LSN)
	text := fmt.Sprintf("first at %s, %s", h.rec.At, place)
	if w.since != 0 {
		text += fmt.Sprintf("; history begins at %s", w.since)
	}
	if err := w.answer(true, text, print.Named("Time", h.rec.At.String()), print.Named("Place", place.String())); err != nil {
		return err
	}
	for _, s := range w.last {
		if err := w.l.tellSpot(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// tellSpot reads an event that was passed again, and tells it.
func (l *Ledger) tellSpot(ctx context.Context, s spot) error {
	return s.reread(ctx, func(rec *replay.Record) error {
		line, err := l.row(ctx, &eventAt{s.book, rec, s.i})
		if err != nil {
			return err
		}
		return l.tell(line)
	})
}

// reread reads the record of an event that was passed again.
func (s spot) reread(ctx context.Context, do func(*replay.Record) error) error {
	for rec, err := range replay.Records(ctx, s.book, s.lsn) {
		if err != nil {
			return err
		}
		if rec.LSN == s.lsn && rec.Number < s.number {
			continue
		}
		if rec.LSN != s.lsn {
			return fmt.Errorf("%w: the event at %s was removed", log.ErrGone, address.At(s.book.ID(), s.lsn))
		}
		return do(rec)
	}
	return nil
}

// before notes the instant just before the frame of a record: an entity is counted up to the frame
// that deletes it.
func (w *watcher) before(h *replayedLog) {
	w.place = address.At(h.book.ID(), h.rec.LSN-1)
	w.instant.Place, w.at, w.era = &w.place, h.rec.At, h.state.Index.Clock().Number
}

func (w *watcher) isMet() bool {
	for i := range w.terms {
		t := &w.terms[i]
		c, is := count{}, t.of[0]
		if len(t.of) > 1 { // the log of a deleted one may forget it later
			is = w.l.names.at(t.Path, w.instant, w.at, w.era)
		}
		for _, s := range t.sums {
			if s.life == is {
				add(&c, s.of, s.slice, t.Queue)
			}
		}
		if !t.IsMet(t.metric(&c)) {
			return false
		}
	}
	return true
}

// about reports whether an event is about one of the entities that the condition names.
func (w *watcher) about(ev event.Event) bool {
	id := ev.Common().Slice.Entity
	for i := range w.terms {
		for _, of := range w.terms[i].of {
			if of.id == id || of.topic != 0 && of.topic == id {
				return true
			}
		}
	}
	return false
}
