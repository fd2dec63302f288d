package ledger

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

const (
	start   event.Time = 1767225600000 // 2026-01-01
	rootKey            = "a key for everything"
	sendKey            = "a key to send with"
	readKey            = "a key to read history with"
	host               = "bus.example:5300"
)

// fake has three partitions that do as the test says. Partition 0 holds the catalogue.
type fake struct {
	partitions []engine.PartitionStatus
	fail       error // of the next act
	panics     bool  // at the next act
	by         *engine.Origin
	why        event.ReasonGiven
	closed     int  // backups
	breaks     bool // backups do, in the middle
	histories  *index.Index
	past       past.Source
	ended      bool // the context of the last act could not be cancelled
	live       liveState
}

func (f *fake) Partitions() []engine.PartitionStatus { return f.partitions }

func (f *fake) act(ctx context.Context, by *engine.Origin, why event.ReasonGiven) error {
	if f.panics {
		panic("a bug")
	}
	f.by, f.why, f.ended = by, why, ctx.Err() != nil
	err := f.fail
	f.fail = nil
	return err
}

func (f *fake) FencePartition(ctx context.Context, p engine.PartitionID, by *engine.Origin, why event.ReasonGiven) error {
	if err := f.act(ctx, by, why); err != nil {
		return err
	}
	f.partitions[p] = engine.PartitionStatus{ID: p, State: engine.PartitionFenced, Since: start, Cause: "by an operator: " + why.Reason, By: by.Principal}
	return nil
}

func (f *fake) RestartPartition(ctx context.Context, p engine.PartitionID, by *engine.Origin, why event.ReasonGiven) (engine.PartitionStatus, error) {
	if err := f.act(ctx, by, why); err != nil {
		return engine.PartitionStatus{}, err
	}
	f.partitions[p] = engine.PartitionStatus{ID: p, Since: start + 1500}
	return f.partitions[p], nil
}

func (f *fake) EraseBody(ctx context.Context, entity string, message event.SequenceNumber, by *engine.Origin, why event.ReasonGiven) (engine.ErasedBody, error) {
	return engine.ErasedBody{Entity: entity, Sequence: message, Bytes: 300, Before: message == 8}, f.act(ctx, by, why)
}

// pastOf holds the logs that a test has given, or none.
type pastOf struct{ *fake }

func (p pastOf) Partitions() []log.PartitionID {
	if p.past == nil {
		return nil
	}
	return p.past.Partitions()
}

func (p pastOf) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	if p.past == nil {
		return nil, &log.CorruptError{Partition: id, Reason: "there is none"}
	}
	return p.past.Open(ctx, id)
}

// api is the handler over a fake engine.
type api struct {
	*testing.T
	fake     *fake
	failures *access.Failures
	log      strings.Builder
	h        http.Handler
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{T: t, failures: access.NewFailures(100, 3), fake: &fake{partitions: []engine.PartitionStatus{{}, {ID: 1, Since: start},
		{ID: 2, State: engine.PartitionRefused, Since: start + 1, Cause: "segment 7: checksum mismatch"}}, histories: index.New()}}
	verifier := access.New(access.Options{Hosts: []string{"bus.example"}, Rules: []event.AccessRule{
		{Name: "ops", Rights: event.Rights{event.Manage}, Primary: rootKey},
		{Name: "sender", Rights: event.Rights{event.Send, event.Listen}, Primary: sendKey},
		{Name: "auditor", Rights: event.Rights{access.HistoryReader}, Primary: readKey},
		{Name: "reviewer", Rights: event.Rights{access.HistoryReader, access.BodyReader}, Primary: readKey},
	}})
	logger := slog.New(slog.NewTextHandler(&a.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a.h = New(Options{Operations: a.fake, Backups: a.fake, Erasures: a.fake, Histories: a.fake, Live: &a.fake.live, Receivers: a.fake.live.receivers, Past: pastOf{a.fake}, Callers: &caller.Authenticator{Access: verifier, Failures: a.failures, Logger: logger},
		Now: func() event.Time { return start }, Logger: logger})
	t.Cleanup(func() {
		for _, secret := range []string{rootKey, sendKey, readKey, "sig="} {
			if strings.Contains(a.log.String(), secret) {
				t.Errorf("S31: the log has %q", secret)
			}
		}
	})
	return a
}

func sign(resource, rule, key string) string {
	return sas.Token(resource, rule, key, start.Std().Add(time.Hour))
}

// do sends a request with the token of the namespace, unless the headers, in pairs, have another
// one; an empty one means none.
func (a *api) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	a.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "test")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Del("Authorization")
	}
	return a.serve(r)
}

