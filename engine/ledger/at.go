package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Columns of the rows of [Ledger.At].
var (
	CountColumns = []string{"Entity", "Messages", "Active", "DeadLetter", "Scheduled", "Transfer", "TransferDeadLetter", "SizeBytes", "Locked", "Deferred"}
	// MessageColumns are the address, then the columns of peek that the state knows, and then those
	// that only history has.
	MessageColumns = []string{"Message", "SequenceNumber", "State", "SessionID", "EnqueuedSequenceNumber", "EnqueuedTime", "ExpiresAt", "DeliveryCount", "LockedUntil", "DeadLetterSource", "SubQueue", "ScheduledFor", "Size"}
)

// pastState is the namespace as it was at an instant.
type pastState struct {
	n     *names
	at    event.Time
	era   era
	place *address.Address // of the instant; nil: it is given by its time
	// place of the last frame, if the time alone does not identify the instant; else ""
	named  string
	living []*life // the entities of the question that existed then, by path
	// queue is the only sub-queue that the question is about; Main: the entity with all its
	// sub-queues.
	queue event.SubQueue
	logs  map[log.PartitionID]*replay.State
}

// replayPast replays the logs of the entities of the question that existed then; with nil all logs,
// for all entities that existed.
func (l *Ledger) replayPast(ctx context.Context, i Instant, at event.Time, e era, of []*life, queue event.SubQueue) (*pastState, error) {
	t := &pastState{n: l.names, at: at, era: e, place: i.Place, living: of, queue: queue, logs: make(map[log.PartitionID]*replay.State)}
	ids := l.names.logs(of...)
	switch {
	case of == nil:
		t.living, ids, of = l.names.living(i, at, e.number), l.src.Partitions(), []*life{nil}
	case len(of) == 0: // address names the instant by a log that has it
		ids = []log.PartitionID{catalogue}
	}
	for _, id := range ids {
		b, err := l.book(ctx, id)
		if err == nil {
			t.logs[id], err = l.state(ctx, b, i, at, e, of...)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// count holds the counts of an entity, by state.
type count struct {
	index.Tally
	Locked, Deferred int
}

func (c *count) messages() int {
	return c.Active + c.DeadLetter + c.Scheduled + c.Transfer + c.TransferDeadLetter
}

// count counts the contents of an entity, or of the sub-queue of the question; nil: there was no
// entity.
func (t *pastState) count(e *life) (c count) {
	if e == nil {
		return c
	}
	for id, s := range t.logs {
		for _, slice := range t.n.slices(e, id) {
			add(&c, s.Index, slice, t.queue)
		}
	}
	return c
}

// name returns the name of the entity of a path, or of its sub-queue that the question is about.
func (t *pastState) name(path string) string {
	return address.Address{Entity: path, SubQueue: t.queue}.String()
}

// add adds the counts of a slice, or of one sub-queue of it.
func add(c *count, x index.CountSource, slice event.Slice, q event.SubQueue) {
	c.AddQueue(x, slice, q)
	c.Locked += x.Count(slice, q, index.Locked) + x.Count(slice, q, index.DeferredLocked)
	c.Deferred += x.Count(slice, q, index.Deferred) + x.Count(slice, q, index.DeferredLocked)
}

// each calls do with every message of an entity that the question may show, in the order of their
// numbers within each log.
func (t *pastState) each(e *life, do func(event.Slice, *index.Message) error) error {
	if e == nil {
		return nil
	}
	for _, id := range t.n.logs(e) {
		for _, slice := range t.n.slices(e, id) {
			for _, q := range []event.SubQueue{event.Main, event.DeadLetter, event.TransferDeadLetter} {
				if t.queue != event.Main && t.queue != q {
					continue
				}
				for m := range t.logs[id].Index.Browse(slice, q, 0) {
					if err := do(slice, &m); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// At tells the counts at an instant of all entities, of one, or of a sub-queue of it, as in
// orders/$dlq; with messages also every message. An error wraps [ErrQuestion] if the question is at
// fault, or [ErrNothing] if history does not reach that far back.
func (l *Ledger) At(ctx context.Context, i Instant, path string, messages bool) error {
	path, queue, err := place(path)
	if err != nil {
		return err
	}
	at, eras, err := l.eras(ctx, i)
	if err != nil {
		return err
	}
	if err := l.twice(at, eras); err != nil {
		return err
	}
	told := false
	var about []*life
	for n, e := range eras {
		var of []*life
		if path != "" {
			one, err := l.entity(path, i, at, e)
			// it existed in another one
			if errors.Is(err, ErrNothing) && (told || n+1 < len(eras)) {
				if err := l.note("%s", strings.TrimPrefix(err.Error(), ErrNothing.Error()+" of ")); err != nil {
					return err
				}
				continue
			}
			if err == nil {
				err = one.has(queue)
			}
			if err != nil {
				return err
			}
			of = []*life{one}
		}
		told, about = true, append(about, of...)
		t, err := l.replayPast(ctx, i, at, e, of, queue)
		if err == nil && len(eras) > 1 {
			err = t.address(ctx, l)
		}
		if err == nil {
			err = l.tellThen(t, path, messages)
		}
		if err != nil {
			return err
		}
	}
	return horizonsOf(ctx, l, about...)
}

func (l *Ledger) tellThen(t *pastState, path string, messages bool) error {
	list := t.living
	total := 0
	for _, e := range list {
		c := t.count(e)
		total += c.messages()
	}
	fields := print.Object{print.Named("Time", t.at.String()), print.Named("Entities", uint64(len(list))), print.Named("Messages", uint64(total)), print.Named("ClockNumber", t.era.number)}
	instant := t.at.String()
	if t.named != "" {
		fields, instant = append(fields, print.Named("Place", t.named)), t.named
	}
	if err := l.answer(fields, "at %s: %s with %s", t.when(), many(len(list), "entity", "entities"), plural(total, "message")); err != nil {
		return err
	}
	for _, e := range list {
		if messages {
			if err := t.each(e, func(s event.Slice, m *index.Message) error { return l.tellMessage(s, m) }); err != nil {
				return err
			}
			continue
		}
		if t.queue != event.Main {
			c := t.count(e)
			if err := l.tell(queueLine(t.name(e.path), &c)); err != nil {
				return err
			}
			continue
		}
		if err := l.tellCount(e, t.count(e)); err != nil {
			return err
		}
	}
	if path != "" && !messages {
		name := t.name(list[0].path)
		return l.next(fmt.Sprintf("ledgerbus at %s '%s' --messages", instant, name), fmt.Sprintf("ledgerbus diff %s now '%s'", instant, name))
	}
	return nil
}

func (l *Ledger) tellCount(e *life, c count) error { return l.tell(countLine(e.path, &c)) }

// queueLine returns the row of a sub-queue's counts.
func queueLine(name string, c *count) Line {
	return Line{Part: Row, Text: fmt.Sprintf("%-30s messages %s · locked %s · deferred %s", name, grouped(c.messages()), grouped(c.Locked), grouped(c.Deferred)), Fields: print.Object{
		print.Named("Entity", name), print.Named("Messages", c.messages()), print.Named("Locked", c.Locked), print.Named("Deferred", c.Deferred)}}
}

// countLine returns the row of an entity's counts.
func countLine(path string, c *count) Line {
	text := fmt.Sprintf("%-30s active %s · dead %s · scheduled %s · locked %s · deferred %s", path, grouped(c.Active), grouped(c.DeadLetter), grouped(c.Scheduled), grouped(c.Locked), grouped(c.Deferred))
	if c.Transfer+c.TransferDeadLetter > 0 {
		text += fmt.Sprintf(" · transfer %s · transfer dead %s", grouped(c.Transfer), grouped(c.TransferDeadLetter))
	}
	return Line{Part: Row, Text: text + " · " + grouped(int(c.Bytes)) + " bytes", Fields: print.Object{
		print.Named("Entity", path), print.Named("Messages", c.messages()), print.Named("Active", c.Active), print.Named("DeadLetter", c.DeadLetter),
		print.Named("Scheduled", c.Scheduled), print.Named("Transfer", c.Transfer), print.Named("TransferDeadLetter", c.TransferDeadLetter),
		print.Named("SizeBytes", c.Bytes), print.Named("Locked", c.Locked), print.Named("Deferred", c.Deferred)}}
}

func (l *Ledger) tellMessage(s event.Slice, m *index.Message) error {
	return l.tell(messageLine(l.names.message(s, m.Sequence), m))
}

// messageLine returns the row of a message that existed then.
func messageLine(name string, m *index.Message) Line {
	fields := print.Object{print.Named("Message", name), print.Named("SequenceNumber", uint64(m.Sequence)), print.Named("State", m.State.String()), print.Named("SubQueue", m.SubQueue.String())}
	text := fmt.Sprintf("%-24s %-9s %s", name, m.State, m.SubQueue)
	optional := func(named, words string, t event.Time) {
		if t != 0 {
			fields = append(fields, print.Named(named, t.String()))
			text += "  " + words + " " + t.String()
		}
	}
	optional("EnqueuedTime", "since", m.EnqueuedAt)
	optional("LockedUntil", "locked until", m.LockedUntil)
	optional("ExpiresAt", "expires", m.ExpiresAt)
	optional("ScheduledFor", "for", m.ScheduledFor)
	fields = append(fields, print.Named("DeliveryCount", uint64(m.DeliveryCount)))
	if m.InSession {
		fields = append(fields, print.Named("SessionID", print.Text([]byte(m.SessionID))))
		text += "  session " + word(m.SessionID)
	}
	if m.EnqueuedSequence != 0 {
		fields = append(fields, print.Named("EnqueuedSequenceNumber", uint64(m.EnqueuedSequence)))
	}
	if m.DeadLetterSource != "" {
		fields = append(fields, print.Named("DeadLetterSource", print.Text([]byte(m.DeadLetterSource))))
	}
	return Line{Part: Row, Text: fmt.Sprintf("%s  %s, %d bytes", text, plural(int(m.DeliveryCount), "failed attempt"), m.Body.Size), Fields: append(fields, print.Named("Size", uint64(m.Body.Size)))}
}
