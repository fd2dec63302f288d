package engine

import (
	"context"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Admin is the engine as the management plane sees it. Every change is durable and in force when a
// call returns without an error, and is an event with its origin (management-api.md 8, MA-110).
// Refusals are [*Error].
type Admin interface {
	// PutEntity creates an entity or changes it. It returns the entity as it is now.
	PutEntity(ctx context.Context, cmd PutEntity) (*Entity, error)
	// DeleteEntity ends a queue, a subscription, or a topic with its subscriptions.
	DeleteEntity(ctx context.Context, cmd DeleteEntity) error
	// PutRule gives a subscription a rule or replaces one. It returns the rule as it is now.
	PutRule(ctx context.Context, cmd PutRule) (event.Rule, error)
	// DeleteRule takes a rule away.
	DeleteRule(ctx context.Context, cmd DeleteRule) error
	// Rules are the rules of a subscription by lower-cased name, at most top of them behind the
	// first skip.
	Rules(ctx context.Context, subscription string, skip, top int) ([]event.Rule, error)
	// Rule is one rule by its name, in any letter case.
	Rule(ctx context.Context, subscription, name string) (event.Rule, error)
	// Find looks an entity up by its path, in any letter case.
	Find(path string) (*Entity, bool)
	// List returns the entities of a kind by lower-cased path, at most top of them behind the first
	// skip. Topic is the path of the topic whose subscriptions are listed, "" for the other kinds;
	// one that does not exist has none.
	List(kind event.EntityKind, topic string, skip, top int) []*Entity
	// Runtime says how much there is in each of the entities, unless that is unknown, and when they
	// were last used.
	Runtime(ctx context.Context, entities []*Entity) ([]Runtime, error)
}

// PutMode says what a put does when the entity or the rule exists already, or does not.
type PutMode uint8

const (
	CreateOrUpdate PutMode = iota
	CreateOnly             // refused with AlreadyExists when it is there
	UpdateOnly             // refused with NotFound when it is not
)

// PutEntity creates a queue, topic or subscription, or changes the properties of one. A name that
// is there already is found in any letter case. Equal properties change nothing, except with
// UpdateOnly: that is an event and moves UpdatedAt. Links attach again only where a setting has
// changed. The times of access rules are the engine's, whatever the properties say. A caller that
// takes properties from outside checks them with [CheckProperties] first.
type PutEntity struct {
	Kind event.EntityKind
	// Path is <topic>/Subscriptions/<name> of a subscription. A new queue or topic gets it in lower
	// case, a new subscription with the path that its topic has.
	Path       string
	Properties event.Properties
	Mode       PutMode
	// Rules are the rules that a subscription is made with; nil: one named $Default that every
	// message matches. With OnlyRules they also replace the rules of a subscription that exists
	// already.
	Rules     []event.Rule
	OnlyRules bool
	Origin    *Origin
	Why       event.ReasonGiven // see [CheckReason]
}

// DeleteEntity ends an entity with everything in it. A topic takes its subscriptions along.
type DeleteEntity struct {
	Path   string
	Origin *Origin
	Reason string // client, idle
	Why    event.ReasonGiven
}

// PutRule gives a subscription a rule, behind those it has, or replaces filter and action of one.
type PutRule struct {
	Subscription string // path
	Rule         event.Rule
	Mode         PutMode
	Origin       *Origin
	Why          event.ReasonGiven
}

// DeleteRule takes a rule of a subscription away.
type DeleteRule struct {
	Subscription string // path
	Name         string
	Origin       *Origin
	Why          event.ReasonGiven
}

// ListRules asks for rules of a subscription by lower-cased name. The answer is [Rules], at most
// Top of them behind the first Skip.
type ListRules struct {
	Subscription string // path
	Skip, Top    int
	Name         string // only this one; refused with NotFound when it is not there
}

func (*PutEntity) command()    {}
func (*DeleteEntity) command() {}
func (*PutRule) command()      {}
func (*DeleteRule) command()   {}
func (*ListRules) command()    {}

// Runtime is what an entity holds now (management-api.md 3.5).
type Runtime struct {
	Active             int // locked and deferred ones included
	DeadLetter         int
	Scheduled          int
	Transfer           int
	TransferDeadLetter int
	// of all that is stored; of a topic, that of its subscriptions included
	SizeBytes     int64
	AccessedAt    event.Time // last send, receive or look (docs/decisions/0010); 0: never
	Subscriptions int        // of a topic
	// of a topic, in all its subscriptions; true and false filters are among them
	SQLFilters         int
	CorrelationFilters int
	// Unknown: a partition that holds messages of it is refused (reliability.md P24). All counts of
	// messages and the size are 0.
	Unknown bool
	// Limited: of several partitions some do not serve: the counts and the size are sums over the
	// others.
	Limited bool
}

// Total is the number of all messages.
func (r *Runtime) Total() int {
	return r.Active + r.DeadLetter + r.Scheduled + r.Transfer + r.TransferDeadLetter
}
