package servicebus

import (
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// deadlines holds the requests with a deadline, in no order.
type deadlines struct{ requests []*request }

// add gives a request a deadline.
func (d *deadlines) add(req *request, at time.Time) {
	req.deadline, req.place = at, len(d.requests)
	d.requests = append(d.requests, req)
}

// remove removes a request, if it has a deadline.
func (d *deadlines) remove(req *request) {
	if req.deadline.IsZero() {
		return
	}
	last := len(d.requests) - 1
	d.requests[req.place] = d.requests[last]
	d.requests[req.place].place = req.place
	d.requests[last] = nil
	d.requests = d.requests[:last]
	req.deadline = time.Time{}
}

// next returns the earliest deadline, zero if there is none.
func (d *deadlines) next() (at time.Time) {
	for _, req := range d.requests {
		if at.IsZero() || req.deadline.Before(at) {
			at = req.deadline
		}
	}
	return at
}

// passed removes and returns the requests whose deadline has passed.
func (d *deadlines) passed(now time.Time) (overdue []*request) {
	for i := len(d.requests) - 1; i >= 0; i-- {
		if req := d.requests[i]; !now.Before(req.deadline) {
			d.remove(req) // moves a request that was visited already to i
			overdue = append(overdue, req)
		}
	}
	return overdue
}

// limitTime gives a request to the engine its deadline.
func (req *request) limitTime() {
	c := req.l.c
	if req.timeout = req.serverTimeout(); req.timeout == 0 {
		return
	}
	if req.until.IsZero() { // a request in several parts has one deadline for all of them
		req.until = c.now.Add(req.timeout)
	}
	c.deadlines.add(req, req.until)
	c.timers.by(c, req.until)
}

// serverTimeout returns how long a client waits for the answer to its request, 0 if it does not say
// (6.2). The Go SDK sends 0 when less than a second is left, and times out by itself.
func (req *request) serverTimeout() time.Duration {
	for _, key := range [...]string{"com.microsoft:server-timeout", "server-timeout"} {
		if ms, ok := message.Integer(req.properties, key); ok && ms > 0 {
			return time.Duration(min(ms, message.MaxTimeout.Milliseconds())) * time.Millisecond
		}
	}
	return 0
}

// releaseLate releases, without counting a delivery, the locks that were taken for a client whose
// request has timed out.
func (req *request) releaseLate(r *engine.Reply) {
	t := req.l.target
	messages := r.Messages()
	for i := range messages {
		if token := messages[i].Token; token != (event.LockToken{}) {
			at := t.OfToken(token)
			req.l.c.batch.add(t.Host(at), engine.Request{Command: &engine.Settle{
				Entity: t.Entity, Slice: t.Slice(at), SubQueue: t.SubQueue, Origin: req.l.origin, Token: token, Outcome: engine.Release,
			}})
		}
	}
}

// timedOut answers a request that the engine has not answered in time. A later answer of the engine
// is dropped.
func (req *request) timedOut() {
	req.over = true
	req.refuse(408, amqp.CondTimeout, fmt.Sprintf("The operation did not complete within the allotted timeout of %s.", hms(req.timeout)))
}
