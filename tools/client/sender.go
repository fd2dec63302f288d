package client

import (
	"context"
	"errors"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// batchFormat marks a message whose data sections are messages (3.4).
const batchFormat = 0x80013700

// ErrBatchFull is the error of [Batch.Add] if the message does not fit.
var ErrBatchFull = errors.New("client: the batch is full")

// NewMessage returns a message with a body and a random message id.
func NewMessage(body []byte) *amqp.Message {
	return &amqp.Message{Data: [][]byte{body}, Properties: &amqp.MessageProperties{MessageID: uuid.NewString()}}
}

// A Sender sends to one entity. It is safe for concurrent use.
type Sender struct {
	link   *amqp.Sender
	entity string
}

// NewSender opens a sending link.
func (c *Client) NewSender(ctx context.Context, entity string) (*Sender, error) {
	entity = cleanEntity(entity)
	link, err := open(ctx, c, "send to", entity, func(s *amqp.Session) (*amqp.Sender, error) {
		return s.NewSender(ctx, entity, nil)
	})
	if err != nil {
		return nil, err
	}
	return &Sender{link: link, entity: entity}, nil
}

// Send sends a message and returns when the broker has stored or refused it. If Send fails without
// an answer (the context ended, the connection broke), the message may or may not be stored.
func (s *Sender) Send(ctx context.Context, m *amqp.Message) error {
	return wrap("send to "+s.entity, s.link.Send(ctx, m, nil))
}

// Begin sends a message and returns before the answer; wait waits for the answer. Messages of
// consecutive calls are stored in that order.
func (s *Sender) Begin(ctx context.Context, m *amqp.Message) (wait func(context.Context) error, err error) {
	receipt, err := s.link.SendWithReceipt(ctx, m, nil)
	if err != nil {
		return nil, wrap("send to "+s.entity, err)
	}
	return func(ctx context.Context) error {
		state, err := receipt.Wait(ctx)
		if err != nil {
			return wrap("send to "+s.entity, err)
		}
		switch state := state.(type) {
		case *amqp.StateAccepted:
			return nil
		case *amqp.StateRejected:
			if state.Error != nil {
				return wrap("send to "+s.entity, state.Error)
			}
		}
		return &Error{Op: "send to " + s.entity, Text: "the broker did not take the message"}
	}, nil
}

// MaxMessageSize returns the maximum size of a message or batch in bytes.
func (s *Sender) MaxMessageSize() int { return int(min(s.link.MaxMessageSize(), 1<<30)) }

// Close detaches the link.
func (s *Sender) Close(ctx context.Context) error {
	return wrap("close sender", s.link.Close(ctx))
}

// A Batch is a list of messages that are stored all or none. It must contain at least one message
// before it is sent.
type Batch struct {
	// the first message's sections, and every message as a data section; nil: empty
	envelope *amqp.Message
	limit    int // bytes
	size     int // bytes, an upper bound
}

const sectionRoom = 16 // bytes of a data section's own header, rounded up

// NewBatch returns an empty batch of the maximum size that the broker allows.
func (s *Sender) NewBatch() *Batch {
	limit := s.MaxMessageSize()
	if limit == 0 || limit > 1<<20 {
		limit = 1 << 20 // no entity takes larger batches (3.4)
	}
	return &Batch{limit: limit}
}

// Add adds a message to the batch. If the message does not fit, Add returns [ErrBatchFull] and does
// not change the batch.
func (b *Batch) Add(m *amqp.Message) error {
	encoded, err := m.MarshalBinary()
	if m.Format == batchFormat && len(m.Data) == 1 { // see ParseMessage
		encoded = m.Data[0]
	}
	if err != nil {
		return &Error{Op: "batch", Text: "the message cannot be encoded", cause: err}
	}
	grown, envelope := b.size+len(encoded)+sectionRoom, b.envelope
	if envelope == nil {
		head := *m
		head.Format, head.Data, head.Value, head.Sequence = batchFormat, nil, nil, nil
		envelope = &head
		headBytes, err := (&amqp.Message{Properties: m.Properties, Annotations: m.Annotations, ApplicationProperties: m.ApplicationProperties}).MarshalBinary()
		if err != nil {
			return &Error{Op: "batch", Text: "the message cannot be encoded", cause: err}
		}
		grown += len(headBytes) + sectionRoom
	}
	if grown > b.limit {
		return ErrBatchFull
	}
	envelope.Data = append(envelope.Data, encoded)
	b.envelope, b.size = envelope, grown
	return nil
}

// Len returns the number of messages in the batch.
func (b *Batch) Len() int {
	if b.envelope == nil {
		return 0
	}
	return len(b.envelope.Data)
}

// Message returns the batch as one message for [Sender.Send] or [Sender.Begin].
func (b *Batch) Message() *amqp.Message { return b.envelope }
