package atom

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// maxTop is the maximum number of entries of a page, and the default (management-api.md 2.6).
const maxTop = 100

// maxLooked is the maximum number of entries that one request reads.
const maxLooked = 10_000

// page is the requested part of a list.
type page struct {
	skip, top int
	filter    filter // nil: selects everything
	text      string // of the filter
}

// readPage reads $skip, $top and $filter of the list of a kind: q, t, s or r.
func (r *request) readPage(kind byte) (page, error) {
	p := page{top: maxTop}
	for _, c := range [...]struct {
		name string
		into *int
	}{{"skip", &p.skip}, {"top", &p.top}} {
		text := r.options["$"+c.name]
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
	text, ok := r.options["$filter"]
	if !ok {
		return p, nil
	}
	var err error
	p.text = text
	p.filter, err = parseFilter(text, kind)
	return p, err
}

// optionsOf returns the query options of a request by their names in lower case. It refuses an
// option that the request does not have, because the client relies on it.
func optionsOf(q url.Values, kind routeKind) (map[string]string, error) {
	options := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		lower := strings.ToLower(name)
		_, again := options[lower]
		switch isOption := strings.HasPrefix(lower, "$"); {
		case slices.Contains(listOptions, "$"+lower):
			return nil, badRequest("The query parameter '%s' is not known; the query option is '$%s'.", caller.Clip(name, maxName), lower)
		case !isOption: // not an option of ours (management-api.md 1.2)
		case !isList[kind] || !slices.Contains(listOptions, lower):
			return nil, badRequest("The query option '%s' is not supported for this request.", caller.Clip(name, maxName))
		case again || len(q[name]) > 1:
			return nil, badRequest("The query option '%s' is given more than once.", lower)
		default:
			options[lower] = q[name][0]
		}
	}
	return options, nil
}

// listOptions are the query options of lists. No other request has any.
var listOptions = []string{"$skip", "$top", "$filter"}

var isList = [routeKinds]bool{queuesPath: true, topicsPath: true, subscriptionsPath: true, rulesPath: true}

// selectPage collects the entries that a filter selects from a list. fetch returns the list piece
// by piece, and choose applies the filter. look returns the entries after the first skip, and at
// least one more than top if there are that many.
func selectPage[T any](ctx context.Context, p page, fetch func(skip, top int) ([]T, error), choose func([]T) ([]T, error)) ([]T, error) {
	var found []T
	for at := 0; len(found) <= p.skip+p.top; at += maxTop {
		piece, err := fetch(at, maxTop)
		if err != nil || len(piece) == 0 {
			return found[min(p.skip, len(found)):], err
		}
		if at >= maxLooked {
			return nil, invalidFilter("The list has more than %d entries, which is the limit of a filter.", maxLooked)
		}
		chosen, err := choose(piece)
		if err != nil {
			return nil, err
		}
		found = append(found, chosen...)
		runtime.Gosched() // messages have priority
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return found[p.skip:], nil
}

// listEntities answers with a page of the queues or topics.
func (r *request) listEntities(w http.ResponseWriter) error {
	kind, title := event.Queue, "Queues"
	if r.route.kind == topicsPath {
		kind, title = event.Topic, "Topics"
	}
	return r.list(w, kind, "", title, "../")
}

// listSubscriptions answers with a page of the subscriptions of a topic.
func (r *request) listSubscriptions(w http.ResponseWriter) error {
	if r.entity == nil || r.entity.Kind != event.Topic {
		return noOperation()
	}
	return r.list(w, event.Subscription, r.entity.Path, "Subscriptions", "Subscriptions/")
}

func (r *request) list(w http.ResponseWriter, kind event.EntityKind, topic, title, relative string) error {
	page, err := r.readPage(map[event.EntityKind]byte{event.Queue: 'q', event.Topic: 't', event.Subscription: 's'}[kind])
	if err != nil {
		return err
	}
	found, err := r.find(kind, topic, page)
	if err != nil {
		return r.refused(err, noService())
	}
	more := len(found) > page.top
	found = found[:min(len(found), page.top)]
	runtimes, err := r.h.Admin.Runtime(r.Context(), found)
	if err != nil {
		return r.refused(err, noService())
	}
	entries := make([]document.Entry, len(found))
	for i, e := range found {
		entries[i] = r.entityEntry(e, &runtimes[i])
		entries[i].ID = r.address(e.Path, r.URL.RawQuery) // with "Subscriptions", as lists have it
		entries[i].Self = relative + escaped(e.Name()) + query(r.URL.RawQuery)
	}
	return r.writeFeed(w, title, page, entries, more)
}

// find returns the entities of a page, and one more if there are more.
func (r *request) find(kind event.EntityKind, topic string, p page) ([]*engine.Entity, error) {
	if p.filter == nil {
		return r.h.Admin.List(kind, topic, p.skip, p.top+1), nil
	}
	all := r.h.Admin.List(kind, topic, 0, maxLooked+1)
	return selectPage(r.Context(), p, func(skip, top int) ([]*engine.Entity, error) {
		return all[min(skip, len(all)):min(skip+top, len(all))], nil
	}, func(piece []*engine.Entity) ([]*engine.Entity, error) { return r.choose(p.filter, piece) })
}

// choose returns the entities that a filter selects. It asks for an entity's counts only if they
// matter.
func (r *request) choose(f filter, all []*engine.Entity) (chosen []*engine.Entity, err error) {
	verdicts := make([]verdict, len(all))
	var open []*engine.Entity
	for i, e := range all {
		entry := r.entityEntry(e, nil)
		if verdicts[i] = f.judge(&entry, false); verdicts[i] == unknown {
			open = append(open, e)
		}
	}
	var runtimes []engine.Runtime
	if len(open) > 0 {
		if runtimes, err = r.h.Admin.Runtime(r.Context(), open); err != nil {
			return nil, err
		}
	}
	for i, e := range all {
		if verdicts[i] == unknown {
			entry := r.entityEntry(e, &runtimes[0])
			runtimes = runtimes[1:]
			verdicts[i] = f.judge(&entry, true)
		}
		switch verdicts[i] {
		case yes:
			chosen = append(chosen, e)
		case unknown:
			return nil, refuse(http.StatusServiceUnavailable, 50004, "The server is busy; please retry the operation. "+
				"The filter cannot be answered: a partition that holds messages of '%s' does not serve.", e.Path)
		}
	}
	return chosen, nil
}

// writeFeed answers with a page. The link to the next page repeats the size of the page, because
// clients take it from there.
func (r *request) writeFeed(w http.ResponseWriter, title string, p page, entries []document.Entry, more bool) error {
	feed := &document.Feed{Title: title, ID: r.address(r.route.path, r.URL.RawQuery), Updated: r.now, Entries: entries}
	feed.Self = feed.ID
	if more && p.top > 0 {
		feed.Next = r.address(r.route.path, "%24skip="+strconv.Itoa(p.skip+p.top)+"&%24top="+strconv.Itoa(p.top)+
			"&api-version="+url.QueryEscape(r.URL.Query().Get("api-version")))
		if p.filter != nil {
			feed.Next += "&%24filter=" + url.QueryEscape(p.text)
		}
	}
	for i := range entries {
		entries[i].Base = feed.ID
	}
	write(w, http.StatusOK, feedType, document.AppendFeed(nil, feed, document.Format{Version: r.version}))
	return nil
}
