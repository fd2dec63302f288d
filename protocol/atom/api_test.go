package atom

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

const (
	start     event.Time = 1767225600000 // 2026-01-01
	rootKey              = "SAS_KEY_VALUE"
	otherKey             = "the secondary key"
	listenKey            = "a key to listen with"
	sendKey              = "a key to send with"
	host                 = "bus.example:5300"
)

// api is the handler over a fake engine.
type api struct {
	t     *testing.T
	fake  *fake
	h     http.Handler
	log   *lockedBuffer
	token string // of the namespace, with all rights
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newAPI(t *testing.T, change ...func(*Options)) *api {
	t.Helper()
	a := &api{t: t, fake: newFake(), log: &lockedBuffer{}}
	all := event.Rights{event.Manage, event.Send, event.Listen}
	verifier := access.New(access.Options{
		Rules: []event.AccessRule{
			{Name: "RootManageSharedAccessKey", Rights: all, Primary: rootKey, Secondary: otherKey},
			{Name: "listener", Rights: event.Rights{event.Listen}, Primary: listenKey},
			{Name: "sender", Rights: event.Rights{event.Send}, Primary: sendKey},
		},
		EntityRules: func(path string) []event.AccessRule {
			for ; path != ""; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
				if e, ok := a.fake.Find(path); ok && e.Kind != event.Subscription {
					return e.Properties.AccessRules
				}
			}
			return nil
		},
		Development: true,
	})
	o := Options{
		Admin: a.fake, Callers: &caller.Authenticator{Access: verifier}, Namespace: "ns", Created: start.Std(), Now: func() event.Time { return start },
		Logger: slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&o)
	}
	a.h = New(o)
	a.token = sign("sb://"+host, "RootManageSharedAccessKey", rootKey)
	t.Cleanup(func() {
		for _, secret := range []string{rootKey, otherKey, listenKey, sendKey, "sig="} {
			if strings.Contains(a.log.String(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
	})
	return a
}

func sign(resource, rule, key string) string {
	return sas.Token(resource, rule, key, start.Std().Add(time.Hour))
}

// answer is the received answer.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

// do sends a request with the token of the namespace, unless the headers, in pairs, have another
// one; an empty one means none.
func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	if !strings.Contains(path, "?") {
		path += "?api-version=2021-05"
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	r.Header.Set("Authorization", a.token)
	r.Header.Set("User-Agent", "test")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Del("Authorization")
	}
	return a.serve(r)
}

func (a *api) serve(r *http.Request) answer {
	a.t.Helper()
	w := httptest.NewRecorder()
	a.h.ServeHTTP(w, r)
	res := w.Result()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{a.t, r.Method + " " + r.URL.String(), res.StatusCode, res.Header, string(data)}
}

func (a *api) get(path string, headers ...string) answer {
	a.t.Helper()
	return a.do("GET", path, "", headers...)
}

func (a *api) delete(path string, headers ...string) answer {
	a.t.Helper()
	return a.do("DELETE", path, "", headers...)
}

func (a *api) put(path, body string, headers ...string) answer {
	a.t.Helper()
	return a.do("PUT", path, body, headers...)
}

func (a *api) update(path, body string, headers ...string) answer {
	a.t.Helper()
	return a.do("PUT", path, body, append([]string{"If-Match", "*"}, headers...)...)
}

// create makes entities by path: a queue, or the kind that the path names.
func (a *api) create(paths ...string) {
	a.t.Helper()
	for _, path := range paths {
		body := queue("")
		switch rest, isTopic := strings.CutPrefix(path, "topic:"); {
		case strings.Contains(path, "/Rules/"):
			body = rule(`<Filter i:type="FalseFilter"/>`)
		case strings.Contains(path, "/Subscriptions/"):
			body = subscription("")
		case isTopic:
			path, body = rest, topic("")
		}
		a.put("/"+path, body).is(201)
	}
}

// is checks the status and parts of the body.
func (w answer) is(status int, fragments ...string) answer {
	w.t.Helper()
	if w.status != status {
		w.t.Errorf("%s: %d, not %d\n%s", w.what, w.status, status, w.body)
	}
	for _, f := range fragments {
		if !strings.Contains(w.body, f) {
			w.t.Errorf("%s: no %q in\n%s", w.what, f, w.body)
		}
	}
	return w
}

func (w answer) lacks(fragments ...string) answer {
	w.t.Helper()
	for _, f := range fragments {
		if strings.Contains(w.body, f) {
			w.t.Errorf("%s: %q in\n%s", w.what, f, w.body)
		}
	}
	return w
}

// notFound checks the feed for a path that does not exist.
func (w answer) notFound() {
	w.t.Helper()
	w.is(200, `<title type="text">Publicly Listed Services</title>`, `<id>uuid:`).lacks("<entry")
	if got := w.header.Get("Content-Type"); got != "application/atom+xml;type=feed;charset=utf-8" {
		w.t.Errorf(`%s: %s, want "application/atom+xml;type=feed;charset=utf-8"`, w.what, got)
	}
}

func (w answer) parse() *document.Document {
	w.t.Helper()
	doc, err := document.Parse([]byte(w.body), document.Options{Limits: document.ResponseLimits})
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", w.what, err, w.body)
	}
	return doc
}

