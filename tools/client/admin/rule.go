package admin

import (
	"context"
	"net/http"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// Rules returns all rules of a subscription, in the broker's order.
func (c *Client) Rules(ctx context.Context, subscription string) ([]event.Rule, error) {
	var found []event.Rule
	err := c.pages(ctx, operation("list rules of", event.Subscription, subscription), subscription+"/Rules", func(e *document.Entry) bool {
		if e.Rule == nil {
			return false
		}
		found = append(found, ruleFrom(e))
		return true
	})
	return found, err
}

// Rule returns one rule of a subscription.
func (c *Client) Rule(ctx context.Context, subscription, name string) (*event.Rule, error) {
	op := ruleOperation("show", subscription, name)
	doc, err := c.do(ctx, request{op: op, method: http.MethodGet, path: rulePath(subscription, name)})
	if err != nil {
		return nil, err
	}
	if doc == nil || doc.Entry == nil || doc.Entry.Rule == nil {
		return nil, &Error{Op: op, Status: http.StatusNotFound, Text: "no rule has this name"}
	}
	rule := ruleFrom(doc.Entry)
	return &rule, nil
}

// CreateRule adds a rule to a subscription and returns it. A rule of the same name is a conflict.
func (c *Client) CreateRule(ctx context.Context, subscription string, rule event.Rule) (*event.Rule, error) {
	return c.putRule(ctx, "create", subscription, rule, false)
}

// UpdateRule replaces the filter and the action of a rule and returns it.
func (c *Client) UpdateRule(ctx context.Context, subscription string, rule event.Rule) (*event.Rule, error) {
	return c.putRule(ctx, "update", subscription, rule, true)
}

// DeleteRule deletes a rule.
func (c *Client) DeleteRule(ctx context.Context, subscription, name string) error {
	_, err := c.do(ctx, request{op: ruleOperation("delete", subscription, name), method: http.MethodDelete, path: rulePath(subscription, name)})
	return err
}

func (c *Client) putRule(ctx context.Context, verb, subscription string, rule event.Rule, update bool) (*event.Rule, error) {
	op := ruleOperation(verb, subscription, rule.Name)
	doc, err := c.do(ctx, request{op: op, method: http.MethodPut, path: rulePath(subscription, rule.Name), update: update,
		body: document.AppendEntry(nil, &document.Entry{Rule: &rule}, document.Format{Version: document.V2021, Form: document.Request})})
	if err != nil {
		return nil, err
	}
	if doc == nil || doc.Entry == nil || doc.Entry.Rule == nil {
		return nil, &Error{Op: op, Text: "the answer describes another rule"}
	}
	written := ruleFrom(doc.Entry)
	return &written, nil
}

// ruleFrom returns the rule of an entry. The title contains at least its name.
func ruleFrom(e *document.Entry) event.Rule {
	rule := *e.Rule
	if e.Title != "" {
		rule.Name = e.Title
	}
	return rule
}

// rulePath returns the path of a rule. Without a name it is not the path of the list of all rules.
func rulePath(subscription, name string) string { return subscription + "/Rules/" + name }

func ruleOperation(verb, subscription, name string) string {
	return operation(verb+" rule "+name+" of", event.Subscription, subscription)
}
