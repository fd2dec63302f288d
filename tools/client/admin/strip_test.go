package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
)

// Unknown bytes of a strip stay unknown, and arguments that are not given are not sent.
func TestStrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	some := uint64(7)
	want := rows.Strip{From: at, To: at.Add(2 * time.Second), Step: 1, Buckets: []rows.StripBucket{{At: at}, {At: at.Add(time.Second), Bytes: &some}}, Horizon: &at,
		Marks: []rows.StripMark{{At: at, Type: "created", Entity: "orders", By: "ops", Place: "@0/8", Text: "it was created"}}, Missing: []int{1}}
	ns := serve(t, answer(200, `{"from":"2030-01-02T03:04:05Z","to":"2030-01-02T03:04:07Z","step":1,"buckets":[{"at":"2030-01-02T03:04:05Z","bytes":null},{"at":"2030-01-02T03:04:06Z","bytes":7}],`+
		`"marks":[{"at":"2030-01-02T03:04:05Z","type":"created","entity":"orders","by":"ops","place":"@0/8","text":"it was created"}],"more":0,"horizon":"2030-01-02T03:04:05Z","missing":[1]}`))
	for _, query := range []string{"?buckets=2&from=-2h&to=now", ""} {
		from, to, buckets := "", "", 0
		if query != "" {
			from, to, buckets = "-2h", "now", 2
		}
		got, err := ns.Strip(t.Context(), from, to, buckets)
		if diff := cmp.Diff(want, got); err != nil || diff != "" || ns.asked[len(ns.asked)-1] != "GET /$ledger/v1/strip"+query {
			t.Errorf("asked %q: %v %s", ns.asked, err, diff)
		}
	}
}
