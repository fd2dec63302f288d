package floor

import (
	"errors"
	"net"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const (
	flushSize = 128 << 10        // maximum bytes gathered before a write
	keepAlive = 15 * time.Second // clients here offer idle timeouts of 30 s and more
)

// A conn is one connection. run owns everything except the reader.
type conn struct {
	options  *Options
	message  []byte
	net      net.Conn
	reader   *reader
	decoder  amqp.Decoder
	sessions map[uint16]*session // by the client's channel, which this side uses too
	out      []byte              // unwritten frames
	maxFrame uint32              // the client's maximum
	over     bool                // out contains this side's close
	keeper   *keeper             // nil: nothing is kept
	inbox    *inbox
	notices  []notice // reused
}

var errProtocol = errors.New("floor: not the protocol")

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{
		options: &s.options, message: s.message, net: nc, reader: newReader(nc), keeper: s.keeper, inbox: &inbox{wake: make(chan struct{}, 1)},
		sessions: make(map[uint16]*session), maxFrame: amqp.MinMaxFrameSize,
	}
}

func (c *conn) run() {
	go c.reader.run()
	c.loop()
	for _, s := range c.sessions {
		s.forget()
	}
	c.net.Close()
	c.reader.release()
}

func (c *conn) loop() {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for !c.over {
		select {
		case b, ok := <-c.reader.full:
			if !ok || c.take(b) != nil {
				return
			}
		case <-c.inbox.wake:
		case <-tick.C:
			c.out = amqp.AppendEmptyFrame(c.out)
		}
		// answer frames that arrived meanwhile in the same write
		for waiting := true; waiting && !c.over && len(c.out) < flushSize; {
			select {
			case b, ok := <-c.reader.full:
				if !ok || c.take(b) != nil {
					return
				}
			default:
				waiting = false
			}
		}
		if c.answer() != nil || c.flush() != nil {
			return
		}
	}
}

// take handles all frames of a block.
func (c *conn) take(b block) error {
	defer func() { c.reader.free <- b.buf }()
	for data := (*b.buf)[:b.n]; len(data) > 0 && !c.over; {
		frame := data[:frameSize(data)]
		data = data[len(frame):]
		if err := c.frame(frame); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) frame(frame []byte) error {
	if isProtocolHeader(frame) {
		c.out = append(c.out, frame...)
		if amqp.ProtocolHeader(frame) == amqp.ProtocolSASL {
			c.out = amqp.AppendSASLFrame(c.out, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS"}})
		}
		return nil
	}
	header, err := amqp.ParseFrameHeader(frame)
	if err != nil {
		return err
	}
	body := frame[4*int(header.DOFF):]
	if len(body) == 0 {
		return nil
	}
	p, payload, err := c.decoder.Decode(body)
	if err != nil {
		return err
	}
	switch p := p.(type) {
	case *amqp.SASLInit:
		c.out = amqp.AppendSASLFrame(c.out, &amqp.SASLOutcome{AdditionalData: []byte("Welcome!")})
		return nil
	case *amqp.Open:
		c.maxFrame = p.MaxFrameSize.Or(amqp.NoLimit)
		c.put(0, &amqp.Open{
			ContainerID: "floor", MaxFrameSize: amqp.Some[uint32](maxFrameSize), ChannelMax: p.ChannelMax,
			IdleTimeout: amqp.Some[uint32](240_000),
		})
		return nil
	case *amqp.Close:
		c.put(0, &amqp.Close{})
		c.over = true
		return c.flush()
	case *amqp.Begin:
		c.begin(header.Channel, p)
		return nil
	}
	s := c.sessions[header.Channel]
	if s == nil {
		return errProtocol
	}
	return s.handle(p, payload)
}

func (c *conn) begin(channel uint16, p *amqp.Begin) {
	c.sessions[channel] = &session{
		conn: c, channel: channel, links: make(map[uint32]*link),
		nextIncoming: p.NextOutgoingID, remoteWindow: p.IncomingWindow,
	}
	c.put(channel, &amqp.Begin{
		RemoteChannel: amqp.Some(channel), IncomingWindow: c.options.Window, OutgoingWindow: c.options.Window, HandleMax: p.HandleMax,
	})
}

// answer produces the responses to the frames since the last write.
func (c *conn) answer() error {
	if c.keeper != nil {
		c.keeper.flush()
		c.hear()
	}
	for _, s := range c.sessions {
		s.settle()
		s.topUp()
		if err := s.pump(); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) put(channel uint16, p amqp.Performative) {
	c.out = amqp.AppendFrame(c.out, channel, p, nil)
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}
