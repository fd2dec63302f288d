package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// eraseTime is the timeout of an erasure: a little longer than the broker's.
const eraseTime = 150 * time.Second

// EraseMessage erases the body of a settled message and returns when it is gone.
func (c *Client) EraseMessage(ctx context.Context, entity string, sequence int64) (m wire.Erased, err error) {
	body, err := json.Marshal(wire.Erase{Entity: entity, Sequence: sequence})
	if err == nil {
		err = c.ledgerbusRequest(ctx, request{op: fmt.Sprintf("erase message %d of %s", sequence, entity), method: http.MethodPost, path: "v1/messages/erase", body: body, most: eraseTime}, &m)
	}
	return m, err
}
