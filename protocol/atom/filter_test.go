package atom

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// filtered is a list with a filter.
func filtered(list, filter string) string {
	return list + "?api-version=2021-05&$filter=" + url.QueryEscape(filter)
}

// filteredAPI has four queues, one of them never used, a topic with two subscriptions, and two
// rules. Each is made a millisecond after the previous one, from 2026-01-01T00:00:00.001Z on.
func filteredAPI(t *testing.T) *api {
	a := newAPI(t)
	a.create("test-a", "Test-B", "live", "idle", "topic:events", "events/Subscriptions/one", "events/Subscriptions/two", "events/Subscriptions/one/Rules/late")
	used := start.Add(time.Hour)
	a.fake.runtimes["test-a"] = engine.Runtime{Active: 2, Scheduled: 1, AccessedAt: used}
	a.fake.runtimes["test-b"] = engine.Runtime{AccessedAt: used.Add(time.Hour)}
	a.fake.runtimes["live"] = engine.Runtime{DeadLetter: 7, AccessedAt: used}
	a.fake.runtimes["events/subscriptions/two"] = engine.Runtime{Active: 1}
	return a
}

// MA-131: the entries that each comparison selects. Words and names are read in any letter case.
func TestFilters(t *testing.T) {
	t.Parallel()
	a := filteredAPI(t)
	const queues, topics, subscriptions, rules = "/$Resources/Queues", "/$Resources/Topics", "/events/Subscriptions", "/events/Subscriptions/one/Rules"
	for _, c := range []struct{ list, filter, want string }{
		{queues, "startswith(path,'test-') eq true", "test-a test-b"},
		{queues, "startswith(path, 'TEST-')", "test-a test-b"},
		{queues, "  StartsWith ( Path , 'test-a' )  Eq  True ", "test-a"},
		{queues, "startswith(path,'test-') eq false", "idle live"},
		{queues, "startswith(path,'test-') ne true", "idle live"},
		{queues, "startswith(path,'test-') ne false", "test-a test-b"},
		{queues, "startswith(path,'') eq true", "idle live test-a test-b"},
		{queues, "startswith(path,'none') eq true", ""},
		{queues, "path eq 'LIVE'", "live"},
		{queues, "path ne 'live'", "idle test-a test-b"},
		{queues, "path ne 'it''s'", "idle live test-a test-b"},
		{queues, "path gt 'live'", "test-a test-b"},
		{queues, "path ge 'live'", "live test-a test-b"},
		{queues, "path lt 'live'", "idle"},
		{queues, "path le 'live'", "idle live"},
		{queues, "messageCount Gt 0", "live test-a"},
		{queues, "messagecount eq 0", "idle test-b"},
		{queues, "messageCount ge 3", "live test-a"},
		{queues, "messageCount le 3", "idle test-a test-b"},
		{queues, "messageCount lt -1", ""},
		{queues, "messageCount ne 7", "idle test-a test-b"},
		{queues, "createdAt gt '2026-01-01T00:00:00.002Z'", "idle live"},
		{queues, "createdAt eq 2026-01-01T00:00:00.002Z", "test-b"},
		{queues, "createdAt le datetime'2026-01-01T00:00:00.0021'", "test-a test-b"},
		{queues, "createdAt lt '2026-01-01T01:00:00.002+01:00'", "test-a"},
		{queues, "CreatedAt gt '12/31/2025 23:59:59' and createdAt lt '1/1/2026 12:00:01 AM'", "idle live test-a test-b"},
		{queues, "createdAt gt '2026-01-02' or createdAt lt '1/1/2026'", ""},
		{queues, "updatedAt ge '2026-01-01 00:00:00'", "idle live test-a test-b"},
		{queues, "modifiedAt lt '1/1/2026 00:00'", ""},
		{queues, "accessedAt lt '2026-01-01T01:30:00Z'", "idle live test-a"},
		{queues, "accessedAt eq '0001-01-01T00:00:00Z'", "idle"},
		{queues, "startswith(path,'test-') eq true And messageCount Eq 0", "test-b"},
		{queues, "path eq 'live' or path eq 'test-a' and messageCount gt 100", "live"},
		{queues, "path eq 'live' and messageCount gt 100 or path eq 'test-a'", "test-a"},
		{topics, "path eq 'events'", "events"},
		{topics, "path ne 'events'", ""},
		{subscriptions, "messageCount gt 0", "two"},
		{subscriptions, "createdAt gt '2026-01-01T00:00:00.006Z'", "two"},
		// a new one shows when it was made
		{subscriptions, "accessedAt le '2026-01-01T00:00:00.006Z'", "one"},
		{rules, "createdAt gt '2026-01-01T00:00:00.006Z'", "late"},
	} {
		var titles []string
		for _, e := range a.get(filtered(c.list, c.filter)).is(200).parse().Feed.Entries {
			titles = append(titles, e.Title)
		}
		if got := strings.Join(titles, " "); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.list, c.filter, got, c.want)
		}
	}
}

