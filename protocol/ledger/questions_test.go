package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// written gives the broker a log with a dead-lettered message.
func (a *api) written() *logdir.Dir {
	dir, _ := a.writing()
	return dir
}

// writing is written with its writer.
func (a *api) writing() (*logdir.Dir, log.Writer) {
	dir := logdir.Open(a.T, a.TempDir(), log.Options{Partitions: 1})
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	at := start - 10_000
	dir.Append(w, at, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0},
		Properties: event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 1}})
	dir.Append(w, at+1000, &event.MessageEnqueued{Envelope: own, Sequence: 1, MessageID: []byte("<b>"), EnqueuedAt: at + 1000, Body: event.Blob{Data: []byte("\x00Su\xa0\x01b")}})
	dir.Append(w, at+2000, &event.MessageLocked{Envelope: own, Sequence: 1, Token: event.LockToken{1}, LockedUntil: at + 32_000})
	dir.Append(w, at+3000, &event.MessageDeadLettered{Envelope: own, Sequence: 1, Token: event.LockToken{1}, Cause: event.CauseApplication, Reason: "Bad"})
	a.fake.past = dir
	return dir, w
}

// lines is an answer as it was sent.
func (a *api) lines(w *httptest.ResponseRecorder) (list []wire.Line) {
	a.Helper()
	for text := range strings.Lines(w.Body.String()) {
		var l wire.Line
		if err := wire.ReadLine([]byte(text), &l); err != nil {
			a.Fatalf("%q: %v", text, err)
		}
		list = append(list, l)
	}
	return list
}

// The answer is the same as that of a directory, line by line, with the same fields to the byte.
func TestQuestions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	dir := a.written()
	for _, q := range []string{"story?of=orders%231", "story?message-id=%3Cb%3E", "why?of=orders/$dlq", "why?of=orders%231", "at?at=now", "at?at=2025-12-31T23:59:52Z&entity=orders&messages=true",
		"diff?from=-9s&to=now&entity=orders", "when?condition=orders.dead+%3E+0", "audit", "events?entity=orders&where=type+IN+('dead')&since=-1m&until=now", "events?after=beginning"} {
		u, err := url.Parse(q)
		if err != nil {
			t.Fatal(err)
		}
		question, err := past.ParseQuestion(u.Path, u.Query(), start.Std())
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		var want []wire.Line
		err = past.New(dir, func(l past.Line) error {
			fields, err := l.AppendJSON(nil)
			want = append(want, wire.Line{Part: l.Part.String(), Text: l.Text, Fields: fields})
			return err
		}).Put(t.Context(), question)
		if err != nil || len(want) == 0 {
			t.Fatalf("%s: %v; want len(want) != 0", q, err)
		}
		got := a.lines(a.do("GET", "/$ledger/v1/"+q, ""))
		if len(got) != len(want)+1 || got[len(want)].Part != wire.End {
			t.Fatalf("%s: %d lines, not %d: %+v", q, len(got), len(want), got)
		}
		for i := range want {
			if got[i].Part != want[i].Part || got[i].Text != want[i].Text || string(got[i].Fields) != string(want[i].Fields) {
				t.Errorf("%s:\n%+v\n%+v; want got[i].Part == want[i].Part && got[i].Text == want[i].Text && string(got[i].Fields) == string(want[i].Fields)", q, got[i], want[i])
			}
		}
		// none of it depends on the present
		again, err := past.ParseQuestion(u.Path, question.Values(), start.Std().UTC())
		if err != nil || again.Values().Encode() != question.Values().Encode() {
			t.Errorf("%s: %v, %v, %v; want again.Values().Encode() == question.Values().Encode()", q, again, question, err)
		}
	}
}

