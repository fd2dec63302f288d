package client

import (
	"context"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// A Disposition is the way in which a message is settled by its lock token (6.3,
// update-disposition).
type Disposition string

const (
	Completed    Disposition = "completed"
	Abandoned    Disposition = "abandoned"
	Deferred     Disposition = "defered" // sic
	DeadLettered Disposition = "suspended"
)

// ReceiveDeferred receives deferred messages by their sequence numbers: all of them or none.
// Messages of a session need its id and a receiver that holds it.
func (c *Client) ReceiveDeferred(ctx context.Context, entity string, session *string, mode Mode, numbers ...int64) ([]*amqp.Message, error) {
	body := map[string]any{"sequence-numbers": numbers, "receiver-settle-mode": uint32(1)}
	if mode == ReceiveAndDelete {
		body["receiver-settle-mode"] = uint32(0)
	}
	if session != nil {
		body["session-id"] = *session
	}
	answer, err := c.Manage(ctx, entity, "receive-by-sequence-number", body)
	if err != nil {
		return nil, err
	}
	return messagesOf("receive-by-sequence-number", answer)
}

// SettleDeferred settles a message of [Client.ReceiveDeferred]. Reason and description are for
// DeadLettered and may be empty.
func (c *Client) SettleDeferred(ctx context.Context, entity string, session *string, m *amqp.Message, d Disposition, reason, description string) error {
	body := map[string]any{"disposition-status": string(d), "lock-tokens": []amqp.UUID{amqp.UUID(LockToken(m))}}
	if session != nil {
		body["session-id"] = *session
	}
	if d == DeadLettered {
		body["deadletter-reason"], body["deadletter-description"] = reason, description
	}
	_, err := c.Manage(ctx, entity, "update-disposition", body)
	return err
}

// messagesOf decodes the messages in an answer. A lock token becomes the delivery tag, as on a
// link.
func messagesOf(op string, answer map[string]any) ([]*amqp.Message, error) {
	items, _ := answer["messages"].([]any)
	messages := make([]*amqp.Message, 0, len(items))
	for _, item := range items {
		encoded, ok := entry(item, "message").([]byte)
		if !ok {
			return nil, &Error{Op: op, Text: "the answer contains an item that is not a message"}
		}
		m, err := decode(encoded)
		if err != nil {
			return nil, &Error{Op: op, Text: "a message cannot be decoded", cause: err}
		}
		if token, ok := entry(item, "lock-token").(amqp.UUID); ok {
			m.DeliveryTag = deliveryTag(uuid.UUID(token))
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// deliveryTag returns a lock token as a delivery tag: see [LockToken].
func deliveryTag(t uuid.UUID) []byte {
	return append([]byte{t[3], t[2], t[1], t[0], t[5], t[4], t[7], t[6]}, t[8:]...)
}
