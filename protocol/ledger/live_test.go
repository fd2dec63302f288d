package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// emptySource is a namespace of 300 queues without messages. Partition 1 does not serve.
type emptySource struct{ state *index.Index }

func (emptySource) Now() event.Time { return start }

func (s emptySource) Entries(context.Context) (list []present.Entry, err error) {
	if s.state == nil {
		panic("a bug")
	}
	for i := range 300 {
		list = append(list, present.Entry{ID: event.EntityID(i + 1), Kind: event.Queue, Path: fmt.Sprintf("q%03d", i), Hosts: []byte{byte(i / 299)}})
	}
	return list, nil
}

func (s emptySource) Look(_ context.Context, partition int, read func(*index.Index)) error {
	if partition == 1 {
		return present.ErrAway
	}
	read(s.state)
	return nil
}

func (s emptySource) Snapshot(_ context.Context, partition int) (*index.Snapshot, error) {
	if partition == 1 {
		return nil, present.ErrAway
	}
	return s.state.Snapshot(), nil
}

func (emptySource) Body(context.Context, int, event.Blob, []byte) (int, error) { return 0, nil }

func (emptySource) Activity(context.Context) ([]present.Activity, error) {
	return nil, present.ErrNotRecorded
}

// newLiveAPI returns an API with an emptySource.
func newLiveAPI(t *testing.T) *api {
	t.Helper()
	a := newAPI(t)
	h := a.h.(*handler)
	h.Present = present.New(emptySource{index.New()}, time.Now)
	h.Running = func() rows.Running { return rows.Running{Version: "1", StartedAt: start.Std().UTC()} }
	return a
}

// TestLive: the answers, and refusals that name what exists.
func TestLive(t *testing.T) {
	t.Parallel()
	a := newLiveAPI(t)
	auditor := []string{"Authorization", sign("sb://"+host, "auditor", readKey)}
	get := func(query string) *httptest.ResponseRecorder {
		return a.do("GET", "/$ledger/v1/"+query, "", auditor...)
	}
	var page rows.Entities
	if w := get("entities?top=200"); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &page) != nil || len(page.Entities) != 200 || page.Total != 300 || page.Next == "" {
		t.Errorf("%d: %d of %d entities, next %q", w.Code, len(page.Entities), page.Total, page.Next)
	}
	var now rows.Now
	if w := get("now"); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &now) != nil || now.Entities != 300 || now.Running == nil || len(now.Missing) != 1 || now.Missing[0] != 1 {
		t.Errorf("%d %+v", w.Code, now)
	}
	a.is(get("sessions?entity=Q007"), `{"at":"2026-01-01T00:00:00Z","entity":"q007","total":0,"sessions":[]}`)
	a.is(get("sessions?entity=q299"), `{"at":"2026-01-01T00:00:00Z","entity":"q299","total":0,"sessions":[],"missing":[1]}`)
	for _, c := range []struct {
		query string
		code  int
		says  string
	}{
		{"entities?sort=age", 400, "Unknown sort \"age\"; the sorts are path, active,"},
		{"entities?kind=table", 400, "the kinds are queue, subscription, topic"},
		{"entities?top=201", 400, "Top is 201, and must be 1 to 200"},
		{"entities?top=0", 400, "Parameter top is \"0\", and must be a whole number from 1 on"},
		{"entities?after=x", 400, "next of another page"},
		{"entities?state=active", 400, "it takes prefix, kind, sort, top, after"},
		{"entities?sort=path&sort=path", 400, "Parameter sort is given 2 times"},
		{"entity", 400, "Missing or empty parameter entity"},
		{"entity?entity=none", 404, "There is no entity \"none\""},
		{"sessions?entity=none", 404, "There is no entity \"none\""},
		{"series?step=1m", 400, "20s"},
		{"now?entity=a", 400, "it takes none"},
		{"entities?prefix=" + strings.Repeat("x", maxText+1), 400, "is too long"},
	} {
		code := map[int]string{400: "invalid", 404: "not-found"}[c.code]
		a.refused(get(c.query), c.code, code, c.says)
	}
	a.refused(a.do("GET", "/$ledger/v1/now", "", "Authorization", sign("sb://"+host, "sender", sendKey)), 403, "forbidden", "ReadHistory")
}

// TestLivePanic: an answer that ends with a panic frees its slot.
func TestLivePanic(t *testing.T) {
	t.Parallel()
	a := newLiveAPI(t)
	h := a.h.(*handler)
	h.Present = present.New(emptySource{}, time.Now)
	a.refused(a.do("GET", "/$ledger/v1/entities", ""), 500, "internal", "could not be carried out")
	if len(h.live) != 0 {
		t.Errorf("%d slots are taken", len(h.live))
	}
}

// TestLiveSlots: eight answers that are being read keep a ninth waiting for two seconds. A reader
// that takes nothing keeps its slot for 30 seconds.
func TestLiveSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newLiveAPI(t)
		slots := a.h.(*handler).live
		began := time.Now()
		for range mostLive {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/$ledger/v1/entities", nil)
			r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
			go a.h.ServeHTTP(newReader(time.Hour), r)
		}
		synctest.Wait()
		a.refused(a.do("GET", "/$ledger/v1/now", ""), 503, "busy", "8 questions about the present are being answered already")
		if waited := time.Since(began); waited != liveWait {
			t.Errorf("refused after %v; want %v", waited, liveWait)
		}
		time.Sleep(liveTime - liveWait) // in the bubble's time
		synctest.Wait()
		if len(slots) != 0 {
			t.Errorf("%d slots are taken %v after the answers; want none", len(slots), time.Since(began))
		}
		if w := a.do("GET", "/$ledger/v1/now", ""); w.Code != 200 {
			t.Errorf("status %d afterwards", w.Code)
		}
	})
}
