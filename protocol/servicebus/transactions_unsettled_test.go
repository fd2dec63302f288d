package servicebus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// patient lets a peer be silent for as long as a test takes.
func patient(o *Options) { o.Limits.IdleTimeout, o.Limits.LinkIdle = time.Hour, time.Hour }

// longLock makes locks of a queue outlive a transaction.
func longLock(p *event.Properties) { p.LockDuration = 5 * time.Minute }

// holder attaches a receiver of long, which takes n messages whose delivery-ids are 0 to n-1.
func (b *bench) holder(n uint32) (p *transactor, taken []openedMessage) {
	b.Helper()
	b.queue("long", longLock)
	for i := range n {
		b.put("long", newMessage(fmt.Sprint(i), "x"))
	}
	p = b.transactor()
	p.attachReceiver(2, "long", amqp.SenderUnsettled)
	p.credit(2, 0, n, false)
	for range n {
		taken = append(taken, p.receive())
	}
	return p, taken
}

// acceptIn accepts deliveries in a transaction, with one disposition.
func (p *transactor) acceptIn(txn []byte, first, last uint32) {
	p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: first, Last: amqp.Some(last), State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
}

// WP-241: a commit settles the deliveries that were given an outcome in it, as ranges, before it is
// answered, and no others.
func TestCommitSettles(t *testing.T) {
	bubble(t, patient, func(b *bench) {
		p, _ := b.holder(42)
		txn, other := p.declare(), p.declare()
		p.settle(other, 20, amqp.Modified{UndeliverableHere: true}, amqp.Modified{UndeliverableHere: true})
		p.acceptIn(txn, 0, 19)
		p.staged(amqp.RoleSender, 0, 15, txn, amqp.StateAccepted)
		p.staged(amqp.RoleSender, 16, 19, txn, amqp.StateAccepted)
		p.acceptIn(txn, 21, 40)
		p.staged(amqp.RoleSender, 21, 36, txn, amqp.StateAccepted)
		p.staged(amqp.RoleSender, 37, 40, txn, amqp.StateAccepted)
		p.commit(txn)
		b.shows("long", "[20 41]")
		p.commit(other)
		p.quiet(10 * time.Minute)
		for _, id := range []uint32{0, 20, 40} { // SM-234
			p.settlesNothing(id)
		}
		checkBooks(t, b.server)
	})
}

// WP-241: a commit does not answer a delivery whose link or session is gone by then, or that was
// settled otherwise. A later disposition for it gets no answer either if its link is gone.
func TestCommitSettlesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		before func(p *transactor)
		silent bool // a later settlement is not answered
	}{
		"link closed":          {func(p *transactor) { p.detach(2) }, true},
		"link suspended":       {func(p *transactor) { p.write(0, &amqp.Detach{Handle: 2}, nil); expect[*amqp.Detach](p.peerConn) }, true},
		"link ended by broker": {func(p *transactor) { p.steal("r2"); expect[*amqp.Detach](p.peerConn) }, true},
		"refused outside": {func(p *transactor) {
			p.peerConn.settle(0, amqp.StateReleased, false)
			p.outcomeLost(0)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, patient, func(b *bench) {
				p, _ := b.holder(1)
				p.begin(1)
				txn := p.declare()
				p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
				test.before(p)
				clear(p.open)
				p.commit(txn)
				p.quiet(time.Second)
				b.shows("long", "[]")
				if !test.silent {
					p.settlesNothing(0)
					return
				}
				p.peerConn.settle(0, amqp.StateAccepted, false)
				p.quiet(time.Second)
				checkBooks(t, b.server)
			})
		})
	}
}

// steal attaches a receiver of long on another AMQP session, under the name of a link that ends
// with that.
func (p *transactor) steal(name string) {
	p.Helper()
	p.write(1, &amqp.Attach{Name: name, Handle: 9, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "long"}, Target: &amqp.Target{}}, nil)
	bringForward[*amqp.Attach](p.peerConn)
	expect[*amqp.Attach](p.peerConn)
}

