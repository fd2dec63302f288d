package ledger

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// Bounds of questions about the present.
const (
	// mostLive bounds the questions about the present that are answered at a time, and liveWait the
	// time that another one waits for its turn.
	mostLive = 8
	liveWait = 2 * time.Second
	// liveTime bounds the time for an answer to be made, and then that for it to be read.
	liveTime = 30 * time.Second
)

var errManyLive = refuse(http.StatusServiceUnavailable, "%d questions about the present are being answered already, which is the limit; try again.", mostLive)

// live returns the route of a question about the present, with the parameters that it takes. Each
// can be given once.
func live(name string, parameters []string, answer func(*call, context.Context) (any, error)) route {
	return route{http.MethodGet, "v1/" + name, access.ReadHistory, parameters, func(c *call) (any, error) {
		if err := c.takes(parameters); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(c.Context(), liveTime)
		defer cancel()
		if !c.h.live.acquire(ctx, liveWait) {
			return nil, errManyLive
		}
		answered := false
		defer func() {
			if !answered { // also after a panic
				c.h.live.Release()
			}
		}()
		value, err := answer(c, ctx)
		if err != nil {
			return nil, unanswerable(err)
		}
		answered = true
		return &liveAnswer{value}, nil
	}}
}

// A liveAnswer is an answer about the present. It keeps its slot until it has been read, so all
// answers together take little memory, and no longer than liveTime.
type liveAnswer struct{ value any }

// send implements [stream].
func (a *liveAnswer) send(c *call) {
	defer c.h.live.Release()
	c.extendDeadlines(liveTime)
	c.write(http.StatusOK, a.value)
}

// acquire takes a slot, waiting for one for a time, and reports whether it has one.
func (s slots) acquire(ctx context.Context, most time.Duration) bool {
	if s.TryAcquire() {
		return true
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// takes refuses a query with a parameter that the request does not have, or with one twice.
func (c *call) takes(parameters []string) error {
	if err := fits(c.query); err != nil {
		return err
	}
	for name, values := range c.query {
		switch {
		case !slices.Contains(parameters, name) && len(parameters) == 0:
			return refuse(http.StatusBadRequest, "This request has no parameter %.20q; it takes none.", name)
		case !slices.Contains(parameters, name):
			return refuse(http.StatusBadRequest, "This request has no parameter %.20q; it takes %s.", name, strings.Join(parameters, ", "))
		case len(values) > 1:
			return refuse(http.StatusBadRequest, "Parameter %s is given %d times.", name, len(values))
		}
	}
	return nil
}

// unanswerable turns an error of package present into a refusal.
func unanswerable(err error) error {
	switch {
	case errors.Is(err, present.ErrQuestion):
		return refuse(http.StatusBadRequest, "%s.", sentence(plain(err, present.ErrQuestion)))
	case errors.Is(err, present.ErrNotFound):
		return refuse(http.StatusNotFound, "%s.", sentence(plain(err, present.ErrNotFound)))
	case errors.Is(err, present.ErrAway):
		return refuse(http.StatusServiceUnavailable, "%s.", sentence(err))
	}
	return err
}

// plain returns an error without the text of the one that it wraps.
func plain(err, wrapped error) error {
	return errors.New(strings.TrimPrefix(err.Error(), wrapped.Error()+": "))
}

// number returns a parameter that is a whole number; 0: it is not given.
func number(query url.Values, name string) (int, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refuse(http.StatusBadRequest, "Parameter %s is %.20q, and must be a whole number from 1 on.", name, text)
	}
	return n, nil
}

// showNow answers with what the namespace has and does.
func (c *call) showNow(ctx context.Context) (any, error) {
	now, err := c.h.Present.Now(ctx)
	if err != nil {
		return nil, err
	}
	running := c.h.Running()
	now.Running = &running
	return now, nil
}

// entities answers with a page of the entities.
func (c *call) entities(ctx context.Context) (any, error) {
	top, err := number(c.query, "top")
	if err != nil {
		return nil, err
	}
	return c.h.Present.Entities(ctx, rows.Query{Prefix: c.query.Get("prefix"), Kind: c.query.Get("kind"), Sort: c.query.Get("sort"), Top: top, After: c.query.Get("after")})
}

// entity answers with one entity.
func (c *call) entity(ctx context.Context) (any, error) {
	path, err := c.entityPath()
	if err != nil {
		return nil, err
	}
	return c.h.Present.Entity(ctx, path)
}

// sessions answers with a page of the sessions of an entity.
func (c *call) sessions(ctx context.Context) (any, error) {
	path, err := c.entityPath()
	if err != nil {
		return nil, err
	}
	top, err := number(c.query, "top")
	if err != nil {
		return nil, err
	}
	var after *string
	if c.query.Has("after") { // a session id may be empty
		id := c.query.Get("after")
		after = &id
	}
	list, err := c.h.Present.Sessions(ctx, path, top, after)
	if err != nil {
		return nil, err
	}
	c.nameHolders(ctx, &list)
	return list, nil
}

// series answers with what happened to the messages of an entity, or of all entities.
func (c *call) series(ctx context.Context) (any, error) {
	return c.h.Present.Series(ctx, c.query.Get("entity"), c.query.Get("step"))
}

// nameHolders adds the receivers that hold sessions.
func (c *call) nameHolders(ctx context.Context, list *rows.Sessions) {
	of, err := c.h.Live.Resolve(list.Entity)
	if err != nil { // it was deleted meanwhile
		return
	}
	holders := map[string]*engine.Origin{}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	for _, partition := range c.h.Live.Receiving(ctx, of) {
		for _, p := range partition.Ports {
			if p.HasSession {
				holders[p.Session] = p.Receiver.Origin
			}
		}
	}
	for i := range list.Sessions {
		s := &list.Sessions[i]
		if o := holders[s.ID]; o != nil && s.LockedUntil != nil {
			s.Holder = &rows.Holder{Connection: o.Connection, Remote: o.RemoteAddress, Client: short(o.Product), By: short(o.Principal), Link: short(o.Link)}
		}
	}
}

// entityPath returns the parameter entity.
func (c *call) entityPath() (string, error) {
	path := strings.Trim(c.query.Get("entity"), "/")
	if path == "" {
		return "", refuse(http.StatusBadRequest, "Missing or empty parameter entity; it is the path of a queue, a topic or a subscription.")
	}
	return path, nil
}
