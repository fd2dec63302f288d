package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// How a connection keeps within what it may have of the process's memory (docs/decisions/0041). Its
// owner adds up what it keeps, and takes that from its share in units, so that a message costs no
// more than a comparison. A chunk of input is taken from the share by the reader that makes it, and
// given back by the holder of its last reference. What is new is refused when the share has no
// more; settlements never ask.

const (
	// unit is how much is taken from the share at a time, bytes.
	unit = 16 << 10
	// spareUnits is how many units are not given back at once, or every other message would take
	// them again.
	spareUnits = 2
	// unsettledCost is what a delivery takes until it is settled, bytes.
	unsettledCost = 128
	// smallAnswer is how many bytes of messages an answer to a request may have when there is no
	// memory for more.
	smallAnswer = 16 << 10
	// stuckTime is how long a connection may have more than its share while memory is short: what
	// it has is on its way to a peer that does not take it.
	stuckTime = 10 * time.Second
)

const (
	noMemoryText = "The server is busy: it has no memory for this now. Please retry the operation."
	stuckText    = "The server has little memory, and the connection takes too much of it."
)

var errNoMemory = &engine.Error{Code: engine.Busy, Text: noMemoryText}

// keptBy counts how many bytes a connection keeps, but for chunks that are paid for.
func keptBy(c *conn) func() int {
	m := &c.memory
	return func() int {
		return m.held + m.answered + m.staged + m.partly + c.pendings.bytes - c.pendings.paid + c.pendings.kept + c.out.memory() + c.outstanding.count*unsettledCost
	}
}

// reserve reports whether that many bytes more may be kept, and takes them from the share. What is
// not kept in the end is given back when the turn ends.
func (m *memory) reserve(bytes int) bool {
	more := m.kept() + bytes - m.reserved
	if more <= 0 {
		return true
	}
	more = (more + unit - 1) / unit * unit
	if !m.share.Take(more) {
		return false
	}
	m.reserved += more
	return true
}

// settle ends a turn: it makes the share what is kept now.
func (m *memory) settle() {
	kept, spare := m.kept(), spareUnits*unit
	if m.short {
		spare = 0
	}
	switch less := (m.reserved - kept) / unit * unit; {
	case kept > m.reserved:
		more := (kept - m.reserved + unit - 1) / unit * unit
		m.share.Owe(more)
		m.reserved += more
	case less > spare:
		m.share.Give(less)
		m.reserved -= less
	}
}

// close gives everything back: the connection is over.
func (m *memory) close() {
	m.share.Give(m.reserved)
	m.reserved = 0
	m.share.Close()
}

// pressed is called when there is little memory, once a second, and when there is enough again. A
// connection that has more than it may have now lets go of what it can: deliveries that are not
// complete are thrown away, the newest first, and refused when their end comes.
func pressed(c *conn) {
	m := &c.memory
	short := m.share.Level() > budget.Enough
	c.reader.save(short && m.share.Exceeds(0))
	m.short = short && m.share.Exceeds(largeChunk) // the reader may still have one of these
	if m.short {
		for m.share.Exceeds(largeChunk) && c.unfinished.shedNewest() {
		}
		c.out.shrink()
	}
	m.settle()
	m.short = short && m.share.Exceeds(largeChunk)
	moveWindows(c)
	c.pump.resume()
	c.timers.squeezed(c, m.short && c.out.backlog() > budget.Promised)
}

// moveWindows closes the windows of sessions while the connection has more than it may have, and
// opens them again.
func moveWindows(c *conn) {
	if m := &c.memory; m.short == c.allowed.shut {
		return
	}
	c.allowed.shut = c.memory.short
	for _, s := range c.sessions {
		s.sendFlow()
	}
}

// thrownAway refuses a delivery of which nothing was kept, when all of it has come.
func (s *sender) thrownAway() {
	if s.starved {
		s.starved = false
		s.refuse(errNoMemory)
		return
	}
	s.tooLarge(s.maxSize)
}

// squeezed notes whether the connection has more than its share of memory that is short, on its way
// to its peer.
func (t *timers) squeezed(c *conn, is bool) {
	switch {
	case !is:
		t.stuck = time.Time{}
	case t.stuck.IsZero():
		t.stuck = c.now
	case c.now.Sub(t.stuck) >= stuckTime && c.phase == opened:
		evicted(c)
	}
}

// noMemory closes the connection, because there is no memory now for what its peer wants. The
// condition is one after which every SDK connects again: after resource-limit-exceeded the one for
// Go tries nothing any more, and after server-busy it tries the same connection again and again.
func noMemory(c *conn) { c.protocolFault(amqp.CondConnectionForced, noMemoryText) }

// evicted closes the connection: it has more than its share of memory that is short. Its peer may
// come again, see [noMemory].
func evicted(c *conn) {
	if c.phase == opened {
		c.log.Info("servicebus: connection closed for want of memory", "kept", c.memory.kept())
		c.closeFor(event.ClosedByBroker, amqp.CondConnectionForced, stuckText)
	}
}
