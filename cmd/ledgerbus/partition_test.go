package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// startWithLedger starts a broker whose partition 2 is fenced and whose partition 3 is refused, so
// that every request to it fails.
func startWithLedger(t *testing.T) (connection string, reasons *[]string) {
	t.Helper()
	const (
		serving = `{"id":1,"state":"serving"}`
		fenced  = `{"id":2,"state":"fenced","since":"2030-01-02T03:04:05.678Z","cause":"sync: \u001b[31minput/output error","by":"ops"}`
		refused = `{"id":3,"state":"refused","since":"2030-01-02T03:04:05Z","cause":"segment 7: checksum mismatch"}`
	)
	answers := map[string]string{
		"GET /$ledger/v1/partitions":             `{"partitions":[{"id":0,"state":"serving"},` + serving + `,` + fenced + `,` + refused + `]}`,
		"POST /$ledger/v1/partitions/1/fence":    `{"id":1,"state":"fenced"}`,
		"POST /$ledger/v1/partitions/2/restart":  `{"id":2,"state":"serving","since":"2030-01-02T03:04:05.678Z"}`,
		"POST /$ledger/v1/partitions/1/restart":  `{"error":{"code":"conflict","message":"Partition 1 is serving."}}`,
		"POST /$ledger/v1/partitions/3/restart":  `{"error":{"code":"busy","message":"segment 7: checksum mismatch"}}`,
		"POST /$ledger/v1/partitions/99/restart": `{"error":{"code":"not-found","message":"There is no partition 99; there are 0 to 3."}}`,
	}
	statuses := map[string]int{"conflict": 409, "busy": 503, "not-found": 404}
	reasons = new([]string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*reasons = append(*reasons, r.Header.Get(caller.ReasonHeader))
		text := answers[r.Method+" "+r.URL.Path]
		for code, status := range statuses {
			if strings.Contains(text, `"code":"`+code) {
				w.WriteHeader(status)
			}
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(srv.Close)
	return "Endpoint=sb://" + strings.TrimPrefix(srv.URL, "http://") + ";SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true", reasons
}

func TestPartitionCommands(t *testing.T) {
	connection, reasons := startWithLedger(t)
	s := steps{t, connection}
	s.run(0, `ID  STATE    SINCE                     CAUSE                               BY   SCRUBBED
 0  serving
 1  serving
 2  fenced   2030-01-02T03:04:05.678Z  sync: \u001b[31minput/output error  ops
 3  refused  2030-01-02T03:04:05.000Z  segment 7: checksum mismatch
next: correct the cause, then ledgerbus partition restart 2`, "partition", "list")
	s.run(0, `{"id":0,"state":"serving","cause":"","by":""}
{"id":1,"state":"serving","cause":"","by":""}
{"id":2,"state":"fenced","since":"2030-01-02T03:04:05.678Z","cause":"sync: \u001b[31minput/output error","by":"ops"}
{"id":3,"state":"refused","since":"2030-01-02T03:04:05.000Z","cause":"segment 7: checksum mismatch","by":""}`, "partition", "list", "-o", "json")
	if got := s.run(0, "…", "partition", "list", "-o", "csv"); !strings.HasPrefix(got, "id,state,since,cause,by,scrubbed\n0,serving,,,,\n") {
		t.Errorf("list:\n%s", got)
	}
	*reasons = nil
	s.run(0, "partition 1 is fenced; to undo: ledgerbus partition restart 1", "partition", "fence", "1", "--reason", "its volume is moved")
	s.run(0, "partition 2 is serving", "partition", "restart", "--reason", "INC-4711", "2")
	s.run(0, `{"id":2,"state":"serving","since":"2030-01-02T03:04:05.678Z","cause":"","by":""}`, "partition", "restart", "2", "-o", "json")
	s.run(1, "ledgerbus: restart partition 1: Partition 1 is serving. (status 409)", "partition", "restart", "1")
	s.run(1, "ledgerbus: restart partition 3: segment 7: checksum mismatch (status 503)", "partition", "restart", "3")
	s.run(1, "ledgerbus: restart partition 99: There is no partition 99; there are 0 to 3. (status 404)", "partition", "restart", "99")
	if got := strings.Join(*reasons, "|"); got != "its volume is moved|INC-4711||||" {
		t.Errorf("reasons %s", got)
	}
}

// The commands work with a broker.
func TestPartitionsOfTheBroker(t *testing.T) {
	s := steps{t, startBroker(t)}
	if got := s.run(0, "…", "partition", "list", "-o", "csv"); !strings.HasPrefix(got, "id,state,since,cause,by,scrubbed\n0,serving,") || strings.Count(got, "\n") != 4 {
		t.Errorf("list:\n%s", got)
	}
	s.run(1, "ledgerbus: fence partition 0: Partition 0 holds the catalogue: it cannot be fenced or restarted by itself. (status 409)", "partition", "fence", "0")
	s.run(1, "ledgerbus: restart partition 1: Partition 1 is serving. (status 409)", "partition", "restart", "1")
	s.run(1, `ledgerbus: fence partition 4: There is no partition "4"; partitions are 0 to 3. (status 404)`, "partition", "fence", "4")
}