// WP-241: the same where the delivery's AMQP session has ended.
func TestCommitSettlesNothingOfSession(t *testing.T) {
	bubble(t, patient, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		p := b.transactor()
		p.begin(1)
		p.write(1, &amqp.Attach{Name: "r", Handle: 0, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}, Target: &amqp.Target{}}, nil)
		expect[*amqp.Attach](p.peerConn)
		p.write(1, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000, Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1))}, nil)
		m := p.receive()
		txn := p.declare()
		p.write(1, &amqp.Disposition{Role: amqp.RoleReceiver, First: m.id, State: stateInTransaction(txn, amqp.StateAccepted)}, nil)
		p.staged(amqp.RoleSender, m.id, m.id, txn, amqp.StateAccepted)
		p.write(1, &amqp.End{}, nil)
		expect[*amqp.End](p.peerConn)
		clear(p.open)
		p.commit(txn)
		p.quiet(time.Second)
		b.shows("q", "[]")
	})
}

// WP-241: where it is unknown whether a commit was done nothing is settled. The delivery is still
// its receiver's, which hears of the lock then.
func TestCommitUnknownSettlesNothing(t *testing.T) {
	bubble(t, patient, func(b *bench) {
		b.broker.refuse(func(cmd engine.Command) error {
			if _, ok := cmd.(*engine.Commit); ok {
				return fmt.Errorf("a test: %w", engine.ErrUnknown)
			}
			return nil
		})
		p, _ := b.holder(1)
		txn := p.declare()
		p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
		p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
		if d := expect[*amqp.Detach](p.peerConn); d.Handle != coordinatorHandle {
			t.Errorf("%+v; want the coordinator detached", d)
		}
		p.quiet(time.Minute)
		unsettled := 0
		for c := range b.server.conns {
			unsettled += c.outstanding.count
		}
		if unsettled != 1 {
			t.Errorf("%d deliveries are unsettled, want 1", unsettled)
		}
	})
}

// WP-242, SM-233, SM-390: after any end but a commit the peer settles the delivery on its link, in
// a transaction or without one, also after its first lock has ended, if it was renewed. Of the end
// of the transaction it hears nothing on the link.
func TestSettledAfterRollback(t *testing.T) {
	ends := map[string]func(p *transactor, txn []byte){
		"rollback": func(p *transactor, txn []byte) { p.rollBack(txn) },
		"refused commit": func(p *transactor, txn []byte) {
			p.peerConn.settle(99, stateInTransaction(txn, amqp.StateAccepted), false)
			p.outcomeLost(99)
			p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		},
		// not known to the connection yet
		"two minutes":    func(p *transactor, txn []byte) { p.quiet(2*time.Minute + time.Second) },
		"more than that": func(p *transactor, txn []byte) { p.quiet(3 * time.Minute) },
		"coordinator":    func(p *transactor, txn []byte) { p.detach(coordinatorHandle); p.attachCoordinator(coordinatorHandle) },
		"renewed, and late": func(p *transactor, txn []byte) {
			p.quiet(time.Minute)
			p.rollBack(txn)
			p.quiet(3 * time.Minute)
		},
	}
	for name, end := range ends {
		for _, how := range []string{"outside", "inside"} {
			t.Run(name+" "+how, func(t *testing.T) {
				bubble(t, patient, func(b *bench) {
					p, taken := b.holder(1)
					p.attachManagement("long")
					p.quiet(4 * time.Minute)
					p.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(taken[0].tag))}})
					txn := p.declare()
					p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
					end(p, txn)
					if how == "outside" {
						p.peerConn.settle(0, amqp.StateAccepted, false)
						p.outcome(0, amqp.StateAccepted)
					} else {
						again := p.declare()
						p.settle(again, 0, amqp.StateAccepted, amqp.StateAccepted)
						p.commit(again)
					}
					b.shows("long", "[]")
					// the connection gives up transactions that are too old
					p.quiet(5 * time.Minute)
					p.settlesNothing(0)
					checkBooks(t, b.server)
				})
			})
		}
	}
}

// WP-242: the same under a message session.
func TestSettledInSessionAfterRollback(t *testing.T) {
	sessions(t, func(b *bench, first *peerConn) {
		first.send(1, 0, inSession("a", "1", "x"))
		first.send(1, 1, inSession("a", "2", "x"))
		p := b.transactor()
		p.acceptSession(2, "s", "a")
		p.credit(2, 0, 2, false)
		p.receive()
		p.receive()
		txn := p.declare()
		p.acceptIn(txn, 0, 1)
		p.staged(amqp.RoleSender, 0, 1, txn, amqp.StateAccepted)
		p.rollBack(txn)
		p.peerConn.settle(0, amqp.StateAccepted, false)
		p.outcome(0, amqp.StateAccepted)
		txn = p.declare()
		p.settle(txn, 1, amqp.StateAccepted, amqp.StateAccepted)
		p.commit(txn)
		b.shows("s", "[]")
	})
}

