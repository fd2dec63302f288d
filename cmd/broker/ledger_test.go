package broker_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/test/sas"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// request makes a request to the broker with a token of a rule.
func request(t *testing.T, b *harness.Broker, method, path, rule, key string) (int, string) {
	t.Helper()
	base := "http://" + b.Server().Addrs()[0].String()
	r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
	must(t, err)
	r.Header.Set("Authorization", sas.Token(base+"/", rule, key, time.Now().Add(time.Hour)))
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(text)
}

// The broker's own requests are next to the management API and need Manage of the namespace. No
// entity can have one of their paths.
func TestLedgerDoor(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Rule("reader", "a key to read with", settings.Listen))
	const root, key = "RootManageSharedAccessKey", "SAS_KEY_VALUE"
	status, text := request(t, b, "GET", "/$ledger/v1/partitions", root, key)
	var all wire.Partitions
	if err := json.Unmarshal([]byte(text), &all); status != 200 || err != nil || len(all.Partitions) != 4 || all.Partitions[3] != (wire.Partition{ID: 3, State: "serving", Since: all.Partitions[3].Since}) {
		t.Errorf("status %d, %v: %s", status, err, text)
	}
	if status, text := request(t, b, "GET", "/$ledger/v1/partitions", "reader", "a key to read with"); status != 403 || !strings.Contains(text, `"code":"forbidden"`) {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := request(t, b, "POST", "/$ledger/v1/partitions/0/fence", root, key); status != 409 || !strings.Contains(text, `{"error":{"code":"conflict","message":"Partition 0 holds the catalogue`) {
		t.Errorf("status %d: %s", status, text)
	}
	c := connect(t, b.ConnectionString(), admin.Options{})
	for _, path := range []string{"$ledger", "$ledger/v1/partitions", "$LEDGER/x"} {
		if _, err := c.Create(t.Context(), admin.NewEntity(event.Queue, path)); err == nil {
			t.Errorf("a queue %s was made", path)
		}
	}
	if status, text := request(t, b, "GET", "/orders?api-version=2021-05", root, key); status != 200 || !strings.Contains(text, "<entry") {
		t.Errorf("the management API answers %d: %s", status, text)
	}
}

// An operator's change to a partition is in force when it is answered. /health shows it while it
// lasts, and the log records who made it and why.
func TestFencedOverTheDoor(t *testing.T) {
	t.Parallel()
	data := ""
	b := harness.Start(t, func(s *settings.Settings) { data = s.Storage.Data })
	c := connect(t, b.ConnectionString(), admin.Options{Product: "operator/1.0", Reason: "INC-4711"})
	if p, err := c.FencePartition(t.Context(), 2); err != nil || p.State != "fenced" || p.By != "RootManageSharedAccessKey" || !strings.Contains(p.Cause, "INC-4711") || p.Since == nil {
		t.Errorf("%+v, %v", p, err)
	}
	if status, text := request(t, b, "GET", "/health", "x", "x"); status != 503 || !strings.Contains(text, `"conditions":[{"state":"partition-fenced","since":"`) ||
		!strings.Contains(text, `"partition":2,"cause":"operator"}]`) || strings.Contains(text, "INC-4711") {
		t.Errorf("status %d: %s", status, text)
	}
	if _, err := c.FencePartition(t.Context(), 2); !admin.IsConflict(err) {
		t.Errorf("fenced twice: %v", err)
	}
	if p, err := c.RestartPartition(t.Context(), 2); err != nil || p.State != "serving" {
		t.Errorf("%+v, %v", p, err)
	}
	if status, text := request(t, b, "GET", "/health", "x", "x"); status != 200 || strings.Contains(text, "conditions") {
		t.Errorf("status %d: %s", status, text)
	}
	b.Stop()
	var dump strings.Builder
	must(t, tools.Dump(&dump, data, tools.DumpOptions{Partition: 0, JSON: true}))
	for _, part := range []string{`"Event":"PartitionFenced"`, `"Event":"PartitionRestarted"`, "operator/1.0", "INC-4711", `"RootManageSharedAccessKey"`} {
		if !strings.Contains(dump.String(), part) {
			t.Errorf("the dump has no %s", part)
		}
	}
}
