package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// WhyColumns are the columns of the rows of [Ledger.Why].
var WhyColumns = []string{"Group", "Messages", "Cause", "Reason", "First", "Last", "LocksLost", "GivenBack", "TooLate", "By", "Example", "Words", "FailedBefore", "KnownSince"}

const (
	maxGroups = 1000 // distinct causes; further ones form one group
	maxLost   = 1 << 16
	maxWho    = 5 // names of receivers of a group's messages
)

// cause is a group of dead letters that have the same cause.
type cause struct {
	words       string // of the cause, as shown
	kind        string
	reason      string
	count, gone int
	first, last tick
	lost, back  int
	tooLate     int
	renewed     bool          // one of the lost locks had been renewed
	held        time.Duration // length of the latest lost lock
	origins     []event.OriginID
	book        *book
	example     node
	unreceived  int // never locked
	// when the history begins that lacks part of some messages' events; zero: it has all
	before  tick
	failed  int // failed attempts from before that
	unasked int // messages that can have been received only before that
}

// tries holds the attempts before the death of a message that was received.
type tries struct {
	lost, back, tooLate uint32
	failed              uint32 // before the history
	origin              event.OriginID
	held                time.Duration
	renewed             bool // the newest lock
}

// Why tells why the messages of a dead-letter queue are in it, grouped by cause. For one message it
// tells the reason, and then its life.
func (l *Ledger) Why(ctx context.Context, of address.Address) error {
	if of.Number != 0 {
		return l.Story(ctx, of, "")
	}
	n, err := l.catalogue(ctx)
	if err != nil {
		return err
	}
	e, err := n.find(of.Entity)
	if err != nil {
		return err
	}
	w := autopsy{l: l, of: e, queue: of.SubQueue, groups: make(map[string]*cause)}
	if w.queue == event.Main {
		w.queue = event.DeadLetter
	}
	if err := l.names.lookUpClocks(ctx, l.books[catalogue]); err != nil {
		return err
	}
	for _, id := range n.logs(e) {
		b, err := l.book(ctx, id)
		if err == nil {
			err = l.names.lookUpClocks(ctx, b)
		}
		if err != nil {
			return err
		}
		if w.begin, err = b.beginning(ctx); err != nil {
			return err
		}
		for _, slice := range n.slices(e, id) {
			if err := w.read(ctx, b, slice); err != nil {
				return err
			}
		}
	}
	return w.tell(ctx)
}

// autopsy groups the dead letters of an entity.
type autopsy struct {
	l      *Ledger
	of     *life
	queue  event.SubQueue
	groups map[string]*cause
	key    []byte // of a group, built again for each dead letter
	look   progress
	begin  *baseState // of the log that is being read

	// of the slice that is being read:

	slice event.Slice
	// of messages that are in the queue, or that were received
	courses courses
	// locks that ended by time, the first maxLost of them
	lost map[event.LockToken]event.SequenceNumber
}

func (w *autopsy) read(ctx context.Context, b *book, slice event.Slice) error {
	w.slice, w.courses, w.lost = slice, newCourses(), make(map[event.LockToken]event.SequenceNumber)
	begun := false
	// history does not know the cause of dead letters that are in the base and whose death it does
	// not have
	begin := func() {
		begun = true
		for m := range w.begin.Browse(slice, w.queue, 0) {
			w.die(b, m.Sequence, tick{}, 0, "unknown", "", "")
		}
	}
	for rec, err := range replay.Found(ctx, b, log.Search{Named: true, Slice: slice}) {
		if err != nil {
			return err
		}
		if !begun && rec.LSN >= w.begin.lsn {
			begin()
		}
		at := b.tick(rec.LSN, rec.At)
		for _, ev := range rec.Events {
			b.see(ev)
			w.event(b, at, ev)
		}
		if w.look.pass(len(rec.Events)) {
			if err := w.tellRunning(); err != nil {
				return err
			}
		}
	}
	if !begun {
		begin()
	}
	return nil
}

