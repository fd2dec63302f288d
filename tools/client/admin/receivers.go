package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// Receivers returns what a queue, subscription or sub-queue of one has now, who receives from it,
// and what each of the receivers waits for. Only Ledgerbus has this request.
func (c *Client) Receivers(ctx context.Context, entity string) (all wire.Receivers, err error) {
	err = c.own(ctx, request{op: "list the receivers of " + entity, method: http.MethodGet, path: "v1/receivers", query: url.Values{"entity": {entity}}}, &all)
	return all, err
}
