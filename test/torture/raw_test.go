package torture

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// raw is a client made of frames, for what the Go SDK cannot do: transactions. It has one session,
// and the coordinator is attached first, so that the session is a transaction group: what is sent
// to other entities goes through the first one. After an error it is of no use any more.
type raw struct {
	conn   net.Conn
	in     *bufio.Reader
	sent   uint32 // deliveries
	credit uint32 // given to the receiver so far
}

// Handles of the links of a raw client.
const (
	coordinator = iota
	fromA
	toB
	toC
)

const answerTime = 2 * time.Second

// dialRaw connects, and makes the links of a transaction group: the coordinator, a receiver and
// senders.
func dialRaw(address, from string, to ...string) (*raw, error) {
	conn, err := net.DialTimeout("tcp", address, answerTime)
	if err != nil {
		return nil, err
	}
	r := &raw{conn: conn, in: bufio.NewReader(conn)}
	if err := r.open(from, to); err != nil {
		conn.Close()
		return nil, err
	}
	return r, nil
}

func (r *raw) open(from string, to []string) error {
	if err := errors.Join(r.greet(amqp.ProtocolSASL), r.await(isMechanisms)); err != nil {
		return err
	}
	login := &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00RootManageSharedAccessKey\x00SAS_KEY_VALUE")}
	if err := r.put(amqp.AppendSASLFrame(nil, login)); err != nil {
		return err
	}
	if err := r.await(isWelcome); err != nil {
		return err
	}
	if err := r.greet(amqp.ProtocolAMQP); err != nil {
		return err
	}
	if err := r.ask(&amqp.Open{ContainerID: "torture", MaxFrameSize: amqp.Some(uint32(1 << 16))}, is[*amqp.Open]); err != nil {
		return err
	}
	if err := r.ask(&amqp.Begin{IncomingWindow: 5000, OutgoingWindow: 5000, HandleMax: amqp.Some(uint32(255))}, is[*amqp.Begin]); err != nil {
		return err
	}
	if err := r.sender(coordinator, &amqp.Coordinator{}); err != nil {
		return err
	}
	receiver := &amqp.Attach{Name: "from", Handle: fromA, Role: amqp.RoleReceiver, SenderSettleMode: amqp.Some(amqp.SenderUnsettled),
		ReceiverSettleMode: amqp.Some(amqp.ReceiverSecond), Source: &amqp.Source{Address: from}, Target: &amqp.Target{}}
	if err := r.ask(receiver, is[*amqp.Attach]); err != nil {
		return err
	}
	for i, address := range to {
		if err := r.sender(uint32(toB+i), &amqp.Target{Address: address}); err != nil {
			return err
		}
	}
	return nil
}

// sender attaches a link and waits for credit.
func (r *raw) sender(handle uint32, target amqp.Terminus) error {
	attach := &amqp.Attach{Name: fmt.Sprint("link-", handle), Handle: handle, Role: amqp.RoleSender, Source: &amqp.Source{}, Target: target}
	return r.ask(attach, is[*amqp.Flow])
}

func (r *raw) greet(header [8]byte) error {
	if err := r.put(header[:]); err != nil {
		return err
	}
	var answer [8]byte
	if _, err := io.ReadFull(r.in, answer[:]); err != nil {
		return err
	}
	if answer != header {
		return fmt.Errorf("the peer begins with %q", answer)
	}
	return nil
}

func (r *raw) put(b []byte) error {
	_ = r.conn.SetDeadline(time.Now().Add(answerTime))
	_, err := r.conn.Write(b)
	return err
}

func (r *raw) write(p amqp.Performative, payload []byte) error {
	return r.put(amqp.AppendFrame(nil, 0, p, payload))
}

func (r *raw) ask(p amqp.Performative, answered func(amqp.Performative) (bool, error)) error {
	if err := r.write(p, nil); err != nil {
		return err
	}
	return r.await(answered)
}

// await reads until a frame is the one that was waited for.
func (r *raw) await(answered func(amqp.Performative) (bool, error)) error {
	for {
		p, _, err := r.frame()
		if err != nil {
			return err
		}
		if done, err := answered(p); done || err != nil {
			return err
		}
	}
}

// frame is the next one that is no keep-alive. One that ends something is an error.
func (r *raw) frame() (p amqp.Performative, payload []byte, err error) {
	for p == nil {
		var size [4]byte
		if _, err := io.ReadFull(r.in, size[:]); err != nil {
			return nil, nil, err
		}
		rest := make([]byte, binary.BigEndian.Uint32(size[:])-4)
		if _, err := io.ReadFull(r.in, rest); err != nil {
			return nil, nil, err
		}
		if body := rest[4:]; len(body) > 0 {
			if p, payload, err = amqp.DecodePerformative(body, amqp.DefaultLimits); err != nil {
				return nil, nil, err
			}
		}
	}
	switch p := p.(type) {
	case *amqp.Detach:
		return nil, nil, fmt.Errorf("link %d is ended: %v", p.Handle, p.Error)
	case *amqp.End:
		return nil, nil, fmt.Errorf("the session is ended: %v", p.Error)
	case *amqp.Close:
		return nil, nil, fmt.Errorf("the connection is ended: %v", p.Error)
	}
	return p, payload, nil
}

// is waits for a frame of a type.
func is[T amqp.Performative](p amqp.Performative) (bool, error) {
	_, ok := p.(T)
	return ok, nil
}

