package servicebus

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

func byNumber(mode any, sequences ...any) amqp.Map {
	return append(numbers(sequences...), amqp.Pair{Key: "receiver-settle-mode", Value: mode})
}

// deferAll receives n messages by handle 2 and defers them.
func (p *peerConn) deferAll(n uint32) {
	p.Helper()
	p.credit(2, 0, n, false)
	for range n {
		m := p.receive()
		p.settle(m.id, amqp.Modified{UndeliverableHere: true}, true)
	}
}

// WP-171, WP-172, WP-173, SM-120 to SM-127: messages by number, all or none, in the order asked, in
// both modes.
func TestReceiveDeferred(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(5)
		p.deferAll(4)
		p.attachManagement("q")
		// unknown, active
		for _, bad := range [][]any{{int64(1), int64(99)}, {int64(5)}, {int64(0)}, {int64(-1)}} {
			p.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", byNumber(uint32(1), bad...))
		}
		answer := p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), int64(3), int64(1))).(amqp.Map)
		v, _ := answer.Get("messages")
		var tokens []amqp.UUID
		for i, e := range v.(amqp.List) {
			token, _ := e.(amqp.Map).Get("lock-token")
			raw, _ := e.(amqp.Map).Get("message")
			m := decodeMessage(t, raw.([]byte))
			inside, _ := m.delivery.Get(keyLockToken)
			state, _ := m.annotations.Get(keyState)
			until, _ := m.annotations.Get(keyLockedUntil)
			if m.properties.MessageID != []string{"2", "0"}[i] || inside != token || state != int32(1) || m.header.DeliveryCount.Value != 1 ||
				until != timestampOf(time.Now().Add(30*time.Second)) || m.body == "" {
				t.Errorf(`%+v; want m.properties.MessageID == []string{"2", "0"}[i] && inside == token && state == int32(1) && m.header.DeliveryCount.Value == 1 && until == timestampOf(time.Now().Add(30*time.Second)) && m.body != ""`, m)
			}
			tokens = append(tokens, token.(amqp.UUID))
		}
		// locked
		p.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", byNumber(uint8(1), int64(1)))
		p.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(tokens...)}})
		update := func(token amqp.UUID, status string) {
			t.Helper()
			p.managedWith(200, "", "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(token)}, {Key: "disposition-status", Value: status}})
		}
		update(tokens[0], "abandoned") // SM-125: stays deferred, counted
		update(tokens[1], "completed")
		got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(0), int64(3), int64(4))))
		if len(got) != 2 || got[0].header.DeliveryCount.Value != 2 || got[1].properties.MessageID != "3" || got[0].delivery != nil {
			t.Errorf(`%+v; want len(got) == 2 && got[0].header.DeliveryCount.Value == 2 && got[1].properties.MessageID == "3" && got[0].delivery == nil`, got)
		}
		if ids := p.peekIDs(); fmt.Sprint(ids) != "[1 4]" {
			t.Errorf(`%+v; want fmt.Sprint(ids) == "[1 4]"`, ids)
		}
		for _, bad := range []amqp.Map{nil, byNumber(uint32(2), int64(2)), byNumber(uint32(1)), {{Key: "sequence-numbers", Value: make(amqp.List, maxDeferred+1)}}} {
			p.managedWith(400, amqp.CondArgumentError, "receive-by-sequence-number", bad)
		}
		p.quiet(time.Minute) // SM-125: the end of the lock leaves it deferred as well
	})
}

// SM-130, WP-185: defer in a dead-letter queue.
func TestDeferDeadLetter(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(1)
		p.credit(2, 0, 1, false)
		p.settle(p.receive().id, amqp.Rejected{}, true)
		p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderUnsettled)
		p.credit(3, 0, 1, false)
		p.settle(p.receive().id, amqp.Modified{UndeliverableHere: true}, true)
		main := b.root()
		main.attachManagement("q")
		main.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", byNumber(uint32(1), int64(1)))
		p.attachManagement("q/$DeadLetterQueue")
		got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), int64(1))))
		if len(got) != 1 || got[0].header.DeliveryCount.Value != 0 {
			t.Errorf("%+v; want len(got) == 1 && got[0].header.DeliveryCount.Value == 0", got)
		}
	})
}

