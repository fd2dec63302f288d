package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

const subscriptionsInfix = "/Subscriptions/"

// An Entity is a queue, topic or subscription with its settings and, if it was read from the
// broker, its message counts.
//
// Present says which settings are sent to the broker. Others get the broker's defaults, for an
// update as well as a creation (2.3, 2.4). An entity from the broker has all settings. ForwardTo
// and ForwardDeadLetteredMessagesTo are paths of entities of the same namespace.
type Entity struct {
	Path string // for a subscription <topic>/Subscriptions/<name>
	document.Description
	Partitions int // of a partitioned entity that was read alone; 0: the broker does not say
}

// NewEntity returns an entity without settings.
func NewEntity(kind event.EntityKind, path string) *Entity {
	return &Entity{Path: path, Description: document.Description{Kind: kind}}
}

// SubscriptionPath returns the path of a topic's subscription.
func SubscriptionPath(topic, name string) string { return topic + subscriptionsInfix + name }

// SplitSubscription splits the path of a subscription; false: it is not such a path.
func SplitSubscription(path string) (topic, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if cut := i + 1 - len(subscriptionsInfix); cut > 0 && i+1 < len(path) && strings.EqualFold(path[cut:i+1], subscriptionsInfix) {
		return path[:cut], path[i+1:], true
	}
	return "", "", false
}

// Get returns one entity of a kind. It does not find an entity of another kind.
func (c *Client) Get(ctx context.Context, kind event.EntityKind, path string) (*Entity, error) {
	op := operation("show", kind, path)
	partitions := 0
	doc, err := c.do(ctx, request{op: op, method: http.MethodGet, path: path, heard: func(h http.Header) {
		partitions, _ = strconv.Atoi(h.Get("Ledgerbus-Partitions"))
	}})
	if err != nil {
		return nil, err
	}
	missing := &Error{Op: op, Status: http.StatusNotFound, Text: "no entity has this name"}
	switch {
	case doc == nil || doc.Entry == nil:
		return nil, missing // the feed of a missing entity, or of another kind (2.5)
	case doc.Entry.Entity == nil:
		return nil, missing
	case doc.Entry.Entity.Kind != kind:
		missing.Text += "; it is a " + strings.ToLower(doc.Entry.Entity.Kind.String())
		return nil, missing
	}
	e := entityFrom(doc.Entry, path)
	e.Partitions = partitions
	return e, nil
}

// List returns all entities of a kind in the broker's order. topic is the topic whose subscriptions
// are listed; "" for other kinds.
func (c *Client) List(ctx context.Context, kind event.EntityKind, topic string) ([]*Entity, error) {
	var found []*Entity
	path := map[event.EntityKind]string{event.Queue: "$Resources/Queues", event.Topic: "$Resources/Topics"}[kind]
	op := "list " + strings.ToLower(kind.String()) + "s"
	if kind == event.Subscription {
		path, op = topic+"/Subscriptions", op+" of "+topic
	}
	err := c.pages(ctx, op, path, func(e *document.Entry) bool {
		if e.Entity == nil || e.Entity.Kind != kind {
			return false
		}
		path := e.Title
		if kind == event.Subscription {
			path = SubscriptionPath(topic, e.Title)
		}
		found = append(found, entityFrom(e, path))
		return true
	})
	return found, err
}

// Create creates an entity and returns it with the broker's defaults. An existing entity is a
// conflict.
func (c *Client) Create(ctx context.Context, e *Entity) (*Entity, error) {
	return c.put(ctx, "create", e, false)
}

// Update replaces all settings of an entity and returns it.
func (c *Client) Update(ctx context.Context, e *Entity) (*Entity, error) {
	return c.put(ctx, "update", e, true)
}

// Delete deletes an entity with all its messages. The broker does not check its kind.
func (c *Client) Delete(ctx context.Context, kind event.EntityKind, path string) error {
	_, err := c.do(ctx, request{op: operation("delete", kind, path), method: http.MethodDelete, path: path})
	return err
}

