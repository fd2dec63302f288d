package atom

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// Headers with tokens for the right to send to the targets of forwarding (management-api.md 1.7).
const (
	forwardHeader    = "ServiceBusSupplementaryAuthorization"
	deadLetterHeader = "ServiceBusDlqSupplementaryAuthorization"
)

// entityRequest is the requested form of a queue, topic or subscription.
type entityRequest struct {
	*request
	d    *document.Description
	old  *engine.Entity // the present entity; nil: it is being created
	path string
}

// properties returns the entity's properties after the request, and refuses invalid ones.
func (w *entityRequest) properties() (event.Properties, error) {
	d, old, p := w.d, w.old, w.d.Properties
	if d.ClientAffine {
		return p, badRequest("The property 'IsClientAffine' cannot be true: subscriptions that clients share are not supported.")
	}
	if old != nil {
		identity(d, &p, &old.Properties)
	}
	if err := w.partition(&p); err != nil {
		return p, err
	}
	if d.Kind != event.Topic {
		if err := w.forward(&p); err != nil {
			return p, err
		}
	}
	var before []event.AccessRule
	if old != nil {
		before = old.Properties.AccessRules
	}
	if d.Kind != event.Subscription {
		p.AccessRules = withKeys(p.AccessRules, before)
	}
	for _, f := range engine.CheckProperties(d.Kind, w.h.Tier, &p) {
		if old != nil && unchanged(f.Property, &p, &old.Properties) {
			continue
		}
		if f.Code == engine.QuotaExceeded {
			return p, refuse(http.StatusForbidden, overEntities, "%s", f.Text)
		}
		return p, badRequest("%s", f.Text)
	}
	return p, nil
}

// unchanged reports whether a size is the same as before. The operator's file may give sizes that
// the tier does not have, and a client that sends back what it has read must change nothing.
func unchanged(property string, p, old *event.Properties) bool {
	switch property {
	case document.MaxSizeInMegabytes.String():
		return p.MaxSizeMegabytes == old.MaxSizeMegabytes
	case document.MaxMessageSizeInKilobytes.String():
		return p.MaxMessageSizeKilobytes == old.MaxMessageSizeKilobytes
	}
	return false
}

// partition sets and checks the properties that depend on partitioning.
func (w *entityRequest) partition(p *event.Properties) error {
	d := w.d
	if d.Kind == event.Subscription {
		return nil
	}
	switch {
	case d.Kind == event.Queue && p.EnablePartitioning && w.old != nil:
		// an entity file may have set another value
		p.SupportOrdering = w.old.Properties.SupportOrdering
	case !d.Present.Has(document.SupportOrdering) || d.Kind == event.Queue && p.EnablePartitioning:
		p.SupportOrdering = !p.EnablePartitioning
	}
	if !p.EnablePartitioning {
		return nil
	}
	// an entity made under another tier keeps its partitioning
	if w.h.Tier == engine.Premium && w.old == nil {
		return badRequest("The property 'EnablePartitioning' cannot be true: the namespace is of the Premium tier and not partitioned.")
	}
	if w.old == nil || p.MaxSizeMegabytes != w.old.Properties.MaxSizeMegabytes {
		engine.PartitionedSize(p)
	}
	return nil
}

// forward checks the targets of forwarding and writes them in the shown form (management-api.md
// 3.8). A queue may name itself, even while it is being created, and a subscription its topic,
// because hops are counted.
func (w *entityRequest) forward(p *event.Properties) error {
	for _, f := range [...]struct {
		element document.Element
		value   *string
		header  string
	}{
		{document.ForwardTo, &p.ForwardTo, forwardHeader},
		{document.ForwardDeadLetteredMessagesTo, &p.ForwardDeadLetteredMessagesTo, deadLetterHeader},
	} {
		if *f.value == "" {
			continue
		}
		shown, target, ok := forwardTarget(*f.value, w.Host)
		if !ok {
			return badRequest("The property '%s' is neither the path of an entity nor a URL with one.", f.element)
		}
		named := caller.Clip(*f.value, maxShown) // as the client wrote it
		if err := w.maySend(f.header, target, named); err != nil {
			return err
		}
		itself := w.d.Kind == event.Queue && strings.EqualFold(target, w.path)
		if e, found := w.h.Admin.Find(target); !itself && (!found || e.Kind == event.Subscription) {
			return refuse(http.StatusBadRequest, 40400, "The auto forwarding destination entity doesn't exist: '%s' (%s).", named, f.element)
		}
		*f.value = shown
	}
	return nil
}

// maySend checks the right to send to the target of forwarding. Tools that sign with a key of the
// namespace that allows everything may leave the header out (management-api.md 1.7).
func (w *entityRequest) maySend(header, target, named string) error {
	if w.grant.OfNamespace() && w.grant.Rights.Has(access.Manage) {
		return nil
	}
	for _, token := range [...]string{w.Header.Get(header), w.Header.Get("Authorization")} {
		if token == "" {
			continue
		}
		if g, err := w.h.Callers.Access.VerifyPath(token, target, w.now.Std()); err == nil && g.Rights.Has(access.Send) {
			return nil
		}
	}
	return refuse(http.StatusUnauthorized, 40100, "Unauthorized: A token with the right to send to '%s' is needed in the header %s.", named, header)
}

// forwardTarget parses a target of forwarding. It returns the shown form, with scheme and host in
// lower case and the path as given, and the path of the named entity, whatever the host.
func forwardTarget(value, ownHost string) (shown, path string, ok bool) {
	scheme, rest, absolute := strings.Cut(value, "://")
	host := ownHost
	if absolute {
		host, rest, _ = strings.Cut(rest, "/")
	} else {
		scheme, rest = "sb", strings.TrimPrefix(value, "/")
	}
	scheme, host = strings.ToLower(scheme), strings.ToLower(host)
	if !slices.Contains([]string{"sb", "http", "https", "amqp", "amqps"}, scheme) || absolute && host == "" || strings.ContainsAny(rest, "?#") {
		return "", "", false
	}
	path, err := url.PathUnescape(strings.Trim(rest, "/"))
	if err != nil || path == "" {
		return "", "", false
	}
	return scheme + "://" + host + "/" + rest, path, true
}

// withKeys fills in the keys that a request leaves out of access rules: the rule's present key, or
// a new one.
func withKeys(rules, before []event.AccessRule) []event.AccessRule {
	rules = slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		var old event.AccessRule
		for _, b := range before {
			if strings.EqualFold(b.Name, r.Name) {
				old = b
			}
		}
		for _, key := range [...]struct {
			new *event.Secret
			old event.Secret
		}{{&r.Primary, old.Primary}, {&r.Secondary, old.Secondary}} {
			if *key.new == "" {
				*key.new = key.old
			}
			if *key.new == "" {
				*key.new = newKey()
			}
		}
	}
	return rules
}

// newKey returns 32 random bytes in base64.
func newKey() event.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return event.Secret(base64.StdEncoding.EncodeToString(b[:]))
}