// SM-129: deferred messages of a session are for its holder.
func TestDeferInSession(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.acceptSession(2, "s", "a")
		p.deferAll(1)
		p.attachManagement("s")
		p.acceptSession(3, "s", "b")
		other := b.root()
		other.attachManagement("s")
		body := byNumber(uint32(1), int64(1))
		other.managedWith(410, amqp.CondSessionLockLost, "receive-by-sequence-number", append(body, amqp.Pair{Key: "session-id", Value: "a"}))
		p.managedWith(410, amqp.CondSessionLockLost, "receive-by-sequence-number", body) // by whom?
		p.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", body, linked("r3"))
		answer := p.managedWith(200, "", "receive-by-sequence-number", body, linked("r2")).(amqp.Map)
		v, _ := answer.Get("messages")
		token, _ := v.(amqp.List)[0].(amqp.Map).Get("lock-token")
		until, _ := openedMessages(t, answer)[0].annotations.Get(keyLockedUntil)
		if until != timestampOf(time.Now().Add(30*time.Second)) {
			t.Errorf("locked until %v", until)
		}
		settle := amqp.Map{{Key: "disposition-status", Value: "abandoned"}, {Key: "lock-tokens", Value: uuids(token.(amqp.UUID))}}
		other.managedWith(410, amqp.CondSessionLockLost, "update-disposition", append(settle, amqp.Pair{Key: "session-id", Value: "a"}))
		p.managedWith(410, amqp.CondSessionLockLost, "update-disposition", append(settle, amqp.Pair{Key: "session-id", Value: "a"}), linked("r3"))
		p.managedWith(200, "", "update-disposition", append(settle, amqp.Pair{Key: "session-id", Value: "a"}))
		p.managedWith(200, "", "receive-by-sequence-number", append(body, amqp.Pair{Key: "session-id", Value: "a"}))
	})
}

// SM-403: a deferred message that is settled a second time under its session has lost its own lock;
// the session is still held. After the end of the session the refusal is about the session, even if
// the same client holds it again.
func TestDotnetDeferredSettledTwice(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a", "1", "x"), inSession("a", "2", "x"))
		p.acceptSession(2, "s", "a")
		p.deferAll(2)
		p.attachManagement("s")
		named := amqp.Pair{Key: "session-id", Value: "a"}
		var tokens []amqp.UUID
		answer := p.managedWith(200, "", "receive-by-sequence-number", append(byNumber(uint32(1), int64(1), int64(2)), named)).(amqp.Map)
		messages, _ := answer.Get("messages")
		for _, m := range messages.(amqp.List) {
			token, _ := m.(amqp.Map).Get("lock-token")
			tokens = append(tokens, token.(amqp.UUID))
		}
		p.disposed(200, "", "completed", tokens[:1], named)
		for _, disposition := range []string{"completed", "abandoned", "defered", "suspended"} {
			p.disposed(410, amqp.CondMessageLockLost, disposition, tokens[:1], named)
			p.disposed(410, amqp.CondMessageLockLost, disposition, tokens[:1])
		}
		// all or none
		p.disposed(410, amqp.CondMessageLockLost, "completed", []amqp.UUID{tokens[1], tokens[0]}, named)
		// with an unknown outcome
		p.disposed(410, amqp.CondSessionLockLost, "completed", []amqp.UUID{{15: 0x10}}, named)
		p.detach(2)
		p.disposed(410, amqp.CondSessionLockLost, "completed", tokens[1:], named)
		p.acceptSession(3, "s", "a")
		p.disposed(410, amqp.CondSessionLockLost, "completed", tokens[1:], named)
	})
}