// Invalid questions, missing history, and unreadable logs.
func TestQuestionsRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.written()
	for _, c := range []struct {
		path           string
		status         int
		code, fragment string
	}{
		{"story", 400, "invalid", "name one message"},
		{"story?of=orders", 400, "invalid", "name one message"},
		{"story?of=orders%231&message-id=x", 400, "invalid", "name one message"},
		{"story?of=orders%2399", 404, "not-found", "orders#99"},
		{"story?of=orders%231&of=orders%231", 400, "invalid", "2 times"},
		{"story?of=@0/1", 400, "invalid", "is a place"},
		{"story?off=orders%231", 400, "invalid", `no argument "off"`},
		{"why?of=nothing", 404, "not-found", "nothing"},
		{"at", 400, "invalid", "missing instant"},
		{"at?at=noon", 400, "invalid", "noon"},
		{"at?at=2999-01-01", 400, "invalid", "is later than now"},
		{"diff?from=2026-01-01&to=2999-01-01", 400, "invalid", "is later than now"},
		{"at?at=@99/1", 400, "invalid", "in partition 99; there are"},
		{"diff?from=@99/1&to=now", 400, "invalid", "in partition 99"},
		{"when?condition=orders.active>0&since=@99/1", 400, "invalid", "in partition 99"},
		{"events?since=@99/1", 400, "invalid", "in partition 99"},
		{"at?at=now&messages=perhaps", 400, "invalid", "perhaps"},
		{"at?at=now&entity=orders%231", 400, "invalid", "is a message"},
		{"diff?from=now", 400, "invalid", "missing instant"},
		{"when?condition=orders", 400, "invalid", "is not a condition"},
		{"events?where=" + strings.Repeat("x", 5000), 400, "invalid", "4096 bytes"},
		{"events?where=type+IN", 400, "invalid", "--where"},
		{"events?where=tpye+=+'dead'", 400, "invalid", "--where: unknown column tpye; the columns are time, type, entity, number, detail, by, place, event, reason."},
		{"audit?where=sys.label+=+'x'", 400, "invalid", "unknown column sys.label"},
	} {
		a.refused(a.do("GET", "/$ledger/v1/"+c.path, ""), c.status, c.code, c.fragment)
	}
	a.fake.past = nil
	a.refused(a.do("GET", "/$ledger/v1/audit", ""), 503, "busy", "Partition 0 cannot be read")
}

// An instant that was twice, since a clock was set back, is answered for both times, each with its
// place.
func TestQuestionsAboutAnInstantThatWasTwice(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	dir, w := a.writing()
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	dir.Append(w, start-8000, &event.ClockSet{Number: 1, Basis: event.BasisWall, From: start - 7000, To: start - 8000, Wall: start - 8000})
	dir.Append(w, start-7500, &event.MessageEnqueued{Envelope: own, Sequence: 2, MessageID: []byte("late"), EnqueuedAt: start - 7500})
	for path, want := range map[string]struct {
		field string
		of    []string
	}{
		"at?at=-7s&entity=orders":                {"Messages", []string{"1", "2"}},
		"diff?from=-9500ms&to=-7s&entity=orders": {"ToPlace", []string{"@0/", "@0/"}},
	} {
		var said []string
		places := make(map[string]bool)
		for _, l := range a.lines(a.do("GET", "/$ledger/v1/"+path, "")) {
			var fields map[string]any
			if l.Part == past.Answer.String() {
				if err := json.Unmarshal(l.Fields, &fields); err != nil {
					t.Fatal(err)
				}
			}
			if v, is := fields[want.field]; is {
				said = append(said, fmt.Sprint(v))
				places[fmt.Sprint(fields["Place"], fields["ToPlace"])] = true
			}
		}
		if len(said) != 2 || len(places) != 2 || !strings.HasPrefix(said[0], want.of[0]) || !strings.HasPrefix(said[1], want.of[1]) {
			t.Errorf("%s: %s is %q, at %v", path, want.field, said, places)
		}
	}
}

// An answer that is not complete after questionTime ends, and suggests another question.
func TestQuestionThatTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.fake.past = slow{a.written()}
		began := time.Now()
		lines := a.lines(a.do("GET", "/$ledger/v1/audit", ""))
		if last := lines[len(lines)-1]; last.Part != wire.Failed || last.Code != "busy" || !strings.Contains(last.Text, "takes longer than 10m0s") || lines[0].Part != wire.Waiting {
			t.Errorf("it begins with %+v and ends with %+v", lines[0], last)
		}
		if took := time.Since(began); took != questionTime {
			t.Errorf("it was asked for %v", took)
		}
		if n := len(a.h.(*handler).questions); n != 0 {
			t.Errorf("%d questions are being answered", n)
		}
	})
}

// slow is a log whose first read lasts until the question has ended.
type slow struct{ past.Source }

func (s slow) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := s.Source.Open(ctx, id)
	return slowPartition{p}, err
}

type slowPartition struct{ log.Partition }

func (p slowPartition) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	<-ctx.Done()
	return p.Partition.Read(ctx, from)
}

