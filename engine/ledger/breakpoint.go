package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// breakpoint is a condition at which a debugger stops. It is about the columns of an event, in the
// language of rules, or about counts of entities, as in [Ledger.When]. For counts the debugger
// stops after the event that made the condition true.
type breakpoint struct {
	number int
	text   string
	where  *where // nil: it is about counts
	terms  []term
	was    bool // the counts met it before the event
}

// mostBreaks is the most breakpoints that may exist.
const mostBreaks = 64

// newBreak parses a condition: type = 'dead', or when orders.active > 1000.
func (d *Debugger) newBreak(text string) (*breakpoint, error) {
	if len(d.breaks) == mostBreaks {
		return nil, fmt.Errorf("%w: there are already %d breakpoints, the maximum", ErrQuestion, mostBreaks)
	}
	b := &breakpoint{text: text}
	var err error
	if counts, ok := strings.CutPrefix(text, "when "); ok {
		if b.terms, err = parseTerms(counts); err != nil {
			return nil, err
		}
		for i := range b.terms {
			if err := b.terms[i].find(d.l.names); err != nil {
				return nil, err
			}
		}
	} else if b.where, err = newWhere("break", text); err != nil {
		return nil, err
	}
	d.given++
	b.number = d.given
	return b, nil
}

// isMet reports whether the counts in the states of all logs meet the condition.
func (b *breakpoint) isMet(n *names, logs []*walkedLog) bool {
	for i := range b.terms {
		t := &b.terms[i]
		c := count{}
		e, _ := logs[catalogue].state.Index.Catalogue.Find(t.Path)
		if of := n.byID[e.ID]; of != nil {
			for _, g := range logs {
				for _, slice := range n.slices(of, g.book.ID()) {
					add(&c, g.state.Index, slice, t.Queue)
				}
			}
		}
		if !t.IsMet(t.metric(&c)) {
			return false
		}
	}
	return true
}

// arm notes which breakpoints on counts are met before the next event.
func (d *stepper) arm() {
	for _, b := range d.breaks {
		if b.where == nil {
			b.was = b.isMet(d.l.names, d.w.logs)
		}
	}
}

// passUntilStop passes the next event, and reports whether the debugger stops after it.
func (d *stepper) passUntilStop(ctx context.Context) (stop bool, err error) {
	g, err := d.w.due()
	if err != nil {
		return false, err
	}
	if g == nil {
		return false, errEnd
	}
	for _, b := range d.breaks {
		if b.where == nil || stop {
			continue
		}
		line, err := d.l.row(ctx, &eventAt{g.book, g.rec, g.state.Inside()})
		if err != nil {
			return false, err
		}
		if stop, err = b.where.matches(line.Fields); err != nil {
			return false, err
		}
	}
	at := g.rec.At
	if err := d.step(ctx, false); err != nil {
		return false, err
	}
	if err := d.l.tellProgress(&d.look, 1, at, "looking for a breakpoint"); err != nil {
		return false, err
	}
	for _, b := range d.breaks {
		if b.where != nil {
			continue
		}
		is := b.isMet(d.l.names, d.w.logs)
		stop = stop || is && !b.was
		b.was = is
	}
	return stop, nil
}

// ahead moves on to the next breakpoint. errEnd: there is none, and the debugger is at the end.
func (d *stepper) ahead(ctx context.Context) error {
	if d.head != d.at { // the walker is ahead of it
		if err := d.from(ctx, d.before(d.at), d.at); err != nil {
			return err
		}
	}
	d.release()
	d.arm()
	for {
		stop, err := d.passUntilStop(ctx)
		if stop || errors.Is(err, errEnd) {
			d.ground()
			d.at = d.head
			return errors.Join(d.again(ctx), err)
		}
		if err != nil {
			d.ground()
			d.at = d.head
			return err
		}
	}
}

// from loads a mark and moves on to a position, without a trail.
func (d *stepper) from(ctx context.Context, number int, to int64) error {
	if err := d.load(ctx, d.list[number]); err != nil {
		return err
	}
	d.release()
	for d.head < to {
		if err := d.step(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// behind moves back to the previous breakpoint. errBeginning: there is none, and the debugger is at
// the beginning.
func (d *stepper) behind(ctx context.Context) error {
	for end := d.at - 1; ; {
		i := d.before(end - 1)
		if i < 0 {
			if err := d.earlier(ctx); errors.Is(err, errBeginning) {
				return errors.Join(d.seek(ctx, d.list[0].at), errBeginning)
			} else if err != nil {
				return err
			}
			continue
		}
		begin := d.list[i].at
		if err := d.load(ctx, d.list[i]); err != nil {
			return err
		}
		d.release()
		d.arm()
		found := begin
		for d.head < end {
			stop, err := d.passUntilStop(ctx)
			if err != nil {
				return err
			}
			if stop {
				found = d.head
			}
		}
		d.ground()
		if found > begin {
			return d.seek(ctx, found)
		}
		end = begin
	}
}
