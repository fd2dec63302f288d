package servicebus

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-414: the number of transactions is bounded, per connection and in total, and a refusal names
// the bound that was reached.
func TestOpenTransactions(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Limits.Transactions, o.Limits.AllTransactions, o.Limits.Sessions = 3, 4, 5
	}, func(b *bench) {
		p, q := b.transactor(), b.transactor()
		p.attachSender(1, "q")
		q.attachSender(1, "q")
		m := newMessage("m", "x")
		begin := func(on *transactor) (txn []byte) {
			t.Helper()
			txn = on.declare()
			on.send(txn, 1, m)
			return txn
		}
		open := [][]byte{begin(p), begin(p), begin(p)}
		txn := p.declare()
		p.notSent(txn, 1, m, amqp.CondResourceLimit, fmt.Sprintf(occupiedText, 3))
		p.declare() // as many as there may be sessions
		p.control(coordinatorHandle, p.next(), &amqp.Declare{})
		p.rejectedText(p.last, amqp.CondResourceLimit, fmt.Sprintf(declaredText, 5))
		other := begin(q)
		another := q.declare()
		q.notSent(another, 1, m, amqp.CondResourceLimit, fmt.Sprintf(allText, 4))
		q.notCommitted(another, amqp.CondTransactionRollback, rolledBackText)
		p.commit(open[0])
		begin(q)
		q.commit(other)
		p.rollBack(txn)
		begin(p)
		p.net.Close() // the connection takes its transactions with it
		time.Sleep(time.Second)
		begin(q)
		q.commit(begin(q))
		if n := b.server.env.occupied.used.Load(); n != 2 {
			t.Errorf("%d transactions are counted, not the 2 that are open", n)
		}
	})
}

// SM-414: more transactions than there may be sessions are declared where the setting allows it.
func TestDeclaredTransactions(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Transactions, o.Limits.Sessions = 5, 3 }, func(b *bench) {
		p := b.transactor()
		for range 5 {
			p.declare()
		}
		p.control(coordinatorHandle, p.next(), &amqp.Declare{})
		p.rejectedText(p.last, amqp.CondResourceLimit, fmt.Sprintf(declaredText, 5))
	})
}

// SM-414: NServiceBus in its default mode, at a concurrency of 150: one connection, on which each
// message is settled in a separate transaction, which also sends one to another queue.
func TestDotnetHundredsOfTransactions(t *testing.T) {
	const n = 150
	bubble(t, nil, func(b *bench) {
		for i := range n {
			b.put("q", newMessage(fmt.Sprint(i), "x"))
		}
		p := b.transactor()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.attachSender(1, "q2") // through the first
		p.credit(2, 0, n, false)
		var got []openedMessage
		for range n {
			got = append(got, p.receive())
		}
		var open [][]byte
		for _, m := range got {
			txn := p.declare()
			p.send(txn, 1, newMessage(fmt.Sprint(m.properties.MessageID), "x"))
			p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
			open = append(open, txn)
		}
		for _, txn := range open {
			p.commit(txn)
		}
		b.shows("q", "[]")
		r := b.root()
		r.attachReceiver(1, "q2", amqp.SenderSettled)
		r.credit(1, 0, n, false)
		for i := range n {
			if m := r.receive(); m.properties.MessageID != fmt.Sprint(i) {
				t.Fatalf("message %d is %v", i, m.properties.MessageID)
			}
		}
	})
}

// The end of a coordinator ends its own transactions. Those of others time out, each at its own
// time.
func TestTransactionsOfTwoCoordinators(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.IdleTimeout, o.Limits.LinkIdle = time.Hour, time.Hour }, func(b *bench) {
		p := b.transactor()
		p.attachCoordinator(coordinatorHandle + 1)
		p.attachSender(1, "q")
		var open [][]byte
		for i := range 4 {
			txn := p.peerConn.declare(coordinatorHandle+uint32(i%2), p.next())
			p.send(txn, 1, newMessage(fmt.Sprint(i), "x"))
			open = append(open, txn)
			time.Sleep(10 * time.Second)
		}
		p.detach(coordinatorHandle + 1)
		p.commit(open[2])
		p.notCommitted(open[1], amqp.CondTransactionUnknownID, notDeclaredText)
		p.send(p.declare(), 1, newMessage("late", "x"))
		time.Sleep(overtime - 39*time.Second)
		for c := range b.server.conns {
			c.turn.Lock()
			if n := len(c.transactions.open); n != 1 {
				t.Errorf("%d transactions are open, not the youngest alone", n)
			}
			c.turn.Unlock()
		}
		time.Sleep(time.Minute)
		for c := range b.server.conns {
			c.turn.Lock()
			if n := len(c.transactions.open); n != 0 || c.transactions.line.Len() != 0 {
				t.Errorf("%d transactions are open, and %d in line", n, c.transactions.line.Len())
			}
			c.turn.Unlock()
		}
		b.shows("q", "[2]")
	})
}