// The right to read history does not include bodies: that is a separate right.
func TestBodiesNeedTheirRight(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.written()
	const path = "/$ledger/v1/log?partition=0&bodies="
	auditor, reviewer := sign("sb://"+host, "auditor", readKey), sign("sb://"+host, "reviewer", readKey)
	a.refused(a.do("GET", path+"true", "", "Authorization", auditor), 403, "forbidden", "lacks the right ReadBodies")
	for token, has := range map[string]bool{auditor: false, reviewer: true} {
		w := a.do("GET", path+fmt.Sprint(has), "", "Authorization", token)
		if lines := a.lines(w); w.Code != 200 || lines[len(lines)-1].Part != wire.End || strings.Contains(w.Body.String(), `"Body"`) != has {
			t.Errorf("bodies=%v: status %d, %s", has, w.Code, w.Body)
		}
	}
}

// flushes counts the lines that a client has certainly received.
type flushes struct {
	http.ResponseWriter
	written, certain int
}

func (f *flushes) Write(p []byte) (int, error) {
	f.written += len(p)
	return len(p), nil
}

func (f *flushes) Flush() { f.certain = f.written }

// Written lines that the server buffers are sent if no lines follow, and no packet is spent on them
// if lines do.
func TestLinesDoNotStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &flushes{ResponseWriter: httptest.NewRecorder()}
		a := &lineAnswer{call: &call{w: w}, last: time.Now(), ctx: t.Context()}
		over, told := make(chan struct{}), make(chan struct{})
		go func() { defer close(told); a.keepTelling(over) }()
		line := wire.Line{Part: "row", Text: strings.Repeat("x", linesKept)}
		for range 3 {
			if err := a.put(line); err != nil {
				t.Fatal(err)
			}
		}
		a.mu.Lock()
		if first := len(wire.AppendLine(nil, &line)); w.certain != first || w.written != 3*first {
			t.Errorf("%d bytes were written and %d flushed, of 3 lines of %d", w.written, w.certain, first)
		}
		a.mu.Unlock()
		time.Sleep(2 * tellAfter)
		close(over)
		<-told
		if w.certain != w.written {
			t.Errorf("%d of %d bytes were flushed", w.certain, w.written)
		}
	})
}

// held is a log in which a reader stays until it is released.
type held struct {
	log.Store
	in, out chan struct{}
}

func (h held) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := h.Store.Open(ctx, id)
	return heldPartition{p, h}, err
}

type heldPartition struct {
	log.Partition
	h held
}

func (p heldPartition) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	p.h.in <- struct{}{}
	select {
	case <-p.h.out:
	case <-ctx.Done():
	}
	return p.Partition.Read(ctx, from)
}

