package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// session is one AMQP session. Its channel number is the peer's: unique while the session lives.
type session struct {
	c       *conn
	channel uint16
	ended   bool // the broker's end is sent, the peer's is not received
	links   map[uint32]*link
	last    *link // of the last transfer, to save a lookup

	nextIncoming uint32 // transfer-id of the next transfer from the peer
	advertised   uint32 // incoming window in the last flow to the peer
	sinceFlow    uint32 // transfers since that flow
	unasked      uint32 // transfers since the window was closed, or the session ended
	nextOutgoing uint32
	window       int64                  // transfers that the peer accepts
	blocked      map[*receiver]struct{} // receivers that stopped because the window was closed
	nextDelivery uint32

	begun    bool   // the peer has begun a delivery
	newestID uint32 // the highest of its deliveries, as a serial number

	group group // of transactions over several entities

	unsettled deliveries
	// deliveries sent settled, or on links that are gone: dispositions for them are ignored
	silent          idRanges
	messageSessions idRanges // deliveries sent under message sessions
	settled         idOwners // settled deliveries: further dispositions for them are refused
}

const handleMax = 262143

// begin starts a session (1.7).
func (c *conn) begin(channel uint16, b *amqp.Begin) {
	if c.sessions[channel] != nil {
		c.protocolFault(amqp.CondNotAllowed, "The channel is in use.")
		return
	}
	limit := c.allowed.sessions()
	// half of them were ended for exceeding the limit, and the peer continues
	if len(c.sessions) >= 2*limit {
		c.protocolFault(amqp.CondResourceLimit, fmt.Sprintf("The connection has more than %d sessions.", limit))
		return
	}
	s := &session{
		c: c, channel: channel, links: make(map[uint32]*link),
		nextIncoming: b.NextOutgoingID, nextOutgoing: 1, window: int64(b.IncomingWindow), advertised: c.allowed.window(),
	}
	if !c.memory.reserve(sessionCost) {
		closeNoMemory(c)
		return
	}
	c.sessions[channel] = s
	c.memory.hold(sessionCost)
	c.out.frame(channel, &amqp.Begin{
		RemoteChannel:  amqp.Some(channel),
		NextOutgoingID: s.nextOutgoing,
		IncomingWindow: s.advertised,
		OutgoingWindow: c.limits.Window,
		HandleMax:      amqp.Some(min(b.HandleMax.Or(handleMax), handleMax)),
	})
	if len(c.sessions) > limit {
		s.end(amqp.CondResourceLimit, fmt.Sprintf("The connection has more than %d sessions.", limit))
	}
}

// isStray reports whether a frame is ignored on a channel without a session: an end or a detach
// requests a state that exists already. Clients send them late, or twice, when a call is cancelled
// (1.7).
func isStray(p amqp.Performative) bool {
	switch p.(type) {
	case *amqp.End, *amqp.Detach:
		return true
	}
	return false
}

// onlyEntity returns the one entity that the session receives from, "" if there are several or
// none.
func (s *session) onlyEntity() (path string) {
	for _, l := range s.links {
		if l.receiver == nil || l.receiver.engine == nil {
			continue
		}
		if path != "" && path != l.at.path {
			return ""
		}
		path = l.at.path
	}
	return path
}

// frame handles a frame of the session. After the broker's end it ignores everything except the
// peer's end.
func (s *session) frame(p amqp.Performative, payload []byte) {
	if s.ended {
		switch p.(type) {
		case *amqp.End:
			s.gone()
		case *amqp.Transfer:
			if s.unasked++; s.unasked > s.mostUnasked() {
				s.c.protocolFault(amqp.CondNotAllowed, "Transfers keep coming after the session has ended.")
			}
		}
		return
	}
	switch p := p.(type) {
	case *amqp.Transfer:
		s.transfer(p, payload)
	case *amqp.Disposition:
		s.disposition(p)
	case *amqp.Flow:
		s.flow(p)
	case *amqp.Attach:
		s.attach(p)
	case *amqp.Detach:
		s.detach(p)
	case *amqp.End:
		s.leave(closedBy(event.ClosedByPeer, p.Error))
		s.c.answers.flush()
		s.c.out.frame(s.channel, &amqp.End{})
		s.gone()
	default:
		s.c.protocolFault(amqp.CondNotAllowed, "The frame is not expected in a session.")
	}
}

// end ends the session because of an error. The channel stays in use until the peer's end.
func (s *session) end(symbol amqp.Symbol, text string) {
	if s.ended {
		return
	}
	s.c.log.Info("servicebus: session ended", "channel", s.channel, "condition", symbol, "text", text)
	e := &amqp.Error{Condition: symbol, Description: s.c.texts.suffixed(text, "", s.c.now)}
	s.leave(closedBy(event.ClosedByBroker, e))
	s.c.answers.flush()
	s.c.out.frame(s.channel, &amqp.End{Error: e})
	s.ended, s.unasked = true, 0
}

// mostUnasked returns the number of transfers that may arrive after the window was closed, or the
// session ended: those that were on their way already. It is twice the window, because some clients
// count deliveries and not frames (1.7).
func (s *session) mostUnasked() uint32 { return 2 * s.c.limits.Window }

