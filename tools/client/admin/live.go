package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
)

// Now returns what the namespace has and does. Only Ledgerbus has this request.
func (c *Client) Now(ctx context.Context) (now rows.Now, err error) {
	err = c.live(ctx, "read the state of the namespace", "now", nil, &now)
	return now, err
}

// Entities returns a page of the entities, with counts, ages and rates. Only Ledgerbus has this
// request.
func (c *Client) Entities(ctx context.Context, q rows.Query) (page rows.Entities, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"prefix": q.Prefix, "kind": q.Kind, "sort": q.Sort, "after": q.After} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setTop(query, q.Top)
	err = c.live(ctx, "list entities", "entities", query, &page)
	return page, err
}

// Entity returns one entity with its current counts. Only Ledgerbus has this request.
func (c *Client) Entity(ctx context.Context, path string) (e rows.Entity, err error) {
	err = c.live(ctx, "read "+path, "entity", url.Values{"entity": {path}}, &e)
	return e, err
}

// Sessions returns a page of the sessions of an entity: at most top, 0 for as many as fit into an
// answer, after a session id. Only Ledgerbus has this request.
func (c *Client) Sessions(ctx context.Context, path string, top int, after *string) (list rows.Sessions, err error) {
	query := url.Values{"entity": {path}}
	setTop(query, top)
	if after != nil {
		query.Set("after", *after)
	}
	err = c.live(ctx, "list the sessions of "+path, "sessions", query, &list)
	return list, err
}

// Series returns what happened to the messages of an entity, or with "" of all entities. The steps
// are "20s" for the last hour and "10m" for the last day. Only Ledgerbus has this request.
func (c *Client) Series(ctx context.Context, path, step string) (s rows.Series, err error) {
	query := url.Values{"step": {step}}
	if path != "" {
		query.Set("entity", path)
	}
	err = c.live(ctx, "read the series of "+cmp.Or(path, "all entities"), "series", query, &s)
	return s, err
}

// Messages returns a page of the messages of an entity or a sub-queue. Only Ledgerbus has this
// request.
func (c *Client) Messages(ctx context.Context, q rows.MessagesQuery) (page rows.Messages, err error) {
	query := url.Values{"entity": {q.Entity}}
	for name, value := range map[string]string{"state": q.State, "where": q.Where} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.From != 0 {
		query.Set("from", strconv.FormatUint(q.From, 10))
	}
	if q.Session != nil {
		query.Set("session", *q.Session)
	}
	if q.Bodies {
		query.Set("bodies", "true")
	}
	setTop(query, q.Top)
	err = c.live(ctx, "list the messages of "+q.Entity, "messages", query, &page)
	return page, err
}

// setTop sets the parameter top, unless it is 0.
func setTop(query url.Values, top int) {
	if top != 0 {
		query.Set("top", strconv.Itoa(top))
	}
}

// live asks a question about the present.
func (c *Client) live(ctx context.Context, op, name string, query url.Values, into any) error {
	return c.ledgerbusRequest(ctx, request{op: op, method: http.MethodGet, path: "v1/" + name, query: query}, into)
}
