package servicebus

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// disposed settles tokens with a status over $management and wants an answer.
func (p *peerConn) disposed(status int32, symbol amqp.Symbol, disposition string, tokens []amqp.UUID, more ...amqp.Pair) {
	p.Helper()
	body := amqp.Map{{Key: "disposition-status", Value: disposition}, {Key: "lock-tokens", Value: uuids(tokens...)}}
	p.managedWith(status, symbol, "update-disposition", append(body, more...))
}

// withProperties makes a message with a body and properties of about that many KiB.
func withProperties(id string, kib, body int) []byte {
	var large amqp.Map
	for i := 0; kib > 0; i++ {
		n := min(kib, 31)
		large = append(large, amqp.Pair{Key: fmt.Sprint("p", i), Value: strings.Repeat("x", n<<10)})
		kib -= n
	}
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id})
	if large != nil {
		m = amqp.AppendSection(m, amqp.SectionApplicationProperties, large)
	}
	return amqp.AppendData(m, []byte(strings.Repeat("x", body)))
}

// SM-113: the sent size of a message counts against the header limit even when the message is
// settled by its token alone. That holds for every way that changes properties, for each of several
// tokens separately, and for a token of another connection.
func TestHeaderSizeExceededByToken(t *testing.T) {
	for disposition, after := range map[string]string{"abandoned": "[small body]", "defered": "[]", "suspended": "[]"} {
		bubble(t, nil, func(b *bench) {
			b.put("q", withProperties("alone", 62, 10), withProperties("large", 62, 100<<10), withProperties("small", 1, 10), withProperties("body", 1, 200<<10))
			p := b.root()
			p.attachReceiver(2, "q", amqp.SenderUnsettled)
			p.credit(2, 0, 4, false)
			var tokens []amqp.UUID
			for range 4 {
				tokens = append(tokens, uuidOf(p.receive().tag))
			}
			add := amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "c", Value: strings.Repeat("x", 3<<10)}}}
			m := b.root()
			m.attachManagement("q")
			// all or none
			m.disposed(410, amqp.CondMessageLockLost, disposition, append(tokens[:3:3], amqp.UUID{1}), add)
			m.disposed(200, "", disposition, tokens[:1], add)
			m.disposed(200, "", disposition, tokens[1:], add)
			m.disposed(410, amqp.CondMessageLockLost, disposition, tokens[1:2], add)

			dead := b.root()
			dead.attachManagement("q/$DeadLetterQueue")
			var exceeded []string
			for _, d := range dead.peekAll() {
				reason, _ := d.application.Get(deadLetterReason)
				text, _ := d.application.Get(deadLetterDescription)
				_, added := d.application.Get("c")
				switch {
				case reason == "HeaderSizeExceeded" && text == "The size quota for this stream has been exceeded." && !added:
					exceeded = append(exceeded, d.properties.MessageID.(string))
				case disposition != "suspended" || reason != nil || !added:
					t.Errorf("%s: %v %v %v", disposition, d.properties.MessageID, reason, added)
				}
			}
			if !slices.Equal(exceeded, []string{"alone", "large"}) {
				t.Errorf(`%s: %v; want slices.Equal(exceeded, []string{"alone", "large"})`, disposition, exceeded)
			}
			p.credit(2, 4, 10, false)
			var again []any
			for range strings.Fields(strings.Trim(after, "[]")) {
				d := p.receive()
				if v, _ := d.application.Get("c"); v == nil {
					t.Errorf("%s: %v has no new property", disposition, d.properties.MessageID)
				}
				again = append(again, d.properties.MessageID)
			}
			if fmt.Sprint(again) != after {
				t.Errorf("%s: %v received", disposition, again)
			}
		})
	}
}