func (w answer) entity() *document.Description {
	w.t.Helper()
	doc := w.parse()
	if doc.Entry == nil || doc.Entry.Entity == nil {
		w.t.Fatalf("%s: no entity in\n%s", w.what, w.body)
	}
	return doc.Entry.Entity
}

const spaces = ` xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`

func description(kind, inside string) string {
	return `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><` + kind + spaces + inside + `</` + kind + `></content></entry>`
}

func queue(inside string) string        { return description("QueueDescription", inside) }
func topic(inside string) string        { return description("TopicDescription", inside) }
func subscription(inside string) string { return description("SubscriptionDescription", inside) }
func rule(inside string) string         { return description("RuleDescription", inside) }

// MA-013, S21: without credentials nothing is revealed, whatever the path and the method.
func TestDefaultDeny(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s", "t/Subscriptions/s/Rules/r")
	paths := map[routeKind][]string{
		entityPath:        {"/q", "/t", "/missing", "/", "/health", "/a//b", "/q/$management"},
		subscriptionsPath: {"/t/Subscriptions", "/missing/Subscriptions/"},
		subscriptionPath:  {"/t/Subscriptions/s", "/t/Subscriptions/missing"},
		rulesPath:         {"/t/Subscriptions/s/Rules", "/t/Subscriptions/s/Rules/"},
		rulePath:          {"/t/Subscriptions/s/Rules/r"},
		queuesPath:        {"/$Resources/Queues"},
		topicsPath:        {"/$Resources/topics"},
		namespacePath:     {"/$namespaceinfo"},
		subQueue:          {"/q/$DeadLetterQueue", "/t/Subscriptions/s/$deadletterqueue"},
	}
	before := len(a.fake.origins)
	for kind := range routeKinds {
		if len(paths[kind]) == 0 {
			t.Errorf("no path of kind %d", kind)
		}
		for _, path := range paths[kind] {
			if got := parseRoute(path).kind; got != kind {
				t.Errorf("%s is of kind %d, not %d", path, got, kind)
			}
			for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "TRACE"} {
				for name, token := range map[string]string{
					"none": "", "nonsense": "Basic eDp5", "bearer": "Bearer a.b.c", "other key": sign("sb://"+host, "RootManageSharedAccessKey", "x"),
				} {
					w := a.do(method, path, queue(""), "Authorization", token).is(401)
					if token == "" {
						w.is(401, "<Code>401</Code>", "MissingToken: The authorization header was not found.")
					}
					if w.header.Get("ETag") != "" {
						t.Errorf("%s with %s: has an ETag", w.what, name)
					}
				}
			}
		}
	}
	if len(a.fake.origins) != before {
		t.Error("something was changed")
	}
}