// MA-132: an unsupported filter is refused with its name: a list that was not filtered may be one
// of things to delete.
func TestFiltersRefused(t *testing.T) {
	t.Parallel()
	a := filteredAPI(t)
	const queues, subscriptions, rules = "/$Resources/Queues", "/events/Subscriptions", "/events/Subscriptions/one/Rules"
	for _, c := range []struct{ list, filter, want string }{
		{queues, "", "A property is expected, not the end."},
		{queues, " ", "A property is expected, not the end."},
		{queues, "endswith(path,'x') eq true", "The specified property 'endswith' does not exist or is not allowed."},
		{queues, "name eq 'x'", "The specified property 'name' does not exist or is not allowed."},
		{queues, "not path eq 'x'", "The specified property 'not' does not exist or is not allowed."},
		{queues, "'path' eq 'x'", "A property is expected, not 'path'."},
		{queues, "(path eq 'x')", "A property is expected, not (: parentheses are allowed only after startswith."},
		{queues, "path", "After 'path' one of eq, ne, gt, ge, lt, le is expected, not the end."},
		{queues, "path = 'x'", "After 'path' one of eq, ne, gt, ge, lt, le is expected, not '='."},
		{queues, "path startswith 'x'", "After 'path' one of eq, ne, gt, ge, lt, le is expected, not 'startswith'."},
		{queues, "path eq x", "'path' is compared with a text in single quotes, not with 'x'."},
		{queues, "path eq 'x", "'path' is compared with a text in single quotes, not with a text without its closing quote."},
		{queues, "path eq 'x''", "'path' is compared with a text in single quotes, not with a text without its closing quote."},
		{queues, "path eq", "'path' is compared with a text in single quotes, not with the end."},
		{queues, "path eq 'x' path eq 'y'", "'and' or 'or' is expected, not 'path'."},
		{queues, "path eq 'x' and", "A property is expected, not the end."},
		{queues, "path eq 'x' 'and' path eq 'y'", "'and' or 'or' is expected, not 'and'."},
		{queues, "path eq 'x')", "'and' or 'or' is expected, not ): parentheses are allowed only after startswith."},
		{queues, "messageCount gt 'x'", "'messagecount' is compared with a whole number, not with 'x'."},
		{queues, "messageCount gt '1'", "'messagecount' is compared with a whole number, not with '1'."},
		{queues, "messageCount gt 1.5", "'messagecount' is compared with a whole number, not with '1.5'."},
		{queues, "messageCount gt 9999999999999999999", "'messagecount' is compared with a whole number, not with '9999999999999999999'."},
		{queues, "createdAt gt 'yesterday'", "'createdat' is compared with a time such as '2026-01-31T08:00:00Z' or '1/31/2026 08:00:00', not with 'yesterday'."},
		{queues, "createdAt gt '31/1/2026'", "'createdat' is compared with a time such as"},
		{queues, "path eq datetime'2026-01-01'", "'path' is compared with a text in single quotes, not with 'datetime'."},
		{queues, "startswith(name,'x')", "StartsWith takes 'path', not 'name'."},
		{queues, "startswith('x',path)", "StartsWith takes 'path', not 'x'."},
		{queues, "startswith path 'x'", "'(' is expected, not 'path'."},
		{queues, "startswith(path 'x')", "',' is expected, not 'x'."},
		{queues, "startswith(path,'x' eq true", "')' is expected, not 'eq'."},
		{queues, "startswith(path,'x') eq 1", "StartsWith is compared with true or false, not with '1'."},
		{queues, "startswith(path,'x') gt true", "'and' or 'or' is expected, not 'gt'."},
		{queues, strings.Repeat("path eq 'x' or ", 74), "It has more than 1024 bytes."},
		{subscriptions, "startswith(path,'x') eq true", "StartsWith is not allowed in the filter expression."},
		{subscriptions, "path eq 'x'", "The specified property 'path' does not exist or is not allowed."},
		{rules, "accessedAt gt '2026-01-01'", "The specified property 'accessedAt' does not exist or is not allowed."},
		{rules, "messageCount gt 0", "The specified property 'messageCount' does not exist or is not allowed."},
	} {
		a.get(filtered(c.list, c.filter)).is(400, "SubCode=40000. Invalid Filter. "+c.want).lacks("<entry")
	}
}

