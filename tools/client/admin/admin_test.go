package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// namespace is a server that gives prepared answers and records its requests.
type namespace struct {
	*Client
	mu      sync.Mutex
	asked   []string // guarded by mu: method, path and query
	headers []http.Header
	bodies  []string
}

// serve starts a namespace. It gives the answers in turn, and repeats the last one.
func serve(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) *namespace {
	t.Helper()
	ns := &namespace{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ns.mu.Lock()
		i := min(len(ns.asked), len(answers)-1)
		ns.asked = append(ns.asked, r.Method+" "+r.URL.RequestURI())
		ns.headers = append(ns.headers, r.Header)
		ns.bodies = append(ns.bodies, string(body))
		ns.mu.Unlock()
		answers[i](w, r)
	}))
	t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	c, err := New("Endpoint=sb://"+host+";SharedAccessKeyName=rule;SharedAccessKey=key;UseDevelopmentEmulator=true", Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ns.Client = c
	return ns
}

func answer(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func entry(e document.Entry) string {
	return string(document.AppendEntry(nil, &e, document.Format{Version: document.V2021, Form: document.Read}))
}

func feed(f document.Feed) string {
	return string(document.AppendFeed(nil, &f, document.Format{Version: document.V2021, Form: document.Read}))
}

func queue(name string) document.Entry {
	return document.Entry{Title: name, Entity: &document.Description{Kind: event.Queue, CreatedAt: 1, Runtime: document.Runtime{Active: 2, DeadLetter: 3, SizeBytes: 77},
		Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, ForwardTo: "sb://elsewhere:1/Archive"}}}
}

func rule(name string) document.Entry {
	return document.Entry{Title: name, Rule: &event.Rule{Name: name, Filter: event.Filter{Kind: event.SQLFilter, Text: "a < 1"}}}
}

