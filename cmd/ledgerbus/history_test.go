package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// History policies are listed, set and deleted. Invalid arguments are refused before any request.
func TestHistoryPolicyCommands(t *testing.T) {
	const answer = `{"namespace":{"events":"7d","bodies":"24h","undo":"24h","share":20,"beforeSends":false},"policies":[{"pattern":"orders/*","bodies":"none"}]}`
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get(caller.ReasonHeader), string(body)}, " "))
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(srv.Close)
	s := steps{t, "Endpoint=sb://" + strings.TrimPrefix(srv.URL, "http://") + ";SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"}
	const table = `PATTERN   EVENTS  BODIES  UNDO  SHARE  BEFORE-SENDS
orders/*          none
          7d      24h     24h   20     false`
	s.run(0, table, "history", "policy", "list")
	s.run(0, table, "history", "policy", "set", "orders/*", "--bodies", "none", "--reason", "INC-4711")
	s.run(0, table, "history", "policy", "delete", "orders/*", "--confirm", "orders/*")
	for _, args := range [][]string{{"set", "orders/*"}, {"set", "--bodies", "none"}, {"set", "orders/*", "--bodies", "soon"}, {"delete"}, {"delete", "orders/*", "--confirm", "other"}, {"list", "x"}} {
		s.run(2, "…", append([]string{"history", "policy"}, args...)...)
	}
	want := []string{"GET /$ledger/v1/history/policies   ", `POST /$ledger/v1/history/policies application/json INC-4711 {"pattern":"orders/*","bodies":"none"}`,
		`POST /$ledger/v1/history/policies/delete application/json  {"pattern":"orders/*"}`}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", got)
	}
}