// MA-133: the filter comes first, then $skip and $top; the link to the next page has the filter.
func TestFilteredPages(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i := range 230 {
		a.create(fmt.Sprintf("a-%03d", i), fmt.Sprintf("b-%03d", i))
	}
	for _, c := range []struct {
		query, first, last string
		n, pages           int
	}{
		{"", "b-000", "b-229", 230, 3},
		{"&$top=115", "b-000", "b-229", 230, 3},
		{"&$top=10", "b-000", "b-229", 230, 23},
		{"&$skip=225", "b-225", "b-229", 5, 1},
		{"&$skip=130&$top=100", "b-130", "b-229", 100, 1},
		{"&$Skip=129&%24TOP=100", "b-129", "b-229", 101, 2},
	} {
		titles, pages := a.follow(filtered("/$Resources/Queues", "startswith(path,'b-') eq true") + c.query)
		if len(titles) != c.n || pages != c.pages || titles[0] != c.first || titles[len(titles)-1] != c.last {
			t.Errorf("%s: %d in %d pages: %v", c.query, len(titles), pages, titles)
		}
	}
	a.get(filtered("/$Resources/Queues", "startswith(path,'b-') eq true")+"&$skip=230").is(200).lacks("<entry", `rel="next"`)
	a.get(filtered("/$Resources/Queues", "startswith(path,'b-') eq true")+"&$skip=99999999999999999999").is(200).lacks("<entry", `rel="next"`)
	a.get(filtered("/$Resources/Queues", "path eq 'a-000'")+"&$top=0").is(200).lacks("<entry", `rel="next"`)
}

// counting counts the cost of a filter, and does not know the counts of some entities.
type counting struct {
	*fake
	queues  int // that there are
	asked   int // entities that Runtime was asked about
	unknown string
}

func (c *counting) List(kind event.EntityKind, topic string, skip, top int) []*engine.Entity {
	if c.queues == 0 {
		return c.fake.List(kind, topic, skip, top)
	}
	all := make([]*engine.Entity, min(top, c.queues))
	for i := range all {
		all[i] = &engine.Entity{Kind: event.Queue, Path: fmt.Sprintf("q-%05d", i)}
	}
	return all
}

func (c *counting) Rules(_ context.Context, _ string, skip, top int) ([]event.Rule, error) {
	return make([]event.Rule, top), nil // there is no end of them
}

func (c *counting) Runtime(ctx context.Context, list []*engine.Entity) ([]engine.Runtime, error) {
	c.asked += len(list)
	all, err := c.fake.Runtime(ctx, list)
	for i := range all {
		all[i].Unknown = list[i].Path == c.unknown
	}
	return all, err
}

// MA-134: a request reads at most 10,000 entries, and asks for their counts only if they matter.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	c := &counting{}
	a := newAPI(t, func(o *Options) { c.fake = o.Admin.(*fake); o.Admin = c })
	a.create("topic:t", "t/Subscriptions/s")
	c.queues = 10_000
	for filter, want := range map[string]int{"path eq 'q-09999'": 1, "path eq 'q-09999' and messageCount eq 0": 1 + 1, "path lt 'q-00150' or messageCount gt 0": 50 + 100} {
		c.asked = 0
		if a.get(filtered("/$Resources/Queues", filter)).is(200, "<entry"); c.asked != want {
			t.Errorf("%s: asked what %d queues hold, not %d", filter, c.asked, want)
		}
	}
	c.queues = 10_001
	const most = "Invalid Filter. The list has more than 10000 entries, which is the limit of a filter."
	a.get(filtered("/$Resources/Queues", "path eq 'q-00007'")).is(400, most)
	// a full page needs no more
	a.get(filtered("/$Resources/Queues", "path ge 'q-00007'")+"&$top=5").is(200, "q-00007", `rel="next"`)
	a.get(filtered("/t/Subscriptions/s/Rules", "createdAt gt '2100-01-01'")).is(400, most)
}

