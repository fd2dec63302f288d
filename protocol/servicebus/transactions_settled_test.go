package servicebus

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// comesAgain expects a message at once, with one failed delivery, and nothing else.
func (p *peerConn) comesAgain(id string) openedMessage {
	p.Helper()
	began := time.Now()
	m := p.receive()
	if took := time.Since(began); m.properties.MessageID != id || m.header.DeliveryCount.Value != 1 || took > 2*time.Second {
		p.Fatalf("message %v with delivery count %v after %v; want message %s with 1, at once", m.properties.MessageID, m.header.DeliveryCount.Value, took, id)
	}
	p.quiet(time.Second)
	return m
}

// waitsFor attaches a receiver that has credit for more than there is.
func (b *bench) waitsFor(entity string) *peerConn {
	b.Helper()
	p := b.root()
	p.attachReceiver(1, entity, amqp.SenderUnsettled)
	p.credit(1, 0, 10, false)
	p.quiet(time.Second)
	return p
}

// SM-385, SM-233, WP-233: of two deliveries that were accepted in a transaction, the one that the
// receiver settled comes again as soon as the transaction has ended without a commit, whatever
// ended it. The other stays locked. Nothing is answered to the settled one.
func TestSettledInTransaction(t *testing.T) {
	long := func(p *event.Properties) { p.LockDuration = 5 * time.Minute }
	for name, end := range map[string]func(p *transactor, txn []byte){
		"rollback": func(p *transactor, txn []byte) { p.rollBack(txn) },
		"refused operation": func(p *transactor, txn []byte) {
			p.peerConn.settle(99, stateInTransaction(txn, amqp.StateAccepted), false)
			p.outcomeLost(99)
			p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		},
		"refused commit": func(p *transactor, txn []byte) {
			// without an answer to the peer
			p.peerConn.settle(99, stateInTransaction(txn, amqp.StateAccepted), true)
			p.notCommitted(txn, amqp.CondTransactionRollback, "")
		},
		"unfinished delivery": func(p *transactor, txn []byte) {
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), State: stateInTransaction(txn, nil), More: true}, newMessage("3", "x"))
			p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
			expect[*amqp.Detach](p.peerConn)
		},
		"time":        func(p *transactor, txn []byte) { time.Sleep(2*time.Minute - time.Second) },
		"coordinator": func(p *transactor, txn []byte) { p.detach(coordinatorHandle) },
		"session":     func(p *transactor, txn []byte) { p.write(0, &amqp.End{}, nil); expect[*amqp.End](p.peerConn) },
		"connection":  func(p *transactor, txn []byte) { p.net.Close() },
		"close":       func(p *transactor, txn []byte) { p.write(0, &amqp.Close{}, nil); expect[*amqp.Close](p.peerConn) },
		"its link first": func(p *transactor, txn []byte) {
			p.detach(2)
			p.rollBack(txn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("long", long)
				b.put("long", newMessage("1", "x"), newMessage("2", "x"))
				p := b.transactor()
				p.attachSender(1, "long")
				p.attachReceiver(2, "long", amqp.SenderUnsettled)
				p.credit(2, 0, 2, false)
				first, second := p.receive(), p.receive()
				other := b.waitsFor("long")
				txn := p.declare()
				p.peerConn.settle(first.id, stateInTransaction(txn, amqp.StateAccepted), true)
				p.settle(txn, second.id, amqp.StateAccepted, amqp.StateAccepted)
				other.quiet(time.Second)
				end(p, txn)
				m := other.comesAgain("1")
				other.attachManagement("long")
				other.disposed(410, amqp.CondMessageLockLost, "completed", []amqp.UUID{uuidOf(first.tag)})
				other.disposed(200, "", "completed", []amqp.UUID{uuidOf(m.tag), uuidOf(second.tag)})
				b.shows("long", "[]")
			})
		})
	}
}

// WP-233: a commit settles it, without an answer.
func TestSettledInCommittedTransaction(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		p := b.transactor()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		m := p.receive()
		txn := p.declare()
		p.peerConn.settle(m.id, stateInTransaction(txn, amqp.StateAccepted), true)
		p.quiet(time.Second)
		p.commit(txn)
		b.shows("q", "[]")
	})
}

