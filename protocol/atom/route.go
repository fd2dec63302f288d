package atom

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// routeKind is the kind of thing that a path names.
type routeKind uint8

const (
	entityPath        routeKind = iota // a queue or topic, which need not exist
	subscriptionsPath                  // the subscriptions of a topic
	subscriptionPath
	rulesPath // the rules of a subscription
	rulePath
	queuesPath
	topicsPath
	namespacePath
	subQueue // of a queue or subscription; not part of this API
	routeKinds
)

// route is a parsed path. Names are as in the request.
type route struct {
	kind         routeKind
	path         string // decoded, without outer slashes
	entity       string // path of the queue or topic
	subscription string
	rule         string
	// subscriptions and rules are the fixed segments in the spelling of the request, which answers
	// keep (management-api.md 2.2).
	subscriptions, rules string
}

// parseRoute parses a decoded path. Fixed segments match in any letter case. No name of an entity
// has a segment "subscriptions", so the first one ends the topic's path (management-api.md 1.2).
func parseRoute(path string) route {
	path = strings.TrimPrefix(path, "/")
	if path != "/" { // two slashes are not the root
		path = strings.TrimSuffix(path, "/")
	}
	r := route{path: path, entity: path}
	switch lower := strings.ToLower(path); {
	case lower == "$namespaceinfo":
		r.kind = namespacePath
		return r
	case lower == "$resources/queues":
		r.kind = queuesPath
		return r
	case lower == "$resources/topics":
		r.kind = topicsPath
		return r
	case strings.HasSuffix(lower, "/$deadletterqueue"):
		r.kind = subQueue
		return r
	}
	segments := strings.Split(path, "/")
	at := 1
	for at < len(segments) && !strings.EqualFold(segments[at], "subscriptions") {
		at++
	}
	if at >= len(segments) {
		return r
	}
	rest := segments[at+1:]
	if len(rest) > 3 || len(rest) > 1 && !strings.EqualFold(rest[1], "rules") {
		return r // a path that cannot exist
	}
	r.entity, r.subscriptions = strings.Join(segments[:at], "/"), segments[at]
	r.kind = [...]routeKind{subscriptionsPath, subscriptionPath, rulesPath, rulePath}[len(rest)]
	if len(rest) > 0 {
		r.subscription = rest[0]
	}
	if len(rest) > 1 {
		r.rules = rest[1]
	}
	if len(rest) > 2 {
		r.rule = rest[2]
	}
	return r
}

// isClean reports whether every reader understands the path in the same way. A clean path has no
// empty segment and none of dots. It has nothing that looks like an escape, a scheme or a slash
// without being one. All characters are visible, and the name of a queue or topic does not end with
// a dot. Paths that are not clean name nothing.
func (r *route) isClean() bool {
	switch {
	case r.path != "" && strings.Contains("/"+r.path+"/", "//"), strings.Contains(r.path, `\`), strings.HasSuffix(r.entity, "."),
		!utf8.ValidString(r.path), strings.ContainsFunc(r.path, unicode.IsControl):
		return false
	}
	_, ok := access.CleanPath(r.path)
	return ok
}

// address returns the path of an entity with the fixed segment in the client's spelling
// (management-api.md 2.2).
func (r *route) address(e *engine.Entity) string {
	if e.Kind != event.Subscription {
		return e.Path
	}
	return e.TopicPath() + "/" + r.subscriptions + "/" + e.Name()
}

// allowed returns the methods of the path.
func (r *route) allowed() string {
	var list []string
	m := methods[r.kind]
	for _, c := range [...]struct {
		name string
		has  bool
	}{{http.MethodGet, m.get != nil}, {http.MethodPut, m.put != nil}, {http.MethodDelete, m.delete != nil}} {
		if c.has {
			list = append(list, c.name)
		}
	}
	return strings.Join(list, ", ")
}

// knownHost reports whether a request used a host name that is ours. An address cannot be made to
// resolve to another one.
func (h *handler) knownHost(host string) bool {
	if h.hosts == nil {
		return true
	}
	name := hostName(host)
	_, err := netip.ParseAddr(name)
	return err == nil || h.hosts[name]
}

// hostName returns a host in lower case without port, brackets and final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
