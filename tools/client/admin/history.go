package admin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

const historyPolicies = "v1/history/policies"

// HistoryPolicies returns the history policies. Only Ledgerbus has any.
func (c *Client) HistoryPolicies(ctx context.Context) (all wire.HistoryPolicies, err error) {
	err = c.ledgerbusRequest(ctx, request{op: "list history policies", method: http.MethodGet, path: historyPolicies}, &all)
	return all, err
}

// SetHistoryPolicy replaces the history policy of a pattern and returns all policies.
func (c *Client) SetHistoryPolicy(ctx context.Context, p wire.HistoryPolicy) (wire.HistoryPolicies, error) {
	return c.changeHistory(ctx, "set the history policy of "+p.Pattern, historyPolicies, p)
}

// DeleteHistoryPolicy deletes the policy of a pattern and returns the remaining policies.
func (c *Client) DeleteHistoryPolicy(ctx context.Context, pattern string) (wire.HistoryPolicies, error) {
	return c.changeHistory(ctx, "delete the history policy of "+pattern, historyPolicies+"/delete", wire.HistoryPolicy{Pattern: pattern})
}

func (c *Client) changeHistory(ctx context.Context, op, path string, p wire.HistoryPolicy) (all wire.HistoryPolicies, err error) {
	body, err := json.Marshal(p)
	if err != nil {
		return all, err
	}
	err = c.ledgerbusRequest(ctx, request{op: op, method: http.MethodPost, path: path, body: body}, &all)
	return all, err
}
