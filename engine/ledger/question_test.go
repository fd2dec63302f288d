package ledger

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The arguments of a question are parsed as they were written, under every name of every verb.
func TestQuestionIsReadBack(t *testing.T) {
	t.Parallel()
	says := map[string]string{
		"of": "orders#7", "message-id": "a", "at": "now", "from": "2026-01-01T00:00:00.000Z", "to": "@0/16", "entity": "orders", "messages": "true",
		"condition": "orders.active > 1", "since": "2026-01-01T00:00:00.000Z", "until": "@1/8", "where": "number > 1", "type": "sent,dead", "after": FromNow,
		"message": "{}", "partition": "3", "lsn": "8", "bodies": "true",
	}
	for _, verb := range Verbs() {
		want := url.Values{}
		for _, a := range (&Question{Verb: verb}).arguments() {
			if verb != "story" || a.name != "message-id" { // it replaces the other one
				want.Set(a.name, says[a.name])
			}
		}
		q, err := ParseQuestion(verb, want, time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC))
		if err != nil {
			t.Errorf("%s: %v", verb, err)
			continue
		}
		if diff := cmp.Diff(want, q.Values()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", verb, diff)
		}
		if len(want) == 0 {
			t.Errorf("%s says nothing", verb)
		}
	}
}

// Short questions are told by their arguments: story, and audit of at most an hour.
func TestShort(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for question, want := range map[string]bool{
		"story?of=orders%231": true, "story?message-id=a": true, "audit?since=1h": true, "audit?since=-1h&until=now": true, "audit?since=11:00": true,
		"audit?since=-30d&until=2026-10-29T12:30:00Z&entity=orders": true, "audit?since=@0/8": false, "audit?since=-1h&until=@0/8": false,
		"audit": false, "audit?since=-2h": false, "audit?until=-1h": false, "audit?since=-2h&until=-59m": true, "audit?since=-3h&until=-1h": false,
		"events?since=-1m": false, "why?of=orders%231": false, "at?at=now": false,
	} {
		verb, query, _ := strings.Cut(question, "?")
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseQuestion(verb, v, now)
		if err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		// it arrives a little later
		if got := q.Short(event.TimeOf(now.Add(time.Second))); got != want {
			t.Errorf("%s: %v", question, got)
		}
	}
}
