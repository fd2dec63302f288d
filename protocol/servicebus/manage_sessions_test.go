package servicebus

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

func sessionBody(id any, more ...amqp.Pair) amqp.Map {
	return append(amqp.Map{{Key: "session-id", Value: id}}, more...)
}

func linked(name string) amqp.Pair { return amqp.Pair{Key: keyAssociatedLink, Value: name} }

// WP-177, SM-189: a state is bytes or nothing, outlives its holder and an empty session, and only
// the holder sets it.
func TestSessionState(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.attachManagement("s")
		p.acceptSession(2, "s", "a")
		get := func(p *peerConn, more ...amqp.Pair) any {
			t.Helper()
			answer := p.managedWith(200, "", "get-session-state", sessionBody("a"), more...).(amqp.Map)
			state, ok := answer.Get("session-state")
			if !ok || len(answer) != 1 {
				t.Errorf("%+v; want ok && len(answer) == 1", answer)
			}
			return state
		}
		set := func(state any, more ...amqp.Pair) {
			t.Helper()
			if answer := p.managedWith(200, "", "set-session-state", sessionBody("a", amqp.Pair{Key: "session-state", Value: state}), more...); answer != nil {
				t.Errorf("%+v, want nil", answer)
			}
		}
		if state := get(p, linked("r2")); state != nil {
			t.Errorf("%v, want nil", state)
		}
		listed := func() bool {
			status, _, _ := p.manage("com.microsoft:get-message-sessions", amqp.Map{{Key: "last-updated-time", Value: amqp.Timestamp(event.EndOfTime)},
				{Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(9)}})
			return status == 200
		}
		for _, c := range []struct{ state, want any }{
			{[]byte{0, 255}, []byte{0, 255}}, {[]byte{}, nil}, {bytes.Repeat([]byte("x"), 256<<10), bytes.Repeat([]byte("x"), 256<<10)},
			{nil, nil}, {[]byte{}, nil}, {[]byte("end"), []byte("end")},
		} {
			set(c.state, linked("r2"))
			if got := get(p); !cmp.Equal(got, c.want) || listed() != (c.want != nil) {
				t.Errorf("%T of %d bytes for %T, listed: %t (-want +got):\n%s", got, len(fmt.Sprint(got)), c.state, listed(), cmp.Diff(c.want, got))
			}
		}
		set([]byte("mine")) // the holder is found by the session too
		p.detach(2)
		other := b.root()
		other.attachManagement("s")
		if state := get(other); !cmp.Equal(state, []byte("mine")) { // any client may read it
			t.Errorf("%v (-want +got):\n%s", state, cmp.Diff([]byte("mine"), state))
		}
		other.acceptSession(3, "s", "b")
		null := amqp.Pair{Key: "session-state", Value: nil}
		for _, test := range []struct {
			operation string
			body      amqp.Map
			link      []amqp.Pair
		}{
			{"set-session-state", sessionBody("a", null), nil}, {"set-session-state", sessionBody("a", null), []amqp.Pair{linked("r3")}},
			{"set-session-state", sessionBody("a", null), []amqp.Pair{linked("gone")}}, {"get-session-state", sessionBody("a"), []amqp.Pair{linked("r3")}},
			{"renew-session-lock", sessionBody("a"), nil}, {"renew-session-lock", sessionBody("nobody"), []amqp.Pair{linked("r3")}},
		} {
			other.managedWith(410, amqp.CondSessionLockLost, test.operation, test.body, test.link...)
		}
		for operation, body := range map[string]amqp.Map{
			"set-session-state": sessionBody("b"), "get-session-state": nil, "renew-session-lock": sessionBody(nil),
		} {
			other.managedWith(400, amqp.CondArgumentError, operation, body)
		}
		other.managedWith(400, amqp.CondArgumentError, "set-session-state", sessionBody("b", amqp.Pair{Key: "session-state", Value: "text"}))
		other.managedWith(403, amqp.CondMessageSizeExceeded, "set-session-state", sessionBody("b", amqp.Pair{Key: "session-state", Value: make([]byte, 256<<10+1)}))
	})
}

// WP-176, SM-188.
func TestRenewSessionLock(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.attachManagement("s")
		p.acceptSession(2, "s", "")
		for range 5 {
			time.Sleep(20 * time.Second)
			answer := p.managedWith(200, "", "renew-session-lock", sessionBody("")).(amqp.Map)
			if !cmp.Equal(answer, amqp.Map{{Key: "expiration", Value: timestampOf(time.Now().Add(30 * time.Second))}}) {
				t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(amqp.Map{{Key: "expiration", Value: timestampOf(time.Now().Add(30 * time.Second))}}, answer))
			}
		}
		// 6.2: not singly
		p.managedWith(400, amqp.CondNotAllowed, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}})
	})
}