func (a *api) serve(r *http.Request) *httptest.ResponseRecorder {
	a.Helper()
	w := httptest.NewRecorder()
	a.h.ServeHTTP(w, r)
	kind := wire.ContentType
	if r.Method == "GET" && w.Code == 200 && slices.Contains(past.Verbs(), r.URL.Path[len("/$ledger/v1/"):]) {
		kind = wire.LinesType
	}
	for name, want := range map[string]string{"Content-Type": kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			a.Errorf("%s %s: %s is %q", r.Method, r.URL, name, got)
		}
	}
	return w
}

// refused checks that an answer is an error with a status, a code and a part of its message.
func (a *api) refused(w *httptest.ResponseRecorder, status int, code, fragment string) {
	a.Helper()
	var f wire.Failure
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || w.Code != status || f.Error.Code != code || !strings.Contains(f.Error.Message, fragment) || f.Error.Message == "" {
		a.Errorf("status %d, %+v, %v; want %d, %s, %q", w.Code, f.Error, err, status, code, fragment)
	}
}

func (a *api) is(w *httptest.ResponseRecorder, want string) {
	a.Helper()
	if got := w.Body.String(); w.Code != http.StatusOK || got != want+"\n" {
		a.Errorf("status %d, %s\nwant %s", w.Code, got, want)
	}
}

// A parameter that a request does not have is refused by name, and so is a query that would lose a
// part.
func TestQueriesRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.written()
	for i := range routes {
		r := &routes[i]
		path, right := "/$ledger/"+strings.ReplaceAll(r.path, "{id}", "1"), sign("sb://"+host, "ops", rootKey)
		if r.isQuestion() {
			right = sign("sb://"+host, "auditor", readKey)
		}
		fragment := "no parameter \"colour\"; its arguments are in its path and body"
		switch {
		case r.isQuestion():
			fragment = "has no argument \"colour\""
		case r.takesQuery():
			fragment = "no parameter \"colour\"; it takes " + strings.Join(r.parameters, ", ")
		}
		a.refused(a.do(r.method, path+"?colour=blue", "", "Authorization", right), 400, "invalid", fragment)
		for _, query := range []string{"?since=%zz", "?since=-1m;until=now"} {
			a.refused(a.do(r.method, path+query, "", "Authorization", right), 400, "invalid", "The query of the request cannot be read")
		}
	}
	if a.fake.by != nil {
		t.Errorf("a refused request was carried out: %+v", a.fake.by)
	}
	if w := a.do("GET", "/$ledger/v1/partitions?&", ""); w.Code != 200 {
		t.Errorf("a query that says nothing: %d", w.Code)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const list, fence, restart = "/$ledger/v1/partitions", "/$ledger/v1/partitions/1/fence", "/$ledger/v1/partitions/1/restart"
	const refused = `{"id":2,"state":"refused","since":"2026-01-01T00:00:00.001Z","cause":"segment 7: checksum mismatch"}`
	const fenced = `{"id":1,"state":"fenced","since":"2026-01-01T00:00:00Z","cause":"by an operator: INC-4711","by":"ops"}`
	a.is(a.do("GET", list, ""), `{"partitions":[{"id":0,"state":"serving"},{"id":1,"state":"serving","since":"2026-01-01T00:00:00Z"},`+refused+`]}`)
	a.is(a.do("POST", fence, "", caller.ReasonHeader, "INC-4711", caller.RequestHeader, "7e0d"), fenced)
	if o := a.fake.by; o.Principal != "ops" || o.Product != "test" || o.Link != "ledger" || o.Entity != fence || o.RemoteAddress == "" || o.Connection == 0 {
		t.Errorf(`%+v; want o.Principal == "ops" && o.Product == "test" && o.Link == "ledger" && o.Entity == fence && o.RemoteAddress != "" && o.Connection != 0`, o)
	}
	if a.fake.why != (event.ReasonGiven{Reason: "INC-4711", TrackingID: "7e0d"}) {
		t.Errorf(`%+v; want a.fake.why == (event.ReasonGiven{Reason: "INC-4711", TrackingID: "7e0d"})`, a.fake.why)
	}
	a.is(a.do("GET", list, ""), `{"partitions":[{"id":0,"state":"serving"},`+fenced+`,`+refused+`]}`)
	a.is(a.do("POST", restart, " {} \n"), `{"id":1,"state":"serving","since":"2026-01-01T00:00:01.5Z"}`)
	if a.fake.why != (event.ReasonGiven{}) {
		t.Errorf("%+v; want a.fake.why == (event.ReasonGiven{})", a.fake.why)
	}
	for _, id := range []string{"3", "-1", "01", "+1", "x", "99999999999999999999", "1%20", "%2e%2e"} {
		w := a.do("POST", "/$ledger/v1/partitions/"+id+"/fence", "")
		if w.Code != 404 && w.Code != 401 {
			t.Errorf("partition %s: status %d, %s", id, w.Code, w.Body)
		}
	}
	a.refused(a.do("POST", "/$ledger/v1/partitions/3/fence", ""), 404, "not-found", `There is no partition "3"; partitions are 0 to 2.`)
}

