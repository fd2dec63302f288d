package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// Measures the cost of transactions: ten sends in a transaction, compared with the same ten in a
// batch. The client library does not support transactions, so this file contains a small client for
// both.

const (
	unitsAtOnce     = 64
	unitMessages    = 10
	unitConnections = 8
)

func (s *suite) transactions(ctx context.Context) error {
	c, end, err := s.startBroker(ctx)
	if err != nil {
		return err
	}
	defer end()
	kinds := []struct {
		name          string
		transactional bool
	}{{"64 batches of 10 side by side", false}, {"64 transactions of 10 sends side by side", true}}
	for round := range s.Rounds {
		for i := range kinds { // alternate the order, so that neither kind is always first
			k := kinds[(i+round)%len(kinds)]
			r, err := runUnits(ctx, c, k.transactional, s.Size, s.Duration)
			if err != nil {
				return fmt.Errorf("transactions: %s: %w", k.name, err)
			}
			s.Log("round %d: %s: %.0f messages/s", round+1, k.name, r.perSecond)
			s.report.add(brokerSide, k.name+", messages/s", r.perSecond)
			s.report.add(brokerSide, k.name+", p50, µs", micros(r.latency.P50))
			s.report.add(brokerSide, cpuOf(k.name), r.cpu)
		}
	}
	return nil
}

// A unitsResult is the result of concurrent units of work.
type unitsResult struct {
	perSecond float64
	latency   Latency // of a unit: from its first frame to the answer to its last
	cpu       float64 // server CPU seconds per million messages
}

func runUnits(ctx context.Context, to *child, transactional bool, size int, duration time.Duration) (unitsResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns []*unitConn
	failed := make(chan error, unitConnections)
	for range unitConnections {
		c, err := openUnits(ctx, to.target, transactional, size)
		if err != nil {
			return unitsResult{}, err
		}
		defer c.net.Close()
		conns = append(conns, c)
		go func() { failed <- c.run() }()
	}
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	total := func() (n int64) {
		for _, c := range conns {
			n += c.units.Load()
		}
		return n
	}
	if err := wait(duration / 10); err != nil {
		return unitsResult{}, err
	}
	began, before := time.Now(), total()
	cpu, err1 := processCPU(to.pid())
	if err := wait(duration); err != nil {
		return unitsResult{}, err
	}
	messages, took := float64((total()-before)*unitMessages), time.Since(began)
	after, err2 := processCPU(to.pid())
	if err := errors.Join(err1, err2); err != nil {
		return unitsResult{}, err
	}
	for _, c := range conns {
		c.stop.Store(true)
	}
	var all Histogram
	for _, c := range conns {
		if err := <-failed; err != nil {
			return unitsResult{}, err
		}
		all.Merge(&c.latency)
	}
	return unitsResult{messages / took.Seconds(), all.Latency(), (after - cpu).Seconds() / messages * 1e6}, nil
}

// A unitConn is a connection with several sessions, each of which does one unit of work after the
// other.
type unitConn struct {
	net      net.Conn
	in       *bufio.Reader
	out      []byte
	decoder  amqp.Decoder
	sessions []*session
	busy     int // sessions at work
	units    atomic.Int64
	stop     atomic.Bool
	latency  Histogram
}

// A session is an AMQP session with a link to the coordinator and one to the queue.
type session struct {
	c             *unitConn
	channel       uint16
	transactional bool
	message       []byte
	batch         []byte
	delivery      uint32
	transaction   []byte // nil: none declared
	unanswered    int    // unanswered sends
	discharging   bool
	began         time.Time
}

const (
	coordinatorHandle = 0
	queueHandle       = 1
)

// openUnits logs in with the key itself, which needs no tokens, and starts the sessions.
func openUnits(ctx context.Context, to Target, transactional bool, size int) (*unitConn, error) {
	at, err := client.ParseConnectionString(to.ConnectionString)
	if err != nil {
		return nil, err
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(at.Host, strconv.Itoa(at.Port)))
	if err != nil {
		return nil, err
	}
	c := &unitConn{net: nc, in: bufio.NewReaderSize(nc, 64<<10)}
	c.out = append(c.out, amqp.ProtocolSASL[:]...)
	c.out = amqp.AppendSASLFrame(c.out, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: amqp.Secret("\x00" + developmentKeyName + "\x00" + developmentKey)})
	c.out = append(c.out, amqp.ProtocolAMQP[:]...)
	c.put(0, &amqp.Open{ContainerID: "ledgerbench", Hostname: at.Host, MaxFrameSize: amqp.Some[uint32](64 << 10)}, nil)
	message := amqp.AppendData(nil, make([]byte, size))
	var batch []byte
	for range unitMessages {
		batch = amqp.AppendData(batch, message)
	}
	for i := range unitsAtOnce / unitConnections {
		l := &session{c: c, channel: uint16(i), transactional: transactional, message: message, batch: batch}
		c.sessions = append(c.sessions, l)
		c.put(l.channel, &amqp.Begin{IncomingWindow: 1 << 20, OutgoingWindow: 1 << 20}, nil)
		if transactional {
			c.put(l.channel, &amqp.Attach{Name: fmt.Sprint("coordinator", i), Handle: coordinatorHandle, Role: amqp.RoleSender,
				Source: &amqp.Source{}, Target: &amqp.Coordinator{}}, nil)
		}
		c.put(l.channel, &amqp.Attach{Name: fmt.Sprint("queue", i), Handle: queueHandle, Role: amqp.RoleSender,
			Source: &amqp.Source{}, Target: &amqp.Target{Address: to.Queue}}, nil)
	}
	return c, c.flush()
}