// WP-178, SM-193: sessions with messages or a state, or those whose state is newer than a time;
// page by page.
func TestListSessions(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.attachManagement("s")
		list := func(since time.Time, skip, top any) []any {
			t.Helper()
			at := timestampOf(since)
			if since.IsZero() {
				at = 253402300800000 // as the Go SDK sends the end of time
			}
			status, _, answer := p.manage("com.microsoft:get-message-sessions", amqp.Map{
				{Key: "last-updated-time", Value: at}, {Key: "skip", Value: skip}, {Key: "top", Value: top}})
			if status == 204 {
				if answer != nil {
					t.Errorf("%+v, want nil", answer)
				}
				return nil
			}
			ids, _ := answer.(amqp.Map).Get("sessions-ids")
			next, _ := answer.(amqp.Map).Get("skip")
			if n, _ := message.Integer(amqp.Map{{Key: "skip", Value: skip}}, "skip"); next != int32(n)+int32(len(ids.(amqp.Array).Values)) {
				t.Errorf("skip %v", next)
			}
			return ids.(amqp.Array).Values
		}
		if got := list(time.Time{}, int32(0), int32(100)); got != nil {
			t.Errorf("%+v, want nil", got)
		}
		const n = 120
		var want []any
		for i := range n {
			want = append(want, fmt.Sprintf("s%03d", i))
			b.put("s", inSession(want[i].(string), fmt.Sprint(i), "x"))
		}
		p.acceptSession(2, "s", "state only")
		before := time.Now()
		time.Sleep(time.Second)
		p.managedWith(200, "", "set-session-state", sessionBody("state only", amqp.Pair{Key: "session-state", Value: []byte("x")}))
		p.detach(2)
		want = append(want, "state only")
		if got := append(list(time.Time{}, int32(0), int32(100)), list(time.Time{}, uint32(100), int64(100))...); !cmp.Equal(got, want) {
			t.Errorf("%+v %+v (-want +got):\n%s", len(got), got, cmp.Diff(want, got))
		}
		if got := list(time.Time{}, int32(121), int32(100)); got != nil {
			t.Errorf("%+v, want nil", got)
		}
		if got := list(before, int32(0), int32(1<<31-1)); !cmp.Equal(got, []any{"state only"}) {
			t.Errorf("%+v (-want +got):\n%s", got, cmp.Diff([]any{"state only"}, got))
		}
		if got := list(time.Now(), int32(0), int32(100)); got != nil {
			t.Errorf("%+v, want nil", got)
		}
		for _, bad := range []amqp.Map{nil, {{Key: "last-updated-time", Value: amqp.Timestamp(0)}, {Key: "skip", Value: int32(-1)}, {Key: "top", Value: int32(1)}},
			{{Key: "last-updated-time", Value: amqp.Timestamp(0)}, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(0)}}} {
			p.managedWith(400, amqp.CondArgumentError, "get-message-sessions", bad)
		}
		dead := b.root()
		dead.attachManagement("s/$DeadLetterQueue") // knows no sessions (WP-185)
		dead.managedWith(204, "", "get-message-sessions", amqp.Map{{Key: "last-updated-time", Value: amqp.Timestamp(event.EndOfTime)}, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(9)}})
	})
}

// SM-144, WP-167: peek in a session queue, with the id of a session and without.
func TestPeekSession(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a", "1", "x"), inSession("", "2", "x"), inSession("a", "3", "x"))
		p.attachManagement("s")
		for id, want := range map[any]string{nil: "[1 2 3]", "a": "[1 3]", "": "[2]"} {
			if got := p.peekIDs(amqp.Pair{Key: "session-id", Value: id}); fmt.Sprint(got) != want {
				t.Errorf("%v: %v; want fmt.Sprint(got) == want", id, got)
			}
		}
		p.managedWith(204, "", "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(9)}, {Key: "session-id", Value: "b"}})
	})
}

// 2.1: the id of a session is a text like any other, taken as it was sent: what looks escaped in it
// is not.
func TestSessionIDsAreNotDecoded(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a%62", "escaped", "x"), inSession("ab", "plain", "x"), inSession("a+b", "plus", "x"))
		p.attachManagement("s")
		for i, id := range []string{"a%62", "ab", "a+b"} {
			link := uint32(2 + i)
			if got := p.acceptSession(link, "s", id); !strings.Contains(fmt.Sprint(got.Source), id) {
				t.Errorf("%q: %+v; want strings.Contains(fmt.Sprint(got.Source), id)", id, got.Source)
			}
			state := amqp.Pair{Key: "session-state", Value: []byte(id)}
			p.managedWith(200, "", "set-session-state", sessionBody(id, state), linked(fmt.Sprint("r", link)))
		}
		for id, want := range map[string]string{"a%62": "[escaped]", "ab": "[plain]", "a+b": "[plus]"} {
			if got := p.peekIDs(amqp.Pair{Key: "session-id", Value: id}); fmt.Sprint(got) != want {
				t.Errorf("%q: %v; want fmt.Sprint(got) == want", id, got)
			}
			answer := p.managedWith(200, "", "get-session-state", sessionBody(id)).(amqp.Map)
			if state, _ := answer.Get("session-state"); string(state.([]byte)) != id {
				t.Errorf("%q: state %q", id, state)
			}
		}
	})
}

// peekIDs is the message-ids of a peek from the beginning.
func (p *peerConn) peekIDs(more ...amqp.Pair) (ids []any) {
	p.Helper()
	for _, m := range p.peekAll(more...) {
		ids = append(ids, m.properties.MessageID)
	}
	return ids
}

func (p *peerConn) peekAll(more ...amqp.Pair) []openedMessage {
	p.Helper()
	_, _, answer := p.manage("com.microsoft:peek-message", append(amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(100)}}, more...))
	return openedMessages(p, answer)
}

// openedMessages is the messages of an answer.
func openedMessages(t testing.TB, answer any) (ms []openedMessage) {
	t.Helper()
	if answer == nil {
		return nil
	}
	v, _ := answer.(amqp.Map).Get("messages")
	for _, e := range v.(amqp.List) {
		raw, _ := e.(amqp.Map).Get("message")
		ms = append(ms, decodeMessage(t, raw.([]byte)))
	}
	return ms
}
