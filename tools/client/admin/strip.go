package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
)

// Strip returns when a namespace was busy and what was changed. from and to are instants as
// questions about the past take them; "": those of the broker. buckets is the maximum number of
// buckets; 0: that of the broker. Only Ledgerbus has this request.
func (c *Client) Strip(ctx context.Context, from, to string, buckets int) (s rows.Strip, err error) {
	query := url.Values{}
	for name, text := range map[string]string{"from": from, "to": to} {
		if text != "" {
			query.Set(name, text)
		}
	}
	if buckets > 0 {
		query.Set("buckets", strconv.Itoa(buckets))
	}
	err = c.ledgerbusRequest(ctx, request{op: "read the strip", method: http.MethodGet, path: "v1/strip", query: query}, &s)
	return s, err
}