func (c *unitConn) put(channel uint16, p amqp.Performative, payload []byte) {
	c.out = amqp.AppendFrame(c.out, channel, p, payload)
}

func (c *unitConn) flush() error {
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// run reads frames until every session has ended.
func (c *unitConn) run() error {
	for first := true; first || c.busy > 0; {
		if c.in.Buffered() == 0 && len(c.out) > 0 {
			if err := c.flush(); err != nil {
				return err
			}
		}
		header, err := c.in.Peek(amqp.FrameHeaderSize)
		if err != nil {
			return err
		}
		if string(header[:4]) == "AMQP" {
			_, _ = c.in.Discard(amqp.FrameHeaderSize) // buffered
			continue
		}
		frame := make([]byte, binary.BigEndian.Uint32(header))
		if _, err := io.ReadFull(c.in, frame); err != nil {
			return err
		}
		h, err := amqp.ParseFrameHeader(frame)
		if err != nil {
			return err
		}
		if len(frame) == 4*int(h.DOFF) {
			continue
		}
		p, _, err := c.decoder.Decode(frame[4*int(h.DOFF):])
		if err != nil {
			return err
		}
		switch p := p.(type) {
		case *amqp.Flow: // a session starts when its last link, to the queue, has credit
			if l := c.sessions[h.Channel]; p.Handle.Set && p.Handle.Value == queueHandle && l.began.IsZero() {
				c.busy++
				first = false
				l.begin()
			}
		case *amqp.Disposition:
			if err := c.sessions[h.Channel].answered(p); err != nil {
				return err
			}
		case *amqp.Detach:
			return fmt.Errorf("a link was refused or detached: %v", p.Error)
		case *amqp.Close:
			return fmt.Errorf("the connection was closed: %v", p.Error)
		case *amqp.SASLOutcome:
			if p.Code != amqp.SASLOK {
				return errors.New("the key was refused")
			}
		}
	}
	return nil
}

func (l *session) transfer(handle, format uint32, state amqp.DeliveryState, payload []byte) {
	var tag [4]byte
	binary.BigEndian.PutUint32(tag[:], l.delivery)
	t := amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(l.delivery), DeliveryTag: tag[:], MessageFormat: amqp.Some(format), State: state}
	l.delivery++
	l.c.put(l.channel, &t, payload)
}

// begin sends a batch, or requests a transaction.
func (l *session) begin() {
	l.began = time.Now()
	if l.transactional {
		l.ask(&amqp.Declare{})
	} else {
		l.unanswered = 1
		l.transfer(queueHandle, amqp.MessageFormatBatch, nil, l.batch)
	}
}

// ask sends a declare or a discharge to the coordinator.
func (l *session) ask(what amqp.Control) {
	l.transfer(coordinatorHandle, amqp.MessageFormatPlain, nil, amqp.AppendControl(amqp.AppendDescriptor(nil, 0x77), what))
}

// answered handles a disposition of the broker and starts the next step.
func (l *session) answered(d *amqp.Disposition) error {
	switch state := d.State.(type) {
	case amqp.Declared:
		l.transaction, l.unanswered = append([]byte(nil), state.TxnID...), unitMessages
		for range unitMessages {
			l.transfer(queueHandle, amqp.MessageFormatPlain, amqp.TransactionalState{TxnID: l.transaction}, l.message)
		}
		return nil
	case amqp.TransactionalState:
		if _, accepted := state.Outcome.(amqp.Accepted); !accepted {
			return fmt.Errorf("send in a transaction: %v", state.Outcome)
		}
	case amqp.Accepted:
	default:
		return fmt.Errorf("unexpected answer: %+v", d.State)
	}
	if !l.discharging {
		l.unanswered -= int(d.Last.Or(d.First)-d.First) + 1
		if l.unanswered > 0 {
			return nil
		}
		if l.discharging = l.transactional; l.discharging {
			l.ask(&amqp.Discharge{TxnID: l.transaction})
			return nil
		}
	}
	l.discharging = false
	l.c.latency.Record(time.Since(l.began))
	l.c.units.Add(1)
	if l.c.stop.Load() {
		l.c.busy--
	} else {
		l.begin()
	}
	return nil
}
