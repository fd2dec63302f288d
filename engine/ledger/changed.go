package ledger

import (
	"fmt"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// mostChanged is the most messages that are shown for one event.
const mostChanged = 10

// tellChanges tells the differences between the states before and after an event: the messages that
// it names, then the counts of their entities.
func (d *Debugger) tellChanges(p passedEvent, ev event.Event) error {
	before, after := d.view(p.log, d.at-1), p.after
	var entities []event.EntityID
	told, more := 0, 0
	var err error
	event.Named(ev, func(s event.Slice, number event.SequenceNumber) {
		if s.Entity != 0 && (len(entities) == 0 || entities[len(entities)-1] != s.Entity) {
			entities = append(entities, s.Entity)
		}
		if number == 0 || err != nil {
			return
		}
		was, had := before.Message(s, number)
		is, has := after.Message(s, number)
		if !had && !has {
			return
		}
		if told++; told > mostChanged {
			more++
			return
		}
		err = d.changedMessage(d.l.names.message(s, number), kept(&was, had), kept(&is, has))
	})
	if err == nil && more > 0 {
		err = d.l.note("  and %s not shown", plural(more, "message"))
	}
	seen := make(map[event.EntityID]bool)
	for _, id := range entities {
		if e := d.l.names.byID[id]; e != nil && !seen[id] && err == nil {
			seen[id] = true
			err = d.changedCounts(e)
		}
	}
	return err
}

func kept(m *index.Message, there bool) *index.Message {
	if !there {
		return nil
	}
	return m
}

// changedMessage tells a message as it was and as it is; nil: it did not exist, or does not.
func (d *Debugger) changedMessage(name string, was, is *index.Message) error {
	fields := print.Object{print.Named("Message", name)}
	for _, s := range []struct {
		when string
		m    *index.Message
	}{{"Before", was}, {"After", is}} {
		if s.m != nil {
			fields = append(fields, print.Named(s.when, messageLine(name, s.m).Fields))
		}
	}
	from, to := phrase(was), phrase(is)
	if from == to {
		return d.l.tell(Line{Part: Row, Text: fmt.Sprintf("  %s: %s, as before", name, to), Fields: fields})
	}
	return d.l.tell(Line{Part: Row, Text: fmt.Sprintf("  %s: %s → %s", name, from, to), Fields: fields})
}

// phrase returns the state of a message in few words.
func phrase(m *index.Message) string {
	if m == nil {
		return "not there"
	}
	words := []string{m.State.String()}
	if m.SubQueue != event.Main {
		words = append(words, m.SubQueue.String())
	}
	if m.DeliveryCount > 0 {
		words = append(words, plural(int(m.DeliveryCount), "failed attempt"))
	}
	if m.ScheduledFor != 0 {
		words = append(words, "for "+m.ScheduledFor.String())
	}
	return strings.Join(words, ", ")
}

// countAt returns the counts of an entity, or of a sub-queue of it, at a position of the trail.
func (d *Debugger) countAt(e *life, q event.SubQueue, at int64) (c count) {
	for i, b := range d.books {
		for _, slice := range d.l.names.slices(e, b.ID()) {
			add(&c, d.view(i, at), slice, q)
		}
	}
	return c
}

// changedCounts tells the counts of an entity that have changed.
func (d *Debugger) changedCounts(e *life) error {
	was, is := d.countAt(e, event.Main, d.at-1), d.countAt(e, event.Main, d.at)
	var words []string
	for _, m := range metrics {
		if a, b := m.of(&was), m.of(&is); a != b && m.name != "messages" {
			words = append(words, fmt.Sprintf("%s %s → %s", m.name, grouped(a), grouped(b)))
		}
	}
	if words == nil {
		return nil
	}
	return d.l.tell(Line{Part: Row, Text: fmt.Sprintf("  %s: %s", e.path, strings.Join(words, " · ")), Fields: print.Object{print.Named("Entity", e.path),
		print.Named("Before", countLine(e.path, &was).Fields), print.Named("After", countLine(e.path, &is).Fields)}})
}
