package admin

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
)

// A series is of an entity, or of all of them.
func TestSeries(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)
	want := rows.Series{At: at, Entity: "orders", Step: 20, Points: []rows.Point{{At: at, Received: 1, Delivered: 2, Completed: 3, Failed: 4, Died: 5, Missing: []int{1}}}}
	ns := serve(t, answer(200, `{"at":"2030-01-02T03:04:00Z","entity":"orders","step":20,"points":[{"at":"2030-01-02T03:04:00Z","received":1,"delivered":2,"completed":3,"failed":4,"died":5,"missing":[1]}]}`))
	for _, path := range []string{"orders", ""} {
		got, err := ns.Series(t.Context(), path, "20s")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	if asked := []string{"GET /$ledger/v1/series?entity=orders&step=20s", "GET /$ledger/v1/series?step=20s"}; !slices.Equal(ns.asked, asked) {
		t.Errorf("asked %q", ns.asked)
	}
}