// S24: unknown host names are refused if names are configured.
func TestHosts(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(o *Options) { o.Hosts = []string{"Bus.Example"} })
	for name, status := range map[string]int{
		"bus.example": 200, "BUS.example:5300": 200, "bus.example.": 200, "localhost:5300": 200, "127.0.0.1": 200, "[::1]:5300": 200,
		"evil.example": 421, "bus.example.evil.example": 421, "": 421,
	} {
		a.get("/$namespaceinfo", "Host", name).is(status)
	}
	newAPI(t).get("/$namespaceinfo", "Host", "anything.example").is(200)
}

// A bug in one request is an answer and a line in the log; the next request is served.
func TestPanic(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q")
	a.fake.panics = true
	a.get("/q").is(500, "<Code>500</Code>", "SubCode=50002").lacks("a bug", "goroutine")
	if !strings.Contains(a.log.String(), "a bug") {
		t.Errorf(`%+v; want strings.Contains(a.log.String(), "a bug")`, a.log.String())
	}
	a.get("/q").is(200)
}

// Operations that the engine cannot do now are answered so that clients try again; an unknown
// outcome is not called a success.
func TestFaults(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, c := range []struct {
		err      error
		status   int
		fragment string
	}{
		{&engine.Error{Code: engine.Busy, Text: "x"}, 503, "SubCode=50004"},
		{&engine.Error{Code: engine.Timeout, Text: "x"}, 503, "SubCode=50004"},
		{engine.ErrUnknown, 500, "SubCode=50002"},
		{fmt.Errorf("engine: queue %q: %w", "q", &engine.Error{Code: engine.QuotaExceeded, Text: "There are 10000."}), 403, "SubCode=40300. There are 10000."},
		{context.Canceled, 503, "SubCode=50004"},
		{&engine.Error{Code: engine.NotImplemented, Text: "not yet"}, 400, "SubCode=40000. not yet"},
	} {
		a.fake.fail = c.err
		a.put("/q", queue("")).is(c.status, c.fragment).lacks("engine:")
	}
	a.create("topic:t")
	for path, code := range map[string]string{"/t/Subscriptions/s": "40503", "/t/Subscriptions/s/Rules/r": "40501", "/t/Subscriptions/s/Rules/c": "40502"} {
		body := subscription("")
		switch path[len(path)-1] {
		case 'r':
			a.create("t/Subscriptions/s")
			body = rule(`<Filter i:type="TrueFilter"/>`)
		case 'c':
			a.create("t/Subscriptions/s2")
			path, body = strings.Replace(path, "/s/", "/s2/", 1), rule(`<Filter i:type="CorrelationFilter"><Label>x</Label></Filter>`)
		}
		a.fake.fail = &engine.Error{Code: engine.QuotaExceeded, Text: "full"}
		a.put(path, body).is(403, "SubCode="+code+". full")
		a.delete("/t/Subscriptions/s")
	}
}

// reliability.md S13: bad tokens cost time, and after many the address is refused; then even a good
// token is refused.
func TestManyBadTokens(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(o *Options) { o.Callers.Failures = access.NewFailures(100, 3) })
	for range 3 {
		a.get("/q", "Authorization", sign("sb://"+host, "RootManageSharedAccessKey", "wrong")).is(401, "InvalidSignature")
	}
	a.get("/q").is(429, "try again in a minute")
}

// MA-018: the namespace.
func TestNamespace(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.get("/$namespaceinfo").is(200, `<title type="text">ns</title>`, "<author><name>ns</name></author>",
		"<CreatedTime>2026-01-01T00:00:00Z</CreatedTime><MessagingSKU>Standard</MessagingSKU><ModifiedTime>2026-01-01T00:00:00Z</ModifiedTime><Name>ns</Name><NamespaceType>Messaging</NamespaceType></NamespaceInfo>").lacks("MessagingUnits")
	premium := newAPI(t, func(o *Options) { o.Tier = engine.Premium })
	premium.get("/$NamespaceInfo").is(200, "<MessagingSKU>Premium</MessagingSKU><MessagingUnits>1</MessagingUnits>")
}