func (w *autopsy) event(b *book, at tick, ev event.Event) {
	if ev.Common().Slice != w.slice {
		for _, c := range event.CopiesOf(ev) {
			if c.Subscription == w.slice.Entity && c.Cause != 0 && w.queue == event.DeadLetter {
				w.die(b, c.Sequence, at, ev.Common().Origin, c.Cause.String(), c.Reason, c.Description)
			}
		}
		return
	}
	switch ev := ev.(type) {
	case *event.MessageLocked:
		if f := w.courses.add(ev.Sequence); f.cause == nil {
			if !f.received {
				f.failed = ev.DeliveryCount
			}
			f.received, f.origin, f.held, f.renewed = true, ev.Origin, 0, false
			if ev.LockedUntil != 0 {
				f.held = ev.LockedUntil.Sub(at.at)
			}
		}
	case *event.LockExpired:
		if f := w.endAttempt(ev.Sequence, ev.DeliveryCount); f.received {
			f.lost++
		}
		if len(w.lost) < maxLost {
			w.lost[ev.Token] = ev.Sequence
		}
	case *event.MessageAbandoned:
		if f := w.endAttempt(ev.Sequence, ev.DeliveryCount); f.received {
			f.back++
		}
	case *event.LockRenewed:
		if f := w.courses.find(ev.Sequence); f != nil && f.received {
			f.renewed = true
		}
	case *event.MessageDeadLettered:
		if ev.SubQueue == w.queue || ev.SubQueue != event.TransferDeadLetter && w.queue == event.DeadLetter {
			w.die(b, ev.Sequence, at, ev.Origin, ev.Cause.String(), ev.Reason, ev.Description)
		}
	case *event.TransferFailed:
		if ev.SubQueue == w.queue && ev.Sequence != 0 {
			w.die(b, ev.Sequence, at, ev.Origin, "transfer-failed "+ev.Why.String(), ev.Reason, ev.Description)
		}
	case *event.SettlementRefused:
		w.noteRefused(ev)
	default:
		w.forget(ev)
	}
}

// endAttempt returns the course of a message after the end of an attempt, with the number of
// attempts that have failed so far. If the attempt began before the history, the course begins with
// its end.
func (w *autopsy) endAttempt(n event.SequenceNumber, count uint32) *course {
	f := w.courses.add(n)
	if f.cause == nil && !f.received {
		f.received, f.failed = true, max(count, 1)-1
	}
	return f
}

// forget forgets messages that an event removes, dead or alive.
func (w *autopsy) forget(ev event.Event) {
	switch ev := ev.(type) {
	case *event.MessageCompleted:
		w.gone(ev.Sequence)
	case *event.MessageReceivedAndDeleted:
		w.gone(ev.Sequence)
	case *event.MessageExpired:
		w.gone(ev.Sequence)
	case *event.MessagesBatchDeleted:
		for _, n := range ev.Sequences {
			w.gone(n)
		}
	case *event.TransferStarted:
		for _, n := range ev.Sequences {
			w.gone(n)
		}
	case *event.SliceDropped:
		for _, n := range w.courses.all() {
			w.gone(n)
		}
	}
}

func (w *autopsy) gone(n event.SequenceNumber) {
	f := w.courses.find(n)
	if f == nil {
		return
	}
	if g := f.cause; g != nil {
		g.count--
		g.gone++
		if f.unreceived {
			g.unreceived--
		}
	}
	w.courses.remove(n)
}

// group returns the group of a cause, and creates it if there is none.
func (w *autopsy) group(b *book, n event.SequenceNumber, at tick, kind, reason, description string) *cause {
	w.key = append(append(append(append(w.key[:0], kind...), 0), reason...), 0)
	w.key = appendSimilar(w.key, description)
	if g := w.groups[string(w.key)]; g != nil {
		return g
	}
	key, words := string(w.key), because(kind, reason, string(appendSimilar(nil, description)))
	if len(w.groups) >= maxGroups {
		key, words = "", "other causes"
		if g := w.groups[key]; g != nil {
			return g
		}
	}
	g := &cause{words: words, kind: kind, reason: reason, first: at, example: node{w.slice, n}, book: b}
	w.groups[key] = g
	return g
}

// die notes a dead letter.
func (w *autopsy) die(b *book, n event.SequenceNumber, at tick, by event.OriginID, kind, reason, description string) {
	f := w.courses.add(n)
	if f.cause != nil {
		return
	}
	g := w.group(b, n, at, kind, reason, description)
	f.cause = g
	g.count++
	if at.compare(g.last) > 0 {
		g.last = at
	}
	if f.received {
		g.lost, g.back, g.tooLate = g.lost+int(f.lost), g.back+int(f.back), g.tooLate+int(f.tooLate)
		if f.lost > 0 {
			g.held, g.renewed = f.held, g.renewed || f.renewed
		}
		g.noteKnown(w.begin, int(f.failed))
		if by == 0 {
			by = f.origin
		}
		f.received, f.tries = false, tries{}
	} else if m, there := w.begin.Message(w.slice, n); there { // it may have been received before
		g.noteKnown(w.begin, int(m.DeliveryCount))
		g.unasked++
		g.before = w.begin.tick
	} else {
		g.unreceived++
		f.unreceived = true
	}
	if by != 0 && g.book == b && len(g.origins) < maxWho && !slices.Contains(g.origins, by) {
		g.origins = append(g.origins, by)
	}
}