// A restart continues when its client has disconnected; a fence need not.
func TestGoneClient(t *testing.T) {
	t.Parallel()
	for path, ended := range map[string]bool{"/$ledger/v1/partitions/2/restart": false, "/$ledger/v1/partitions/2/fence": true} {
		a := newAPI(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", path, nil)
		r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
		if a.serve(r); a.fake.ended != ended {
			t.Errorf("%s: the context has ended: %t", path, a.fake.ended)
		}
	}
}

// Refusals of the engine, in its words.
func TestRefusals(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, c := range []struct {
		err            error
		status         int
		code, fragment string
	}{
		{engine.Refuse(engine.NotAllowed, "Partition 1 is serving."), 409, "conflict", "Partition 1 is serving."},
		{engine.Refuse(engine.NotFound, "none"), 404, "not-found", "none"},
		{engine.Refuse(engine.Busy, "Its disk fails."), 503, "busy", "Its disk fails."},
		{engine.Refuse(engine.InvalidArgument, "no"), 400, "invalid", "no"},
		{context.DeadlineExceeded, 503, "busy", "may still be carried out"},
		{engine.ErrUnknown, 500, "internal", "the broker's log says why"},
	} {
		for _, act := range []string{"fence", "restart"} {
			a.fake.fail = c.err
			w := a.do("POST", "/$ledger/v1/partitions/1/"+act, "")
			if (w.Header().Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%v: Retry-After is %q", c.err, w.Header().Get("Retry-After"))
			}
			a.refused(w, c.status, c.code, c.fragment)
		}
	}
	a.fake.panics = true
	a.refused(a.do("POST", "/$ledger/v1/partitions/1/fence", ""), 500, "internal", "")
	if !strings.Contains(a.log.String(), "a bug") {
		t.Error("the log does not have the panic")
	}
}

// S21: every row of the table refuses a caller without a token, and one whose token lacks the
// right.
func TestEveryRouteTakesItsRight(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		path := "/$ledger/" + strings.ReplaceAll(r.path, "{id}", "1")
		a := newAPI(t)
		a.refused(a.do(r.method, path, "", "Authorization", ""), 401, "unauthorized", "Missing Authorization")
		a.refused(a.do(r.method, path, "", "Authorization", sign("sb://"+host, "sender", sendKey)), 403, "forbidden", "the right "+r.right.String())
		reader := a.do(r.method, path, "", "Authorization", sign("sb://"+host, "auditor", readKey))
		if r.right == access.Manage {
			a.refused(reader, 403, "forbidden", "the right Manage")
		} else if reader.Code == 403 {
			a.Errorf("%s: ReadHistory is not enough: %s", path, reader.Body)
		}
		a.refused(a.do(r.method, path, "", "Authorization", sign("sb://"+host+"/orders", "ops", rootKey)), 401, "unauthorized", "for the namespace")
		a.refused(a.do(r.method, path, "", "Authorization", sas.Token("sb://"+host, "ops", rootKey, start.Std())), 401, "unauthorized", "has expired")
		a.refused(a.do(r.method, path, "", "Authorization", "SharedAccessSignature sr=x"), 401, "unauthorized", "cannot be read")
		w := a.do(r.method, path, "", "Authorization", sign("sb://"+host, "ops", "x"))
		if w.Header().Get("WWW-Authenticate") == "" {
			t.Error("401 without WWW-Authenticate")
		}
		a.refused(w, 401, "unauthorized", "unknown key")
		a.do(r.method, path, "", "Authorization", sign("sb://"+host, "ops", "y"))
		// S13: then even a good token is refused
		a.refused(a.do(r.method, path, ""), 429, "too-many-bad-tokens", "in a minute")
		if a.fake.by != nil {
			t.Errorf("%s %s: something was done", r.method, path)
		}
	}
}