// SM-404: a deferred message of a session that is held shows the end of the session's lock when it
// is looked at; others show none.
func TestDotnetPeekedDeferredInSession(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		b.put("s", inSession("a", "1", "x"), inSession("a", "2", "x"), inSession("b", "3", "x"))
		p.acceptSession(2, "s", "a")
		p.deferAll(1)
		p.acceptSession(3, "s", "b")
		p.attachManagement("s")
		until := func(when string, first any, more ...amqp.Pair) {
			t.Helper()
			for i, m := range p.peekAll(more...) {
				got, _ := m.annotations.Get(keyLockedUntil)
				want := []any{first, nil, nil}[i]
				if got != want {
					t.Errorf("%s: message %v is locked until %v, want %v", when, m.properties.MessageID, got, want)
				}
			}
		}
		a := amqp.Pair{Key: "session-id", Value: "a"}
		end := timestampOf(time.Now().Add(30 * time.Second))
		until("held", end)
		until("held, of the session", end, a)
		time.Sleep(10 * time.Second)
		p.managedWith(200, "", "renew-session-lock", sessionBody("a"))
		until("renewed", end+10_000)
		p.managedWith(200, "", "receive-by-sequence-number", append(byNumber(uint32(1), int64(1)), a))
		until("taken", end+10_000)
		p.detach(2)
		until("held no more", nil)
	})
}

// The engine keeps the bodies that an answer points to until they have been read: while it has not
// answered, and no longer than the connection lasts.
func TestAnswersAreRead(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(5)
		p.deferAll(3)
		p.attachManagement("q")
		b.broker.hold(func() {
			p.request("m", operationPrefix+"receive-by-sequence-number", byNumber(uint32(0), int64(3), int64(1)))
			synctest.Wait()
			if n := b.broker.unread(); n != 1 {
				t.Errorf("%d requests may still read, before there is an answer", n)
			}
		})
		if status, _, _ := p.managed("m"); status != 200 {
			t.Errorf("status %d", status)
		}
		p.managedWith(404, amqp.CondMessageNotFound, "receive-by-sequence-number", byNumber(uint32(0), int64(1)))
		p.managedWith(200, "", "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(10)}})
		if n := b.broker.unread(); n != 0 {
			t.Errorf("%d requests may still read, behind their answers", n)
		}
		b.broker.hold(func() {
			p.request("n", operationPrefix+"receive-by-sequence-number", byNumber(uint32(0), int64(2)))
			synctest.Wait()
			if n := b.broker.unread(); n != 1 {
				t.Errorf("%d requests may still read, before there is an answer", n)
			}
			p.net.Close()
			synctest.Wait()
			if n := b.broker.unread(); n != 0 {
				t.Errorf("%d requests may still read, behind the end of their connection", n)
			}
		})
	})
}

// deferredOf makes a queue with n deferred messages of that many bytes, and a peer that can ask for
// them by their numbers.
func (b *bench) deferredOf(n, size int, change func(*event.Properties)) (p *peerConn, numbers []any) {
	b.Helper()
	b.queue("deferred", change)
	for i := range n {
		b.put("deferred", newMessage(fmt.Sprint(i), string(make([]byte, size))))
	}
	p = b.root()
	p.attachReceiver(2, "deferred", amqp.SenderUnsettled)
	p.credit(2, 0, uint32(n), false)
	for range n {
		m := p.receive()
		seq, _ := m.annotations.Get(keySequence)
		numbers = append(numbers, seq)
		p.settle(m.id, amqp.Modified{UndeliverableHere: true}, true)
	}
	p.attachManagement("deferred")
	return p, numbers
}

// SM-382: the messages of one answer have 16 MiB at most, on a queue with one partition as on one
// with several. A request for more is refused, and has locked and deleted nothing.
func TestDeferredAnswerIsBounded(t *testing.T) {
	for name, change := range map[string]func(*event.Properties){"one partition": nil, "partitioned": partitioned(nil)} {
		for mode := range uint32(2) {
			t.Run(fmt.Sprint(name, " mode ", mode), func(t *testing.T) {
				bubble(t, nil, func(b *bench) {
					const most = 16 << 20 / 250_000
					p, numbers := b.deferredOf(most+1, 250_000, change)
					p.managedWith(400, amqp.CondArgumentError, "receive-by-sequence-number", byNumber(mode, numbers...))
					got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(mode, numbers[1:]...)))
					if len(got) != most || got[0].header.DeliveryCount.Value != 1 {
						t.Errorf("%d messages, delivered %d times before", len(got), got[0].header.DeliveryCount.Value)
					}
				})
			})
		}
	}
}

