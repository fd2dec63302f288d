package present

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// plainReader reads messages that are bodies alone. Their subject is in the body, too.
type plainReader struct{}

func (plainReader) Properties(stored []byte, changes [][]byte, into *filter.Message) error {
	if bytes.HasPrefix(stored, []byte("damaged")) {
		return errors.New("no message")
	}
	into.Reset()
	into.System[filter.Label] = textOf("S" + string(stored[:min(len(stored), 4)]))
	for _, c := range changes {
		into.User = append(into.User, event.Property{Name: "DeadLetterReason", Value: textOf(string(c))})
	}
	return nil
}

func (plainReader) Body(stored []byte) ([]byte, string, error) { return stored, "", nil }

// blob stores bytes and returns where they are.
func (f *fake) blob(text string) event.Blob {
	b := event.Blob{Position: event.Position(len(f.bodies)), Size: uint32(len(text)), Sum: event.Sum([]byte(text))}
	f.bodies = append(f.bodies, text...)
	return b
}

// send enqueues a message with a body, and returns its number.
func (f *fake) send(host int, s event.Slice, body string, session ...string) event.SequenceNumber {
	x := f.logs[host]
	n := x.NextSequence(s)
	ev := &event.MessageEnqueued{Envelope: event.Envelope{Slice: s}, Sequence: n, EnqueuedAt: start, Body: f.blob(body)}
	if len(session) > 0 {
		ev.InSession, ev.SessionID = true, []byte(session[0])
	}
	x.Apply(start, ev)
	return n
}

// states gives a queue orders messages in every state: 1 active, 2 locked, 3 deferred, 4 deferred
// and locked, 5 scheduled, 6 a dead letter, 7 a dead letter of a transfer, 8 in the session A.
func states() (f *fake, s event.Slice) {
	f = newFake()
	f.bodies = append(f.bodies, "-"...) // no body is at position 0
	s = event.Slice{Entity: f.entity(event.Queue, "Orders", 1)}
	x, e := f.logs[1], event.Envelope{Slice: s}
	lock := func(n event.SequenceNumber) event.LockToken {
		token := event.LockToken{0: byte(n)}
		x.Apply(start, &event.MessageLocked{Envelope: e, Sequence: n, Token: token, LockedUntil: start + 30_000, DeliveryCount: 2})
		return token
	}
	for n := range event.SequenceNumber(4) {
		f.send(1, s, fmt.Sprintf(`{"n": %d}`, n+1))
	}
	lock(2)
	for _, n := range []event.SequenceNumber{3, 4} {
		x.Apply(start, &event.MessageDeferred{Envelope: e, Sequence: n, Token: lock(n), DeliveryCount: 3})
	}
	lock(4)
	x.Apply(start, &event.MessageScheduled{Envelope: e, Sequence: 5, ScheduledFor: start + 3_600_000, Body: f.blob(`{"n": 5}`)})
	for _, q := range []event.SubQueue{event.Main, event.TransferDeadLetter} {
		number := f.send(1, s, `{"n": 6}`)
		x.Apply(start, &event.MessageDeadLettered{Envelope: e, Sequence: number, Cause: event.CauseApplication, Changes: f.blob("BadTotal"), SubQueue: q})
	}
	f.send(1, s, `{"n": 8}`, "A")
	return f, s
}

// numbered returns the sequence numbers of a page.
func numbered(page *rows.Messages) string {
	var list []string
	for i := range page.Messages {
		list = append(list, fmt.Sprint(page.Messages[i].SequenceNumber))
	}
	return strings.Join(list, " ")
}