// gone makes room for another session on the channel.
func (s *session) gone() {
	s.c.memory.hold(-sessionCost)
	delete(s.c.sessions, s.channel)
}

// rollBack rolls back the transactions that were declared on the session.
func (s *session) rollBack() {
	for _, l := range s.links {
		if l.at.coordinator {
			s.c.transactions.coordinatorGone(l.sender)
		}
	}
}

// leave ends all links and logs that they are closed; nothing is sent.
func (s *session) leave(closed event.LinkClosed) {
	s.c.answers.flush()
	s.rollBack()
	for _, l := range s.links {
		if l.detached {
			s.c.links.detachCame()
		}
		l.leave(event.ReleaseLinkLost, closed)
		l.free()
	}
	clear(s.links)
	s.forgetAll()
	s.last, s.blocked = nil, nil
	s.ended = true
}

// transfer counts a transfer, replenishes the window in time (1.7) and hands the transfer to its
// link.
func (s *session) transfer(t *amqp.Transfer, payload []byte) {
	s.nextIncoming++
	s.sinceFlow++
	if s.advertised > 0 && s.sinceFlow >= min(1000, max(1, s.advertised/5)) {
		s.sendFlow()
	}
	if s.advertised == 0 {
		if s.unasked++; s.unasked > s.mostUnasked() {
			s.end(amqp.CondWindowViolation, "Transfers keep coming although the session's incoming window is closed.")
			return
		}
	}
	l := s.last
	if l == nil || l.handle != t.Handle {
		if l = s.links[t.Handle]; l == nil {
			s.end(amqp.CondUnattachedHandle, "The handle is not attached.")
			return
		}
		s.last = l
	}
	if l.detached {
		return
	}
	if l.sender == nil {
		s.end(amqp.CondNotAllowed, "A transfer came on a link on which the peer receives.")
		return
	}
	l.touch()
	l.sender.transfer(t, payload)
}

// unsettledHas notes the id of a delivery that the peer begins, and reports whether an unsettled
// delivery has the same id. It searches for an id only if the id is not larger than all earlier
// ones, because clients number deliveries in order.
func (s *session) unsettledHas(id uint32) bool {
	if !s.begun || int32(id-s.newestID) > 0 {
		s.begun, s.newestID = true, id
		return false
	}
	for _, l := range s.links {
		if l.sender != nil && l.sender.joining && l.sender.delivery.id == id {
			return true
		}
	}
	return s.c.pendings.delivers(s, id)
}

// flow applies the peer's view of the windows, then of a link's credit.
func (s *session) flow(f *amqp.Flow) {
	// The number of accepted transfers is the peer's window minus the transfers on their way to it
	// (AMQP 2.5.6). Before the broker's first transfer the peer may not know its next-outgoing-id.
	seen := f.NextIncomingID.Or(1)
	opened := s.window <= 0
	s.window = int64(f.IncomingWindow) + int64(int32(seen-s.nextOutgoing))
	if opened && s.window > 0 {
		blocked := s.blocked
		s.blocked = nil
		for r := range blocked {
			r.pass()
			r.makeReady()
		}
	}
	if !f.Handle.Set {
		if f.Echo {
			s.sendFlow()
		}
		return
	}
	l := s.links[f.Handle.Value]
	switch {
	case l == nil:
		s.end(amqp.CondUnattachedHandle, "The handle is not attached.")
	case l.detached:
	case l.attaching != nil:
		l.attaching.flow, l.attaching.flowed = *f, true
	case l.receiver != nil:
		l.touch()
		l.receiver.flow(f)
	case l.sender != nil:
		l.touch()
		if f.Echo {
			l.sender.sendFlow()
		}
	}
}

// sendFlow tells the peer the broker's windows.
func (s *session) sendFlow() { s.writeFlow(&amqp.Flow{}) }

// writeFlow completes a flow with the session's numbers and sends it.
func (s *session) writeFlow(f *amqp.Flow) {
	if s.ended {
		return
	}
	if s.advertised, s.sinceFlow = s.c.allowed.window(), 0; s.advertised > 0 {
		s.unasked = 0
	}
	f.NextIncomingID = amqp.Some(s.nextIncoming)
	f.IncomingWindow = s.advertised
	f.NextOutgoingID = s.nextOutgoing
	f.OutgoingWindow = s.c.limits.Window
	s.c.out.flow(s.channel, f)
}

// detach handles the peer's detach. The answer is closed if the peer's detach is: a peer that only
// suspends its link would otherwise have to attach it again to close it. The broker keeps the same
// in both cases, because no link is ever resumed (4.7). A detach of a handle without a link is
// ignored: clients send one late, or twice, when a call is cancelled.
func (s *session) detach(d *amqp.Detach) {
	l := s.links[d.Handle]
	if l == nil {
		return
	}
	if l.detached {
		s.c.links.detachCame()
	} else {
		l.leave(event.ReleaseClosed, closedBy(event.ClosedByPeer, d.Error))
		s.c.answers.flush()
		l.answerAttach()
		s.c.out.frame(s.channel, &amqp.Detach{Handle: l.handle, Closed: d.Closed})
	}
	if l.receiver != nil {
		l.receiver.forget()
		delete(s.blocked, l.receiver)
	}
	l.free()
	delete(s.links, d.Handle)
	if s.last == l {
		s.last = nil
	}
}