// A path that does not exist reveals nothing to a caller without the right.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, path := range []string{"/$ledger", "/$ledger/", "/$ledger/v1", "/$ledger/v2/partitions", "/$ledger/v1/partitions/", "/$ledger/v1/Partitions", "/$LEDGER/v1/partitions",
		"/$ledger/v1/partitions//fence", "/$ledger/v1/partitions/1", "/$ledger//v1/partitions"} {
		if !Owns(path) {
			t.Errorf("%s goes to the management API", path)
		}
		a.refused(a.do("GET", path, ""), 404, "not-found", "Unknown request")
		a.refused(a.do("GET", path, "", "Authorization", ""), 401, "unauthorized", "Missing Authorization")
		a.refused(a.do("GET", path, "", "Authorization", sign("sb://"+host, "sender", sendKey)), 403, "forbidden", "the right Manage")
	}
	for _, path := range []string{"/", "", "/ledger/v1/partitions", "/$ledgers", "/$Resources/Queues", "/orders/$ledger/v1"} {
		if Owns(path) {
			t.Errorf("%s does not go to the management API", path)
		}
	}
	w := a.do("GET", "/$ledger/v1/partitions/1/fence", "")
	if w.Header().Get("Allow") != "POST" {
		t.Errorf("Allow is %q", w.Header().Get("Allow"))
	}
	a.refused(w, 405, "method-not-allowed", `This path allows POST, not "GET".`)
	a.refused(a.do("DELETE", "/$ledger/v1/partitions", ""), 405, "method-not-allowed", "GET")
	a.refused(a.do("HEAD", "/$ledger/v1/partitions", ""), 405, "method-not-allowed", "GET")
}

// Bodies, at their limit and one beyond, and their headers.
func TestBodies(t *testing.T) {
	t.Parallel()
	const path = "/$ledger/v1/partitions/1/fence"
	spaces := func(n int) string { return "{" + strings.Repeat(" ", n-2) + "}" }
	for _, c := range []struct {
		body           string
		headers        []string
		status         int
		code, fragment string
	}{
		{spaces(wire.MaxBody - 1), nil, 200, "", ""},
		{spaces(wire.MaxBody), nil, 200, "", ""},
		{spaces(wire.MaxBody + 1), nil, 413, "too-large", "8192 bytes"},
		{`{"reason":"x"}`, nil, 400, "invalid", `unknown field "reason"`},
		{`[]`, nil, 400, "invalid", "The body is not a JSON object."},
		{`{}{}`, nil, 400, "invalid", "more than one JSON object"},
		{`{`, nil, 400, "invalid", "cannot be read"},
		{"{\"\xff\":1}", nil, 400, "invalid", "not UTF-8"},
		{`{}`, []string{"Content-Type", "text/plain"}, 415, "not-json", "application/json"},
		{`{}`, []string{"Content-Type", ""}, 415, "not-json", "application/json"},
		{``, []string{"Content-Type", ""}, 200, "", ""},
		{``, []string{caller.ReasonHeader, strings.Repeat("x", event.MaxReason)}, 200, "", ""},
		{``, []string{caller.ReasonHeader, strings.Repeat("x", event.MaxReason+1)}, 400, "invalid", "The reason has 1025 bytes"},
		{``, []string{caller.ReasonHeader, "a\tb"}, 400, "invalid", "must be one line"},
	} {
		a := newAPI(t)
		w := a.do("POST", path, c.body, c.headers...)
		if c.status == 200 {
			if w.Code != 200 {
				t.Errorf("%.20q %.40q: %d, %s; want w.Code == 200", c.body, c.headers, w.Code, w.Body)
			}
			continue
		}
		if a.refused(w, c.status, c.code, c.fragment); a.fake.by != nil {
			t.Errorf("%.20q: something was done", c.body)
		}
	}
	a := newAPI(t)
	r := httptest.NewRequest("POST", path, io.MultiReader(strings.NewReader("{"), brokenBody{}))
	r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
	a.refused(a.serve(r), 400, "invalid", "could not be read")
}

// brokenBody breaks off.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Every status has a code for programs.
func TestCodes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for status, code := range codes {
		if code == "" || seen[code] || http.StatusText(status) == "" {
			t.Errorf(`%d: %q; want code != "" && !seen[code] && http.StatusText(status) != ""`, status, code)
		}
		seen[code] = true
	}
}

// Whatever the path of a request: this package owns it or not, and it has one route, other methods
// or nothing, and never two routes.
func FuzzPath(f *testing.F) {
	for _, r := range routes {
		f.Add(r.method, wire.Prefix+"/"+r.path)
	}
	f.Add("GET", "/$ledger//v1")
	f.Fuzz(func(t *testing.T, method, path string) {
		r, vars, methods := find(method, path)
		switch {
		case r == nil && vars != nil, r != nil && methods != nil, (r != nil || methods != nil) && !Owns(path):
			t.Fatalf("%q %q: %v, %v, %v", method, path, r, vars, methods)
		case r == nil:
			return
		}
		again := r.path
		for name, value := range vars {
			if value == "" || strings.Contains(value, "/") {
				t.Fatalf("%s is %q", name, value)
			}
			again = strings.Replace(again, "{"+name+"}", value, 1)
		}
		if r.method != method || wire.Prefix+"/"+again != path {
			t.Fatalf("%q %q has the row %s %s", method, path, r.method, r.path)
		}
	})
}