// SM-383: a message that is larger than an answer may be is received alone.
func TestLargeDeferredMessage(t *testing.T) {
	large := func(p *event.Properties) { p.MaxMessageSizeKilobytes = 100 << 10 }
	for mode := range uint32(2) {
		bubble(t, nil, func(b *bench) {
			p, numbers := b.deferredOf(2, 17<<20, partitioned(large))
			p.managedWith(400, amqp.CondArgumentError, "receive-by-sequence-number", byNumber(mode, numbers...))
			for _, n := range numbers {
				if got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(mode, n))); len(got) != 1 {
					t.Errorf("%d messages", len(got))
				}
			}
		})
	}
}

// WP-230, F22: the bytes of an answer with deferred messages, and of one with the state of a
// session, are taken from the memory of all connections. Where there is none the request is busy,
// and has neither deleted a message nor left a lock.
func TestMemoryForDeferred(t *testing.T) {
	for name, change := range map[string]func(*event.Properties){"one partition": nil, "partitioned": partitioned(nil)} {
		for mode := range uint32(2) {
			t.Run(fmt.Sprint(name, " mode ", mode), func(t *testing.T) {
				scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
					p, numbers := b.deferredOf(4, 100_000, change)
					synctest.Wait()
					others.Owe(most)
					p.managedWith(503, amqp.CondServerBusy, "receive-by-sequence-number", byNumber(mode, numbers...))
					others.Give(most)
					got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(mode, numbers...)))
					if len(got) != 4 || got[0].header.DeliveryCount.Value != 1 {
						t.Errorf("%d messages, delivered %d times before", len(got), got[0].header.DeliveryCount.Value)
					}
				})
			})
		}
	}
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		b.queue("s", ofSession)
		p := b.root()
		p.acceptSession(2, "s", "a")
		p.attachManagement("s")
		set := amqp.Map{{Key: "session-id", Value: "a"}, {Key: "session-state", Value: make([]byte, 100_000)}}
		p.managedWith(200, "", "set-session-state", set)
		synctest.Wait()
		others.Owe(most)
		p.managedWith(503, amqp.CondServerBusy, "get-session-state", set[:1])
		others.Give(most)
		p.managedWith(200, "", "get-session-state", set[:1])
	})
}

// WP-230: if memory runs out between two partitions of one request, the locks of the first
// partition are released.
func TestMemoryEndsBetweenPartitions(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		b.queue("wide", partitioned(nil))
		const first, second = 10, 400
		for i := range first + second {
			key := "0"
			if i >= first {
				key = "tenant-a"
			}
			b.put("wide", keyedMessage(fmt.Sprint(i), "", key))
		}
		p := b.root()
		p.attachReceiver(2, "wide", amqp.SenderUnsettled)
		p.credit(2, 0, first+second, false)
		numbers := make([]any, first+second)
		for range numbers {
			m := p.receive()
			var i int
			fmt.Sscan(m.properties.MessageID.(string), &i)
			numbers[i], _ = m.annotations.Get(keySequence)
			p.settle(m.id, amqp.Modified{UndeliverableHere: true}, true)
		}
		p.attachManagement("wide")
		synctest.Wait()
		asked := 0
		b.broker.refuse(func(cmd engine.Command) error {
			if _, is := cmd.(*engine.ReceiveDeferred); is {
				if asked++; asked == 1 {
					others.Owe(most)
				}
			}
			return nil
		})
		p.managedWith(503, amqp.CondServerBusy, "receive-by-sequence-number", byNumber(uint32(1), numbers...))
		if asked != 1 {
			t.Fatalf("%d partitions were asked", asked)
		}
		others.Give(most)
		got := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), numbers...)))
		if len(got) != len(numbers) || got[0].header.DeliveryCount.Value != 1 {
			t.Errorf("%d messages, delivered %d times before", len(got), got[0].header.DeliveryCount.Value)
		}
	})
}
