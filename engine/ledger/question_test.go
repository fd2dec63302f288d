package ledger

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
