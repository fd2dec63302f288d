package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

var shortQuestions = []string{"story?of=orders%231", "story?message-id=%3Cb%3E", "audit?since=-1h", "audit?since=-90m&until=-30m", "strip", "strip?from=-7d&buckets=7"}

// Four long questions do not keep eight short ones from being answered, and each kind has its
// limit.
func TestShortQuestions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	dir := a.written()
	h := held{dir.Store, make(chan struct{}), make(chan struct{})}
	a.fake.past = h
	var answers sync.WaitGroup
	begin := func(path string) {
		answers.Go(func() {
			if w := a.do("GET", "/$ledger/v1/"+path, ""); w.Code != 200 {
				t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
			}
		})
		<-h.in
	}
	for _, path := range []string{"events", "audit", "audit?since=-2h", "why?of=orders/$dlq"} {
		begin(path)
	}
	a.refused(a.do("GET", "/$ledger/v1/events", ""), 503, "busy", "4 long questions about the past are being answered already, which is the limit")
	a.fake.past = dir
	for i := range 2 * mostShort {
		path := shortQuestions[i%len(shortQuestions)]
		if w := a.do("GET", "/$ledger/v1/"+path, ""); w.Code != 200 {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	a.fake.past = h
	for i := range mostShort {
		begin(shortQuestions[i%len(shortQuestions)])
	}
	for _, path := range shortQuestions {
		a.refused(a.do("GET", "/$ledger/v1/"+path, ""), 503, "busy", "8 short questions about the past are being answered already, which is the limit")
	}
	go func() {
		for range h.in { // further reads
		}
	}()
	close(h.out)
	answers.Wait()
	if hh := a.h.(*handler); len(hh.questions)+len(hh.shorts) != 0 {
		t.Errorf("%d long and %d short questions are being answered", len(hh.questions), len(hh.shorts))
	}
}

// A reader that takes nothing costs a short question its slot for at most 30 seconds.
func TestShortQuestionIsNotRead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"story?of=orders%231", "audit?since=-1h", "strip"} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t)
			a.written()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/$ledger/v1/"+path, nil)
			r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
			began := time.Now()
			a.h.ServeHTTP(newReader(time.Hour), r)
			if took := time.Since(began); took > 30*time.Second || len(a.h.(*handler).shorts) != 0 {
				t.Errorf("%s keeps a slot for %v", path, took)
			}
		})
	}
}

// The reader of a short answer has 30 seconds in all, and that of another answer has not.
func TestShortAnswerIsReadSlowly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration // of each write
		short bool
		most  time.Duration
		told  bool // the reader gets the reason
	}{
		{27 * time.Second, true, 30 * time.Second, false}, {14 * time.Second, true, 30 * time.Second, false}, {900 * time.Millisecond, true, 30 * time.Second, true},
		{14 * time.Second, false, questionTime, false}, {59 * time.Second, false, questionTime, false}, {61 * time.Second, false, stallTime, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(c.after)
			ctx, stop := context.WithCancelCause(t.Context())
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/$ledger/v1/story", nil)
			a := &lineAnswer{call: &call{Request: request, w: r, h: &handler{Options: Options{Logger: slog.New(slog.DiscardHandler)}}}, short: c.short, ctx: ctx, stop: stop, last: time.Now()}
			began := time.Now()
			for ctx.Err() == nil && time.Since(began) < questionTime-2*c.after {
				_ = a.put(wire.Line{Part: "row", Text: strings.Repeat("x", linesKept)})
			}
			a.end(context.Cause(ctx))
			took := time.Since(began)
			if took > c.most || took < c.most-2*time.Minute || c.short != (took <= 30*time.Second) {
				t.Errorf("%+v: it took %v", c, took)
			}
			if got := strings.Contains(r.Body.String(), "must be read within 30s"); got != c.told {
				t.Errorf("%+v: told %v", c, got)
			}
		})
	}
}

// A strip of a running broker is that of its directory.
func TestStrip(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	path := t.TempDir()
	dir := logdir.Open(t, path, log.Options{Partitions: 2, ChapterBytes: 4000, SealAfter: -1})
	for id := range log.PartitionID(2) {
		p, w := dir.Lead(id)
		for i := range event.Time(200) {
			dir.Append(w, start-3_600_000+i*10_000, &event.HistoryPolicySet{Pattern: fmt.Sprint("orders", i)})
		}
		for more := true; more; {
			var err error
			if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.fake.past = dir
	got := a.do("GET", "/$ledger/v1/strip?from=-2h&to=now&buckets=30", "", "Authorization", sign("sb://"+host, "auditor", readKey))
	var none struct {
		Buckets []struct{ Bytes int }
		More    int
	}
	if err := json.Unmarshal(got.Body.Bytes(), &none); err != nil || got.Code != 200 || len(none.Buckets) != 30 || none.Buckets[0].Bytes != 0 || none.Buckets[20].Bytes == 0 || none.More != 200 {
		t.Errorf("status %d, %v: %s", got.Code, err, got.Body)
	}
	dir.Close()
	s, err := log.Open(t.Context(), path, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want, err := past.New(s, nil).Strip(t.Context(), past.StripQuery{From: &past.Instant{At: start - 7_200_000}, To: &past.Instant{At: start}, Buckets: 30})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(want)
	if err != nil || !bytes.Equal(bytes.TrimSpace(got.Body.Bytes()), text) {
		t.Errorf("the broker answers\n%s\nthe directory has\n%s", got.Body, text)
	}
	// by default it ends with the newest record of the directory
	want, err = past.New(s, nil).Strip(t.Context(), past.StripQuery{})
	if err != nil || event.TimeOf(want.To) != start-3_600_000+199*10_000 || len(want.Buckets) != 120 || *want.Buckets[119].Bytes == 0 {
		t.Errorf("%+v, %v", want, err)
	}
	for query, fragment := range map[string]string{"buckets=201": "from 1 to 200", "from=now&to=-1h": "which is after", "to=noon": "is not an instant", "from=1h&from=2h": "given 2 times"} {
		a.refused(a.do("GET", "/$ledger/v1/strip?"+query, ""), 400, "invalid", fragment)
	}
}
