package servicebus

import (
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// serverTimeout is how long a client waits for the answer to its request, 0 when it does not say (6.2). The Go SDK says 0
// when less than a second is left, and gives up by itself.
func (req *request) serverTimeout() time.Duration {
	for _, key := range [...]string{"com.microsoft:server-timeout", "server-timeout"} {
		if ms, ok := message.Integer(req.properties, key); ok && ms > 0 {
			return time.Duration(min(ms, message.MaxTimeout.Milliseconds())) * time.Millisecond
		}
	}
	return 0
}

// limitTime gives a request on its way to the engine its deadline.
func (c *conn) limitTime(req *request) {
	if req.timeout = req.serverTimeout(); req.timeout == 0 {
		return
	}
	req.deadline, req.place = c.now.Add(req.timeout), len(c.timed)
	c.timed = append(c.timed, req)
	c.timers.by(c, req.deadline)
}

// untime takes a request out of those with a deadline.
func (c *conn) untime(req *request) {
	if req.deadline.IsZero() {
		return
	}
	last := len(c.timed) - 1
	c.timed[req.place] = c.timed[last]
	c.timed[req.place].place = req.place
	c.timed[last] = nil
	c.timed = c.timed[:last]
	req.deadline = time.Time{}
}

// nextDeadline is when the first request has to be answered, zero when none has to.
func (c *conn) nextDeadline() (at time.Time) {
	for _, req := range c.timed {
		if at.IsZero() || req.deadline.Before(at) {
			at = req.deadline
		}
	}
	return at
}

// endOverdue answers the requests that the engine has not answered in time. What it says later is not passed on.
func (c *conn) endOverdue() {
	for i := len(c.timed) - 1; i >= 0; i-- {
		if req := c.timed[i]; !c.now.Before(req.deadline) {
			c.untime(req) // moves one that was looked at already to i
			req.over = true
			c.refuseRequest(req, 408, amqp.CondTimeout, fmt.Sprintf("The operation did not complete within the allotted timeout of %s.", hms(req.timeout)))
		}
	}
}

// tooLate gives locks back, without counting, that were taken for a client that has been told of a time-out.
func (req *request) tooLate(r *engine.Reply) {
	t := req.l.target
	messages := r.Messages()
	for i := range messages {
		if token := messages[i].Token; token != (event.LockToken{}) {
			req.l.c.batch.add(t.Host(0), engine.Request{Command: &engine.Settle{
				Entity: t.Entity, Slice: t.Slice(0), SubQueue: t.SubQueue, Origin: req.l.origin, Token: token, Outcome: engine.Release,
			}})
		}
	}
}
