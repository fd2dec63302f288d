package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// otherNamespace is a namespace that is not a Ledgerbus broker: it has other defaults and small
// pages, and stores nothing permanently.
type otherNamespace struct {
	mu       sync.Mutex
	tier     string
	entities map[string]document.Entry            // guarded by mu: by lower-case path
	rules    map[string]map[string]document.Entry // guarded by mu: by lower-case path and name
	writes   int                                  // guarded by mu
}

const otherPage = 2

// startOther starts a namespace and returns it with its connection string.
func startOther(t *testing.T, tier string) (*otherNamespace, string) {
	t.Helper()
	ns := &otherNamespace{tier: tier, entities: map[string]document.Entry{}, rules: map[string]map[string]document.Entry{}}
	srv := httptest.NewServer(ns)
	t.Cleanup(srv.Close)
	return ns, "Endpoint=sb://" + strings.TrimPrefix(srv.URL, "http://") + ";SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
}

func (ns *otherNamespace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	path := strings.Trim(r.URL.Path, "/")
	before, name, _ := strings.Cut(path, "/Rules")
	if r.Method != http.MethodGet {
		ns.writes++
	}
	switch {
	case path == "$namespaceinfo":
		ns.entry(w, http.StatusOK, document.Entry{Title: "other", Namespace: &document.Namespace{Name: "other", Tier: ns.tier}})
	case r.Method == http.MethodGet && (strings.HasPrefix(path, "$Resources/") || strings.HasSuffix(path, "/Subscriptions") || strings.HasSuffix(path, "/Rules")):
		ns.list(w, r, path)
	case before != path:
		ns.thing(w, r, ns.rules[strings.ToLower(before)], strings.ToLower(strings.Trim(name, "/")))
	default:
		ns.thing(w, r, ns.entities, strings.ToLower(path))
	}
}

func (ns *otherNamespace) entry(w http.ResponseWriter, status int, e document.Entry) {
	w.WriteHeader(status)
	_, _ = w.Write(document.AppendEntry(nil, &e, document.Format{Version: document.V2021, Form: document.Read}))
}

func refuse(w http.ResponseWriter, status int, detail string) {
	w.WriteHeader(status)
	_, _ = w.Write(document.AppendError(nil, &document.Error{Code: status, Detail: detail}))
}

func (ns *otherNamespace) list(w http.ResponseWriter, r *http.Request, path string) {
	var found []document.Entry
	of, kind := ns.entities, map[string]event.EntityKind{"$Resources/Queues": event.Queue, "$Resources/Topics": event.Topic}[path]
	topic, _ := strings.CutSuffix(strings.ToLower(path), "/subscriptions")
	if subscription, isRules := strings.CutSuffix(strings.ToLower(path), "/rules"); isRules {
		of = ns.rules[subscription]
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		e := of[key]
		if e.Rule != nil || e.Entity.Kind == kind || kind == 0 && strings.HasPrefix(key, topic+"/subscriptions/") {
			found = append(found, e)
		}
	}
	skip, _ := strconv.Atoi(r.URL.Query().Get("$skip"))
	f := document.Feed{Title: "List", Self: "self"}
	if next := skip + otherPage; next < len(found) {
		f.Next = "https://elsewhere/x?" + url.Values{"$skip": {fmt.Sprint(next)}}.Encode()
	}
	found = found[min(skip, len(found)):]
	f.Entries = found[:min(otherPage, len(found))]
	_, _ = w.Write(document.AppendFeed(nil, &f, document.Format{Version: document.V2021, Form: document.Read}))
}

// thing answers requests about an entity or a rule.
func (ns *otherNamespace) thing(w http.ResponseWriter, r *http.Request, in map[string]document.Entry, key string) {
	e, there := in[key]
	update := r.Header.Get("If-Match") == "*"
	switch {
	case r.Method == http.MethodGet && there:
		ns.entry(w, http.StatusOK, e)
	case r.Method == http.MethodGet:
		_, _ = w.Write(document.AppendNotFound(nil, "uuid:1", 0))
	case r.Method == http.MethodDelete && there:
		maps.DeleteFunc(in, func(k string, _ document.Entry) bool { return k == key || strings.HasPrefix(k, key+"/") })
	case r.Method == http.MethodPut && there && !update:
		refuse(w, http.StatusConflict, "SubCode=40900. Conflict. TrackingId:1")
	case r.Method == http.MethodPut && (there || !update) && in != nil:
		ns.put(w, r, in, key, there)
	default:
		refuse(w, http.StatusNotFound, "SubCode=40400. Not Found. TrackingId:1")
	}
}

func (ns *otherNamespace) put(w http.ResponseWriter, r *http.Request, in map[string]document.Entry, key string, there bool) {
	body, _ := io.ReadAll(r.Body)
	defaults := func(kind event.EntityKind) event.Properties {
		p := engine.DefaultProperties(kind)
		if p.MaxMessageSizeKilobytes > 0 && ns.tier == "Premium" {
			p.MaxMessageSizeKilobytes = 1024
		}
		return p
	}
	doc, err := document.Parse(body, document.Options{Limits: document.RequestLimits, Defaults: defaults})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	e := *doc.Entry
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// as the service shows names of queues and topics
	e.Title = strings.ToLower(strings.Join(parts, "/"))
	if e.Rule != nil || e.Entity.Kind == event.Subscription {
		e.Title = parts[len(parts)-1]
	}
	if e.Entity != nil {
		for _, target := range []string{e.Entity.Properties.ForwardTo, e.Entity.Properties.ForwardDeadLetteredMessagesTo} {
			u, _ := url.Parse(target)
			if _, exists := ns.entities[strings.ToLower(strings.Trim(u.Path, "/"))]; target != "" && !exists {
				refuse(w, http.StatusBadRequest, "SubCode=40400. The auto forwarding destination entity doesn't exist. TrackingId:1")
				return
			}
		}
		if there {
			e.Entity.Runtime = in[key].Entity.Runtime
		}
	}
	if e.Entity != nil && e.Entity.Kind == event.Subscription && !there {
		first := event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}
		if e.Entity.DefaultRule != nil {
			first = *e.Entity.DefaultRule
		}
		ns.rules[key] = map[string]document.Entry{strings.ToLower(first.Name): {Title: first.Name, Rule: &first}}
	}
	in[key] = e
	status := http.StatusCreated
	if there {
		status = http.StatusOK
	}
	ns.entry(w, status, e)
}

// hold puts messages into an entity.
func (ns *otherNamespace) hold(path string, n document.Runtime) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.entities[strings.ToLower(path)].Entity.Runtime = n
}

func (ns *otherNamespace) written() int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.writes
}
