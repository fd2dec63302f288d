package atom

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// Media types (management-api.md 1.5).
const (
	entryType = "application/atom+xml;type=entry;charset=utf-8"
	feedType  = "application/atom+xml;type=feed;charset=utf-8"
)

func write(w http.ResponseWriter, status int, mediaType string, body []byte) {
	if mediaType != "" {
		w.Header().Set("Content-Type", mediaType)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// etag returns the time of an entity's last change, in ticks since year 1, unquoted as the service
// writes it.
func etag(e *engine.Entity) string {
	return strconv.FormatInt(e.UpdatedAt.Ticks(), 10)
}

// address returns the URL of a path at the server, under the name that the client uses.
func (r *request) address(path, rawQuery string) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host + "/" + escaped(path) + query(rawQuery)
}

// escaped returns a path for a URL, with its slashes.
func escaped(path string) string {
	return (&url.URL{Path: "/" + path}).EscapedPath()[1:]
}

func query(raw string) string {
	if raw == "" {
		return ""
	}
	return "?" + raw
}

// writeEntry answers with one entry. The path is that of the entry, in its shown spelling.
func (r *request) writeEntry(w http.ResponseWriter, status int, path string, e document.Entry) error {
	e.ID = r.address(path, r.URL.RawQuery)
	e.Self = e.ID
	form := document.Read
	if r.Method == http.MethodPut {
		form = document.Written
	}
	write(w, status, entryType, document.AppendEntry(nil, &e, document.Format{Version: r.version, Form: form}))
	return nil
}

// writeNotFound answers that nothing exists at the path (management-api.md 2.5).
func (r *request) writeNotFound(w http.ResponseWriter) error {
	id := "uuid:" + uuid.NewString() + ";id=" + strconv.FormatUint(r.h.answers.Add(1), 10)
	write(w, http.StatusOK, feedType, document.AppendNotFound(nil, id, r.now))
	return nil
}

// entityEntry returns the entry of a queue, topic or subscription.
func (r *request) entityEntry(e *engine.Entity, runtime *engine.Runtime) document.Entry {
	d := &document.Description{Kind: e.Kind, Properties: e.Properties, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}
	if runtime != nil {
		if d.AccessedAt = runtime.AccessedAt; d.AccessedAt == 0 && e.Kind == event.Subscription {
			// of a queue or topic it is the year 1 (management-api.md 3.5)
			d.AccessedAt = e.CreatedAt
		}
		d.Runtime = document.Runtime{
			Active: runtime.Active, DeadLetter: runtime.DeadLetter, Scheduled: runtime.Scheduled, Transfer: runtime.Transfer,
			TransferDeadLetter: runtime.TransferDeadLetter, SizeBytes: runtime.SizeBytes, Subscriptions: runtime.Subscriptions,
			SQLFilters: runtime.SQLFilters, CorrelationFilters: runtime.CorrelationFilters,
			Unknown: runtime.Unknown, Limited: runtime.Limited,
		}
	}
	entry := document.Entry{Title: e.Name(), Published: e.CreatedAt, Updated: e.UpdatedAt, Entity: d}
	if e.Kind != event.Subscription {
		entry.Author = r.h.Namespace
	}
	return entry
}

// ruleEntry returns the entry of a rule.
func ruleEntry(rule *event.Rule) document.Entry {
	return document.Entry{Title: rule.Name, Published: rule.CreatedAt, Updated: rule.CreatedAt, Rule: rule}
}

// getNamespace answers with the description of the namespace.
func (r *request) getNamespace(w http.ResponseWriter) error {
	created := event.TimeOf(r.h.Created)
	n := &document.Namespace{Name: r.h.Namespace, Tier: "Standard", CreatedAt: created, ModifiedAt: created}
	if r.h.Tier == engine.Premium {
		n.Tier, n.MessagingUnits = "Premium", 1
	}
	return r.writeEntry(w, http.StatusOK, r.route.path, document.Entry{
		Title: r.h.Namespace, Published: created, Updated: created, Author: r.h.Namespace, Namespace: n,
	})
}
