package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

func TestPartitions(t *testing.T) {
	t.Parallel()
	since := time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC)
	fenced := wire.Partition{ID: 2, State: "fenced", Since: &since, Cause: "sync: input/output error", By: "ops"}
	const text = `{"id":2,"state":"fenced","since":"2030-01-02T03:04:05.678Z","cause":"sync: input/output error","by":"ops"}`
	ns := serve(t, answer(200, `{"partitions":[{"id":0,"state":"serving"},`+text+`]}`), answer(200, text))
	ns.o.Reason = "INC-4711"
	all, err := ns.Partitions(t.Context())
	if diff := cmp.Diff([]wire.Partition{{State: "serving"}, fenced}, all); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, act := range []func() (wire.Partition, error){
		func() (wire.Partition, error) { return ns.FencePartition(t.Context(), 2) },
		func() (wire.Partition, error) { return ns.RestartPartition(t.Context(), 2) },
	} {
		if p, err := act(); err != nil || !cmp.Equal(p, fenced) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	want := "GET /$ledger/v1/partitions POST /$ledger/v1/partitions/2/fence POST /$ledger/v1/partitions/2/restart"
	if got := strings.Join(ns.asked, " "); got != want {
		t.Errorf("asked %s", got)
	}
	for i, reason := range []string{"", "INC-4711", "INC-4711"} {
		if got := ns.headers[i].Get("X-Ledgerbus-Reason"); got != reason || !strings.HasPrefix(ns.headers[i].Get("Authorization"), "SharedAccessSignature sr=") || ns.bodies[i] != "" {
			t.Errorf("request %d: reason %q, body %q", i, got, ns.bodies[i])
		}
	}
}

// A refusal is reported once, in the broker's words. For an answer of another namespace the error
// says that the command needs a Ledgerbus broker.
func TestPartitionsRefused(t *testing.T) {
	t.Parallel()
	const others = "; this command needs a Ledgerbus broker of this version or later"
	for _, c := range []struct {
		status     int
		body, text string
		code       string
	}{
		{409, `{"error":{"code":"conflict","message":"Partition 2 is serving."}}`, "restart partition 2: Partition 2 is serving. (status 409)", "conflict"},
		{503, `{"error":{"code":"busy","message":"The disk\nfails."}}`, "restart partition 2: The disk fails. (status 503)", "busy"},
		{404, "<Error><Code>404</Code><Detail>SubCode=40400. Not there.</Detail></Error>", "restart partition 2: Not there." + others + " (status 404, sub-code 40400)", ""},
		{502, "<html>", "restart partition 2: Bad Gateway (status 502)", ""},
		{200, string(document.AppendNotFound(nil, "uuid:1", 0)), "restart partition 2: invalid answer: the answer is not the expected JSON: invalid character '<' looking for beginning of value" + others, ""},
	} {
		ns := serve(t, answer(c.status, c.body))
		_, err := ns.RestartPartition(t.Context(), 2)
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Error() != c.text || e.Code != c.code || len(ns.asked) != 1 {
			t.Errorf("after %d requests: %v", len(ns.asked), err)
		}
	}
}