// noteKnown notes how many attempts had failed before the history.
func (g *cause) noteKnown(begin *baseState, failed int) {
	if failed > 0 && begin.compare(g.before) > 0 {
		g.before = begin.tick
	}
	g.failed += failed
}

// times returns when the messages of a group became dead letters.
func (g *cause) times() string {
	if g.first == (tick{}) {
		return fmt.Sprintf("before %s", g.before.at)
	}
	return fmt.Sprintf("%s – %s", g.first.at, g.last.at)
}

// appendSimilar appends the first 256 bytes of a text with # for each number, so that texts that
// differ only in numbers, such as those that name an order, become the same.
func appendSimilar(dst []byte, s string) []byte {
	digits := false
	for _, c := range []byte(s[:min(len(s), 256)]) {
		if c >= '0' && c <= '9' {
			if !digits {
				dst = append(dst, '#')
			}
			digits = true
			continue
		}
		digits = false
		dst = append(dst, c)
	}
	return dst
}

// noteRefused notes a settlement that came too late: the work was done and is repeated. The message
// may be known only by the token of its lock.
func (w *autopsy) noteRefused(ev *event.SettlementRefused) {
	if ev.Why != event.RefusedLockLost || ev.Wanted != event.WantedComplete {
		return
	}
	n := ev.Sequence
	if n == 0 {
		n = w.lost[ev.Token]
	}
	switch f := w.courses.find(n); {
	case f == nil:
	case f.cause != nil:
		f.cause.tooLate++
	case f.received:
		f.tooLate++
	}
}

// tellRunning tells the result so far of a slow answer.
func (w *autopsy) tellRunning() error {
	list, total, _ := w.sortGroups()
	if err := w.l.tell(Line{Part: Note, Text: fmt.Sprintf("running: %s in %s so far, of %s events", plural(total, "dead letter"), plural(len(list), "group"), grouped(w.look.passed)),
		Fields: print.Object{print.Named("Running", true), print.Named("Messages", total), print.Named("Groups", len(list)), print.Named("Events", w.look.passed)}}); err != nil {
		return err
	}
	for _, g := range list[:min(len(list), maxWho)] {
		if err := w.l.tell(Line{Part: Note, Text: fmt.Sprintf("running: %s  %s  %s", grouped(g.count), g.words, g.times()),
			Fields: append(print.Object{print.Named("Running", true), print.Named("Messages", g.count), print.Named("Cause", g.kind), print.Named("Reason", print.Text([]byte(g.reason)))},
				g.fields()...)}); err != nil {
			return err
		}
	}
	return nil
}

// fields returns when the messages of a group became dead letters, as far as that is known.
func (g *cause) fields() (list print.Object) {
	if g.first != (tick{}) {
		list = append(list, print.Named("First", g.first.at.String()), print.Named("Last", g.last.at.String()))
	}
	if g.before != (tick{}) {
		list = append(list, print.Named("KnownSince", g.before.at.String()))
	}
	return list
}

// sortGroups returns the groups that have messages, the largest first, their total number of
// messages, and when the first of those whose time is known died.
func (w *autopsy) sortGroups() (list []*cause, total int, first tick) {
	for _, g := range w.groups {
		if g.count == 0 {
			continue
		}
		list = append(list, g)
		total += g.count
		if g.first != (tick{}) && (first == (tick{}) || g.first.compare(first) < 0) {
			first = g.first
		}
	}
	slices.SortFunc(list, func(a, b *cause) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.words, b.words)) })
	return list, total, first
}

// tell tells the result, the largest group first.
func (w *autopsy) tell(ctx context.Context) error {
	list, total, first := w.sortGroups()
	name := address.Address{Entity: w.of.path, SubQueue: w.queue}.String()
	if total == 0 {
		return w.l.answer(print.Object{print.Named("Queue", name), print.Named("Messages", 0)}, "%s: no dead letters", name)
	}
	since, fields := first, print.Object{print.Named("Queue", name), print.Named("Messages", total), print.Named("Causes", len(list))}
	words := "since " + first.at.String()
	for _, g := range list {
		if g.first == (tick{}) { // it has the oldest ones
			since, words = g.before, fmt.Sprintf("since before %s", g.before.at)
		}
	}
	if since == first {
		fields = append(fields, print.Named("Since", first.at.String()))
	} else {
		fields = append(fields, print.Named("KnownSince", since.at.String()))
	}
	if err := w.l.answer(fields, "%s: %s %s, %s", name, plural(total, "dead letter"), words, plural(len(list), "cause")); err != nil {
		return err
	}
	for i, g := range list {
		if err := w.tellGroup(ctx, i+1, g); err != nil {
			return err
		}
	}
	if first != (tick{}) {
		if err := w.shortlyBefore(ctx, first); err != nil {
			return err
		}
	}
	if err := horizonsOf(ctx, w.l, w.of); err != nil {
		return err
	}
	return w.l.next(fmt.Sprintf("ledgerbus story '%s'", w.l.names.message(list[0].example.slice, list[0].example.number)),
		fmt.Sprintf("ledgerbus at %s '%s'", since.at, w.of.path), fmt.Sprintf("ledgerbus audit --until %s", since.at))
}

