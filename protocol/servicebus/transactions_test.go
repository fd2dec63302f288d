package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-192, WP-193, SM-147, SM-230, SM-232, SM-240, SM-247: messages sent in a transaction exist only
// after its commit, however they were sent.
func TestTransactionalSends(t *testing.T) {
	for _, commit := range []bool{true, false} {
		bubble(t, nil, func(b *bench) {
			p := b.transactor()
			p.attachSender(1, "q")
			txn, other := p.declare(), p.declare()
			p.send(txn, 1, newMessage("1", "x"))
			p.send(other, 1, newMessage("another", "x"))
			p.put(txn, 1, amqp.MessageFormatBatch, batchOf(newMessage("2", "x"), newMessage("3", "x")))
			p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: stateInTransaction(txn, nil), More: true}, newMessage("4", "x"))
			p.write(0, &amqp.Transfer{Handle: 1, More: true}, amqp.AppendData(nil, []byte("more")))
			p.write(0, &amqp.Transfer{Handle: 1, State: stateInTransaction(txn, nil)}, amqp.AppendData(nil, []byte("most")))
			p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: stateInTransaction(txn, nil), Settled: amqp.Some(true)}, newMessage("5", "x"))
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: stateInTransaction(txn, nil), More: true}, newMessage("aborted", "x"))
			p.write(0, &amqp.Transfer{Handle: 1, Aborted: true}, nil)
			p.put(txn, 1, amqp.MessageFormatBatch, nil) // an empty batch
			p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
			p.peerConn.send(1, p.peerConn.sent+1000, newMessage("of no transaction", "x"))
			b.shows("q", "[of no transaction]")
			foreign := b.transactor() // SM-240
			foreign.attachSender(1, "q")
			foreign.notSent(txn, 1, newMessage("foreign", "x"), amqp.CondTransactionUnknownID, "No active Transaction was found")
			foreign.notCommitted(txn, amqp.CondTransactionUnknownID, notDeclaredText)
			p.end(txn, commit)
			want := "[of no transaction 1 2 3 4 5]"
			if !commit {
				want = "[of no transaction]"
			}
			b.shows("q", want)
			p.rollBack(other)
			b.shows("q", want)
			p.notCommitted(txn, amqp.CondTransactionUnknownID, notDeclaredText)
			p.notSent(txn, 1, newMessage("late", "x"), amqp.CondTransactionUnknownID, "No active Transaction was found for ID '"+fmt.Sprintf("%x", txn)+"'. ")
		})
	}
}

// settlementCases are the ways to settle a delivery, with its answer and the resulting messages in
// the queue and its dead-letter queue.
var settlementCases = map[string]struct {
	outcome, answer    amqp.DeliveryState
	queue, deadLetters string
}{
	"complete":    {amqp.StateAccepted, amqp.StateAccepted, "[]", "[]"},
	"abandon":     {amqp.Modified{MessageAnnotations: amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}}}, amqp.Modified{}, "[1]", "[]"},
	"defer":       {amqp.Modified{UndeliverableHere: true}, amqp.Modified{UndeliverableHere: true}, "[1]", "[]"},
	"dead-letter": {amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition}}, amqp.Rejected{}, "[]", "[1]"},
	"release":     {amqp.StateReleased, amqp.StateReleased, "[1]", "[]"},
}

// WP-194, SM-230, SM-233, SM-234, SM-243: a settlement takes effect with the commit. After a
// rollback the message is locked as before, and its receiver may settle it again, on its link too.
func TestTransactionalSettlements(t *testing.T) {
	for name, test := range settlementCases {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", commit), func(t *testing.T) {
				bubble(t, nil, func(b *bench) {
					b.put("q", newMessage("1", "x"))
					p := b.transactor()
					p.attachReceiver(2, "q", amqp.SenderUnsettled)
					p.attachManagement("q")
					p.credit(2, 0, 1, false)
					m := p.receive()
					txn := p.declare()
					p.settle(txn, m.id, test.outcome, test.answer)
					b.shows("q", "[1]")
					b.shows("q/$deadletterqueue", "[]")
					// another receiver has it
					p.disposed(410, amqp.CondMessageLockLost, "completed", []amqp.UUID{uuidOf(m.tag)})
					p.end(txn, commit)
					if commit {
						b.shows("q", test.queue)
						b.shows("q/$deadletterqueue", test.deadLetters)
						p.settlesNothing(m.id)
						return
					}
					b.shows("q", "[1]")
					p.peerConn.settle(m.id, amqp.StateAccepted, false)
					p.outcome(m.id, amqp.StateAccepted)
					b.shows("q", "[]")
				})
			})
		}
	}
}

