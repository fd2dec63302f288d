package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Columns of the rows of [Ledger.Diff].
var (
	DiffColumns        = []string{"Entity", "Count", "Before", "After"}
	MessageDiffColumns = []string{"Message", "Change", "Before", "After"}
)

// flow counts what happened to messages of an entity between two instants.
type flow struct{ arrived, completed, dead, expired, purged, moved, lost, refused int }

// Diff tells how two instants differ: the counts, the messages that came and left between them, and
// who changed what; with messages also every message that differs. For a sub-queue, as in
// orders/$dlq, it covers the sub-queue alone. An instant that occurred twice, because a clock was
// set back, is answered for each time.
func (l *Ledger) Diff(ctx context.Context, from, to Instant, path string, messages bool) error {
	entity, queue, err := place(path)
	if err != nil {
		return err
	}
	start, froms, err := l.eras(ctx, from)
	if err != nil {
		return err
	}
	end, tos, err := l.eras(ctx, to)
	if err != nil {
		return err
	}
	if err := l.twice(start, froms); err != nil {
		return err
	}
	if err := l.twice(end, tos); err != nil {
		return err
	}
	var of []*life
	if entity != "" {
		if of, err = l.names.livesWith(entity, queue); err != nil {
			return err
		}
	}
	told := false
	for _, a := range froms {
		for _, b := range tos {
			if !a.before(start, b, end) {
				continue
			}
			told = true
			before, err := l.one(ctx, from, start, a, len(froms) > 1, entity, queue)
			if err != nil {
				return err
			}
			after, err := l.one(ctx, to, end, b, len(tos) > 1, entity, queue)
			if err != nil {
				return err
			}
			c := comparison{l, before, after, entity, path}
			if err := c.tell(ctx, messages); err != nil {
				return err
			}
		}
	}
	if !told {
		return fmt.Errorf("%w: %s is after %s", ErrQuestion, from, to)
	}
	return horizonsOf(ctx, l, of...)
}

// comparison compares two states of the namespace, or of an entity or sub-queue.
type comparison struct {
	l             *Ledger
	before, after *pastState
	entity        string // its path; "": all entities
	path          string // of the entity or sub-queue
}

// tell tells how the states differ.
func (c *comparison) tell(ctx context.Context, messages bool) error {
	before, after := c.before, c.after
	fields := print.Object{print.Named("From", before.at.String()), print.Named("To", after.at.String())}
	if before.named != "" {
		fields = append(fields, print.Named("FromPlace", before.named))
	}
	if after.named != "" {
		fields = append(fields, print.Named("ToPlace", after.named))
	}
	if err := c.l.answer(fields, "from %s to %s", before.when(), after.when()); err != nil {
		return err
	}
	flows, err := c.flows(ctx)
	if err != nil {
		return err
	}
	was, is := byPath(before.living), byPath(after.living)
	for _, path := range c.paths(flows) {
		if messages {
			err = c.tellMessages(path, was[path], is[path])
		} else {
			err = c.tellCounts(path, was[path], is[path], flows[path])
		}
		if err != nil {
			return err
		}
	}
	return c.acts(ctx)
}

// byPath returns the entities of one instant by folded path: no two have the same.
func byPath(list []*life) map[string]*life {
	m := make(map[string]*life, len(list))
	for _, e := range list {
		m[fold(e.path)] = e
	}
	return m
}

// paths returns the folded paths of the entities that existed after the changes, before them, or
// only in between.
func (c *comparison) paths(flows map[string]*flow) (list []string) {
	seen := make(map[string]bool)
	add := func(path string) {
		if !seen[path] && c.l.names.byPath[path] != nil && (c.entity == "" || fold(c.entity) == path) {
			seen[path], list = true, append(list, path)
		}
	}
	for _, e := range append(slices.Clone(c.after.living), c.before.living...) {
		add(fold(e.path))
	}
	for _, path := range slices.Sorted(maps.Keys(flows)) {
		add(path)
	}
	return list
}