func (w *autopsy) tellGroup(ctx context.Context, i int, g *cause) error {
	if err := g.book.learn(ctx, g.origins...); err != nil {
		return err
	}
	var who []string
	for _, id := range g.origins {
		if name := g.book.who(id); !slices.Contains(who, name) {
			who = append(who, name)
		}
	}
	words := g.sentence()
	example := w.l.names.message(g.example.slice, g.example.number)
	text := fmt.Sprintf("#%d %s  %s  %s", i, grouped(g.count), g.words, g.times())
	if words != "" {
		text += "  " + words
	}
	if len(who) > 0 {
		text += "  by " + strings.Join(who, ", ")
	}
	fields := append(print.Object{print.Named("Group", i), print.Named("Messages", g.count), print.Named("Cause", g.kind), print.Named("Reason", print.Text([]byte(g.reason)))}, g.fields()...)
	return w.l.tell(Line{Part: Row, Text: text + "  such as " + example, Fields: append(fields, print.Named("LocksLost", g.lost), print.Named("GivenBack", g.back),
		print.Named("TooLate", g.tooLate), print.Named("FailedBefore", g.failed), print.Named("By", strings.Join(who, ", ")), print.Named("Example", example), print.Named("Words", words))})
}

// sentence returns what the messages of a group have in common, and which part of that is unknown.
func (g *cause) sentence() string {
	var parts []string
	if s := g.seenSentence(); s != "" {
		parts = append(parts, s)
	}
	if g.failed > 0 {
		parts = append(parts, fmt.Sprintf("%s had failed before %s", many(g.failed, "attempt", "attempts"), g.before.at))
	}
	if g.kind == event.CauseExpired.String() && g.unasked > 0 {
		parts = append(parts, fmt.Sprintf("it is unknown whether %s of them were received before %s", grouped(g.unasked), g.before.at))
	}
	return strings.Join(parts, "; ")
}

// seenSentence returns the part of the sentence that events show.
func (g *cause) seenSentence() string {
	settled := "settled or renewed"
	if g.renewed {
		settled = "settled"
	}
	switch {
	case g.first == (tick{}):
		return "history does not show why, but their properties may"

	case g.lost > 0 && g.tooLate > 0:
		return fmt.Sprintf("%s lost after %s; %s came too late: the work was done, and repeated", plural(g.lost, "lock"), span(g.held), plural(g.tooLate, "complete"))
	case g.lost > 0 && g.back == 0:
		return fmt.Sprintf("%s lost after %s, none %s", plural(g.lost, "lock"), span(g.held), settled)
	case g.back > 0 && g.lost == 0:
		return fmt.Sprintf("returned %s", many(g.back, "time", "times"))
	case g.lost > 0:
		return fmt.Sprintf("%s lost, returned %s", plural(g.lost, "lock"), many(g.back, "time", "times"))
	case g.kind == event.CauseExpired.String() && g.unreceived > 0:
		return fmt.Sprintf("%s of them never received", grouped(g.unreceived))
	}
	return ""
}

// beforehand is the longest time before the first dead letter at which a change of settings counts
// as a possible cause.
const beforehand = 24 * time.Hour

// shortlyBefore tells the changes of the entity not long before the first dead letter.
func (w *autopsy) shortlyBefore(ctx context.Context, first tick) error {
	b, err := w.l.book(ctx, catalogue)
	if err != nil {
		return err
	}
	for _, c := range w.of.changes[1:] {
		at := w.l.changed(&c)
		if at.compare(first) > 0 || first.since(at) > beforehand {
			continue
		}
		if err := b.learn(ctx, c.by); err != nil {
			return err
		}
		what := strings.Join(differences(&c.before, &c.now), ", ")
		text := fmt.Sprintf("shortly before: %s %s changed %s: %s  %s", c.at, b.who(c.by), w.of.path, what, c.place)
		if err := w.l.tell(Line{Part: Note, Text: text, Fields: print.Object{print.Named("Text", text), print.Named("Time", c.at.String()), print.Named("By", b.who(c.by)),
			print.Named("Change", what), print.Named("Place", c.place.String())}}); err != nil {
			return err
		}
	}
	return nil
}