// A range is settled delivery by delivery, and answered as a range; if some of its deliveries are
// settled already the transaction has failed. A peer that sends a settled disposition gets no
// answer.
func TestTransactionalRanges(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("0", "x"), newMessage("1", "x"), newMessage("2", "x"), newMessage("3", "x"), newMessage("4", "x"), newMessage("5", "x"))
		p := b.transactor()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 6, false)
		for range 6 {
			p.receive()
		}
		txn := p.declare()
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 0, Last: amqp.Some(uint32(2)), State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
		p.staged(amqp.RoleSender, 0, 2, txn, amqp.StateAccepted)
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 3, Settled: true, State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
		p.commit(txn)
		b.shows("q", "[4 5]")
		txn = p.declare()
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 2, Last: amqp.Some(uint32(4)), State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
		d := expect[*amqp.Disposition](p.peerConn)
		if r, ok := d.State.(amqp.Rejected); !ok || d.First != 2 || d.Last.Value != 3 || r.Error.Condition != amqp.CondMessageLockLost {
			t.Errorf("%+v; want ok && d.First == 2 && d.Last.Value == 3 && r.Error.Condition == amqp.CondMessageLockLost", d)
		}
		p.stillUnsettled(4, amqp.CondTransactionRollback)
		p.notCommitted(txn, amqp.CondTransactionRollback, "") // SM-248
		txn = p.declare()
		// without an answer to the peer
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: 3, Settled: true, State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
		p.notCommitted(txn, amqp.CondTransactionRollback, "")
		txn = p.declare()
		p.peerConn.settle(4, stateInTransaction(txn, nil), false)
		p.stillUnsettled(4, amqp.CondInvalidField)
		p.notCommitted(txn, amqp.CondTransactionRollback, "")
		p.peerConn.settle(4, stateInTransaction([]byte("another"), amqp.StateAccepted), false)
		p.stillUnsettled(4, amqp.CondTransactionUnknownID)
		p.peerConn.settle(4, amqp.StateAccepted, false) // it waits as before
		p.outcome(4, amqp.StateAccepted)
		b.shows("q", "[5]")
	})
}

// WP-195, WP-199b, SM-243: requests to a management node are part of a transaction where that makes
// sense; a renewal is done at once, and a look is no part of anything.
func TestTransactionalRequests(t *testing.T) {
	for _, commit := range []bool{true, false} {
		sessions(t, func(b *bench, _ *peerConn) {
			b.put("q", newMessage("1", "x"), newMessage("2", "x"))
			p := b.transactor()
			p.attachReceiver(2, "q", amqp.SenderUnsettled)
			p.attachManagement("q")
			p.credit(2, 0, 2, false)
			first, second := p.receive(), p.receive()
			id := p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("scheduled before", time.Now().Add(time.Hour)))).(amqp.Map)
			before, _ := id.Get("sequence-numbers")
			txn := p.declare()
			p.manage(txn, 200, "", "schedule-message", scheduleBody(scheduled("scheduled", time.Now().Add(time.Hour))))
			p.manage(txn, 200, "", "cancel-scheduled-message", numbers(before.(amqp.Array).Values...))
			p.manage(txn, 200, "", "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(first.tag))}, {Key: "disposition-status", Value: "completed"}})
			p.manage(txn, 200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(second.tag))}})
			p.manage(txn, 200, "", "peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}})
			b.shows("q", "[1 2 scheduled before]")
			p.end(txn, commit)
			if commit {
				b.shows("q", "[2 scheduled]")
				p.settlesNothing(first.id)
			} else {
				b.shows("q", "[1 2 scheduled before]")
				p.peerConn.settle(first.id, amqp.StateAccepted, false)
				p.outcome(first.id, amqp.StateAccepted)
			}
			for _, operation := range []string{"batch-delete-messages"} {
				txn := p.declare()
				p.manage(txn, 400, amqp.CondNotAllowed, operation, operationBodies()[operation])
				p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
			}
			p.manage([]byte("another"), 400, amqp.CondTransactionUnknownID, "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(second.tag))}})
			txn = p.declare()
			p.ask(stateInTransaction(txn, nil), false, "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(second.tag))}, {Key: "disposition-status", Value: "completed"}})
			bringForward[*amqp.Disposition](p.peerConn)
			// that the request has come
			p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
			p.managed("m")
			p.rollBack(txn)
		})
	}
}