// TestMessages: states, sub-queues, sessions and conditions.
func TestMessages(t *testing.T) {
	t.Parallel()
	f, _ := states()
	a, none := "A", ""
	for _, c := range []struct {
		q    rows.MessagesQuery
		want string // or the error
	}{
		{rows.MessagesQuery{Entity: "orders"}, "1 2 3 4 5 8"},
		{rows.MessagesQuery{Entity: "ORDERS/$dlq"}, "6"},
		{rows.MessagesQuery{Entity: "orders/$DeadLetterQueue"}, "6"},
		{rows.MessagesQuery{Entity: "orders/$Transfer/$DeadLetterQueue"}, "7"},
		{rows.MessagesQuery{Entity: "orders", State: "Active"}, "1 8"},
		{rows.MessagesQuery{Entity: "orders", State: "locked"}, "2 4"},
		{rows.MessagesQuery{Entity: "orders", State: "deferred"}, "3"},
		{rows.MessagesQuery{Entity: "orders", State: "scheduled"}, "5"},
		{rows.MessagesQuery{Entity: "orders", State: "transferring"}, ""},
		{rows.MessagesQuery{Entity: "orders", From: 3}, "3 4 5 8"},
		{rows.MessagesQuery{Entity: "orders", From: 1 << 60}, ""},
		{rows.MessagesQuery{Entity: "orders", Session: &a}, "8"},
		{rows.MessagesQuery{Entity: "orders", Session: &none}, ""},
		{rows.MessagesQuery{Entity: "orders", Where: "sessionId = 'A' OR state = 'locked'"}, "2 4 8"},
		{rows.MessagesQuery{Entity: "orders", Where: "deliveryCount >= 2 AND scheduledFor IS NULL AND lockedUntil > '2023-11-14T00:00:00Z'"}, "2 4"},
		{rows.MessagesQuery{Entity: "orders", Where: "sequenceNumber IN (1, 5) AND SIZE < 100"}, "1 5"},
		{rows.MessagesQuery{Entity: "orders", Where: "body.n > 2 AND state <> 'scheduled'"}, "3 4 8"},
		{rows.MessagesQuery{Entity: "orders", Where: "sys.State = 2 AND sys.ScheduledEnqueueTimeUtc IS NOT NULL"}, "5"},
		{rows.MessagesQuery{Entity: "orders/$dlq", Where: "user.DeadLetterReason = 'BadTotal' AND sys.DeliveryCount = 0"}, "6"},

		{rows.MessagesQuery{Entity: "orders", State: "dead"}, `unknown state "dead"; the states are active, locked, deferred, scheduled, transferring`},
		{rows.MessagesQuery{Entity: "orders", Where: "stat = 'x'"}, "unknown column stat; the columns are sequenceNumber, state, enqueuedTime, "},
		{rows.MessagesQuery{Entity: "orders", Top: 201}, "top is 201"},
		{rows.MessagesQuery{Entity: "orders#7"}, "not the path of an entity"},
		{rows.MessagesQuery{Entity: "none"}, `there is no entity "none"`},
	} {
		page, err := New(f, time.Now).ReadWith(func() Reader { return plainReader{} }).Messages(t.Context(), c.q)
		if got := numbered(&page); err == nil && (got != c.want || page.Next != 0 || page.Undecided != 0) {
			t.Errorf("%+v: got %q, next %d, %s; want %q", c.q, got, page.Next, page.UndecidedReason, c.want)
		} else if err != nil && (!strings.Contains(err.Error(), c.want) || c.want == "" || !errors.Is(err, ErrQuestion) && !errors.Is(err, ErrNotFound)) {
			t.Errorf("%+v: %v; want %q", c.q, err, c.want)
		}
	}
}

// TestMessagesShow: what a row has, with and without the message.
func TestMessagesShow(t *testing.T) {
	t.Parallel()
	f, _ := states()
	n := New(f, time.Now).ReadWith(func() Reader { return plainReader{} })
	for _, c := range []struct {
		bodies bool
		want   string
	}{
		{false, `{"sequenceNumber":2,"state":"locked","enqueuedTime":"2023-11-14T22:13:20Z","lockedUntil":"2023-11-14T22:13:50Z","deliveryCount":2,"size":8}`},
		{true, `{"sequenceNumber":2,"state":"locked","enqueuedTime":"2023-11-14T22:13:20Z","lockedUntil":"2023-11-14T22:13:50Z","deliveryCount":2,"size":8,` +
			`"message":{"subject":"S{\"n\"","body":"{\"n\": 2}"}}`},
	} {
		page, err := n.Messages(t.Context(), rows.MessagesQuery{Entity: "orders", From: 2, Top: 1, Bodies: c.bodies})
		if err != nil || len(page.Messages) != 1 || page.Next != 3 {
			t.Fatalf("%+v, %v", page, err)
		}
		if got, _ := json.Marshal(page.Messages[0]); string(got) != c.want {
			t.Errorf("got\n%s, want\n%s", got, c.want)
		}
	}
	if f.reads.Load() != 1 {
		t.Errorf("the log was read %d times", f.reads.Load())
	}
}

// Each row keeps the properties of its own message.
func TestMessagesShowTheirOwnProperties(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := event.Slice{Entity: f.entity(event.Queue, "orders", 1)}
	f.send(1, s, "one")
	f.send(1, s, "two")
	page, err := New(f, time.Now).ReadWith(func() Reader { return plainReader{} }).Messages(t.Context(), rows.MessagesQuery{Entity: "orders", Bodies: true})
	if err != nil || len(page.Messages) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for i, want := range []string{"Sone", "Stwo"} {
		if got := *page.Messages[i].Content.Subject; got != want {
			t.Errorf("message %d has the subject %s; want %s", page.Messages[i].SequenceNumber, got, want)
		}
	}
}