// semantics.md 5.3: reasons and descriptions of other types than strings are kept as they were
// given, of a link and of a request, and so are the changes of an abandoned message; "" is a
// reason, null is none.
func TestReasonsOfAnyType(t *testing.T) {
	span := amqp.Described{Descriptor: amqp.Symbol("com.microsoft:timespan"), Value: int64(7)}
	for _, test := range []struct{ reason, description any }{
		{int32(5), true}, {int64(-1), amqp.UUID{1, 2}}, {amqp.Timestamp(1000), 2.5}, {span, []byte{0, 255}}, {"", ""}, {nil, "only"}, {amqp.Symbol("symbol"), uint8(9)},
	} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(3)
			p.credit(2, 0, 3, false)
			link, token, again := p.receive(), uuidOf(p.receive().tag), p.receive()
			p.settle(link.id, amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition, Description: "x", Info: amqp.Map{
				{Key: amqp.Symbol(deadLetterReason), Value: test.reason}, {Key: amqp.Symbol(deadLetterDescription), Value: test.description}}}}, true)
			p.settle(again.id, amqp.Modified{UndeliverableHere: true, MessageAnnotations: amqp.Map{
				{Key: amqp.Symbol("DeadLetterReason2"), Value: test.reason}, {Key: amqp.Symbol("k"), Value: test.description}}}, true)
			p.attachManagement("q")
			p.disposed(200, "", "suspended", []amqp.UUID{token}, amqp.Pair{Key: "deadletter-reason", Value: test.reason},
				amqp.Pair{Key: "deadletter-description", Value: test.description})
			deferred := p.peekAll()[0].application
			if v, ok := deferred.Get("DeadLetterReason2"); !ok || !cmp.Equal(v, test.reason) {
				t.Errorf("%v: %+v (-want +got):\n%s", test, deferred, cmp.Diff(test.reason, v))
			}
			dead := b.root()
			dead.attachManagement("q/$DeadLetterQueue")
			letters := dead.peekAll()
			if len(letters) != 2 {
				t.Fatalf("%v: %d dead letters", test, len(letters))
			}
			for _, m := range letters {
				for key, want := range map[string]any{deadLetterReason: test.reason, deadLetterDescription: test.description} {
					if v, ok := m.application.Get(key); ok != (want != nil) || !cmp.Equal(v, want) {
						t.Errorf("%v: %s: %+v (-want +got):\n%s", test, m.properties.MessageID, m.application, cmp.Diff(want, v))
					}
				}
			}
		})
	}
}

// SM-051: a locked message still counts as active, and a deferred one too; neither does in the
// dead-letter queue or not yet sent.
func TestLockedCountsAsActive(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(4)
		p.credit(2, 0, 3, false)
		first, second, _ := p.receive(), p.receive(), p.receive()
		p.settle(first.id, amqp.Rejected{}, false)
		p.outcome(first.id, amqp.Rejected{})
		p.settle(second.id, amqp.Modified{UndeliverableHere: true}, false)
		p.outcome(second.id, amqp.Modified{UndeliverableHere: true})
		target, err := b.ns.Resolve("q")
		if err != nil {
			t.Fatal(err)
		}
		counts, err := b.ns.Runtime(context.Background(), []*engine.Entity{target.Entity})
		if err != nil || counts[0].Active != 3 || counts[0].DeadLetter != 1 || counts[0].Total() != 4 {
			t.Errorf("%+v %v; want counts[0].Active == 3 && counts[0].DeadLetter == 1 && counts[0].Total() == 4", counts, err)
		}
	})
}

// In a dead-letter queue a message that would become too large has nowhere to go: the request is
// refused, and nothing happens.
func TestHeaderSizeInDeadLetters(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", withProperties("a", 62, 10))
		p := b.root()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		p.settle(p.receive().id, amqp.Rejected{}, true)
		p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
		p.credit(3, 0, 1, false)
		token := uuidOf(p.receive().tag)
		p.attachManagement("q/$DeadLetterQueue")
		p.disposed(400, amqp.CondArgumentError, "abandoned", []amqp.UUID{token},
			amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "c", Value: strings.Repeat("x", 3<<10)}}})
		p.disposed(200, "", "completed", []amqp.UUID{token})
	})
}

// Bytes that cannot be read back decide nothing: the message stays locked, and the partition hears
// of the damage.
func TestHeaderSizeUnreadable(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", withProperties("a", 62, 100<<10))
		p := b.root()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		token := uuidOf(p.receive().tag)
		p.attachManagement("q")
		b.broker.unreadable.Store(&io.ErrUnexpectedEOF)
		p.disposed(503, amqp.CondServerBusy, "abandoned", []amqp.UUID{token}, amqp.Pair{Key: "properties-to-modify", Value: amqp.Map{{Key: "c", Value: "x"}}})
		if n := b.broker.damage.Load(); n != 1 {
			t.Errorf("%d reports of damage", n)
		}
		b.broker.unreadable.Store(nil)
		p.disposed(200, "", "completed", []amqp.UUID{token})
	})
}

