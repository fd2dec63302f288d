package atom

import (
	"net/http"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// target returns the queue, topic or subscription that a request names; nil: it does not exist. The
// path is its path, or the path that it would have.
func (r *request) target() (e *engine.Entity, path string) {
	if r.route.kind == entityPath {
		return r.entity, r.route.entity
	}
	topic := r.route.entity
	if r.entity != nil {
		topic = r.entity.Path
	}
	path = engine.SubscriptionPath(topic, r.route.subscription)
	if r.entity == nil || r.entity.Kind != event.Topic {
		return nil, path
	}
	if e, ok := r.h.Admin.Find(path); ok && e.Kind == event.Subscription {
		return e, path
	}
	return nil, path
}

func (r *request) getEntity(w http.ResponseWriter) error {
	e, _ := r.target()
	if e == nil {
		return r.writeNotFound(w)
	}
	runtime, err := r.h.Admin.Runtime(r.Context(), []*engine.Entity{e})
	if err != nil {
		return r.refused(err, noService())
	}
	return r.writeEntry(w, http.StatusOK, r.route.address(e), r.entityEntry(e, &runtime[0]))
}

// putEntity creates a queue, topic or subscription, or replaces its properties if the client says
// that it exists (management-api.md 2.3, 2.4). It never does one in place of the other.
func (r *request) putEntity(w http.ResponseWriter) error {
	entry, err := r.body(w)
	if err != nil {
		return err
	}
	d := entry.Entity
	if d == nil || (d.Kind == event.Subscription) != (r.route.kind == subscriptionPath) {
		return badRequest("The body of the request does not describe the kind of entity that the path '%s' names.", caller.Clip(r.route.path, maxShown))
	}
	old, path := r.target()
	mode, status := engine.CreateOnly, http.StatusCreated
	if r.Header.Get("If-Match") != "" { // any value means *
		mode, status = engine.UpdateOnly, http.StatusOK
	}
	if err := r.mayPut(mode, d.Kind, old, path); err != nil {
		return err
	}
	if d.Kind == event.Subscription {
		r.quota = overSubscriptions
	}
	cmd := engine.PutEntity{Kind: d.Kind, Path: path, Mode: mode, Origin: r.origin(), Why: r.why}
	if cmd.Properties, err = (&entityRequest{r, d, old, path}).properties(); err != nil {
		return err
	}
	if mode == engine.CreateOnly && d.DefaultRule != nil {
		rule, err := defaultRule(d.DefaultRule)
		if err != nil {
			return err
		}
		cmd.Rules = []event.Rule{rule}
	}
	e, err := r.h.Admin.PutEntity(r.Context(), cmd)
	if err != nil {
		return r.refused(err, r.missingForPut())
	}
	// a new entity has none yet (management-api.md 1.5)
	if mode == engine.UpdateOnly && e.Kind != event.Subscription {
		w.Header().Set("ETag", etag(e))
	}
	return r.writeEntry(w, status, r.route.address(e), r.entityEntry(e, nil))
}

// mayPut refuses to create an entity that exists and to update one that does not.
func (r *request) mayPut(mode engine.PutMode, kind event.EntityKind, old *engine.Entity, path string) error {
	if kind == event.Subscription && (r.entity == nil || r.entity.Kind != event.Topic) {
		return r.missingForPut()
	}
	switch {
	case old != nil && mode == engine.CreateOnly:
		return r.alreadyExists()
	case old != nil && old.Kind != kind:
		return badRequest("'%s' is a %s and cannot be made a %s.", old.Path, old.Kind, kind)
	case old != nil:
		return nil
	case mode == engine.UpdateOnly:
		return noOperation()
	}
	if err := engine.CheckPath(kind, path); err != nil {
		return badRequest("%s", err.Text)
	}
	return nil
}

// missingForPut returns the refusal of a put for which something is missing: the entity itself, or
// the topic of a subscription.
func (r *request) missingForPut() *refusal {
	if r.route.kind != subscriptionPath {
		return noOperation()
	}
	if topic, ok := r.h.Admin.Find(r.route.entity); ok && topic.Kind == event.Topic {
		return noOperation()
	}
	return refuse(http.StatusNotFound, 0, "The incoming request is not recognized as a namespace policy put request.")
}

// deleteEntity deletes the queue, topic or subscription that the path names.
func (r *request) deleteEntity(w http.ResponseWriter) error {
	e, _ := r.target()
	missing := noService()
	if r.route.kind == subscriptionPath && r.entity != nil {
		missing = r.couldNotBeFound()
	}
	if e == nil {
		return missing
	}
	err := r.h.Admin.DeleteEntity(r.Context(), engine.DeleteEntity{Path: e.Path, Origin: r.origin(), Reason: "client", Why: r.why})
	if err != nil {
		return r.refused(err, missing)
	}
	write(w, http.StatusOK, "", nil)
	return nil
}

// defaults returns the properties of an entity that a request does not mention.
func (h *handler) defaults(kind event.EntityKind) event.Properties {
	p := engine.DefaultProperties(kind)
	if h.Tier == engine.Premium && kind != event.Subscription {
		p.MaxMessageSizeKilobytes = 1024
	}
	return p
}

// identity sets the properties that keep their value if an update does not mention them
// (management-api.md 2.4). The engine refuses new values of them.
func identity(d *document.Description, p, old *event.Properties) {
	for _, i := range [...]struct {
		element document.Element
		new     *bool
		old     bool
	}{
		{document.RequiresSession, &p.RequiresSession, old.RequiresSession},
		{document.RequiresDuplicateDetection, &p.RequiresDuplicateDetection, old.RequiresDuplicateDetection},
		{document.EnablePartitioning, &p.EnablePartitioning, old.EnablePartitioning},
	} {
		if !d.Present.Has(i.element) {
			*i.new = i.old
		}
	}
}
