package floor

import (
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A link is one link. Its role is this side's: a receiver takes messages that the client sends.
type link struct {
	handle        uint32
	role          amqp.Role
	deliveryCount uint32
	credit        uint32 // of a receiver the total grant, of a sender the remaining credit
	address       any    // the client's end of the link, to which replies are sent

	// fields of receivers
	deliveryID uint32 // of the delivery that is arriving
	settled    bool   // that delivery is settled
	used       uint32 // credit used since the last flow
	claims     bool   // the link is to $cbs
	request    []byte // message arriving on $cbs, or in several frames
	queue      *queue // where messages are kept, also of senders; nil: nowhere

	// fields of senders
	drain  bool
	silent bool   // $cbs and $management: sends only replies
	reply  []byte // unsent: the client's credit may arrive after its request
	tag    [16]byte
	taker  *receiver // registered at queue
	mail   [][]byte  // unsent
}

const claimsNode = "$cbs"

func (s *session) attach(p *amqp.Attach) {
	l := &link{handle: p.Handle, role: !p.Role}
	s.links[p.Handle] = l
	reply := &amqp.Attach{
		Name: p.Name, Handle: p.Handle, Role: l.role, SenderSettleMode: p.SenderSettleMode, ReceiverSettleMode: p.ReceiverSettleMode,
		Source: p.Source, Target: p.Target,
	}
	if reply.Source == nil {
		reply.Source = &amqp.Source{}
	}
	if reply.Target == nil {
		reply.Target = &amqp.Target{}
	}
	target, _ := reply.Target.(*amqp.Target)
	if l.role == amqp.RoleReceiver {
		l.credit = s.conn.options.Credit
		l.claims = target != nil && target.Address == claimsNode
		reply.MaxMessageSize = amqp.Some[uint64](100 << 20)
		if s.conn.keeper != nil && !l.claims && target != nil {
			to, _ := target.Address.(string)
			l.queue = s.conn.keeper.queue(to)
		}
		s.put(reply)
		s.putFlow(l)
		return
	}
	address, _ := reply.Source.Address.(string)
	l.silent = address == claimsNode || len(address) > len("$management") && address[len(address)-len("$management"):] == "$management"
	if target != nil {
		l.address = target.Address
	}
	reply.InitialDeliveryCount = amqp.Some[uint32](0)
	if s.conn.keeper != nil && !l.silent {
		l.queue = s.conn.keeper.queue(address)
		l.taker = &receiver{conn: s.conn, session: s, link: l}
		l.queue.attach(l.taker)
	}
	s.put(reply)
}

// forget stops delivery to the links of a session.
func (s *session) forget() {
	for _, l := range s.links {
		l.leave()
	}
}

func (l *link) leave() {
	if l.taker != nil {
		l.queue.detach(l.taker)
	}
}

// pump writes deliveries as far as credit and window allow.
func (s *session) pump() error {
	for _, l := range s.links {
		if l.role != amqp.RoleSender {
			continue
		}
		if l.reply != nil && l.credit > 0 {
			if err := s.deliver(l, l.reply); err != nil {
				return err
			}
			l.reply = nil
		}
		for l.taker != nil && len(l.mail) > 0 && s.remoteWindow > 0 {
			message := l.mail[0]
			l.mail[0] = nil
			if l.mail = l.mail[1:]; len(l.mail) == 0 {
				l.mail = nil
			}
			if err := s.deliver(l, message); err != nil {
				return err
			}
		}
		for l.taker == nil && !l.silent && l.credit > 0 && s.remoteWindow > 0 {
			if err := s.deliver(l, s.conn.message); err != nil {
				return err
			}
		}
		if l.drain && (l.credit == 0 || l.silent || l.taker != nil && len(l.mail) == 0) {
			l.deliveryCount += l.credit
			l.credit = 0
			s.putFlow(l)
			l.drain = false
		}
	}
	return nil
}

// deliver writes one message, in as many frames as the client's frame size requires.
func (s *session) deliver(l *link, message []byte) error {
	binary.BigEndian.PutUint32(l.tag[12:], s.nextDelivery)
	t := amqp.Transfer{
		Handle: l.handle, DeliveryID: amqp.Some(s.nextDelivery), DeliveryTag: l.tag[:], MessageFormat: amqp.Some(amqp.MessageFormatPlain),
		Settled: amqp.Some(false),
	}
	const transferHeader = 64 // bytes, rounded up
	room := int(s.conn.maxFrame) - transferHeader
	for {
		part := message
		if t.More = len(part) > room; t.More {
			part = part[:room]
		}
		s.conn.out = append(amqp.AppendTransferHeader(s.conn.out, s.channel, &t, len(part)), part...)
		s.nextOutgoing++
		if s.remoteWindow > 0 {
			s.remoteWindow--
		}
		message = message[len(part):]
		if !t.More {
			break
		}
		t.DeliveryID, t.DeliveryTag, t.MessageFormat = amqp.Opt[uint32]{}, nil, amqp.Opt[uint32]{}
	}
	s.nextDelivery++
	l.deliveryCount++
	if l.credit > 0 {
		l.credit--
	}
	if len(s.conn.out) >= flushSize {
		return s.conn.flush()
	}
	return nil
}

// grant accepts any token of a put-token request on $cbs.
func (s *session) grant(request []byte) {
	sections, err := amqp.ScanMessage(request, amqp.DefaultLimits)
	if err != nil {
		return
	}
	p, err := amqp.DecodeProperties(sections.Properties.Of(request))
	if err != nil {
		return
	}
	m := amqp.AppendProperties(nil, &amqp.Properties{CorrelationID: p.MessageID, To: p.ReplyTo})
	m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{
		{Key: "status-code", Value: int32(202)}, {Key: "status-description", Value: "Accepted"},
	})
	m = amqp.AppendSection(m, amqp.SectionValue, nil)
	var to *link
	for _, l := range s.links {
		if l.silent && (to == nil || p.ReplyTo.Set && l.address == p.ReplyTo.Value) {
			to = l
		}
	}
	if to != nil {
		to.reply = m
	}
}
