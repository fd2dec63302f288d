package engine

import "github.com/ledgerbus/ledgerbus/log/event"

const (
	// maxImport is the size in bytes at which an [Import] takes no more messages, so that other
	// commands get their turn.
	maxImport = 256 << 10
	// maxArrivals is the number of arrivals allocated at once.
	maxArrivals = 256
)

// importDecision decides an [Import]: messages that come from another entity.
type importDecision struct {
	slice
	cmd *Import
	one Send // the message that is looked at
}

// take accepts the messages of an import, each by itself, as if it were sent now.
func take(d *decision, cmd *Import) *Error {
	if d.settings.noSends != nil {
		return d.settings.noSends
	}
	of, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	d.scratch.several = true
	s := importDecision{slice: of, cmd: cmd, one: Send{Entity: of.entity, Slice: cmd.Slice, Messages: make([]Message, 1)}}
	became, bytes := make(Arrivals, 0, len(cmd.Items)), 0
	for i := range cmd.Items {
		item := &cmd.Items[i]
		if bytes += len(item.Message.Body) + len(item.Message.Tail); i > 0 && (bytes > maxImport || len(d.fan.copies) > manyCopies || len(d.fan.changes) > maxImport) {
			break
		}
		var refusal *Error
		if !d.index.Arrived(s.id, cmd.Source, item.Number) {
			refusal = s.take(item)
		}
		if became = append(became, refusal); refusal != nil && (refusal.Code == Busy || cmd.Waits && refusal.Code == EntityFull) {
			break
		}
	}
	d.reply.Answer = became
	return nil
}

// take accepts one message, or refuses it.
func (s *importDecision) take(item *Arriving) *Error {
	s.one.Messages[0] = item.Message
	s.one.Messages[0].Details.Source = event.Source{Relation: event.Forwarded, Slice: s.cmd.Source, Sequence: item.Sequence}
	of := sendDecision{slice: s.slice, cmd: &s.one, arrival: s.arrival(item)}
	if err := of.check(); err != nil {
		return err
	}
	if s.entity.Kind != event.Topic {
		of.store()
		return nil
	}
	p := publishDecision{slice: s.slice, fan: &s.fan, arrival: of.arrival}
	if err := p.check(&s.one); err != nil {
		return err
	}
	s.noteBytes(p.bytes)
	of.publish(s.fan.plan)
	return nil
}

// arrival returns where a message comes from, as its event records it.
func (s *importDecision) arrival(item *Arriving) *event.Arrival {
	if len(s.arrivals) == cap(s.arrivals) {
		// earlier ones stay in place until they are written
		s.arrivals = make([]event.Arrival, 0, maxArrivals)
	}
	s.arrivals = append(s.arrivals, event.Arrival{Source: s.cmd.Source, Number: item.Number, Floor: s.cmd.Floor, Hops: item.Hops, First: item.First,
		DeadLetterSource: item.DeadLetterSource})
	a := &s.arrivals[len(s.arrivals)-1]
	a.Changes.Data = item.Changes
	return a
}