// Messages of a session are settled by token on behalf of its holder only: the link that the
// request names, the one that holds the session it names or, when it names nothing, one of the same
// connection (semantics.md 8.4).
func TestSettleByHolder(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		for i, session := range []string{"a", "b", "a", "a", "b"} {
			p.send(1, uint32(i), inSession(session, fmt.Sprint(i), "x"))
		}
		other := b.root()
		p.attachManagement("s")
		other.attachManagement("s")
		p.acceptSession(2, "s", "a")
		other.acceptSession(2, "s", "b")
		tokens := func(p *peerConn, n uint32) (all []amqp.UUID) {
			p.credit(2, 0, n, false)
			for range n {
				all = append(all, uuidOf(p.receive().tag))
			}
			return all
		}
		a, c := tokens(p, 3), tokens(other, 2)
		none := b.root() // holds nothing at all
		none.attachManagement("s")
		named := func(session string) []amqp.Pair { return []amqp.Pair{{Key: "session-id", Value: session}} }
		refused := func(p *peerConn, tokens []amqp.UUID, body []amqp.Pair, more ...amqp.Pair) {
			t.Helper()
			for _, disposition := range []string{"completed", "abandoned", "defered", "suspended"} {
				fields := amqp.Map{{Key: "disposition-status", Value: disposition}, {Key: "lock-tokens", Value: uuids(tokens...)}}
				p.managedWith(410, amqp.CondSessionLockLost, "update-disposition", append(fields, body...), more...)
			}
		}
		refused(none, a[:1], nil)
		refused(none, a[:1], named("a"))
		refused(other, a[:1], nil)
		refused(other, a[:1], named("b")) // its own session, but not its message
		refused(other, a[:1], nil, linked("r2"))
		refused(other, a[:1], nil, linked("gone"))
		refused(p, []amqp.UUID{a[0], c[0]}, nil) // all or none
		p.disposed(200, "", "completed", a[:1])
		p.managedWith(200, "", "update-disposition", amqp.Map{{Key: "disposition-status", Value: "completed"}, {Key: "lock-tokens", Value: uuids(a[1])}}, linked("r2"))
		p.disposed(200, "", "completed", a[2:], named("a")...)
		other.disposed(200, "", "completed", c)
	})
}

// semantics.md 8.4: a receiver allows settlements for its own session of its own entity, and only
// as long as it is attached.
func TestSettleByOtherLinks(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.queue("s2", func(p *event.Properties) { p.RequiresSession = true })
		b.put("s", inSession("a", "1", "x"), inSession("a", "2", "x"))
		p.attachManagement("s")
		p.acceptSession(2, "s", "a")
		p.acceptSession(3, "s2", "a")
		p.credit(2, 0, 2, false)
		one, two := uuidOf(p.receive().tag), uuidOf(p.receive().tag)
		p.managedWith(410, amqp.CondSessionLockLost, "get-session-state", sessionBody("a"), linked("r3"))
		p.managedWith(410, amqp.CondSessionLockLost, "renew-session-lock", sessionBody("a"), linked("r3"))
		p.managedWith(410, amqp.CondSessionLockLost, "update-disposition",
			amqp.Map{{Key: "disposition-status", Value: "completed"}, {Key: "lock-tokens", Value: uuids(one)}}, linked("r3"))
		p.disposed(200, "", "completed", []amqp.UUID{one})
		p.detach(2)
		p.disposed(410, amqp.CondSessionLockLost, "completed", []amqp.UUID{two})
		p.disposed(410, amqp.CondSessionLockLost, "completed", []amqp.UUID{two}, amqp.Pair{Key: "session-id", Value: "a"})
		p.managedWith(410, amqp.CondSessionLockLost, "renew-session-lock", sessionBody("a"))
		p.managedWith(200, "", "get-session-state", sessionBody("a"))
	})
}

// There are no sessions in a dead-letter queue: a token is enough.
func TestSettleDeadLettersOfSessions(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 1, false)
		p.settle(p.receive().id, amqp.Rejected{}, false)
		p.outcome(0, amqp.Rejected{})
		other := b.root()
		other.attachManagement("s/$DeadLetterQueue")
		other.attachReceiver(2, "s/$DeadLetterQueue", amqp.SenderUnsettled)
		other.credit(2, 0, 2, false)
		other.disposed(200, "", "abandoned", []amqp.UUID{uuidOf(other.receive().tag)})
		other.disposed(200, "", "completed", []amqp.UUID{uuidOf(other.receive().tag)})
	})
}
