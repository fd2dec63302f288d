package client

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// A requester is a pair of links to a request-response node: $cbs or $management. It has one
// request in progress at a time.
type requester struct {
	node     string         // set once in newRequester
	replyTo  string         // set once in newRequester
	sender   *amqp.Sender   // set once in newRequester
	receiver *amqp.Receiver // set once in newRequester
	turn     chan struct{}  // holds one element; its taker owns the links and last
	last     uint64
}

func (c *Client) newRequester(ctx context.Context, node string) (*requester, error) {
	session, err := c.conn.NewSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	r := &requester{node: node, replyTo: uuid.NewString(), turn: make(chan struct{}, 1)}
	settled := amqp.SenderSettleModeSettled
	r.receiver, err = session.NewReceiver(ctx, node, &amqp.ReceiverOptions{
		TargetAddress: r.replyTo, Credit: 100, RequestedSenderSettleMode: &settled, SettlementMode: amqp.ReceiverSettleModeFirst.Ptr(),
	})
	if err != nil {
		return nil, err
	}
	if r.sender, err = session.NewSender(ctx, node, nil); err != nil {
		return nil, err
	}
	r.turn <- struct{}{}
	return r, nil
}

// call sends a request and waits for its answer. It skips answers to earlier requests that were
// given up. A status other than 2xx is an [Error].
func (r *requester) call(ctx context.Context, op string, request *amqp.Message) (*amqp.Message, error) {
	select {
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, wrap(op, ctx.Err())
	}
	r.last++
	id := strconv.FormatUint(r.last, 10)
	request.Properties = &amqp.MessageProperties{MessageID: id, ReplyTo: &r.replyTo}
	if err := r.sender.Send(ctx, request, nil); err != nil {
		return nil, wrap(op, err)
	}
	for {
		answer, err := r.receiver.Receive(ctx, nil)
		if err != nil {
			return nil, wrap(op, err)
		}
		if err := r.receiver.AcceptMessage(ctx, answer); err != nil {
			return nil, wrap(op, err)
		}
		if answer.Properties == nil || fmt.Sprint(answer.Properties.CorrelationID) != id {
			continue
		}
		return answer, statusError(op, answer)
	}
}

// statusError reads the status under the names of $cbs (2.3) and of $management (6.2).
func statusError(op string, answer *amqp.Message) error {
	p := answer.ApplicationProperties
	code, ok := integer(first(p, "statusCode", "status-code"))
	if !ok {
		return &Error{Op: op, Text: "the answer has no status"}
	}
	if code >= 200 && code < 300 {
		return nil
	}
	e := &Error{Op: op, Status: int(code), Text: "refused"}
	if text, _ := first(p, "statusDescription", "status-description").(string); text != "" {
		e.Text = text
	}
	switch condition := first(p, "errorCondition", "error-condition").(type) {
	case string:
		e.Condition = condition
	case amqp.Symbol:
		e.Condition = string(condition)
	}
	return e
}

// Manage sends an operation such as "renew-lock" (6.3) to the management node of an entity, and
// returns the answer's body. The body is empty if there is none, as for status 204.
func (c *Client) Manage(ctx context.Context, entity, operation string, body map[string]any) (map[string]any, error) {
	entity = cleanEntity(entity)
	if err := c.Authorize(ctx, entity); err != nil {
		return nil, err
	}
	node := entity + "/$management"
	if err := c.Authorize(ctx, node); err != nil { // the SDKs authorise both (2.4)
		return nil, err
	}
	c.mu.Lock()
	r := c.manage[node]
	if r == nil {
		var err error
		if r, err = c.newRequester(ctx, node); err != nil {
			c.mu.Unlock()
			return nil, wrap(operation, err)
		}
		c.manage[node] = r
	}
	c.mu.Unlock()

	properties := map[string]any{"operation": "com.microsoft:" + operation}
	if deadline, ok := ctx.Deadline(); ok {
		properties["com.microsoft:server-timeout"] = uint32(max(1, time.Until(deadline).Milliseconds()))
	}
	answer, err := r.call(ctx, operation, &amqp.Message{ApplicationProperties: properties, Value: body})
	if err != nil {
		if hasEnded(err) { // the next request opens new links
			c.mu.Lock()
			if c.manage[node] == r {
				delete(c.manage, node)
			}
			c.mu.Unlock()
		}
		return nil, err
	}
	result, _ := answer.Value.(map[string]any)
	if result == nil {
		if m, ok := answer.Value.(map[any]any); ok {
			result = make(map[string]any, len(m))
			for k, v := range m {
				result[fmt.Sprint(k)] = v
			}
		}
	}
	return result, nil
}

// Peek returns at most count messages from a sequence number on, without locking them. No message
// is no error.
func (c *Client) Peek(ctx context.Context, entity string, from int64, count int) ([]*amqp.Message, error) {
	return c.peek(ctx, entity, map[string]any{"from-sequence-number": from, "message-count": int32(count)})
}

// PeekSession is [Client.Peek] for the messages of one session.
func (c *Client) PeekSession(ctx context.Context, entity, session string, from int64, count int) ([]*amqp.Message, error) {
	return c.peek(ctx, entity, map[string]any{"from-sequence-number": from, "message-count": int32(count), "session-id": session})
}

func (c *Client) peek(ctx context.Context, entity string, request map[string]any) ([]*amqp.Message, error) {
	body, err := c.Manage(ctx, entity, "peek-message", request)
	if err != nil {
		if e, ok := err.(*Error); ok && e.Status == 404 && e.Condition == "com.microsoft:message-not-found" {
			return nil, nil // equivalent to 204 (6.3)
		}
		return nil, err
	}
	return messagesOf("peek-message", body)
}

// RenewLocks renews locks and returns their new ends, in order.
func (c *Client) RenewLocks(ctx context.Context, entity string, tokens ...uuid.UUID) ([]time.Time, error) {
	ids := make([]amqp.UUID, len(tokens))
	for i, t := range tokens {
		ids[i] = amqp.UUID(t)
	}
	body, err := c.Manage(ctx, entity, "renew-lock", map[string]any{"lock-tokens": ids})
	if err != nil {
		return nil, err
	}
	switch ends := body["expirations"].(type) {
	case []time.Time:
		return ends, nil
	case []any:
		var times []time.Time
		for _, end := range ends {
			if t, ok := end.(time.Time); ok {
				times = append(times, t)
			}
		}
		return times, nil
	}
	return nil, &Error{Op: "renew-lock", Text: "the answer contains no times"}
}

func first(m map[string]any, keys ...string) any {
	for _, key := range keys {
		if v := m[key]; v != nil {
			return v
		}
	}
	return nil
}

func entry(m any, key string) any {
	switch m := m.(type) {
	case map[string]any:
		return m[key]
	case map[any]any:
		return m[key]
	}
	return nil
}

// integer reads an integer of any type, because peers send different types.
func integer(v any) (int64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint():
		return int64(r.Uint()), true
	}
	return 0, false
}
