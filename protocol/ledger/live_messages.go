package ledger

import (
	"context"
	"net/http"
	"strconv"

	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// mostSearches bounds the questions that read messages at a time. Each may take the memory of two
// of the largest bodies that it reads, 32 MiB.
const mostSearches = 2

var errManySearches = refuse(http.StatusServiceUnavailable, "%d questions that read messages are being answered already, which is the limit; try again.", mostSearches)

// messageParameters are the parameters of the request for messages.
var messageParameters = []string{"entity", "state", "where", "from", "session", "top", "bodies"}

// messages answers with a page of the messages of an entity or a sub-queue.
func (c *call) messages(ctx context.Context) (any, error) {
	q, err := c.messagesQuery()
	if err != nil {
		return nil, err
	}
	reads, err := present.ReadsMessages(&q)
	if err != nil {
		return nil, err
	}
	if reads && !c.grant.Rights.Has(access.ReadBodies) {
		return nil, refuse(http.StatusForbidden, "The token lacks the right %v, which bodies, and conditions on sys., user. or body., need.", access.ReadBodies)
	}
	if reads {
		if !c.h.searches.acquire(ctx, liveWait) {
			return nil, errManySearches
		}
		defer c.h.searches.Release()
	}
	return c.h.Present.Messages(ctx, q)
}

// messagesQuery returns the query that the parameters describe.
func (c *call) messagesQuery() (q rows.MessagesQuery, err error) {
	if q.Entity, err = c.entityPath(); err != nil {
		return q, err
	}
	q.State, q.Where = c.query.Get("state"), c.query.Get("where")
	if q.Top, err = number(c.query, "top"); err != nil {
		return q, err
	}
	if text := c.query.Get("from"); text != "" {
		if q.From, err = strconv.ParseUint(text, 10, 63); err != nil {
			return q, refuse(http.StatusBadRequest, "Parameter from is %.20q, and must be a sequence number.", text)
		}
	}
	if c.query.Has("session") { // a session id may be empty
		id := c.query.Get("session")
		q.Session = &id
	}
	if text := c.query.Get("bodies"); text != "" {
		if q.Bodies, err = strconv.ParseBool(text); err != nil {
			return q, refuse(http.StatusBadRequest, "Parameter bodies is %.20q, and must be true or false.", text)
		}
	}
	return q, nil
}
