package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
)

// Receivers returns the message counts of a queue, subscription or sub-queue, its receivers, and
// what each receiver waits for. Only Ledgerbus has this request.
func (c *Client) Receivers(ctx context.Context, entity string) (all rows.Receivers, err error) {
	err = c.ledgerbusRequest(ctx, request{op: "list the receivers of " + entity, method: http.MethodGet, path: "v1/receivers", query: url.Values{"entity": {entity}}}, &all)
	return all, err
}
