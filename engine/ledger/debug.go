package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Debugger steps through the events of a source, forwards and backwards, and shows the state
// between them (docs/decisions/0059). Its position is after an event, or before all of them. The
// log has events and no commands: the debugger shows the effect of an event, and runs no rule
// again. It belongs to one goroutine.
type Debugger struct {
	stepper
	now   func() time.Time // for instants such as -2h
	given int              // numbers assigned to breakpoints
}

// NewDebugger returns a debugger that is before the first event, or after all events up to an
// instant. now is the clock for instants that are not absolute.
func NewDebugger(ctx context.Context, l *Ledger, from *Instant, now func() time.Time) (*Debugger, error) {
	if _, err := l.catalogue(ctx); err != nil {
		return nil, err
	}
	d := &Debugger{now: now, stepper: stepper{l: l, limits: usualLimits}}
	for _, id := range l.src.Partitions() {
		b, err := l.book(ctx, id)
		if err != nil {
			return nil, err
		}
		d.books = append(d.books, b)
	}
	if from == nil {
		return d, d.begin(ctx, &mark{})
	}
	if err := d.leap(ctx, *from); err != nil && !errors.Is(err, errBeginning) {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close releases the logs.
func (d *Debugger) Close() { d.end() }

// debugCommand is a command of a [Debugger]. Its first name is the long one.
type debugCommand struct {
	names []string
	usage string
	what  string
	do    func(*Debugger, context.Context, string) error
}

// debugCommands returns all commands, in the order of the help.
func debugCommands() []debugCommand {
	return []debugCommand{
		{[]string{"next", "n"}, "next [N]", "one event forwards, or N", func(d *Debugger, ctx context.Context, s string) error { return d.move(ctx, s, 1) }},
		{[]string{"back", "b"}, "back [N]", "one event backwards, or N", func(d *Debugger, ctx context.Context, s string) error { return d.move(ctx, s, -1) }},
		{[]string{"continue", "c"}, "continue", "forwards to the next breakpoint, or the end", (*Debugger).goOn},
		{[]string{"reverse", "r"}, "reverse", "backwards to the breakpoint before, or the beginning", (*Debugger).goBack},
		{[]string{"go", "g"}, "go INSTANT", "after all events up to an instant, as in 03:12, -2h, @0/1839977, begin or end", (*Debugger).leapTo},
		{[]string{"break"}, "break CONDITION", "stop at events that match: type = 'dead' AND entity = 'orders', or when orders.active > 1000", (*Debugger).setBreak},
		{[]string{"breaks"}, "breaks", "list the breakpoints", (*Debugger).listBreaks},
		{[]string{"delete"}, "delete N", "remove a breakpoint", (*Debugger).deleteBreak},
		{[]string{"print", "p"}, "print [ENTITY | ENTITY#NUMBER]", "the state here: of all entities, of one with its messages, of a message", (*Debugger).show},
		{[]string{"list", "l"}, "list [N]", "the events around this one, N before and N after it", (*Debugger).around},
		{[]string{"where", "w"}, "where", "this event again, with what it changed", func(d *Debugger, ctx context.Context, _ string) error { return d.tellHere(ctx) }},
		{[]string{"help", "h", "?"}, "help", "this list", (*Debugger).help},
		{[]string{"quit", "q", "exit"}, "quit", "end", func(*Debugger, context.Context, string) error { return ErrQuit }},
	}
}

// ErrQuit means that the command was the one that ends the debugger.
var ErrQuit = errors.New("end")

// Do carries out a command, and tells its results. After an error that wraps [ErrQuestion] or
// [ErrNothing], which is about the command, the debugger stays at its position. It returns ErrQuit
// for the command that ends the debugger.
func (d *Debugger) Do(ctx context.Context, command string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
	if name == "" {
		return nil
	}
	for _, c := range debugCommands() {
		if slices.Contains(c.names, strings.ToLower(name)) {
			return c.do(d, ctx, strings.TrimSpace(rest))
		}
	}
	return fmt.Errorf("%w: unknown command %s; help lists the commands", ErrQuestion, quote(name))
}

func (d *Debugger) help(context.Context, string) error {
	for _, c := range debugCommands() {
		names := strings.Join(c.names[1:], ", ")
		if err := d.l.tell(Line{Part: Row, Text: fmt.Sprintf("  %-32s %-8s %s", c.usage, names, c.what), Fields: print.Object{
			print.Named("Command", c.usage), print.Named("Short", names), print.Named("Does", c.what)}}); err != nil {
			return err
		}
	}
	return d.l.note("events are shown with the state before and after them; the log has events and no commands, so no rule is run again")
}

// countOf parses the argument of a command that may have a number; without is the number of a
// command that has none.
func countOf(text string, without int64) (int64, error) {
	if text == "" {
		return without, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > 1<<40 {
		return 0, fmt.Errorf("%w: %s is not a number of events", ErrQuestion, quote(text))
	}
	return n, nil
}

// tellPosition tells the position of the debugger after a command that moved it.
func (d *Debugger) tellPosition(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errEnd):
		err = d.l.note("history ends here")
	case errors.Is(err, errBeginning):
		err = d.l.note("history begins here")
	}
	if err != nil {
		return err
	}
	return d.tellHere(ctx)
}

func (d *Debugger) move(ctx context.Context, text string, way int64) error {
	n, err := countOf(text, 1)
	if err != nil {
		return err
	}
	return d.tellPosition(ctx, d.seek(ctx, d.at+way*n))
}

func (d *Debugger) goOn(ctx context.Context, _ string) error {
	d.look = progress{}
	return d.tellPosition(ctx, d.ahead(ctx))
}

func (d *Debugger) goBack(ctx context.Context, _ string) error {
	d.look = progress{}
	return d.tellPosition(ctx, d.behind(ctx))
}

func (d *Debugger) leapTo(ctx context.Context, text string) error {
	var err error
	switch text {
	case "begin":
		err = d.begin(ctx, &mark{})
	case "end":
		clocks := d.l.names.clocks
		if err = d.begin(ctx, &mark{of: &outset{at: event.EndOfTime, in: clocks[len(clocks)-1]}}); err == nil {
			d.list[0].of.spots, err = d.w.spots()
		}
		if err == nil {
			err = d.again(ctx)
		}
	default:
		i, bad := ParseInstant(text, d.now())
		if bad != nil {
			return fmt.Errorf("%w: %w", ErrQuestion, bad)
		}
		err = d.leap(ctx, i)
	}
	return d.tellPosition(ctx, err)
}

func (d *Debugger) setBreak(_ context.Context, text string) error {
	if text == "" {
		return fmt.Errorf("%w: missing condition; usage: break type = 'dead', or break when orders.active > 1000", ErrQuestion)
	}
	b, err := d.newBreak(text)
	if err != nil {
		return err
	}
	d.breaks = append(d.breaks, b)
	return d.tellBreak(b)
}

func (d *Debugger) tellBreak(b *breakpoint) error {
	return d.l.tell(Line{Part: Row, Text: fmt.Sprintf("breakpoint %d: %s", b.number, word(b.text)), Fields: print.Object{
		print.Named("Breakpoint", uint64(b.number)), print.Named("Condition", print.Text([]byte(b.text)))}})
}

func (d *Debugger) listBreaks(context.Context, string) error {
	for _, b := range d.breaks {
		if err := d.tellBreak(b); err != nil {
			return err
		}
	}
	if len(d.breaks) == 0 {
		return d.l.note("there are no breakpoints")
	}
	return nil
}

func (d *Debugger) deleteBreak(_ context.Context, text string) error {
	for i, b := range d.breaks {
		if strconv.Itoa(b.number) == text {
			d.breaks = slices.Delete(d.breaks, i, i+1)
			return d.l.note("breakpoint %d is removed", b.number)
		}
	}
	return fmt.Errorf("%w: there is no breakpoint %s", ErrQuestion, quote(text))
}

// tellHere tells the event before the debugger's position, and what it changed.
func (d *Debugger) tellHere(ctx context.Context) error {
	p, ok := d.current()
	if !ok {
		return d.l.answer(print.Object{print.Named("Begin", true)}, "before the first event")
	}
	return p.reread(ctx, func(rec *replay.Record) error {
		line, err := d.l.row(ctx, &eventAt{p.book, rec, p.i})
		if err != nil {
			return err
		}
		if err := d.l.tell(line); err != nil {
			return err
		}
		return d.tellChanges(p, rec.Events[p.i])
	})
}

// around tells the events around the position, in the order in which they are passed.
func (d *Debugger) around(ctx context.Context, text string) error {
	n, err := countOf(text, around)
	if err != nil {
		return err
	}
	n = min(n, int64(d.limits.trail/2))
	at := d.at
	if err := d.seek(ctx, at-n-1); err != nil && !errors.Is(err, errBeginning) {
		return err
	}
	first := d.at
	for k := first + 1; k <= at+n; k++ {
		err := d.seek(ctx, k)
		if errors.Is(err, errEnd) {
			break
		}
		if err == nil {
			p, _ := d.current()
			err = d.l.tellSpot(ctx, p.spot)
		}
		if err != nil {
			return err
		}
	}
	return d.seek(ctx, at)
}

// show tells the state of something.
func (d *Debugger) show(_ context.Context, text string) error {
	if text == "" {
		for _, e := range d.livingEntities() {
			c := d.countAt(e, event.Main, d.at)
			if err := d.l.tellCount(e, c); err != nil {
				return err
			}
		}
		return nil
	}
	of, err := address.Parse(text)
	if err == nil && of.Place {
		err = fmt.Errorf("%[1]s is a place in a log; use go %[1]s", of)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	if _, err := d.l.names.lives(of.Entity); err != nil {
		return err
	}
	list := d.livingEntities()
	i := slices.IndexFunc(list, func(e *life) bool { return fold(e.path) == fold(of.Entity) })
	if i < 0 {
		return fmt.Errorf("%w of %s: no such entity exists at this event", ErrNothing, word(of.Entity))
	}
	e := list[i]
	if err := e.has(of.SubQueue); err != nil {
		return err
	}
	switch c := d.countAt(e, of.SubQueue, d.at); {
	case of.Number != 0:
	case of.SubQueue != event.Main:
		err = d.l.tell(queueLine(of.String(), &c))
	default:
		err = d.l.tellCount(e, c)
	}
	if err != nil {
		return err
	}
	return d.messages(e, of)
}

// livingEntities returns the entities that exist here, in order of path.
func (d *Debugger) livingEntities() (list []*life) {
	for _, e := range d.view(int(catalogue), d.at).Entities() {
		if of := d.l.names.byID[e.ID]; of != nil {
			list = append(list, of)
		}
	}
	slices.SortFunc(list, func(a, b *life) int { return cmp.Compare(a.path, b.path) })
	return list
}

// messages tells the messages of an entity, or one of them.
func (d *Debugger) messages(e *life, of address.Address) error {
	for i, b := range d.books {
		for _, slice := range d.l.names.slices(e, b.ID()) {
			v := d.view(i, d.at)
			if of.Number != 0 {
				if m, ok := v.Message(slice, of.Number); ok && of.Number.Partition() == slice.Partition {
					return d.l.tellMessage(slice, &m)
				}
				continue
			}
			for _, q := range []event.SubQueue{event.Main, event.DeadLetter, event.TransferDeadLetter} {
				if of.SubQueue != event.Main && of.SubQueue != q {
					continue
				}
				for m := range v.Browse(slice, q, 0) {
					if err := d.l.tellMessage(slice, &m); err != nil {
						return err
					}
				}
			}
		}
	}
	if of.Number != 0 {
		return fmt.Errorf("%w of %s at this event", ErrNothing, of)
	}
	return nil
}
