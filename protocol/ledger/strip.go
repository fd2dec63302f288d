package ledger

import (
	"context"
	"errors"
	"net/http"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// stripParameters are the parameters of the request.
var stripParameters = []string{"from", "to", "buckets"}

// strip answers with the bytes of records for each bucket of a range of time, and the changes in
// it.
func (c *call) strip() (any, error) {
	if err := c.takes(stripParameters); err != nil {
		return nil, err
	}
	q, err := past.ParseStrip(c.query, c.now.Std().UTC())
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s.", sentence(err))
	}
	if q.To == nil {
		q.To = &past.Instant{At: c.now}
	}
	places, share, err := c.h.takePlace(true)
	if err != nil {
		return nil, err
	}
	a := &stripAnswer{places: places, share: share}
	defer func() {
		if a.Strip == nil { // also after a panic
			a.free()
		}
	}()
	if a.Strip, err = a.read(c, q); err != nil {
		return nil, c.unanswered(err)
	}
	return a, nil
}

// read reads the logs for the strip.
func (a *stripAnswer) read(c *call, q past.StripQuery) (*rows.Strip, error) {
	ctx, cancel := context.WithTimeoutCause(c.Context(), questionTime, errLong)
	defer cancel()
	c.extendDeadlines(questionTime)
	l := past.New(&source{Source: c.h.Past, share: a.share, done: new(int)}, nil)
	l.Remember(&c.h.memory)
	strip, err := l.Strip(ctx, q)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	return strip, err
}

// A stripAnswer is a strip that keeps its slot until it has been read, and no longer than
// shortTime.
type stripAnswer struct {
	*rows.Strip
	places slots
	share  *budget.Share
}

func (a *stripAnswer) free() {
	a.share.Give(a.share.Has())
	a.share.Close()
	a.places.Release()
}

// send implements [stream].
func (a *stripAnswer) send(c *call) {
	defer a.free()
	c.extendDeadlines(shortTime)
	c.write(http.StatusOK, a.Strip)
}