// one returns the state at an instant in an era, of the entity that had a path then, if there was
// one. named adds its place if the time alone does not identify the instant.
func (l *Ledger) one(ctx context.Context, i Instant, at event.Time, e era, named bool, path string, queue event.SubQueue) (*pastState, error) {
	var of []*life
	if path != "" {
		one, err := l.entity(path, i, at, e)
		switch {
		case err == nil:
			of = []*life{one}
		case errors.Is(err, ErrNothing):
			of = []*life{}
		default:
			return nil, err
		}
	}
	t, err := l.replayPast(ctx, i, at, e, of, queue)
	if err == nil && named {
		err = t.address(ctx, l)
	}
	return t, err
}

// between selects the events that may lie between the states.
func (c *comparison) between(ctx context.Context) (*Selection, error) {
	s, err := c.l.Select(ctx, Range{Entity: c.path})
	if err != nil {
		return nil, err
	}
	if len(c.l.names.clocks) == 1 {
		s.search.From, s.search.Until = c.before.at, c.after.at
	}
	return s, c.l.names.lookUpClocks(ctx, s.books...)
}

// has reports whether a record lies between the states.
func (c *comparison) has(b *book, rec *replay.Record) bool {
	return !c.before.covers(b, rec) && c.after.covers(b, rec)
}

// flows counts what happened between the states, by folded path.
func (c *comparison) flows(ctx context.Context) (map[string]*flow, error) {
	all := make(map[string]*flow)
	s, err := c.between(ctx)
	if err != nil {
		return nil, err
	}
	var look progress
	get := func(id event.EntityID) *flow {
		path := fold(c.l.names.path(id))
		if all[path] == nil {
			all[path] = &flow{}
		}
		return all[path]
	}
	for _, b := range s.books {
		for h, err := range s.oneLog(ctx, b) {
			if err == nil {
				err = c.l.tellProgress(&look, 1, h.rec.At, "what happened")
			}
			if err != nil {
				return nil, err
			}
			if !c.has(b, h.rec) || s.queue != event.Main && !s.touched[b.ID()][h.i] {
				continue
			}
			ev := h.event()
			flowed(get(ev.Common().Slice.Entity), ev, get)
		}
	}
	return all, nil
}

func flowed(f *flow, ev event.Event, get func(event.EntityID) *flow) {
	switch ev := ev.(type) {
	case *event.MessageEnqueued, *event.MessageScheduled, *event.MessageHandedOver:
		f.arrived++
	case *event.MessagePublished:
		for i := range ev.Copies {
			get(ev.Copies[i].Subscription).copied(&ev.Copies[i])
		}
	case *event.ScheduledPublished:
		for i := range ev.Copies {
			get(ev.Copies[i].Subscription).copied(&ev.Copies[i])
		}
	case *event.MessageCompleted, *event.MessageReceivedAndDeleted:
		f.completed++
	case *event.MessageDeadLettered, *event.TransferFailed:
		f.dead++
	case *event.MessageExpired:
		f.expired++
	case *event.MessagesBatchDeleted:
		f.purged += len(ev.Sequences)
	case *event.ScheduleCancelled:
		f.purged++
	case *event.TransfersFinished:
		f.moved += len(ev.Numbers)
	case *event.LockExpired:
		f.lost++
	case *event.SettlementRefused:
		f.refused++
	}
}

func (f *flow) copied(c *event.Copy) {
	f.arrived++
	if c.Cause != 0 {
		f.dead++
	}
}