// refusedInTransaction refuses a settlement of delivery 0 in a transaction, in all the ways there
// are; where it returns no condition it has looked at the answer itself.
var refusedInTransaction = map[string]func(p *transactor) (symbol amqp.Symbol){
	"transaction has failed": func(p *transactor) amqp.Symbol {
		txn := p.declare()
		p.peerConn.settle(99, stateInTransaction(txn, amqp.StateAccepted), false)
		p.outcomeLost(99)
		p.acceptIn(txn, 0, 0)
		return amqp.CondTransactionRollback
	},
	"transaction is unknown": func(p *transactor) amqp.Symbol {
		p.acceptIn([]byte("another"), 0, 0)
		return amqp.CondTransactionUnknownID
	},
	"no outcome": func(p *transactor) amqp.Symbol {
		p.peerConn.settle(0, stateInTransaction(p.declare(), nil), false)
		return amqp.CondInvalidField
	},
	"two minutes are over": func(p *transactor) amqp.Symbol {
		txn := p.declare()
		p.settle(txn, 1, amqp.StateAccepted, amqp.StateAccepted)
		p.quiet(2*time.Minute + time.Second)
		p.acceptIn(txn, 0, 0)
		return amqp.CondTransactionUnknownID
	},
	"a second settlement in it": func(p *transactor) amqp.Symbol {
		txn := p.declare()
		p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
		p.acceptIn(txn, 0, 0)
		p.stillUnsettled(0, amqp.CondMessageLockLost)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		return ""
	},
	"a second settlement in another": func(p *transactor) amqp.Symbol {
		txn, other := p.declare(), p.declare()
		p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
		p.acceptIn(other, 0, 0)
		p.stillUnsettled(0, amqp.CondMessageLockLost)
		p.rollBack(txn)
		return ""
	},
}

// WP-243, SM-391: a settlement that is refused in a transaction, by the broker or by the partition,
// leaves the delivery unsettled as long as the lock holds. With a lock that has ended the delivery
// is settled.
func TestRefusedInTransaction(t *testing.T) {
	for name, refuse := range refusedInTransaction {
		t.Run(name, func(t *testing.T) {
			bubble(t, patient, func(b *bench) {
				p, _ := b.holder(2)
				if symbol := refuse(p); symbol != "" {
					p.stillUnsettled(0, symbol)
				}
				p.peerConn.settle(0, amqp.StateAccepted, false)
				p.outcome(0, amqp.StateAccepted)
				p.quiet(10 * time.Minute)
				b.shows("long", "[1]")
				checkBooks(t, b.server)
			})
		})
		t.Run(name+", lock ended", func(t *testing.T) {
			bubble(t, patient, func(b *bench) {
				p, _ := b.holder(2)
				p.quiet(5 * time.Minute)
				if name == "two minutes are over" || name[0] == 'a' {
					txn := p.declare()
					p.acceptIn(txn, 0, 0)
					p.rejectedBySender(0, amqp.CondMessageLockLost)
				} else {
					p.rejectedBySender(0, refuse(p))
				}
				p.settlesNothing(0)
			})
		})
	}
}

// WP-243: a second settlement in another transaction does not keep the first one from being
// committed.
func TestRefusedInAnotherTransaction(t *testing.T) {
	bubble(t, patient, func(b *bench) {
		p, _ := b.holder(1)
		txn, other := p.declare(), p.declare()
		p.settle(txn, 0, amqp.StateAccepted, amqp.StateAccepted)
		p.acceptIn(other, 0, 0)
		p.stillUnsettled(0, amqp.CondMessageLockLost)
		p.notCommitted(other, amqp.CondTransactionRollback, rolledBackText)
		p.commit(txn)
		b.shows("long", "[]")
		p.settlesNothing(0)
	})
}