// WP-199b: the state of a session is set with the commit.
func TestTransactionalSessionState(t *testing.T) {
	for _, commit := range []bool{true, false} {
		sessions(t, func(b *bench, _ *peerConn) {
			p := b.transactor()
			p.acceptSession(2, "s", "a")
			p.attachManagement("s")
			txn := p.declare()
			p.manage(txn, 200, "", "set-session-state", sessionBody("a", amqp.Pair{Key: "session-state", Value: []byte("new")}))
			state := func() any {
				v, _ := p.managedWith(200, "", "get-session-state", sessionBody("a")).(amqp.Map).Get("session-state")
				return v
			}
			if v := state(); v != nil {
				t.Errorf("%v, want nil", v)
			}
			p.end(txn, commit)
			if b, _ := state().([]byte); string(b) != map[bool]string{true: "new", false: ""}[commit] {
				t.Errorf(`%q; want string(b) == map[bool]string{true: "new", false: ""}[commit]`, b)
			}
		})
	}
}

// SM-237, SM-238: a transaction is about one queue with its sub-queues, or one topic with its
// subscriptions and theirs.
func TestTransactionScope(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		b.subscription("t", "v", nil)
		b.put("t", newMessage("published", "x"))
		b.put("q", newMessage("1", "x"))
		p := &transactor{peerConn: b.root()}
		for i, at := range []string{"q", "q2", "t"} {
			p.attachSender(1+uint32(i), at)
		}
		p.attachCoordinator(coordinatorHandle) // after them, so the session is not a group
		p.attachReceiver(12, "q", amqp.SenderUnsettled)
		p.attachReceiver(13, "t/subscriptions/u", amqp.SenderUnsettled)
		p.attachReceiver(14, "t/subscriptions/v", amqp.SenderUnsettled)
		p.attachReceiver(15, "q/$deadletterqueue", amqp.SenderUnsettled)
		for i := range uint32(3) {
			p.credit(12+i, 0, 1, false)
		}
		of := map[any]openedMessage{}
		var deliveries []openedMessage
		for range 3 {
			m := p.receive()
			of[m.properties.MessageID] = m
			deliveries = append(deliveries, m)
		}
		txn := p.declare()
		p.send(txn, 1, newMessage("2", "x"))
		p.notSent(txn, 2, newMessage("3", "x"), amqp.CondNotAllowed, spanText)
		// refused with it, and still its receiver's to settle
		p.peerConn.settle(of["published"].id, stateInTransaction(txn, amqp.StateAccepted), false)
		p.stillUnsettled(of["published"].id, amqp.CondTransactionRollback)
		p.notSent(txn, 1, newMessage("4", "x"), amqp.CondTransactionRollback, failedText)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText) // SM-248
		b.shows("q", "[1]")
		b.shows("q2", "[]")

		txn = p.declare() // a dead letter is completed and sent again (S2-12)
		p.peerConn.settle(of["1"].id, amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition}}, false)
		p.outcome(of["1"].id, amqp.Rejected{})
		p.credit(15, 0, 1, false)
		dead := p.receive()
		p.settle(txn, dead.id, amqp.StateAccepted, amqp.StateAccepted)
		p.send(txn, 1, newMessage("1", "again"))
		p.commit(txn)
		b.shows("q", "[1]")
		b.shows("q/$deadletterqueue", "[]")

		txn = p.declare() // two subscriptions, and their topic
		for _, m := range deliveries {
			if m.properties.MessageID == "published" {
				p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
			}
		}
		p.send(txn, 3, newMessage("next", "x"))
		p.commit(txn)
		b.shows("t/subscriptions/u", "[next]")
		b.shows("t/subscriptions/v", "[next]")

		txn = p.declare()
		p.send(txn, 3, newMessage("next", "x"))
		p.attachManagement("q")
		p.manage(txn, 400, amqp.CondNotAllowed, "schedule-message", scheduleBody(scheduled("x", time.Now().Add(time.Hour))))
		p.notCommitted(txn, amqp.CondTransactionRollback, "")
		b.shows("t/subscriptions/u", "[next]")
	})
}