// Tests the words and headers of every operation of 2.1.
func TestRequests(t *testing.T) {
	t.Parallel()
	subscription := SubscriptionPath("a/b", "audit")
	ofSubscription := queue("audit")
	ofSubscription.Entity.Kind = event.Subscription
	topic := document.Entry{Title: "a/b", Entity: &document.Description{Kind: event.Topic}}
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		answer string
		do     func(*Client) error
		asked  string
		update bool
	}{
		{"get queue", entry(queue("orders")), func(c *Client) error { _, err := c.Get(ctx, event.Queue, "orders"); return err }, "GET /orders?api-version=2021-05", false},
		{"get topic", entry(topic), func(c *Client) error { _, err := c.Get(ctx, event.Topic, "a/b"); return err }, "GET /a/b?api-version=2021-05", false},
		{"get subscription", entry(ofSubscription), func(c *Client) error { _, err := c.Get(ctx, event.Subscription, subscription); return err }, "GET /a/b/Subscriptions/audit?api-version=2021-05", false},
		{"get rule", entry(rule("$Default")), func(c *Client) error { _, err := c.Rule(ctx, subscription, "$Default"); return err }, "GET /a/b/Subscriptions/audit/Rules/$Default?api-version=2021-05", false},
		{"list queues", feed(document.Feed{Title: "Queues"}), func(c *Client) error { _, err := c.List(ctx, event.Queue, ""); return err }, "GET /$Resources/Queues?%24skip=0&%24top=100&api-version=2021-05", false},
		{"list topics", feed(document.Feed{Title: "Topics"}), func(c *Client) error { _, err := c.List(ctx, event.Topic, ""); return err }, "GET /$Resources/Topics?%24skip=0&%24top=100&api-version=2021-05", false},
		{"list subscriptions", feed(document.Feed{Title: "Subscriptions"}), func(c *Client) error { _, err := c.List(ctx, event.Subscription, "a/b"); return err }, "GET /a/b/Subscriptions?%24skip=0&%24top=100&api-version=2021-05", false},
		{"list rules", feed(document.Feed{Title: "Rules"}), func(c *Client) error { _, err := c.Rules(ctx, subscription); return err }, "GET /a/b/Subscriptions/audit/Rules?%24skip=0&%24top=100&api-version=2021-05", false},
		{"create queue", entry(queue("orders")), func(c *Client) error { _, err := c.Create(ctx, NewEntity(event.Queue, "orders")); return err }, "PUT /orders?api-version=2021-05", false},
		{"update queue", entry(queue("orders")), func(c *Client) error { _, err := c.Update(ctx, NewEntity(event.Queue, "orders")); return err }, "PUT /orders?api-version=2021-05", true},
		{"create subscription", entry(ofSubscription), func(c *Client) error {
			_, err := c.Create(ctx, NewEntity(event.Subscription, subscription))
			return err
		}, "PUT /a/b/Subscriptions/audit?api-version=2021-05", false},
		{"create rule", entry(rule("eu")), func(c *Client) error { _, err := c.CreateRule(ctx, subscription, *rule("eu").Rule); return err }, "PUT /a/b/Subscriptions/audit/Rules/eu?api-version=2021-05", false},
		{"update rule", entry(rule("eu")), func(c *Client) error { _, err := c.UpdateRule(ctx, subscription, *rule("eu").Rule); return err }, "PUT /a/b/Subscriptions/audit/Rules/eu?api-version=2021-05", true},
		{"delete queue", "", func(c *Client) error { return c.Delete(ctx, event.Queue, "orders") }, "DELETE /orders?api-version=2021-05", false},
		{"delete subscription", "", func(c *Client) error { return c.Delete(ctx, event.Subscription, subscription) }, "DELETE /a/b/Subscriptions/audit?api-version=2021-05", false},
		{"delete rule", "", func(c *Client) error { return c.DeleteRule(ctx, subscription, "$Default") }, "DELETE /a/b/Subscriptions/audit/Rules/$Default?api-version=2021-05", false},
		{"namespace", entry(document.Entry{Title: "n", Namespace: &document.Namespace{Name: "n", Tier: "Standard"}}), func(c *Client) error { _, err := c.Namespace(ctx); return err }, "GET /$namespaceinfo?api-version=2021-05", false},
		{"a name that needs care", entry(queue("a b%?#")), func(c *Client) error { _, err := c.Get(ctx, event.Queue, "a b%?#"); return err }, "GET /a%20b%25%3F%23?api-version=2021-05", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := serve(t, answer(http.StatusOK, c.answer))
			if err := c.do(ns.Client); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.asked}, ns.asked); diff != "" {
				t.Error(diff)
			}
			h := ns.headers[0]
			if got := h.Get("If-Match"); (got == "*") != c.update {
				t.Errorf("If-Match %q", got)
			}
			if isPut := strings.HasPrefix(c.asked, "PUT"); isPut != (h.Get("Content-Type") == contentType) || isPut != (ns.bodies[0] != "") {
				t.Errorf("Content-Type %q, body %q", h.Get("Content-Type"), ns.bodies[0])
			}
			path, _, _ := strings.Cut(strings.TrimLeft(c.asked, "GETPUDL "), "?")
			resource := url.QueryEscape("http://" + ns.Host() + path)
			if got := h.Get("Authorization"); !strings.HasPrefix(got, "SharedAccessSignature sr="+resource+"&sig=") || !strings.HasSuffix(got, fmt.Sprintf("&se=%d&skn=rule", noon.Add(time.Hour).Unix())) {
				t.Errorf("Authorization %q for %s", got, resource)
			}
		})
	}
}