// MA-135: a filter whose answer depends on an unknown property is refused; another one is answered.
func TestFilterUnknown(t *testing.T) {
	t.Parallel()
	c := &counting{unknown: "q"}
	a := newAPI(t, func(o *Options) { c.fake = o.Admin.(*fake); o.Admin = c })
	a.create("other", "q")
	for filter, status := range map[string]int{
		"messageCount eq 0": 503, "messageCount gt 5": 503, "path ne 'x' and messageCount gt 5": 503,
		"path eq 'other' and messageCount eq 0": 200, "path eq 'q' or messageCount gt 0": 200, "accessedAt lt '2026-01-01'": 200,
	} {
		w := a.get(filtered("/$Resources/Queues", filter)).is(status)
		if status == 503 {
			w.is(503, "SubCode=50004", "'q' does not serve").lacks("<entry")
		}
	}
}

// MA-136: a query option that a request does not have is refused by name. Other parameters are
// ignored.
func TestQueryOptions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	for _, path := range []string{"/$Resources/Queues", "/$Resources/Topics", "/t/Subscriptions", "/t/Subscriptions/s/Rules"} {
		for query, want := range map[string]string{
			"$orderby=path": "'$orderby' is not supported", "$SELECT=path": "'$SELECT' is not supported", "$": "'$' is not supported",
			"filter=path eq 'x'": "'filter' is not known; the query option is '$filter'", "top=1": "'top' is not known", "Skip=1": "'Skip' is not known",
			"$top=1&$top=2": "'$top' is given more than once", "$top=1&$Top=1": "'$top' is given more than once",
			"$filter=path eq 'a;b'": "cannot be read", "$filter=%zz": "cannot be read",
		} {
			a.get(path+"?api-version=2021-05&"+strings.ReplaceAll(query, " ", "%20")).is(400, "SubCode=40000. ", want).lacks("<entry")
		}
		a.get(path + "?api-version=2021-05&enrich=false&timeout=60&&").is(200)
	}
	for _, path := range []string{"/q", "/t/Subscriptions/s", "/t/Subscriptions/s/Rules/$Default"} {
		query := path + "?api-version=2021-05&$filter=messageCount%20eq%200"
		a.delete(query).is(400, "The query option '$filter' is not supported for this request.")
		a.get(query).is(400, "The query option '$filter' is not supported for this request.")
		a.get(path).is(200, "<entry") // nothing was deleted
	}
	a.get("/$namespaceinfo?api-version=2021-05&$top=1").is(400, "'$top' is not supported")
}

// FuzzListFilter parses filters: each is parsed or refused with a short text, and the same filter
// judges an entry in the same way.
func FuzzListFilter(f *testing.F) {
	for _, text := range []string{
		"startswith(path,'test-') eq true", "path ne 'it''s' or messageCount gt 5 and createdAt le datetime'2026-01-01T00:00:00Z'",
		"accessedAt lt '1/31/2026 8:00:00 PM'", "modifiedAt ge 2026-01-31", "startswith ( path , '", "path eq 'x'') and", "((", "createdAt eq",
	} {
		f.Add(text, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, list uint8) {
		kind := "qtsr"[list%4]
		parsed, err := parseFilter(text, kind)
		var r *refusal
		if err != nil {
			if !errors.As(err, &r) || r.status != 400 || !strings.HasPrefix(r.text, "Invalid Filter. ") || len(r.text) > 1000 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		n := 0
		for _, all := range parsed {
			if n += len(all); len(all) == 0 {
				t.Fatalf("%q: an alternative without a comparison", text)
			}
		}
		if n > len(text)/8 {
			t.Fatalf("%q: %d comparisons", text, n)
		}
		e := &document.Entry{Title: "test-a", Published: start, Updated: start, Entity: &document.Description{AccessedAt: start}}
		if kind == 'r' {
			e.Entity = nil
		}
		known := parsed.judge(e, true)
		if known == unknown {
			t.Fatalf("%q: unknown, though everything is known", text)
		}
		if v := parsed.judge(e, false); v != unknown && v != known {
			t.Fatalf("%q: %d before it is asked what the thing holds, %d then", text, v, known)
		}
	})
}
