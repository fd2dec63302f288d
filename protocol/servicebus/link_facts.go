package servicebus

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// closedBy returns the log's fact for a link that a side closed, with an error or without.
func closedBy(cause event.CloseCause, e *amqp.Error) event.LinkClosed {
	closed := event.LinkClosed{Cause: cause}
	if e != nil {
		closed.Condition, closed.Description = string(e.Condition), e.Description
	}
	return closed
}

// lost returns the log's fact for links that exist when the connection is gone. After a close by
// either side there are none.
func (c *conn) lost() event.LinkClosed {
	if c.teardown.stopping {
		return event.LinkClosed{Cause: event.ClosedStop}
	}
	closed := event.LinkClosed{Cause: event.ClosedConnection}
	var op *net.OpError
	switch {
	case errors.As(c.failed, &op): // without the addresses, which are in the origin
		closed.Description = op.Err.Error()
		if !strings.HasPrefix(closed.Description, op.Op+": ") {
			closed.Description = op.Op + ": " + closed.Description
		}
	case errors.Is(c.failed, io.EOF):
		closed.Description = "read: EOF"
	case c.failed != nil:
		closed.Description = c.failed.Error()
	}
	return closed
}

// note writes a fact about the link to the log, once in each partition that hosts its entity, under
// the first slice there.
func (s *sender) note(fact func() event.Event) {
	t := s.l.target
	for i, host := range t.Entity.Hosts {
		if slices.Contains(t.Entity.Hosts[:i], host) {
			continue
		}
		own := fact()
		own.Common().Slice = t.Slice(uint8(i))
		s.l.c.batch.add(host, engine.Request{Command: &engine.Note{Fact: own, Origin: s.l.origin}})
	}
}

// open writes to the log that the link to an entity is attached.
func (s *sender) open() {
	if s.l.at.node() {
		return
	}
	s.noted = true
	s.note(func() event.Event { return &event.LinkOpened{Role: event.Sender} })
}