// Only present settings are sent to the broker. Forwarding targets are sent as URLs, with tokens
// for them (1.7, 3.8).
func TestBodies(t *testing.T) {
	t.Parallel()
	ns := serve(t, answer(http.StatusCreated, entry(queue("Orders"))))
	e := NewEntity(event.Queue, "orders")
	e.Properties = event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 5, ForwardTo: "archive/eu", ForwardDeadLetteredMessagesTo: "sb://other/dead", UserMetadata: ""}
	e.Present.Add(document.LockDuration, document.ForwardTo, document.ForwardDeadLetteredMessagesTo, document.UserMetadata, document.SizeInBytes)
	got, err := ns.Create(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if got.Path != "Orders" || got.Properties.ForwardTo != "Archive" || got.Runtime.Total() != 5 || got.Runtime.SizeBytes != 77 {
		t.Errorf(`%+v; want got.Path == "Orders" && got.Properties.ForwardTo == "Archive" && got.Runtime.Total() == 5 && got.Runtime.SizeBytes == 77`, got)
	}
	doc, err := document.Parse([]byte(ns.bodies[0]), document.Options{Limits: document.RequestLimits})
	if err != nil {
		t.Fatal(err)
	}
	var present document.Elements
	present.Add(document.LockDuration, document.ForwardTo, document.ForwardDeadLetteredMessagesTo)
	want := &document.Description{Kind: event.Queue, Present: present, Properties: event.Properties{LockDuration: 30 * time.Second,
		ForwardTo: "sb://" + ns.Host() + "/archive/eu", ForwardDeadLetteredMessagesTo: "sb://other/dead"}}
	if diff := cmp.Diff(want, doc.Entry.Entity); diff != "" {
		t.Error(diff)
	}
	for header, target := range map[string]string{supplementary[0]: want.Properties.ForwardTo, supplementary[1]: want.Properties.ForwardDeadLetteredMessagesTo} {
		if got := ns.headers[0].Get(header); !strings.HasPrefix(got, "SharedAccessSignature sr="+url.QueryEscape(target)+"&") {
			t.Errorf(`%s: %q; want strings.HasPrefix(got, "SharedAccessSignature sr="+url.QueryEscape(target)+"&")`, header, got)
		}
	}
	if e.Properties.ForwardTo != "archive/eu" || !e.Present.Has(document.UserMetadata) {
		t.Error("the caller's entity was changed")
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	page := func(next string, names ...string) func(http.ResponseWriter, *http.Request) {
		f := document.Feed{Title: "Queues", Self: "http://h/self", Next: next}
		for _, n := range names {
			f.Entries = append(f.Entries, queue(n))
		}
		return answer(http.StatusOK, feed(f))
	}
	const skip2, skip4 = "https://evil.example/$Resources/Queues?%24skip=2&%24top=2&api-version=2017-04", "http://h/q?$skip=4&$top=2"
	for _, c := range []struct {
		name    string
		pages   []func(http.ResponseWriter, *http.Request)
		want    string
		asked   int
		failure string
	}{
		{"three pages, and one that moved", []func(http.ResponseWriter, *http.Request){page(skip2, "a", "b"), page(skip4, "B", "c"), page("", "d")}, "a b c d", 3, ""},
		{"nothing", []func(http.ResponseWriter, *http.Request){page("")}, "", 1, ""},
		{"the answer where nothing is", []func(http.ResponseWriter, *http.Request){answer(http.StatusOK, string(document.AppendNotFound(nil, "uuid:1", 0)))}, "", 1, ""},
		{"the same page again", []func(http.ResponseWriter, *http.Request){page(skip2, "a", "b")}, "", 2, "the list does not end"},
		{"new links, old entries", []func(http.ResponseWriter, *http.Request){page(skip2, "a", "b"), page(skip4, "a", "b")}, "", 2, "the list does not end"},
		{"a link without a place", []func(http.ResponseWriter, *http.Request){page("http://h/q", "a")}, "", 1, "the list does not end"},
		{"something else", []func(http.ResponseWriter, *http.Request){answer(http.StatusOK, feed(document.Feed{Title: "Rules", Entries: []document.Entry{rule("r")}}))}, "", 1, "contains an unexpected entry: r"},
		{"no list", []func(http.ResponseWriter, *http.Request){answer(http.StatusOK, entry(queue("q")))}, "", 1, "the answer is not a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := serve(t, c.pages...)
			found, err := ns.List(t.Context(), event.Queue, "")
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Fatalf("%v; want err != nil && strings.Contains(err.Error(), c.failure)", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				var names []string
				for _, e := range found {
					names = append(names, e.Path)
				}
				if got := strings.Join(names, " "); got != c.want {
					t.Errorf("got %s", got)
				}
			}
			if len(ns.asked) != c.asked {
				t.Errorf("%d requests: %v", len(ns.asked), ns.asked)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const conflict = "<Error><Code>409</Code><Detail>SubCode=40900. Conflict. It\r\nexists. To know more visit https://aka.ms/sbResourceMgrExceptions. . TrackingId:1_G12, SystemTracker:h:q, Timestamp:2026-01-01T00:00:00</Detail></Error>"
	const missing = "<Error><Code>404</Code><Detail>The messaging entity 'ns:Topic:t|s' could not be found. TrackingId:1, SystemTracker:NoSystemTracker, Timestamp:2026-01-01T00:00:00</Detail></Error>"
	topic := entry(document.Entry{Title: "orders", Entity: &document.Description{Kind: event.Topic}})
	get := func(c *Client) error { _, err := c.Get(context.Background(), event.Queue, "orders"); return err }
	for _, c := range []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request)
		do      func(*Client) error
		text    string
		status  int
		subCode int
	}{
		{"conflict", answer(409, conflict), func(c *Client) error {
			_, err := c.Create(context.Background(), NewEntity(event.Queue, "orders"))
			return err
		},
			"create queue orders: Conflict. It exists. (status 409, sub-code 40900)", 409, 40900},
		{"no sub-code", answer(404, missing), func(c *Client) error { return c.Delete(context.Background(), event.Subscription, "t/Subscriptions/s") },
			"delete subscription s of t: The messaging entity 'ns:Topic:t|s' could not be found. (status 404)", 404, 0},
		{"what is between us and the broker", answer(502, "<html>bad"), get, "show queue orders: Bad Gateway (status 502)", 502, 0},
		{"nothing there", answer(200, string(document.AppendNotFound(nil, "uuid:1", 0))), get, "show queue orders: no entity has this name (status 404)", 404, 0},
		{"of another kind", answer(200, topic), get, "show queue orders: no entity has this name; it is a topic (status 404)", 404, 0},
		{"a rule", answer(200, entry(rule("r"))), get, "show queue orders: no entity has this name (status 404)", 404, 0},
		{"nonsense", answer(200, "<entry"), get, "show queue orders: invalid answer: ", 0, 0},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		}, get, "show queue orders: Found (status 302)", 302, 0},
		{"the namespace itself", answer(200, ""), func(c *Client) error { return c.Delete(context.Background(), event.Queue, "") }, `delete queue : "" is not the path of an entity`, 0, 0},
		{"above it", answer(200, ""), func(c *Client) error { return c.DeleteRule(context.Background(), "t/Subscriptions/s", "..") }, `delete rule .. of subscription s of t: "t/Subscriptions/s/Rules/.." is not the path of an entity`, 0, 0},
		{"no name of a rule", answer(200, ""), func(c *Client) error { return c.DeleteRule(context.Background(), "t/Subscriptions/s", "") }, `delete rule  of subscription s of t: "t/Subscriptions/s/Rules/" is not the path of an entity`, 0, 0},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			for range document.ResponseLimits.Bytes>>16 + 2 {
				_, _ = w.Write(make([]byte, 1<<16))
			}
		}, get, "show queue orders: invalid answer: ", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.do(serve(t, c.answer).Client)
			e := (*Error)(nil)
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.text) || e.Status != c.status || e.SubCode != c.subCode {
				t.Errorf("%v; want errors.As(err, &e) && strings.HasPrefix(err.Error(), c.text) && e.Status == c.status && e.SubCode == c.subCode", err)
			}
			if IsNotFound(err) != (c.status == 404) || IsConflict(err) != (c.status == 409) {
				t.Errorf("not found %t, conflict %t", IsNotFound(err), IsConflict(err))
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	ns := serve(t, func(http.ResponseWriter, *http.Request) { <-released })
	t.Cleanup(func() { close(released) })
	ns.o.Timeout = time.Millisecond
	if _, err := ns.Namespace(t.Context()); err == nil || err.Error() != "show namespace: no answer in time" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf(`%v; want err != nil && err.Error() == "show namespace: no answer in time" && errors.Is(err, context.DeadlineExceeded)`, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ns.Namespace(ctx); err == nil || err.Error() != "show namespace: canceled before the answer arrived" {
		t.Errorf(`%v; want err != nil && err.Error() == "show namespace: canceled before the answer arrived"`, err)
	}
	c, err := New("Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Namespace(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "connection refused; check that the broker is running at 127.0.0.1:1") {
		t.Errorf(`%v; want err != nil && strings.HasSuffix(err.Error(), "connection refused; check that the broker is running at 127.0.0.1:1")`, err)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	const busy = "<Error><Code>503</Code><Detail>SubCode=50004. Too many. TrackingId:1</Detail></Error>"
	for _, c := range []struct {
		busy  int
		waits string
		text  string
	}{
		{2, "[1s 2s]", "<nil>"},
		{99, "[1s 2s 4s 8s]", "delete queue orders: Too many. (status 503, sub-code 50004)"},
	} {
		ns := serve(t, append(slices.Repeat([]func(http.ResponseWriter, *http.Request){answer(503, busy)}, c.busy), answer(200, ""))...)
		var waits []time.Duration
		ns.pause = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
		if err := ns.Delete(t.Context(), event.Queue, "orders"); fmt.Sprint(err) != c.text || fmt.Sprint(waits) != c.waits {
			t.Errorf("%v after %v", err, waits)
		}
	}
	ns := serve(t, answer(429, ""))
	ctx, cancel := context.WithCancel(t.Context())
	wait := ns.pause
	ns.pause = func(ctx context.Context, d time.Duration) error { cancel(); return wait(ctx, d) }
	if err := ns.Delete(ctx, event.Queue, "orders"); err == nil || err.Error() != "delete queue orders: canceled before the answer arrived" {
		t.Errorf(`%v; want err != nil && err.Error() == "delete queue orders: canceled before the answer arrived"`, err)
	}
}

// Scheme and port follow from the connection string (1.1).
func TestWhere(t *testing.T) {
	t.Parallel()
	const key = ";SharedAccessKeyName=a;SharedAccessKey=b"
	for in, want := range map[string]string{
		client.DevelopmentConnectionString:                                     "http://localhost:5300",
		"Endpoint=sb://localhost:8080/" + key + ";UseDevelopmentEmulator=true": "http://localhost:8080",
		"Endpoint=sb://ns.servicebus.windows.net/" + key:                       "https://ns.servicebus.windows.net",
		"Endpoint=sb://bus.example:5671" + key:                                 "https://bus.example:5671",
		"Endpoint=sb://[::1]" + key:                                            "https://[::1]",
	} {
		c, err := New(in, Options{})
		if err != nil || c.base.String() != want {
			t.Errorf("%s: %s, %v; want c.base.String() == want", in, c.base.String(), err)
		}
	}
	if _, err := New("Endpoint=sb://h", Options{}); err == nil {
		t.Error("a connection string without a key was taken")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(answer(http.StatusOK, entry(queue("orders")))))
	t.Cleanup(srv.Close)
	text := "Endpoint=sb://" + strings.TrimPrefix(srv.URL, "https://") + ";SharedAccessKeyName=a;SharedAccessKey=b"
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	c, err := New(text, Options{TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Get(t.Context(), event.Queue, "orders"); err != nil {
		t.Error(err)
	}
	if c, err = New(text, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Get(t.Context(), event.Queue, "orders"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority was trusted: %v", err)
	}
}

func TestSplitSubscription(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"t/Subscriptions/s": {"t", "s"}, "a/b/subscriptions/s": {"a/b", "s"}, "t": {}, "/Subscriptions/s": {}, "t/Subscriptions/": {}, "t/Rules/s": {}, "s": {},
	} {
		topic, name, ok := SplitSubscription(path)
		if topic != want[0] || name != want[1] || ok != (want[0] != "") {
			t.Errorf(`%s: %q %q %t; want topic == want[0] && name == want[1] && ok == (want[0] != "")`, path, topic, name, ok)
		}
	}
}
