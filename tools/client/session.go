package client

import (
	"context"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = 0x000000137000000C // (4.2)
)

// NewSessionReceiver locks a message session and opens a link that receives its messages. It locks
// the named session, or with nil the next one that has messages, for which the broker waits up to
// wait. The lock ends with the link.
func (c *Client) NewSessionReceiver(ctx context.Context, entity string, session *string, wait time.Duration, mode Mode) (*Receiver, error) {
	entity = cleanEntity(entity)
	var id any
	if session != nil {
		id = *session
	}
	options := receiverOptions(mode)
	options.Filters = []amqp.LinkFilter{amqp.NewLinkFilter(sessionFilter, sessionFilterCode, id)}
	options.Properties = map[string]any{"com.microsoft:timeout": uint32(max(1, wait.Milliseconds()))}
	link, err := open(ctx, c, "accept a session of", entity, func(s *amqp.Session) (*amqp.Receiver, error) {
		return s.NewReceiver(ctx, entity, options)
	})
	if err != nil {
		return nil, err
	}
	r := &Receiver{link: link, entity: entity}
	if _, ok := r.Session(); !ok {
		_ = r.Close(ctx)
		return nil, &Error{Op: "accept a session of " + entity, Text: "the broker assigned no session; check that the entity requires sessions"}
	}
	return r, nil
}

// Session returns the id of the session that the receiver holds.
func (r *Receiver) Session() (id string, ok bool) {
	id, ok = r.link.LinkSourceFilterValue(sessionFilter).(string)
	return id, ok
}
