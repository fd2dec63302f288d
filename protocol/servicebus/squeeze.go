package servicebus

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A connection stays within its share of the process's memory (docs/decisions/0041). Its owner adds
// up what it keeps, and takes that from its share in units, so that a message costs no more than a
// comparison. The reader that makes a chunk of input takes it from the share, and the holder of its
// last reference returns it. New data is refused when the share is used up. Settlements need no
// memory from the share.

const (
	// unit is the number of bytes taken from the share at a time.
	unit = 16 << 10
	// spareUnits is the number of units that are not returned at once: otherwise every second
	// message would take them again.
	spareUnits = 2
	// unsettledCost is the bytes of memory of a delivery until it is settled.
	unsettledCost = 128
	// smallAnswer is the bytes of messages that an answer to a request may have when there is no
	// memory for more.
	smallAnswer = 16 << 10
	// stuckTime is the time that a connection may exceed its share while memory is short: its data
	// is on the way to a peer that does not read.
	stuckTime = 10 * time.Second
)

const (
	noMemoryText = "The server is busy: it has no memory for this now. Please retry the operation."
	stuckText    = "The server has little memory, and the connection takes too much of it."
)

var errNoMemory = &engine.Error{Code: engine.Busy, Text: noMemoryText}

// memoryCounter returns a function that counts the bytes that a connection keeps, except chunks
// that are paid for.
func memoryCounter(c *conn) func() int {
	m := &c.memory
	return func() int {
		return m.held + m.answered + m.staged + m.partly + c.pendings.bytes - c.pendings.paid + c.pendings.kept + c.out.memory() + c.outstanding.count*unsettledCost
	}
}

// reserve takes that many more bytes from the share, and reports whether it had them. Unused bytes
// are returned when the turn ends.
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

// settle ends a turn: it makes the share equal to the bytes kept now.
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

// close returns the whole share, because the connection has ended.
func (m *memory) close() {
	m.share.Give(m.reserved)
	m.reserved = 0
	m.share.Close()
}

// adjustMemory is called once a second while memory is short, and once when it no longer is. A
// connection that exceeds its share frees what it can: it drops incomplete deliveries, the newest
// first, and refuses them once their last frame arrives.
func adjustMemory(c *conn) {
	m := &c.memory
	short := m.share.Level() > budget.Enough
	c.reader.save(short && m.share.Exceeds(0))
	m.short = short && m.share.Exceeds(largeChunk) // the reader may still have one large chunk
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

// moveWindows closes the windows of sessions while the connection exceeds its share, and opens them
// again.
func moveWindows(c *conn) {
	if m := &c.memory; m.short == c.allowed.shut {
		return
	}
	c.allowed.shut = c.memory.short
	for _, s := range c.sessions {
		s.sendFlow()
	}
}

// thrownAway refuses a dropped delivery once all of it has arrived.
func (s *sender) thrownAway() {
	if s.starved {
		s.starved = false
		s.refuse(errNoMemory)
		return
	}
	s.tooLarge(s.maxSize)
}

// squeezed notes whether output to the peer makes the connection exceed its share while memory is
// short.
func (t *timers) squeezed(c *conn, is bool) {
	switch {
	case !is:
		t.stuck = time.Time{}
	case t.stuck.IsZero():
		t.stuck = c.now
	case c.now.Sub(t.stuck) >= stuckTime && c.phase == opened:
		closeEvicted(c)
	}
}

// closeNoMemory closes the connection, because there is no memory for the peer's request. After
// this condition every SDK connects again. After resource-limit-exceeded the Go SDK stops trying,
// and after server-busy it tries the same connection again and again.
func closeNoMemory(c *conn) { c.protocolFault(amqp.CondConnectionForced, noMemoryText) }

// closeEvicted closes the connection, because it exceeds its share while memory is short. Its peer
// may connect again, see [closeNoMemory].
func closeEvicted(c *conn) {
	if c.phase == opened {
		c.log.Info("servicebus: connection closed: memory is short", "kept", c.memory.kept())
		c.closeFor(event.ClosedByBroker, amqp.CondConnectionForced, stuckText)
	}
}
