package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// restartTime is the timeout of a restart: a little longer than the broker's.
const restartTime = 16 * time.Minute

// Partitions returns the state of each partition of the log. Only Ledgerbus has this request and
// the two below.
func (c *Client) Partitions(ctx context.Context) ([]wire.Partition, error) {
	var all wire.Partitions
	err := c.ledgerbusRequest(ctx, request{op: "list partitions", method: http.MethodGet, path: "v1/partitions"}, &all)
	return all.Partitions, err
}

// FencePartition takes a partition out of service and returns its new state.
func (c *Client) FencePartition(ctx context.Context, id int) (p wire.Partition, err error) {
	err = c.ledgerbusRequest(ctx, request{op: fmt.Sprintf("fence partition %d", id), method: http.MethodPost, path: fmt.Sprintf("v1/partitions/%d/fence", id)}, &p)
	return p, err
}

// RestartPartition recovers a partition that does not serve, and returns its new state. It takes as
// long as the recovery.
func (c *Client) RestartPartition(ctx context.Context, id int) (p wire.Partition, err error) {
	err = c.ledgerbusRequest(ctx, request{op: fmt.Sprintf("restart partition %d", id), method: http.MethodPost, path: fmt.Sprintf("v1/partitions/%d/restart", id), most: restartTime}, &p)
	return p, err
}

// ledgerbusRequest makes a request that only Ledgerbus has, and reads its answer.
func (c *Client) ledgerbusRequest(ctx context.Context, r request, into any) error {
	r.own, r.path = true, wire.Prefix[1:]+"/"+r.path
	src, err := c.exchange(ctx, r)
	if err == nil {
		if err = wire.Answer(src, into); err != nil {
			err = invalidAnswer(r.op, err)
		}
	}
	return explainForeign(err, src)
}

// explainForeign extends an error for a namespace that is not Ledgerbus's. src is the answer.
func explainForeign(err error, src []byte) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == "" && (len(src) > 0 || e.Status >= 400 && e.Status < 500) {
		e.Text += "; this command needs a Ledgerbus broker of this version or later"
	}
	return err
}