// A browsed delivery has no lock, so a transaction keeps nothing of it: it is settled at once,
// whatever comes of its settlement.
func TestBrowsedInTransaction(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"), newMessage("2", "x"))
		p := b.transactor()
		p.browse("q", amqp.Some(amqp.SenderUnsettled))
		p.credit(2, 0, 2, false)
		p.receive()
		p.receive()
		txn := p.declare()
		p.acceptIn(txn, 0, 0)
		want := stateInTransaction(txn, amqp.StateAccepted)
		if d := expect[*amqp.Disposition](p.peerConn); !d.Settled || !cmp.Equal(d.State, want) {
			t.Errorf("%+v; want it settled with %+v", d, want)
		}
		p.acceptIn([]byte("another"), 1, 1)
		p.rejectedBySender(1, amqp.CondTransactionUnknownID)
		p.commit(txn)
		for c := range b.server.conns {
			if n := c.outstanding.count; n != 0 {
				t.Errorf("%d deliveries are unsettled", n)
			}
		}
	})
}

// WP-244, SM-392: deliveries that a rollback leaves unsettled count in the connection's bound until
// their locks have ended, including renewals. Then others follow, although the peer does nothing.
func TestRolledBackCounts(t *testing.T) {
	bubble(t, func(o *Options) { patient(o); o.Limits.Locked = 2 }, func(b *bench) {
		p, taken := b.holder(2)
		b.put("long", newMessage("2", "x"), newMessage("3", "x"), newMessage("4", "x"))
		p.attachManagement("long")
		txn := p.declare()
		p.acceptIn(txn, 0, 1)
		p.staged(amqp.RoleSender, 0, 1, txn, amqp.StateAccepted)
		p.rollBack(txn)
		p.quiet(4 * time.Minute)
		p.managedWith(200, "", "renew-lock", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(taken[1].tag))}})
		p.credit(2, 2, 10, false)
		p.quiet(59 * time.Second)
		began := time.Now()
		p.receive() // in place of the first, whose lock has ended
		p.quiet(3*time.Minute + 50*time.Second - time.Since(began))
		began = time.Now()
		p.receive()
		if took := time.Since(began); took > sweepEvery+20*time.Second {
			t.Errorf("the next delivery comes %v after the lock has ended", took)
		}
		checkBooks(t, b.server)
	})
}

// SM-392: a peer that rolls back fifty thousand times (in short mode, five thousand) and settles
// nothing keeps getting messages, and the memory kept for it stays within the bound.
func TestManyRollbacks(t *testing.T) {
	const locked, atOnce = 1000, 50
	all := uint32(50_000)
	if testing.Short() {
		all = 5000
	}
	bubble(t, func(o *Options) { patient(o); o.Limits.Locked = locked }, func(b *bench) {
		b.queue("short", func(p *event.Properties) { p.LockDuration, p.MaxDeliveryCount = 10*time.Second, 2000 })
		for range locked / 100 {
			p := b.root()
			p.attachSender(1, "short")
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batchOf(manyMessages(100)...))
			expect[*amqp.Disposition](p)
			p.net.Close()
		}
		p := b.transactor()
		p.attachReceiver(2, "short", amqp.SenderUnsettled)
		for id := uint32(0); id < all; id += atOnce {
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(id + 1), IncomingWindow: 5000, OutgoingWindow: 5000,
				Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(id), LinkCredit: amqp.Some(uint32(atOnce))}, nil)
			for range atOnce {
				p.receive()
			}
			var open [][]byte
			for range atOnce {
				open = append(open, p.declare())
			}
			p.together(func() {
				for i, txn := range open {
					p.acceptIn(txn, id+uint32(i), id+uint32(i))
					p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn, Fail: true})
				}
			})
			for range 2 * atOnce {
				expect[*amqp.Disposition](p.peerConn)
			}
		}
		for c := range b.server.conns {
			c.turn.Lock()
			if n := c.outstanding.count; n > locked || len(c.transactions.open) > 0 {
				t.Errorf("%d deliveries are unsettled and %d transactions open", n, len(c.transactions.open))
			}
			c.turn.Unlock()
		}
		checkBooks(t, b.server)
	})
}

func manyMessages(n int) (messages [][]byte) {
	for i := range n {
		messages = append(messages, newMessage(fmt.Sprint(i), "x"))
	}
	return messages
}
