package atom

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// maxTop is how many things a page has at most, and when the client does not say (management-api.md 2.6).
const maxTop = 100

// page is which part of a list is asked for.
type page struct{ skip, top int }

// pageOf reads $skip and $top.
func pageOf(q url.Values) (page, error) {
	p := page{top: maxTop}
	for _, c := range [...]struct {
		name string
		into *int
	}{{"skip", &p.skip}, {"top", &p.top}} {
		text := q.Get("$" + c.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if errors.Is(err, strconv.ErrRange) && text[0] != '-' {
			n = math.MaxInt32
		} else if err != nil {
			return p, badRequest("Parameter '%s' should be non-negative integer.", c.name)
		}
		*c.into = int(n)
	}
	p.top = min(p.top, maxTop)
	return p, nil
}

// listEntities answers a page of the queues or topics.
func (r *request) listEntities(w http.ResponseWriter) error {
	kind, title := event.Queue, "Queues"
	if r.route.kind == topicsPath {
		kind, title = event.Topic, "Topics"
	}
	return r.list(w, kind, "", title, "../")
}

// listSubscriptions answers a page of the subscriptions of a topic.
func (r *request) listSubscriptions(w http.ResponseWriter) error {
	if r.entity == nil || r.entity.Kind != event.Topic {
		return noOperation()
	}
	return r.list(w, event.Subscription, r.entity.Path, "Subscriptions", "Subscriptions/")
}

func (r *request) list(w http.ResponseWriter, kind event.EntityKind, topic, title, relative string) error {
	page, err := pageOf(r.URL.Query())
	if err != nil {
		return err
	}
	found := r.h.Admin.List(kind, topic, page.skip, page.top+1)
	more := len(found) > page.top
	found = found[:min(len(found), page.top)]
	runtimes, err := r.h.Admin.Runtime(r.Context(), found)
	if err != nil {
		return r.refused(err, noService())
	}
	entries := make([]document.Entry, len(found))
	for i, e := range found {
		entries[i] = r.entityEntry(e, &runtimes[i])
		entries[i].ID = r.address(e.Path, r.URL.RawQuery) // has "Subscriptions", as lists do
		entries[i].Self = relative + escaped(e.Name()) + query(r.URL.RawQuery)
	}
	return r.writeFeed(w, title, page, entries, more)
}

// writeFeed answers a page. The link to the next one repeats the size of the page, for clients that take it from there.
func (r *request) writeFeed(w http.ResponseWriter, title string, p page, entries []document.Entry, more bool) error {
	feed := &document.Feed{Title: title, ID: r.address(r.route.path, r.URL.RawQuery), Updated: r.now, Entries: entries}
	feed.Self = feed.ID
	if more && p.top > 0 {
		feed.Next = r.address(r.route.path, "%24skip="+strconv.Itoa(p.skip+p.top)+"&%24top="+strconv.Itoa(p.top)+
			"&api-version="+url.QueryEscape(r.URL.Query().Get("api-version")))
	}
	for i := range entries {
		entries[i].Base = feed.ID
	}
	write(w, http.StatusOK, feedType, document.AppendFeed(nil, feed, document.Format{Version: r.version}))
	return nil
}
