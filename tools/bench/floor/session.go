package floor

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A session is one AMQP session. Transfers of all its links share its ids and windows.
type session struct {
	conn    *conn
	channel uint16
	links   map[uint32]*link // by the client's handle, which this side uses too

	nextIncoming uint32 // transfer id
	sinceFlow    uint32 // transfers since the last flow to the client
	nextOutgoing uint32 // transfer id
	nextDelivery uint32 // delivery id
	remoteWindow uint32 // transfers that the client accepts

	// contiguous deliveries that are not kept and not yet accepted
	acceptedFirst, acceptedLast uint32
	accepting                   bool // the range is not empty
	completed                   []uint32
	scratch                     amqp.Disposition
}

func (s *session) handle(p amqp.Performative, payload []byte) error {
	switch p := p.(type) {
	case *amqp.Transfer:
		return s.transfer(p, payload)
	case *amqp.Disposition:
		s.disposition(p)
	case *amqp.Flow:
		s.flow(p)
	case *amqp.Attach:
		s.attach(p)
	case *amqp.Detach:
		s.settle()
		if l := s.links[p.Handle]; l != nil {
			l.leave()
		}
		delete(s.links, p.Handle)
		s.put(&amqp.Detach{Handle: p.Handle, Closed: true})
	case *amqp.End:
		s.settle()
		s.forget()
		s.put(&amqp.End{})
		delete(s.conn.sessions, s.channel)
	default:
		return errProtocol
	}
	return nil
}

// transfer handles a frame of a delivery from the client.
func (s *session) transfer(p *amqp.Transfer, payload []byte) error {
	l := s.links[p.Handle]
	if l == nil {
		return errProtocol
	}
	s.nextIncoming++
	s.sinceFlow++
	if p.DeliveryID.Set {
		l.deliveryID = p.DeliveryID.Value
	}
	l.settled = l.settled || p.Settled.Value
	if l.claims || l.queue != nil && (p.More || len(l.request) > 0) {
		l.request = append(l.request, payload...)
	}
	if p.More {
		return nil
	}
	l.deliveryCount++
	l.used++
	settled := l.settled
	l.settled = false
	if l.claims {
		s.grant(l.request)
		l.request = l.request[:0]
	}
	if l.queue != nil {
		if len(l.request) > 0 {
			payload = l.request
		}
		message := append([]byte(nil), payload...)
		s.conn.keeper.put(keptEntry{conn: s.conn, session: s, id: l.deliveryID, silent: settled, queue: l.queue, message: message}, message)
		l.request = l.request[:0]
		return nil
	}
	if !settled {
		s.accept(l.deliveryID)
	}
	return nil
}

// settlementSize is the size of a kept settlement in bytes.
const settlementSize = 32

// accept adds a delivery to the disposition of the next write.
func (s *session) accept(id uint32) {
	if s.accepting && id == s.acceptedLast+1 {
		s.acceptedLast = id
		return
	}
	s.flushAccepted()
	s.acceptedFirst, s.acceptedLast, s.accepting = id, id, true
}

func (s *session) flushAccepted() {
	if s.accepting {
		s.putDisposition(amqp.RoleReceiver, s.acceptedFirst, s.acceptedLast, amqp.StateAccepted)
		s.accepting = false
	}
}

// disposition handles the client's outcomes for its deliveries. An outcome that the client has
// already settled needs no answer.
func (s *session) disposition(p *amqp.Disposition) {
	if p.Role != amqp.RoleReceiver {
		return
	}
	if s.conn.keeper != nil {
		var bytes [settlementSize]byte
		for id := p.First; ; id++ {
			s.conn.keeper.put(keptEntry{conn: s.conn, session: s, id: id, silent: p.Settled}, bytes[:])
			if id == p.Last.Or(p.First) {
				return
			}
		}
	}
	if p.Settled {
		return
	}
	switch state := p.State.(type) {
	case amqp.Accepted:
		for id := p.First; ; id++ {
			s.completed = append(s.completed, id)
			if id == p.Last.Or(p.First) {
				return
			}
		}
	case amqp.Rejected:
		s.putDisposition(amqp.RoleSender, p.First, p.Last.Or(p.First), amqp.Rejected{})
	default:
		s.putDisposition(amqp.RoleSender, p.First, p.Last.Or(p.First), state)
	}
}

// settle writes the dispositions for everything since the last write. Confirmations of settlements
// arrive in any order and leave as ranges. The ranges are short, because the Go client searches all
// deliveries of a range for each delivery of the range.
func (s *session) settle() {
	s.flushAccepted()
	slices.Sort(s.completed)
	for rest := s.completed; len(rest) > 0; {
		n := 1
		for n < len(rest) && n < s.conn.options.SettleRange && rest[n] == rest[0]+uint32(n) {
			n++
		}
		s.putDisposition(amqp.RoleSender, rest[0], rest[n-1], amqp.StateAccepted)
		rest = rest[n:]
	}
	s.completed = s.completed[:0]
}

func (s *session) putDisposition(role amqp.Role, first, last uint32, state amqp.DeliveryState) {
	s.scratch = amqp.Disposition{Role: role, First: first, Last: amqp.Some(last), Settled: true, State: state}
	s.conn.out = amqp.AppendDisposition(s.conn.out, s.channel, &s.scratch)
}

// flow handles a new window and, for a receiver, new credit.
func (s *session) flow(p *amqp.Flow) {
	s.remoteWindow = uint32(max(0, int64(p.IncomingWindow)+int64(int32(p.NextIncomingID.Value-s.nextOutgoing))))
	if !p.Handle.Set {
		if p.Echo {
			s.putFlow(nil)
		}
		return
	}
	l := s.links[p.Handle.Value]
	if l == nil { // the Go client can send credit after its detach
		return
	}
	if l.role == amqp.RoleSender && p.LinkCredit.Set {
		// Can be negative while deliveries are on their way to the client.
		limit := p.DeliveryCount.Value + p.LinkCredit.Value
		l.credit = uint32(max(0, int32(limit-l.deliveryCount)))
		if l.drain = p.Drain; l.taker != nil {
			l.queue.allow(l.taker, limit, p.Drain)
			s.conn.hear() // deliveries precede the end of a drain
		}
	}
	if p.Echo {
		s.putFlow(l)
	}
}

// topUp renews the window, and the credit of senders that have used half of it.
func (s *session) topUp() {
	for _, l := range s.links {
		if l.role == amqp.RoleReceiver && l.used >= l.credit/2 {
			l.used = 0
			s.putFlow(l)
		}
	}
	if s.sinceFlow >= s.conn.options.Window/5 {
		s.putFlow(nil)
	}
}

// putFlow writes a flow of a link, or of the session if l is nil.
func (s *session) putFlow(l *link) {
	f := amqp.Flow{
		NextIncomingID: amqp.Some(s.nextIncoming), IncomingWindow: s.conn.options.Window,
		NextOutgoingID: s.nextOutgoing, OutgoingWindow: s.conn.options.Window,
	}
	if l != nil {
		f.Handle, f.DeliveryCount, f.LinkCredit = amqp.Some(l.handle), amqp.Some(l.deliveryCount), amqp.Some(l.credit)
		f.Available, f.Drain = amqp.Some[uint32](0), l.drain
	}
	s.sinceFlow = 0
	s.conn.out = amqp.AppendFlow(s.conn.out, s.channel, &f)
}

func (s *session) put(p amqp.Performative) { s.conn.put(s.channel, p) }