// SM-385: in a message session it is delivered to the next holder, even if the session's link is
// lost together with the transaction.
func TestSettledInTransactionOfSession(t *testing.T) {
	for name, lose := range map[string]func(p *transactor, txn []byte){
		"rollback":   func(p *transactor, txn []byte) { p.rollBack(txn); p.detach(2) },
		"session":    func(p *transactor, txn []byte) { p.write(0, &amqp.End{}, nil); expect[*amqp.End](p.peerConn) },
		"connection": func(p *transactor, txn []byte) { p.net.Close() },
		"close":      func(p *transactor, txn []byte) { p.write(0, &amqp.Close{}, nil); expect[*amqp.Close](p.peerConn) },
	} {
		t.Run(name, func(t *testing.T) {
			sessions(t, func(b *bench, first *peerConn) {
				first.send(1, 0, inSession("a", "1", "x"))
				p := b.transactor()
				p.acceptSession(2, "s", "a")
				p.credit(2, 0, 1, false)
				m := p.receive()
				txn := p.declare()
				p.peerConn.settle(m.id, stateInTransaction(txn, amqp.StateAccepted), true)
				p.quiet(time.Second)
				lose(p, txn)
				time.Sleep(time.Second)
				other := b.root()
				other.acceptSession(2, "s", "a")
				other.credit(2, 0, 10, false)
				other.comesAgain("1")
			})
		})
	}
}

// SM-386: messages that the connection refuses in a transaction, here one of another partition and
// one after that, are released at the end of the transaction and not before. Otherwise the client
// would get them again in a transaction that has failed. In an unknown transaction nothing can be
// settled, and the lock expires.
func TestSettledAndRefusedInTransaction(t *testing.T) {
	for name, end := range map[string]func(p *transactor, txn []byte){
		"commit":      func(p *transactor, txn []byte) { p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText) },
		"rollback":    func(p *transactor, txn []byte) { p.rollBack(txn) },
		"coordinator": func(p *transactor, txn []byte) { p.detach(coordinatorHandle) },
		"connection":  func(p *transactor, txn []byte) { p.net.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("wide", partitioned(func(p *event.Properties) { p.LockDuration = time.Minute }))
				b.put("wide", keyedMessage("1", "", "tenant-a"), keyedMessage("2", "", "1"), keyedMessage("3", "", "tenant-a"), keyedMessage("4", "", "tenant-a"))
				p := b.transactor()
				p.attachReceiver(2, "wide", amqp.SenderUnsettled)
				p.credit(2, 0, 4, false)
				of := map[any]openedMessage{}
				for range 4 {
					m := p.receive()
					of[m.properties.MessageID] = m
				}
				other := b.waitsFor("wide")
				txn := p.declare()
				for _, id := range []string{"1", "2", "3"} {
					p.peerConn.settle(of[id].id, stateInTransaction(txn, amqp.StateAccepted), true)
				}
				p.peerConn.settle(of["4"].id, stateInTransaction([]byte("another"), amqp.StateAccepted), true)
				other.quiet(time.Second)
				end(p, txn)
				again := map[any]uint32{}
				for range 3 {
					m := other.receive()
					again[m.properties.MessageID] = m.header.DeliveryCount.Value
				}
				if again["1"] != 1 || again["2"] != 1 || again["3"] != 1 {
					t.Errorf("%v comes again", again)
				}
				other.quiet(50 * time.Second)
				time.Sleep(10 * time.Second)
				for range 4 { // the last one, and the others again
					m := other.receive()
					again[m.properties.MessageID] = m.header.DeliveryCount.Value
				}
				if again["4"] != 1 {
					t.Errorf("%v comes when the locks have ended", again)
				}
			})
		})
	}
}

// A failed transaction that no partition knows releases its messages as well, and the memory for
// that has a bound.
func TestSettledInEmptyTransaction(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		p := b.transactor()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		m := p.receive()
		other := b.waitsFor("q")
		txn := p.declare()
		p.peerConn.settle(m.id, stateInTransaction(txn, nil), true) // without an outcome
		other.quiet(time.Second)
		p.rollBack(txn)
		other.comesAgain("1")
		checkBooks(t, b.server)
	})
}
