package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Admin is the engine as the management plane sees it. When a call returns without an error, its
// change is durable, in force, and an event with its origin (management-api.md 8, MA-110). Refusals
// are [*Error].
type Admin interface {
	// PutEntity creates or changes an entity. It returns the current version.
	PutEntity(ctx context.Context, cmd PutEntity) (*Entity, error)
	// DeleteEntity deletes a queue, a subscription, or a topic with its subscriptions.
	DeleteEntity(ctx context.Context, cmd DeleteEntity) error
	// PutRule adds a rule to a subscription or replaces one. It returns the current rule.
	PutRule(ctx context.Context, cmd PutRule) (event.Rule, error)
	// DeleteRule removes a rule.
	DeleteRule(ctx context.Context, cmd DeleteRule) error
	// Rules returns the rules of a subscription by lower-cased name: at most top of them, after the
	// first skip.
	Rules(ctx context.Context, subscription string, skip, top int) ([]event.Rule, error)
	// Rule returns one rule by its name, in any letter case.
	Rule(ctx context.Context, subscription, name string) (event.Rule, error)
	// Find looks an entity up by its path, in any letter case.
	Find(path string) (*Entity, bool)
	// List returns the entities of a kind by lower-cased path: at most top of them, after the first
	// skip. For subscriptions, topic is the path of their topic, else "". A topic that does not
	// exist has none.
	List(kind event.EntityKind, topic string, skip, top int) []*Entity
	// Runtime returns the counts of each entity, unless they are unknown, and when it was last
	// used.
	Runtime(ctx context.Context, entities []*Entity) ([]Runtime, error)
}

// PutMode tells what a put does when the entity or rule already exists, or does not.
type PutMode uint8

const (
	CreateOrUpdate PutMode = iota
	CreateOnly             // refused with AlreadyExists if it exists
	UpdateOnly             // refused with NotFound if it does not exist
)

// PutEntity creates a queue, topic or subscription, or changes the properties of one. An existing
// path is found in any letter case. Equal properties change nothing, except with UpdateOnly: that
// is an event and moves UpdatedAt. Links attach again only if a setting has changed. The engine
// sets the times of access rules, whatever the properties say. A caller that takes properties from
// outside checks them with [CheckProperties] first.
type PutEntity struct {
	Kind event.EntityKind
	// Path of a subscription is <topic>/Subscriptions/<name>. A new queue or topic gets its path in
	// lower case, a new subscription gets the path of its topic.
	Path       string
	Properties event.Properties
	Mode       PutMode
	// Rules are the first rules of a subscription; nil: one rule named $Default that every message
	// matches. With OnlyRules they also replace the rules of an existing subscription.
	Rules     []event.Rule
	OnlyRules bool
	Origin    *Origin
	Why       event.ReasonGiven // see [CheckReason]
}

// DeleteEntity deletes an entity with everything in it. A topic is deleted with its subscriptions.
type DeleteEntity struct {
	Path   string
	Origin *Origin
	Reason string // client, idle
	Why    event.ReasonGiven
}

// PutRule adds a rule to a subscription, after its other rules, or replaces the filter and action
// of one.
type PutRule struct {
	Subscription string // path
	Rule         event.Rule
	Mode         PutMode
	Origin       *Origin
	Why          event.ReasonGiven
}

// DeleteRule removes a rule of a subscription.
type DeleteRule struct {
	Subscription string // path
	Name         string
	Origin       *Origin
	Why          event.ReasonGiven
}

// ListRules asks for rules of a subscription by lower-cased name. The answer is [Rules], at most
// Top of them after the first Skip.
type ListRules struct {
	Subscription string // path
	Skip, Top    int
	Name         string // only this rule; refused with NotFound if it does not exist
}

func (*PutEntity) command()    {}
func (*DeleteEntity) command() {}
func (*PutRule) command()      {}
func (*DeleteRule) command()   {}
func (*ListRules) command()    {}

// Runtime counts what an entity holds now (management-api.md 3.5).
type Runtime struct {
	Active             int // includes locked and deferred messages
	DeadLetter         int
	Scheduled          int
	Transfer           int
	TransferDeadLetter int
	// of everything stored; for a topic, subscriptions included
	SizeBytes     int64
	AccessedAt    event.Time // last send, receive or peek (docs/decisions/0010); 0: never
	Subscriptions int        // of a topic
	// of a topic, in all its subscriptions; true and false filters are included
	SQLFilters         int
	CorrelationFilters int
	// Unknown means that a partition with messages of the entity is refused (reliability.md P24).
	// All counts of messages and the size are 0.
	Unknown bool
	// Limited means that some of several partitions do not serve. The counts and the size are sums
	// over the others.
	Limited bool
}

// Total returns the number of all messages.
func (r *Runtime) Total() int {
	return r.Active + r.DeadLetter + r.Scheduled + r.Transfer + r.TransferDeadLetter
}
