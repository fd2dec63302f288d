package atom

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// A header gives the reason of a change, and every change stores it, with the client's id of the
// request.
func TestReasons(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	n := len(a.fake.whys)
	said := []string{caller.ReasonHeader, "Störung 4711", caller.RequestHeader, "7e0d"}
	a.put("/q", queue(""), said...).is(201)
	a.update("/q", queue(""), said...).is(200)
	a.put("/t/Subscriptions/u", subscription(""), said...).is(201)
	a.put("/t/Subscriptions/s/Rules/r", rule(`<Filter i:type="FalseFilter"/>`), said...).is(201)
	a.update("/t/Subscriptions/s/Rules/r", rule(`<Filter i:type="TrueFilter"/>`), said...).is(200)
	a.delete("/t/Subscriptions/s/Rules/r", said...).is(200)
	a.delete("/q", said...).is(200)
	for i, why := range a.fake.whys[n:] {
		if want := (event.ReasonGiven{Reason: "Störung 4711", TrackingID: "7e0d"}); why != want {
			t.Errorf("change %d: %+v", i, why)
		}
	}
	if got := len(a.fake.whys) - n; got != 7 {
		t.Errorf("%d changes", got)
	}
	a.put("/q", queue("")).is(201)
	a.update("/q", queue(""), caller.RequestHeader, strings.Repeat("x", 257)).is(200)
	if silent := a.fake.whys[n+7:]; len(silent) != 2 || silent[0] != silent[1] || silent[0] != (event.ReasonGiven{}) {
		t.Errorf("%+v; want len(silent) == 2 && silent[0] == silent[1] && silent[0] == (event.ReasonGiven{})", silent)
	}
}

// A reason that cannot be stored is refused before anything is changed. A read needs no reason, and
// is not refused for an invalid one.
func TestReasonsThatCannotBe(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	n := len(a.fake.whys)
	for reason, text := range map[string]string{
		strings.Repeat("x", event.MaxReason+1): "The reason has 1025 bytes; at most 1024 are allowed.", "\xff": "The reason must be one line of UTF-8.",
	} {
		a.put("/q", queue(""), caller.ReasonHeader, reason).is(400, text)
		a.delete("/q", caller.ReasonHeader, reason).is(400, text)
		a.get("/missing", caller.ReasonHeader, reason).is(200)
	}
	r := httptest.NewRequest("DELETE", "/q?api-version=2021-05", nil)
	r.Host = host
	r.Header.Set("Authorization", a.token)
	r.Header.Add(caller.ReasonHeader, "one")
	r.Header.Add(caller.ReasonHeader, "two")
	a.serve(r).is(400, "more than one header")
	if got := len(a.fake.whys) - n; got != 0 {
		t.Errorf("%d changes", got)
	}
	a.put("/q", queue(""), caller.ReasonHeader, strings.Repeat("x", event.MaxReason)).is(201)
}