// tellCounts tells how the counts of a path differ. was is the entity that had the path before, is
// the one that has it after; nil: none.
func (c *comparison) tellCounts(path string, was, is *life, f *flow) error {
	l, before, after := c.l, c.before, c.after
	a, b, name := before.count(was), after.count(is), c.name(path)
	var texts []string
	rows := []Line{}
	for _, m := range metrics {
		x, y := m.of(&a), m.of(&b)
		if x == y || after.queue != event.Main && !slices.Contains(ofSubQueue, m.name) {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %s → %s", m.name, grouped(x), grouped(y)))
		rows = append(rows, Line{Part: Row, Text: fmt.Sprintf("%s  %s %s → %s", name, m.name, grouped(x), grouped(y)),
			Fields: print.Object{print.Named("Entity", name), print.Named("Count", m.name), print.Named("Before", x), print.Named("After", y)}})
	}
	if f == nil {
		f = &flow{}
	}
	if len(texts) == 0 && *f == (flow{}) {
		return nil
	}
	if len(texts) == 0 {
		texts = []string{"counts unchanged"}
	}
	fields := print.Object{print.Named("Entity", name), print.Named("Arrived", f.arrived), print.Named("Completed", f.completed), print.Named("DeadLettered", f.dead),
		print.Named("Expired", f.expired), print.Named("Purged", f.purged), print.Named("Moved", f.moved), print.Named("LocksLost", f.lost), print.Named("Refused", f.refused)}
	if err := l.answer(fields, "%s: %s", name, strings.Join(texts, " · ")); err != nil {
		return err
	}
	for _, r := range rows {
		if err := l.tell(r); err != nil {
			return err
		}
	}
	words := []string{}
	for _, w := range []struct {
		n    int
		word string
	}{{f.arrived, "arrived"}, {f.completed, "completed"}, {f.dead, "dead-lettered"}, {f.expired, "expired"}, {f.purged, "purged or cancelled"}, {f.moved, "moved on"}, {f.lost, "locks lost"}, {f.refused, "settlements refused"}} {
		if w.n > 0 {
			words = append(words, grouped(w.n)+" "+w.word)
		}
	}
	if len(words) == 0 {
		return nil
	}
	return l.note("%s between: %s", name, strings.Join(words, " · "))
}

// name returns how the newest entity of a folded path spells it, with the sub-queue of the
// question.
func (c *comparison) name(path string) string {
	lives := c.l.names.byPath[path]
	return c.after.name(lives[len(lives)-1].path)
}

// tellMessages tells which messages of a path came, left and changed. was and is are as in
// tellCounts.
func (c *comparison) tellMessages(path string, was, is *life) error {
	l, before, after := c.l, c.before, c.after
	stood := make(map[node]string)
	_ = before.each(was, func(s event.Slice, m *index.Message) error {
		stood[node{s, m.Sequence}] = stateInWords(m)
		return nil
	})
	row := func(x node, change, a, b string) error {
		name := l.names.message(x.slice, x.number)
		return l.tell(Line{Part: Row, Text: fmt.Sprintf("%-24s %-8s %s → %s", name, change, a, b),
			Fields: print.Object{print.Named("Message", name), print.Named("Change", change), print.Named("Before", a), print.Named("After", b)}})
	}
	var stuck int
	err := after.each(is, func(s event.Slice, m *index.Message) error {
		x := node{s, m.Sequence}
		a, b := stood[x], stateInWords(m)
		delete(stood, x)
		switch a {
		case "":
			return row(x, "arrived", "-", b)
		case b:
			stuck++
			return nil
		}
		return row(x, "changed", a, b)
	})
	if err != nil {
		return err
	}
	err = before.each(was, func(s event.Slice, m *index.Message) error {
		if a, ok := stood[node{s, m.Sequence}]; ok {
			return row(node{s, m.Sequence}, "gone", a, "-")
		}
		return nil
	})
	if err == nil && stuck > 0 {
		err = l.note("%s: %s in the same state at both instants", c.name(path), plural(stuck, "message"))
	}
	return err
}

// stateInWords returns the state of a message, in the words by which two instants are compared.
func stateInWords(m *index.Message) string {
	return fmt.Sprintf("%s %s, %s", m.SubQueue, m.State, plural(int(m.DeliveryCount), "failed attempt"))
}

// acts tells the acts of people between the states.
func (c *comparison) acts(ctx context.Context) error {
	l := c.l
	s, err := c.between(ctx)
	if err != nil {
		return err
	}
	s.search.Kinds = acts
	for h, err := range s.merged(ctx) {
		if err != nil {
			return err
		}
		if !c.has(h.book, h.rec) || !s.wants(h.book.ID(), h.rec, h.i) {
			continue
		}
		line, err := l.row(ctx, &h)
		if err == nil {
			err = l.tell(Line{Part: Note, Text: "act: " + line.Text, Fields: append(print.Object{print.Named("Text", line.Text)}, line.Fields...)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