func isMechanisms(p amqp.Performative) (bool, error) { return is[*amqp.SASLMechanisms](p) }

func isWelcome(p amqp.Performative) (bool, error) {
	o, ok := p.(*amqp.SASLOutcome)
	if ok && o.Code != amqp.SASLOK {
		return false, fmt.Errorf("login refused with %d", o.Code)
	}
	return ok, nil
}

// delivery is a message that was received.
type delivery struct {
	id   uint32
	body []byte
}

// receive waits for a message, which takes one credit; nil: none came.
func (r *raw) receive() (*delivery, error) {
	r.credit++
	flow := &amqp.Flow{NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 5000, OutgoingWindow: 5000, Handle: amqp.Some(uint32(fromA)),
		DeliveryCount: amqp.Some(r.credit - 1), LinkCredit: amqp.Some(uint32(1))}
	if err := r.write(flow, nil); err != nil {
		return nil, err
	}
	var d delivery
	for {
		p, payload, err := r.frame()
		if err != nil {
			return nil, err
		}
		t, ok := p.(*amqp.Transfer)
		if !ok {
			continue
		}
		if t.DeliveryID.Set {
			d.id = t.DeliveryID.Value
		}
		if d.body = append(d.body, payload...); !t.More {
			return &d, nil
		}
	}
}

// transfer sends a message, or what is asked of the coordinator, and returns the state it is
// settled with.
func (r *raw) transfer(handle uint32, state amqp.DeliveryState, message []byte) (answer amqp.DeliveryState, err error) {
	id := r.sent
	r.sent++
	for first := true; first || len(message) > 0; first = false {
		n := min(len(message), 60_000)
		t := &amqp.Transfer{Handle: handle, More: n < len(message)}
		if first {
			t.DeliveryID, t.DeliveryTag, t.MessageFormat, t.State = amqp.Some(id), binary.BigEndian.AppendUint32(nil, id), amqp.Some(uint32(0)), state
		}
		if err := r.write(t, message[:n]); err != nil {
			return nil, err
		}
		message = message[n:]
	}
	err = r.await(func(p amqp.Performative) (bool, error) {
		d, ok := p.(*amqp.Disposition)
		if !ok || d.Role != amqp.RoleReceiver || d.First != id {
			return false, nil
		}
		answer = d.State
		return true, nil
	})
	return answer, err
}

// control asks the coordinator for something.
func (r *raw) control(c amqp.Control) (amqp.DeliveryState, error) {
	return r.transfer(coordinator, nil, amqp.AppendControl(amqp.AppendDescriptor(nil, amqp.SectionValue), c))
}

// declare begins a transaction.
func (r *raw) declare() (id []byte, err error) {
	state, err := r.control(&amqp.Declare{})
	if err != nil {
		return nil, err
	}
	d, ok := state.(amqp.Declared)
	if !ok {
		return nil, fmt.Errorf("a declare is answered with %+v", state)
	}
	return d.TxnID, nil
}

// discharge ends a transaction. An error means that nobody knows what came of it, unless it is a
// refusal.
func (r *raw) discharge(id []byte, fail bool) error {
	state, err := r.control(&amqp.Discharge{TxnID: id, Fail: fail})
	if err != nil {
		return err
	}
	if _, ok := state.(amqp.Accepted); !ok {
		return fmt.Errorf("a discharge is answered with %+v", state)
	}
	return nil
}

// sendIn sends a message in a transaction.
func (r *raw) sendIn(txn []byte, handle uint32, message []byte) error {
	state, err := r.transfer(handle, amqp.TransactionalState{TxnID: txn}, message)
	if err != nil {
		return err
	}
	if in, ok := state.(amqp.TransactionalState); ok && in.Outcome == (amqp.Accepted{}) {
		return nil
	}
	return fmt.Errorf("a send in a transaction is answered with %+v", state)
}

// completeIn completes a delivery in a transaction.
func (r *raw) completeIn(txn []byte, d *delivery) error {
	state := amqp.TransactionalState{TxnID: txn, Outcome: amqp.Accepted{}}
	if err := r.write(&amqp.Disposition{Role: amqp.RoleReceiver, First: d.id, State: state}, nil); err != nil {
		return err
	}
	return r.await(func(p amqp.Performative) (bool, error) {
		a, ok := p.(*amqp.Disposition)
		if !ok || a.Role != amqp.RoleSender || a.First != d.id {
			return false, nil
		}
		if in, ok := a.State.(amqp.TransactionalState); !ok || in.Outcome != (amqp.Accepted{}) {
			return false, fmt.Errorf("a settlement in a transaction is answered with %+v", a.State)
		}
		return true, nil
	})
}

// carry moves messages from one queue to another, each in a transaction.
func (f *fence) carry(ctx context.Context, s *stream) {
	for ; ctx.Err() == nil; time.Sleep(nextClient) {
		r, err := dialRaw(f.process.Address(), s.source, s.end)
		for err == nil && ctx.Err() == nil {
			err = carryOne(r)
		}
		if r != nil {
			r.conn.Close()
		}
	}
}

func carryOne(r *raw) error {
	d, err := r.receive()
	if err != nil {
		return err
	}
	txn, err := r.declare()
	if err != nil {
		return err
	}
	if err := r.sendIn(txn, toB, d.body); err != nil {
		return err
	}
	if err := r.completeIn(txn, d); err != nil {
		return err
	}
	return r.discharge(txn, false)
}