// A message that cannot be read is named in its row, and counted where a condition needs it.
func TestMessagesUnread(t *testing.T) {
	t.Parallel()
	f, s := states()
	f.erased = map[event.Position]bool{1: true} // the first body
	f.send(1, s, "damaged")
	n := New(f, time.Now).ReadWith(func() Reader { return plainReader{} })
	page, err := n.Messages(t.Context(), rows.MessagesQuery{Entity: "orders", State: "active", Bodies: true})
	if err != nil || numbered(&page) != "1 8 9" {
		t.Fatalf("%+v, %v", page, err)
	}
	for i, want := range []string{"its body is no longer kept: the message was settled meanwhile, or its body was erased", "", "it cannot be read: no message"} {
		if m := &page.Messages[i]; m.Unread != want || (m.Content == nil) != (want != "") {
			t.Errorf("%+v; want %q", m, want)
		}
	}
	page, err = n.Messages(t.Context(), rows.MessagesQuery{Entity: "orders", Where: "body.n = 8 AND state = 'active' OR state = 'deferred' AND body.n > 'x'"})
	if err != nil || numbered(&page) != "8" || page.Undecided != 2 || !strings.HasPrefix(page.UndecidedReason, "message 1: its body is no longer kept") {
		t.Errorf("%+v, %v", page, err)
	}
	for where, want := range map[string]string{
		"body.n IS NULL":                            "9",
		"body.n IS NOT NULL":                        "2 3 4 5 8",
		"user.x IS NULL AND state = 'active'":       "8",
		"NOT EXISTS(body.x) AND NOT EXISTS(user.x)": "2 3 4 5 8",
		"size > 0 OR body.n = 1":                    "1 2 3 4 5 8 9",
		"sessionId IS NULL OR body.n IS NULL":       "1 2 3 4 5 9",
	} {
		if page, err := n.Messages(t.Context(), rows.MessagesQuery{Entity: "orders", Where: where}); err != nil || numbered(&page) != want {
			t.Errorf("%s: %+v, %v; want %s", where, page, err, want)
		}
	}
	f.away[1] = true
	page, err = n.Messages(t.Context(), rows.MessagesQuery{Entity: "orders"})
	if err != nil || len(page.Messages) != 0 || !slices.Equal(page.Missing, []int{1}) {
		t.Errorf("%+v, %v", page, err)
	}
}

// stalled is a source whose partition 1 does not answer.
type stalled struct{ *fake }

func (s stalled) Snapshot(ctx context.Context, partition int) (*index.Snapshot, error) {
	if partition == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.fake.Snapshot(ctx, partition)
}

// A partition that does not answer within a second is missing, and does not keep the answer from
// having the others.
func TestMessagesOfStalledPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		id := f.entity(event.Queue, "carts", 1, 0)
		f.put(1, id, 0, start, 1)
		f.put(0, id, 1, start, 2)
		began := time.Now()
		page, err := New(stalled{f}, func() time.Time { return began }).Messages(t.Context(), rows.MessagesQuery{Entity: "carts"})
		if err != nil || len(page.Messages) != 2 || !slices.Equal(page.Missing, []int{1}) || time.Since(began) != time.Second {
			t.Errorf("%+v, %v after %v", page, err, time.Since(began))
		}
	})
}

// TestMessagesPages: pages of a partitioned entity continue where the last one ended, while
// messages come and go, and an answer ends after its time.
func TestMessagesPages(t *testing.T) {
	t.Parallel()
	f := newFake()
	id := f.entity(event.Queue, "carts", 0, 1, 1)
	for number, host := range []int{0, 1, 1} {
		f.put(host, id, uint8(number), start, 3)
	}
	at := time.Unix(0, 0)
	tick := time.Duration(0)
	n := New(f, func() time.Time { at = at.Add(tick); return at })
	walk := func(q rows.MessagesQuery, between func()) (got []string) {
		for range 20 {
			page, err := n.Messages(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Messages {
				seq := event.SequenceNumber(page.Messages[i].SequenceNumber)
				got = append(got, fmt.Sprintf("%d/%d", seq.Partition(), seq&0xffff))
			}
			if q.From = page.Next; q.From == 0 {
				return got
			}
			got = append(got, "|")
			between()
		}
		t.Fatal("it does not end")
		return nil
	}
	nothing := func() {}
	for _, c := range []struct {
		q    rows.MessagesQuery
		tick time.Duration // time that a look at the clock takes
		want string
	}{
		{rows.MessagesQuery{Entity: "carts"}, 0, "0/1 0/2 0/3 1/1 1/2 1/3 2/1 2/2 2/3"},
		{rows.MessagesQuery{Entity: "carts", Top: 4}, 0, "0/1 0/2 0/3 1/1 | 1/2 1/3 2/1 2/2 | 2/3"},
		{rows.MessagesQuery{Entity: "carts", Top: 3}, 0, "0/1 0/2 0/3 | 1/1 1/2 1/3 | 2/1 2/2 2/3"},
		{rows.MessagesQuery{Entity: "carts"}, 60 * time.Millisecond, "0/1 0/2 0/3 | 1/1 1/2 1/3 | 2/1 2/2 2/3"},
		{rows.MessagesQuery{Entity: "carts", Where: "state = 'locked'"}, 300 * time.Millisecond, "| |"},
		{rows.MessagesQuery{Entity: "carts"}, time.Hour, "0/1 | 0/2 | 0/3 | 1/1 | 1/2 | 1/3 | 2/1 | 2/2 | 2/3"},
	} {
		tick = c.tick
		if got := strings.Join(walk(c.q, nothing), " "); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.q, got, c.want)
		}
	}
	tick = 0
	gone := event.SequenceNumber(2)
	s := event.Slice{Entity: id}
	got := walk(rows.MessagesQuery{Entity: "carts", Top: 1}, func() {
		if gone == 2 {
			e, token := event.Envelope{Slice: s}, event.LockToken{1}
			f.logs[0].Apply(start, &event.MessageLocked{Envelope: e, Sequence: gone, Token: token, LockedUntil: start + 1})
			f.logs[0].Apply(start, &event.MessageCompleted{Envelope: e, Sequence: gone, Token: token})
			f.put(0, id, 0, start, 1)
			gone++
		}
	})
	if want := "0/1 | 0/3 | 0/4 | 1/1 | 1/2 | 1/3 | 2/1 | 2/2 | 2/3"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