// SM-236: the 101st message is refused, of a batch too, and the transaction has failed.
func TestTransactionMessages(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		p.attachSender(1, "q")
		many := func(n int) (messages [][]byte) {
			for range n {
				messages = append(messages, newMessage("m", "x"))
			}
			return messages
		}
		txn := p.declare()
		p.put(txn, 1, amqp.MessageFormatBatch, batchOf(many(99)...))
		p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
		p.send(txn, 1, newMessage("m", "x"))
		p.commit(txn)
		if got := strings.Count(b.shown("q"), "m"); got != 100 {
			t.Errorf("%d messages", got)
		}
		txn = p.declare()
		p.send(txn, 1, newMessage("m", "x"))
		p.put(txn, 1, amqp.MessageFormatBatch, batchOf(many(100)...))
		p.rejectedText(p.last, amqp.CondResourceLimit, "Cannot send more than 100 messages in a single transaction. TrackingId:")
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
	})
}

// WP-196, SM-235: two minutes after its first operation a transaction ends. One that is not asked
// for again is dropped by the connection as well.
func TestTransactionTime(t *testing.T) {
	quiet := func(o *Options) { // nothing else wakes the connection
		o.Limits.IdleTimeout, o.Limits.LinkIdle = time.Hour, time.Hour
	}
	bubble(t, quiet, func(b *bench) {
		p := b.transactor()
		p.attachSender(1, "q")
		early, late, asked := p.declare(), p.declare(), p.declare()
		time.Sleep(3 * time.Minute) // nothing is done in them yet
		for i, txn := range [][]byte{early, late, asked} {
			p.send(txn, 1, newMessage(fmt.Sprint(i), "x"))
		}
		time.Sleep(2*time.Minute - time.Second)
		p.commit(early)
		time.Sleep(2 * time.Second)
		p.notSent(late, 1, newMessage("x", "x"), amqp.CondTransactionUnknownID, "No active Transaction was found")
		p.notCommitted(late, amqp.CondTransactionUnknownID, notDeclaredText)
		time.Sleep(10 * time.Second)
		checkBooks(t, b.server)
		for c := range b.server.conns {
			if n := len(c.transactions.open); n != 0 || b.server.env.staged.used.Load() != 0 {
				t.Errorf("%d transactions are open, with %d bytes", n, b.server.env.staged.used.Load())
			}
		}
		p.notCommitted(asked, amqp.CondTransactionUnknownID, notDeclaredText)
		b.shows("q", "[0]")
	})
}

// WP-197, SM-239: with its coordinator, its session or its connection a transaction is rolled back;
// a message that was settled in it is locked as before.
func TestTransactionLost(t *testing.T) {
	for name, lose := range map[string]func(p *transactor){
		"link":       func(p *transactor) { p.detach(coordinatorHandle) },
		"session":    func(p *transactor) { p.write(0, &amqp.End{}, nil); expect[*amqp.End](p.peerConn) },
		"connection": func(p *transactor) { p.net.Close() },
		"close":      func(p *transactor) { p.write(0, &amqp.Close{}, nil); expect[*amqp.Close](p.peerConn) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.put("q", newMessage("1", "x"))
				p := b.transactor()
				p.attachSender(1, "q")
				p.attachReceiver(2, "q", amqp.SenderUnsettled)
				p.credit(2, 0, 1, false)
				m := p.receive()
				txn := p.declare()
				p.send(txn, 1, newMessage("2", "x"))
				p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
				lose(p)
				time.Sleep(time.Second)
				if n := b.server.env.staged.used.Load(); n != 0 {
					t.Errorf("%d bytes are staged", n)
				}
				b.shows("q", "[1]")
				other := b.root()
				other.attachManagement("q")
				other.disposed(200, "", "completed", []amqp.UUID{uuidOf(m.tag)})
				b.shows("q", "[]")
			})
		})
	}
}