// The number of questions answered at a time is that of the slots, and one whose client has
// disconnected frees its slot.
func TestQuestionsAtOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	h := held{a.written().Store, make(chan struct{}), make(chan struct{})}
	a.fake.past = h
	ask := func(ctx context.Context) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, "GET", "/$ledger/v1/audit", nil)
		r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
		w := httptest.NewRecorder()
		a.h.ServeHTTP(w, r)
		return w
	}
	ctx, goes := context.WithCancel(t.Context())
	answers := make(chan *httptest.ResponseRecorder, mostQuestions)
	for i := range mostQuestions {
		go func() {
			if i == 0 {
				answers <- ask(ctx)
				return
			}
			answers <- ask(t.Context())
		}()
		<-h.in
	}
	w := ask(t.Context())
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	a.refused(w, 503, "busy", "which is the limit")
	goes()
	a.refused(<-answers, 503, "busy", "closed the request")
	go func() { answers <- ask(t.Context()) }()
	<-h.in // there is room again
	go func() {
		for range h.in { // further reads
		}
	}()
	close(h.out)
	for range mostQuestions {
		if w := <-answers; w.Code != 200 || a.lines(w)[len(a.lines(w))-1].Part != wire.End {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

// reader is a client's connection: it accepts data after some time, or not before its deadline, as
// a socket with full buffers does.
type reader struct {
	*httptest.ResponseRecorder
	after    time.Duration // of each piece
	err      error         // the result of a write instead, unless it is nil
	deadline atomic.Pointer[time.Timer]
	over     chan struct{}
}

func newReader(after time.Duration) *reader {
	return &reader{ResponseRecorder: httptest.NewRecorder(), after: after, over: make(chan struct{}, 1)}
}

func (r *reader) SetReadDeadline(time.Time) error { return nil }

func (r *reader) SetWriteDeadline(at time.Time) error {
	select {
	case <-r.over:
	default:
	}
	t := time.AfterFunc(time.Until(at), func() {
		select {
		case r.over <- struct{}{}:
		default:
		}
	})
	if before := r.deadline.Swap(t); before != nil {
		before.Stop()
	}
	return nil
}

func (r *reader) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	select {
	case <-time.After(r.after):
		return r.ResponseRecorder.Write(p)
	case <-r.over:
		return 0, os.ErrDeadlineExceeded
	}
}

func (r *reader) Flush() {}

// Readers that accept nothing give way to other questions; no other readers do.
func TestSlowReadersGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.written()
		ask := func(w http.ResponseWriter) {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/$ledger/v1/audit", nil)
			r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
			a.h.ServeHTTP(w, r)
		}
		var readers sync.WaitGroup
		for i := range mostQuestions {
			readers.Go(func() { ask(newReader(time.Hour - time.Duration(i))) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		ask(w)
		a.refused(w, 503, "busy", "which is the limit") // so short a wait does not count
		time.Sleep(slowAfter + time.Second)
		for range 2 * mostQuestions {
			w := httptest.NewRecorder()
			if ask(w); w.Code != 200 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		}
		readers.Wait()
		if n := len(a.h.(*handler).questions); n != 0 {
			t.Errorf("%d questions are being answered", n)
		}
	})
}

// A client that hangs up while an answer is sent is no fault of the broker.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.written()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/$ledger/v1/events", nil)
	r.Header.Set("Authorization", sign("sb://"+host, "ops", rootKey))
	w := newReader(0)
	w.err = &net.OpError{Op: "write", Err: syscall.ECONNRESET}
	a.h.ServeHTTP(w, r)
	if said := a.log.String(); strings.Contains(said, "level=ERROR") || !strings.Contains(said, "disconnected") {
		t.Errorf("the log says %s", said)
	}
}

// While memory is short questions are refused, and questions being answered end.
func TestQuestionsWithoutMemory(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.written()
	hh := a.h.(*handler)
	hh.Memory = budget.New(256<<20, slog.New(slog.DiscardHandler))
	if w := a.do("GET", "/$ledger/v1/at?at=now", ""); w.Code != 200 || hh.Memory.Taken() != 0 {
		t.Errorf("status %d, %d bytes are taken", w.Code, hh.Memory.Taken())
	}
	big, _ := hh.Memory.Open()
	big.Owe(200 << 20)
	hh.Memory.Look(time.Now())
	a.refused(a.do("GET", "/$ledger/v1/at?at=now", ""), 503, "busy", "Too little memory")
	big.Give(200 << 20)
	if got := len(hh.questions); got != 0 {
		t.Errorf("%d questions are being answered", got)
	}
}

// An error after the first line is the last line.
func TestQuestionBreaksOff(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.fake.past = failing{a.written()}
	lines := a.lines(a.do("GET", "/$ledger/v1/events", ""))
	last := lines[len(lines)-1]
	if len(lines) < 2 || last.Part != wire.Failed || last.Code != "busy" || !strings.Contains(last.Text, "removed while it was being read") {
		t.Errorf(`%+v; want len(lines) >= 2 && last.Part == wire.Failed && last.Code == "busy" && strings.Contains(last.Text, "removed while it was being read")`, lines)
	}
	var fields map[string]any
	if err := json.Unmarshal(lines[0].Fields, &fields); err != nil || fields["Type"] != "created" {
		t.Errorf(`%v, %v; want fields["Type"] == "created"`, fields, err)
	}
}

// failing is a log that loses history once some of it has been read.
type failing struct{ past.Source }

func (f failing) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := f.Source.Open(ctx, id)
	return failingPartition{p, new(int)}, err
}

type failingPartition struct {
	log.Partition
	reads *int
}

func (p failingPartition) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	*p.reads++
	return func(yield func(log.Frame, error) bool) {
		n := 0
		for f, err := range p.Partition.Read(ctx, from) {
			if f.Kind == log.Events {
				n++
			}
			if *p.reads > 1 && n > 2 { // the first is for the catalogue
				yield(log.Frame{}, log.ErrGone)
				return
			}
			if !yield(f, err) {
				return
			}
		}
	}
}
