package ledger

import (
	"net/http"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

func (c *call) listHistoryPolicies() (any, error) {
	now := c.h.Histories.HistoryPolicies()
	whole := now.Whole()
	list := wire.HistoryPolicies{Namespace: wire.NamespaceHistory{HistoryPolicy: policyShown("", whole.Policy), Share: int(whole.Share), BeforeSends: whole.BeforeSends}}
	list.Policies = []wire.HistoryPolicy{}
	if now != nil {
		for _, p := range now.Patterns {
			list.Policies = append(list.Policies, policyShown(p.Pattern, p.Policy))
		}
	}
	return list, nil
}

func (c *call) setHistoryPolicy() (any, error) {
	var args wire.HistoryPolicy
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	cmd := engine.PutHistoryPolicy{Pattern: args.Pattern}
	for _, f := range []struct {
		name, text string
		into       *event.Retention
	}{{"events", args.Events, &cmd.Policy.Events}, {"bodies", args.Bodies, &cmd.Policy.Bodies}, {"undo", args.Undo, &cmd.Policy.Undo}} {
		if f.text == "" {
			continue
		}
		r, err := event.ParseRetention(f.text)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "The retention %s: %v.", f.name, err)
		}
		*f.into = r
	}
	return c.sayOfHistory(cmd)
}

func (c *call) deleteHistoryPolicy() (any, error) {
	var args struct {
		Pattern string `json:"pattern"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	return c.sayOfHistory(engine.PutHistoryPolicy{Pattern: args.Pattern, Remove: true})
}

// sayOfHistory sets or removes the policy of a pattern, and answers with all policies. That of the
// namespace stands in the settings.
func (c *call) sayOfHistory(cmd engine.PutHistoryPolicy) (any, error) {
	if err := engine.CheckHistoryPattern(cmd.Pattern); err != nil {
		return nil, err
	}
	cmd.Origin, cmd.Why = c.origin(), c.why
	if err := c.h.Histories.PutHistoryPolicy(c.Context(), cmd); err != nil {
		return nil, err
	}
	return c.listHistoryPolicies()
}

func policyShown(pattern string, p event.HistoryPolicy) wire.HistoryPolicy {
	return wire.HistoryPolicy{Pattern: pattern, Events: p.Events.String(), Bodies: p.Bodies.String(), Undo: p.Undo.String()}
}