// When it is unknown whether a commit was done, no outcome is sent: the coordinator ends. A
// rollback has happened in any case.
func TestCommitUnknown(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		stopped := false
		b.broker.refuse(func(cmd engine.Command) error {
			switch cmd.(type) {
			case *engine.Commit, *engine.Rollback:
				if stopped {
					return fmt.Errorf("a test: %w", engine.ErrUnknown)
				}
			}
			return nil
		})
		p := b.transactor()
		p.attachSender(1, "q")
		txn, other := p.declare(), p.declare()
		p.send(txn, 1, newMessage("1", "x"))
		p.send(other, 1, newMessage("2", "x"))
		stopped = true
		p.rollBack(other)
		p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
		if d := expect[*amqp.Detach](p.peerConn); d.Error == nil || d.Error.Condition != amqp.CondDetachForced || !strings.HasPrefix(d.Error.Description, outcomeText) {
			t.Errorf("%+v; want d.Error != nil && d.Error.Condition == amqp.CondDetachForced && strings.HasPrefix(d.Error.Description, outcomeText)", d.Error)
		}
		p.peerConn.send(1, p.next(), newMessage("3", "x")) // other links go on
	})
}

// A commit that the partition refuses is a rollback, and says why.
func TestCommitRefused(t *testing.T) {
	sessions(t, func(b *bench, first *peerConn) {
		first.send(1, 0, inSession("a", "1", "x"))
		p := b.transactor()
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 1, false)
		m := p.receive()
		txn := p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.detach(2) // and with the link the session is lost
		p.notCommitted(txn, amqp.CondTransactionRollback, "The transaction was rolled back")
		b.shows("s", "[1]")
	})
}

// How much is staged is bounded, for a connection and for all of them.
func TestStagedBytes(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Limits.TransactionBytes, o.Limits.AllStagedBytes = 30_000, 45_000
	}, func(b *bench) {
		p, q := b.transactor(), b.transactor()
		p.attachSender(1, "q")
		q.attachSender(1, "q")
		half := newMessage("m", strings.Repeat("x", 18_000))
		txn, other := p.declare(), q.declare()
		p.send(txn, 1, half)
		q.send(other, 1, half)
		// of its own connection
		p.notSent(txn, 1, half, amqp.CondResourceLimit, fmt.Sprintf(stagedText, 30_000))
		q.rollBack(other)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		txn, other = p.declare(), q.declare()
		p.send(txn, 1, newMessage("m", strings.Repeat("x", 26_000)))
		// of all
		q.notSent(other, 1, half, amqp.CondResourceLimit, fmt.Sprintf(allBytesText, 45_000))
		p.commit(txn)
		q.rollBack(other)
	})
}

// AMQP 4.4.1: a transaction that is discharged while a delivery in it is unfinished is rolled back,
// and its coordinator ends.
func TestDischargeUnfinished(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		p.attachSender(1, "q")
		txn := p.declare()
		p.send(txn, 1, newMessage("1", "x"))
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: stateInTransaction(txn, nil), More: true}, newMessage("2", "x"))
		p.control(coordinatorHandle, 77, &amqp.Discharge{TxnID: txn})
		if d := expect[*amqp.Detach](p.peerConn); d.Error == nil || d.Error.Condition != amqp.CondTransactionRollback {
			t.Errorf("%+v; want d.Error != nil && d.Error.Condition == amqp.CondTransactionRollback", d.Error)
		}
		p.write(0, &amqp.Transfer{Handle: 1}, amqp.AppendData(nil, []byte("x")))
		p.rejectedText(p.last, amqp.CondTransactionUnknownID, "")
		b.shows("q", "[]")
	})
}