func (c *Client) put(ctx context.Context, verb string, e *Entity, update bool) (*Entity, error) {
	d := e.Description
	p := &d.Properties
	targets := []string{"", ""}
	for i, f := range [...]struct {
		element document.Element
		value   *string
	}{{document.ForwardTo, &p.ForwardTo}, {document.ForwardDeadLetteredMessagesTo, &p.ForwardDeadLetteredMessagesTo}, {document.UserMetadata, &p.UserMetadata}} {
		switch {
		case *f.value == "":
			d.Present &^= 1 << f.element // an empty one may be refused (1.8)
		case i < len(targets) && d.Present.Has(f.element):
			*f.value = c.forwardURL(*f.value)
			targets[i] = *f.value
		}
	}
	op := operation(verb, e.Kind, e.Path)
	doc, err := c.do(ctx, request{op: op, method: http.MethodPut, path: e.Path, update: update, send: targets,
		body: document.AppendEntry(nil, &document.Entry{Entity: &d}, document.Format{Version: document.V2021, Form: document.Request})})
	if err != nil {
		return nil, err
	}
	if doc == nil || doc.Entry == nil || doc.Entry.Entity == nil || doc.Entry.Entity.Kind != e.Kind {
		return nil, &Error{Op: op, Text: "the answer describes another entity"}
	}
	return entityFrom(doc.Entry, e.Path), nil
}

// entityFrom returns the entity in an entry of a feed. The title has the spelling that the
// namespace shows.
func entityFrom(entry *document.Entry, asked string) *Entity {
	e := &Entity{Path: asked, Description: *entry.Entity}
	if topic, name, ok := SplitSubscription(asked); ok && e.Kind == event.Subscription && strings.EqualFold(name, entry.Title) {
		e.Path = SubscriptionPath(topic, entry.Title)
	} else if strings.EqualFold(asked, entry.Title) {
		e.Path = entry.Title
	}
	e.Properties.ForwardTo = forwardPath(e.Properties.ForwardTo)
	e.Properties.ForwardDeadLetteredMessagesTo = forwardPath(e.Properties.ForwardDeadLetteredMessagesTo)
	return e
}

// forwardURL returns the form in which a cloud namespace expects the entity that messages are
// forwarded to (3.8).
func (c *Client) forwardURL(path string) string {
	if strings.Contains(path, "://") {
		return path
	}
	u := url.URL{Scheme: "sb", Host: c.Host(), Path: "/" + path}
	return u.String()
}

// forwardPath returns the path of the entity in such a URL and ignores the host.
func forwardPath(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		return strings.Trim(u.Path, "/")
	}
	return s
}

// operation names a request in error texts.
func operation(verb string, kind event.EntityKind, path string) string {
	if topic, name, ok := SplitSubscription(path); ok && kind == event.Subscription {
		return verb + " subscription " + name + " of " + topic
	}
	return verb + " " + strings.ToLower(kind.String()) + " " + path
}

// Namespace returns the description of the namespace (2.8).
func (c *Client) Namespace(ctx context.Context) (*document.Namespace, error) {
	const op = "show namespace"
	doc, err := c.do(ctx, request{op: op, method: http.MethodGet, path: "$namespaceinfo"})
	if err != nil {
		return nil, err
	}
	if doc == nil || doc.Entry == nil || doc.Entry.Namespace == nil {
		return nil, &Error{Op: op, Status: http.StatusNotFound, Text: "the namespace has no description"}
	}
	return doc.Entry.Namespace, nil
}

// SetDefaultRule sets the rule that a new subscription gets instead of $Default, which matches
// everything.
func (e *Entity) SetDefaultRule(r event.Rule) {
	e.DefaultRule = &r
	e.Present.Add(document.DefaultRuleDescription)
}
