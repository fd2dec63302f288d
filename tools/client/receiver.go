package client

import (
	"context"
	"errors"
	"strings"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// A Mode is the way in which messages are received.
type Mode uint8

const (
	// PeekLock locks messages until they are settled or the lock ends.
	PeekLock Mode = iota
	// ReceiveAndDelete removes messages from the queue when they are delivered.
	ReceiveAndDelete
)

// A Receiver receives from one entity. It receives no message before credit is granted.
type Receiver struct {
	link   *amqp.Receiver
	entity string
}

// NewReceiver opens a receiving link. Dead-letter queues are entities too: orders/$DeadLetterQueue.
func (c *Client) NewReceiver(ctx context.Context, entity string, mode Mode) (*Receiver, error) {
	entity = cleanEntity(entity)
	options := receiverOptions(mode)
	link, err := open(ctx, c, "receive from", entity, func(s *amqp.Session) (*amqp.Receiver, error) {
		return s.NewReceiver(ctx, entity, options)
	})
	if err != nil {
		return nil, err
	}
	return &Receiver{link: link, entity: entity}, nil
}

func receiverOptions(mode Mode) *amqp.ReceiverOptions {
	options := &amqp.ReceiverOptions{Credit: -1} // manual: see Credit
	if mode == ReceiveAndDelete {
		options.SettlementMode, options.RequestedSenderSettleMode = amqp.ReceiverSettleModeFirst.Ptr(), amqp.SenderSettleModeSettled.Ptr()
	} else {
		options.SettlementMode = amqp.ReceiverSettleModeSecond.Ptr() // settlements are answered
	}
	return options
}

// Credit allows the broker to send n more messages.
func (r *Receiver) Credit(n int) error {
	return wrap("receive from "+r.entity, r.link.IssueCredit(uint32(n)))
}

// Receive waits for the next message. If none arrives in time, it returns the context's error
// unchanged.
func (r *Receiver) Receive(ctx context.Context) (*amqp.Message, error) {
	m, err := r.link.Receive(ctx, nil)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, err
	}
	// an error of the library: see decode
	if err != nil && strings.Contains(err.Error(), "not implemented") {
		return nil, &Error{Op: "receive from " + r.entity, Text: "a message contains a value of a type that this program can only peek at", cause: err}
	}
	return m, wrap("receive from "+r.entity, err)
}

// Drain withdraws unused credit and returns the messages that were still on their way.
func (r *Receiver) Drain(ctx context.Context) ([]*amqp.Message, error) {
	err := r.link.DrainCredit(ctx, nil)
	var late []*amqp.Message
	for m := r.link.Prefetched(); m != nil; m = r.link.Prefetched() {
		late = append(late, m)
	}
	return late, wrap("receive from "+r.entity, err)
}

// Complete completes a message: it is never delivered again.
func (r *Receiver) Complete(ctx context.Context, m *amqp.Message) error {
	return wrap("complete", r.link.AcceptMessage(ctx, m))
}

// Abandon returns a message to the queue as a failed delivery.
func (r *Receiver) Abandon(ctx context.Context, m *amqp.Message) error {
	return wrap("abandon", r.link.ModifyMessage(ctx, m, nil))
}

// Release returns a message to the queue as if it had not been delivered.
func (r *Receiver) Release(ctx context.Context, m *amqp.Message) error {
	return wrap("release", r.link.ReleaseMessage(ctx, m))
}

// Defer defers a message: only its sequence number finds it.
func (r *Receiver) Defer(ctx context.Context, m *amqp.Message) error {
	return wrap("defer", r.link.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{UndeliverableHere: true}))
}

// DeadLetter moves a message to the dead-letter queue. Reason and description may be empty.
func (r *Receiver) DeadLetter(ctx context.Context, m *amqp.Message, reason, description string) error {
	info := map[string]any{"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
	return wrap("dead-letter", r.link.RejectMessage(ctx, m, &amqp.Error{Condition: "com.microsoft:dead-letter", Info: info}))
}

// Close detaches the link. Its messages stay locked until their locks end.
func (r *Receiver) Close(ctx context.Context) error {
	return wrap("close receiver", r.link.Close(ctx))
}

// LockToken returns the token of a message's lock, or zero if there is none. The first three groups
// of the delivery tag are little-endian (4.5).
func LockToken(m *amqp.Message) uuid.UUID {
	var token uuid.UUID
	t := m.DeliveryTag
	if len(t) != len(token) {
		return token
	}
	copy(token[:], []byte{t[3], t[2], t[1], t[0], t[5], t[4], t[7], t[6]})
	copy(token[8:], t[8:])
	return token
}