// A frame that says of its delivery that it is part of another transaction than the first frame
// said.
func TestTransferOfTwoTransactions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		p.attachSender(1, "q")
		txn, other := p.declare(), p.declare()
		for i, states := range [][2]amqp.DeliveryState{{stateInTransaction(txn, nil), stateInTransaction(other, nil)}, {nil, stateInTransaction(other, nil)}} {
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: states[0], More: true}, newMessage(fmt.Sprint(i), "x"))
			p.write(0, &amqp.Transfer{Handle: 1, State: states[1]}, amqp.AppendData(nil, []byte("x")))
			p.rejectedText(p.last, amqp.CondTransactionUnknownID, "")
		}
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		p.commit(other)
		b.shows("q", "[]")
	})
}

// SM-246: numbers and times of the sent messages are those of the commit. The log has the commit
// and its effects in one record, with the origin of the coordinator, and rollbacks with their
// causes.
func TestTransactionsInTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bubbleIn(t, dir, nil, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		p := b.transactor()
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		m := p.receive()
		txn := p.declare()
		p.send(txn, 1, newMessage("2", "x"))
		b.put("q", newMessage("before", "x"))
		time.Sleep(time.Minute)
		p.commit(txn)
		p.attachManagement("q")
		all := p.peekAll()
		if at, _ := all[2].annotations.Get("x-opt-enqueued-time"); all[2].properties.MessageID != "2" || at != timestampOf(time.Now()) {
			t.Errorf(`%+v; want all[2].properties.MessageID == "2" && at == timestampOf(time.Now())`, all[2])
		}
		for _, end := range []func(txn []byte){p.rollBack, func(txn []byte) {
			// its lock has ended
			p.peerConn.settle(m.id, stateInTransaction(txn, amqp.StateAccepted), false)
			p.rejectedBySender(m.id, amqp.CondMessageLockLost)
			p.notCommitted(txn, amqp.CondTransactionRollback, "")
		}} {
			txn := p.declare()
			p.send(txn, 1, newMessage("3", "x"))
			end(txn)
		}
		txn = p.declare()
		p.send(txn, 1, newMessage("4", "x"))
		p.net.Close()
	})
	var got []string
	for _, ev := range eventsOf(t, dir, nil) {
		switch ev := ev.(type) {
		case *event.TransactionCommitted:
			got = append(got, fmt.Sprintf("committed %d %v", ev.Operations, ev.Origin != 0))
		case *event.TransactionAborted:
			got = append(got, fmt.Sprintf("aborted %s %v", ev.Cause, ev.Origin != 0))
		case *event.SettlementRefused:
			got = append(got, fmt.Sprintf("refused %s %s", ev.Wanted, ev.Why))
		}
	}
	slices.Sort(got)
	want := []string{"aborted failed true", "aborted lost true", "aborted rolled-back true", "committed 1 true", "refused complete lock-lost"}
	if !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// SM-231: a settlement that needs to read a stored message first is staged after the read. A commit
// that does not wait for its answer overtakes it: nothing of the transaction is done.
func TestDischargeBeforeSettlementIsRead(t *testing.T) {
	sessions(t, func(b *bench, _ *peerConn) {
		b.put("q", newMessage("1", strings.Repeat("x", 100<<10)))
		p := b.transactor()
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.attachManagement("q")
		p.credit(2, 0, 1, false)
		m := p.receive()
		txn := p.declare()
		p.send(txn, 1, newMessage("2", "x"))
		p.together(func() {
			p.ask(stateInTransaction(txn, nil), true, "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(m.tag))}, {Key: "disposition-status", Value: "defered"},
				{Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: "v"}}}})
			p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
		})
		for range 2 { // the answer to the request is the other one, and they come in either order
			if d, ok := p.peerConn.next().p.(*amqp.Disposition); ok {
				if r, ok := d.State.(amqp.Rejected); !ok || r.Error.Condition != amqp.CondTransactionRollback {
					t.Errorf("the commit is answered with %+v", d.State)
				}
			}
		}
		b.shows("q", "[1]")
	})
}
