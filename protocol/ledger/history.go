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

// historyArguments are the arguments of set-history-policy: the retentions inside history, as in
// the settings file, or next to the pattern.
type historyArguments struct {
	wire.HistoryPolicy
	History *struct {
		Events string `json:"events"`
		Bodies string `json:"bodies"`
		Undo   string `json:"undo"`
	} `json:"history"`
}

// policy returns the policy that the arguments set.
func (a historyArguments) policy() (p event.HistoryPolicy, err error) {
	flat := a.HistoryPolicy
	if n := a.History; n != nil {
		if flat.Events != "" || flat.Bodies != "" || flat.Undo != "" {
			return p, refuse(http.StatusBadRequest, "Retentions are given inside history and outside it: give them inside history only.")
		}
		flat.Events, flat.Bodies, flat.Undo = n.Events, n.Bodies, n.Undo
	}
	for _, f := range []struct {
		name, text string
		into       *event.Retention
	}{{"events", flat.Events, &p.Events}, {"bodies", flat.Bodies, &p.Bodies}, {"undo", flat.Undo, &p.Undo}} {
		if f.text == "" {
			continue
		}
		if *f.into, err = event.ParseRetention(f.text); err != nil {
			return p, refuse(http.StatusBadRequest, "Invalid retention %s: %v.", f.name, err)
		}
	}
	return p, nil
}

func (c *call) setHistoryPolicy() (any, error) {
	var args historyArguments
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	policy, err := args.policy()
	if err != nil {
		return nil, err
	}
	return c.changeHistoryPolicy(engine.PutHistoryPolicy{Pattern: args.Pattern, Policy: policy})
}

func (c *call) deleteHistoryPolicy() (any, error) {
	var args struct {
		Pattern string `json:"pattern"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	return c.changeHistoryPolicy(engine.PutHistoryPolicy{Pattern: args.Pattern, Remove: true})
}

// changeHistoryPolicy sets or removes the policy of a pattern, and answers with all policies. The
// policy of the namespace comes from the settings.
func (c *call) changeHistoryPolicy(cmd engine.PutHistoryPolicy) (any, error) {
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