// TestMessagesSize: an answer has at most 1 MiB, whatever bodies are.
func TestMessagesSize(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := event.Slice{Entity: f.entity(event.Queue, "orders", 1)}
	for range 20 {
		f.send(1, s, strings.Repeat("\x00", 200_000)) // \u0000 in JSON
	}
	f.send(1, s, strings.Repeat("é", 50_000)+"\xff")
	n := New(f, time.Now).ReadWith(func() Reader { return plainReader{} })
	total := 0
	for q := (rows.MessagesQuery{Entity: "orders", Bodies: true}); ; {
		page, err := n.Messages(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(page)
		if err != nil || len(text) > rows.MaxBytes || len(page.Messages) == 0 {
			t.Fatalf("%d bytes, %d rows, %v", len(text), len(page.Messages), err)
		}
		for _, m := range page.Messages {
			if len(m.Content.Body) > rows.MaxBody || m.Content.BodySize == 0 {
				t.Fatalf("message %d has %d bytes of %d", m.SequenceNumber, len(m.Content.Body), m.Content.BodySize)
			}
		}
		if total += len(page.Messages); page.Next == 0 {
			break
		}
		q.From = page.Next
	}
	if total != 21 {
		t.Errorf("%d messages", total)
	}
}

// manyReader reads messages with many properties whose names need escapes.
type manyReader struct{ plainReader }

func (manyReader) Properties(_ []byte, _ [][]byte, into *filter.Message) error {
	into.Reset()
	for i := range 21_000 {
		into.User = append(into.User, event.Property{Name: string([]byte{byte(1 + i%25), byte(1 + i/25%25), byte(1 + i/625)}), Value: number(1 << 62)})
	}
	return nil
}

// A message that would not fit into an answer alone is named as such.
func TestMessageTooLargeForAnswer(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := event.Slice{Entity: f.entity(event.Queue, "orders", 1)}
	f.send(1, s, strings.Repeat("\x00", 200_000))
	f.send(1, s, "small")
	page, err := New(f, func() time.Time { return time.Unix(0, 0) }).ReadWith(func() Reader { return manyReader{} }).Messages(t.Context(), rows.MessagesQuery{Entity: "orders", Bodies: true})
	text, _ := json.Marshal(page)
	if err != nil || len(text) > rows.MaxBytes || numbered(&page) != "1 2" || page.Messages[0].Unread == "" || page.Messages[1].Content == nil {
		t.Errorf("%d bytes, messages %s, %v", len(text), numbered(&page), err)
	}
}

// TestReadsMessages: columns alone need no right to read bodies.
func TestReadsMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    rows.MessagesQuery
		want bool
	}{
		{rows.MessagesQuery{}, false},
		{rows.MessagesQuery{Where: "state = 'active' AND size > 5"}, false},
		{rows.MessagesQuery{Bodies: true}, true},
		{rows.MessagesQuery{Where: "sys.Label = 'x'"}, true},
		{rows.MessagesQuery{Where: "state = 'active' OR user.x = 1"}, true},
		{rows.MessagesQuery{Where: "body.x IS NULL"}, true},
	} {
		if got, err := ReadsMessages(&c.q); got != c.want || err != nil {
			t.Errorf("%+v: %t, %v", c.q, got, err)
		}
	}
}
