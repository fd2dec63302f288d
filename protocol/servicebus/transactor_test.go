package servicebus

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// transactor is a peer with a coordinator, which numbers its sends.
type transactor struct {
	*peerConn
	last uint32 // delivery
	// outcomes of deliveries that the commits of transactions are to settle, by transaction and
	// delivery-id
	open map[string]map[uint32]amqp.DeliveryState
}

func (b *bench) transactor() *transactor {
	b.Helper()
	p := &transactor{peerConn: b.root()}
	p.attachCoordinator(coordinatorHandle)
	return p
}

func (p *transactor) next() uint32 {
	p.last++
	return p.last
}

func (p *transactor) declare() []byte {
	p.Helper()
	return p.peerConn.declare(coordinatorHandle, p.next())
}

// commit commits a transaction. It wants the deliveries that were given an outcome in it settled,
// and nothing else, before the answer.
func (p *transactor) commit(txn []byte) {
	p.Helper()
	p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
	for open := p.open[string(txn)]; len(open) > 0; {
		d := expect[*amqp.Disposition](p.peerConn)
		for id := d.First; id-d.First <= d.Last.Or(d.First)-d.First; id++ {
			want := stateInTransaction(txn, open[id])
			if open[id] == nil || d.Role != amqp.RoleSender || !d.Settled || !cmp.Equal(d.State, want) {
				p.Fatalf("%+v for %d (-want +got):\n%s", d, id, cmp.Diff(want, d.State))
			}
			delete(open, id)
		}
	}
	p.accepted(p.last)
}

// rollBack rolls a transaction back, and wants nothing but an answer to that.
func (p *transactor) rollBack(txn []byte) {
	p.Helper()
	p.discharge(coordinatorHandle, p.next(), txn, true)
}

// end ends a transaction one way or the other.
func (p *transactor) end(txn []byte, commit bool) {
	p.Helper()
	if commit {
		p.commit(txn)
	} else {
		p.rollBack(txn)
	}
}

// notCommitted wants a commit refused.
func (p *transactor) notCommitted(txn []byte, symbol amqp.Symbol, text string) {
	p.Helper()
	p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: txn})
	p.rejectedText(p.last, symbol, text)
}

// stateInTransaction returns the delivery state for an operation in a transaction.
func stateInTransaction(txn []byte, outcome amqp.DeliveryState) amqp.TransactionalState {
	return amqp.TransactionalState{TxnID: txn, Outcome: outcome}
}

// put sends a message, or a batch, as part of a transaction.
func (p *transactor) put(txn []byte, handle uint32, format uint32, message []byte) {
	p.write(0, &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(p.next()), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(format), State: stateInTransaction(txn, nil)}, message)
}

// send sends a message as part of a transaction, and wants it accepted (WP-192).
func (p *transactor) send(txn []byte, handle uint32, message []byte) {
	p.Helper()
	p.put(txn, handle, amqp.MessageFormatPlain, message)
	p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
}

// notSent wants a message refused as part of a transaction.
func (p *transactor) notSent(txn []byte, handle uint32, message []byte, symbol amqp.Symbol, text string) {
	p.Helper()
	p.put(txn, handle, amqp.MessageFormatPlain, message)
	p.rejectedText(p.last, symbol, text)
}

// staged expects that deliveries are answered with a state of a transaction: the peer's sends are
// settled, its received deliveries are not yet.
func (p *transactor) staged(role amqp.Role, first, last uint32, txn []byte, outcome amqp.DeliveryState) {
	p.Helper()
	d := expect[*amqp.Disposition](p.peerConn)
	if d.Role != role || d.First != first || d.Last.Or(first) != last || d.Settled != (role == amqp.RoleReceiver) || !cmp.Equal(d.State, stateInTransaction(txn, outcome)) {
		p.Fatalf("%+v (-want +got):\n%s", d, cmp.Diff(stateInTransaction(txn, outcome), d.State))
	}
	if role == amqp.RoleReceiver {
		return
	}
	for id := first; id-first <= last-first; id++ {
		p.opens(txn, id, outcome)
	}
}

// opens notes that a delivery waits for the commit of a transaction.
func (p *transactor) opens(txn []byte, id uint32, outcome amqp.DeliveryState) {
	if p.open == nil {
		p.open = map[string]map[uint32]amqp.DeliveryState{}
	}
	if p.open[string(txn)] == nil {
		p.open[string(txn)] = map[uint32]amqp.DeliveryState{}
	}
	p.open[string(txn)][id] = outcome
}

// settle settles a delivery as part of a transaction, and wants that answered with the same outcome
// (WP-194).
func (p *transactor) settle(txn []byte, id uint32, outcome, answer amqp.DeliveryState) {
	p.Helper()
	p.peerConn.settle(id, stateInTransaction(txn, outcome), false)
	p.staged(amqp.RoleSender, id, id, txn, answer)
}

// manage makes a request as part of a transaction, and wants a status.
func (p *transactor) manage(txn []byte, status int32, symbol amqp.Symbol, operation string, body amqp.Map) any {
	p.Helper()
	p.ask(stateInTransaction(txn, nil), true, operation, body)
	got, properties, answer := p.managed("m")
	if c, _ := properties.Get("errorCondition"); got != status || status != 200 && c != symbol {
		p.Fatalf("%s: %+v; want got == status && (status == 200 || c == symbol)", operation, properties)
	}
	return answer
}

// shown returns the message-ids that a peek of an entity or sub-queue shows, in order.
func (b *bench) shown(entity string) string {
	b.Helper()
	p := b.root()
	defer p.net.Close()
	p.attachManagement(entity)
	return fmt.Sprint(p.peekIDs())
}

func (b *bench) shows(entity, want string) {
	b.Helper()
	if got := b.shown(entity); got != want {
		b.Fatalf("%s shows %s, not %s", entity, got, want)
	}
}

func batchOf(messages ...[]byte) (b []byte) {
	for _, m := range messages {
		b = amqp.AppendData(b, m)
	}
	return b
}

// ask sends a request with a state.
func (p *transactor) ask(state amqp.DeliveryState, settled bool, operation string, body amqp.Map) {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "m", ReplyTo: amqp.Some("reply201")})
	m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: operationPrefix + operation}})
	m = amqp.AppendSection(m, amqp.SectionValue, body)
	p.write(0, &amqp.Transfer{Handle: 200, DeliveryID: amqp.Some(p.next()), DeliveryTag: []byte{1}, Settled: amqp.Some(settled), State: state}, m)
}

// rejectedBySender expects a settlement to be refused finally: the delivery is settled.
func (p *peerConn) rejectedBySender(id uint32, symbol amqp.Symbol) {
	p.Helper()
	p.refusedBySender(id, symbol, true)
}

// stillUnsettled wants a settlement refused that may come again.
func (p *peerConn) stillUnsettled(id uint32, symbol amqp.Symbol) {
	p.Helper()
	p.refusedBySender(id, symbol, false)
}

func (p *peerConn) refusedBySender(id uint32, symbol amqp.Symbol, settled bool) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	r, ok := d.State.(amqp.Rejected)
	if !ok || r.Error == nil || r.Error.Condition != symbol || d.First != id || d.Settled != settled || d.Role != amqp.RoleSender {
		p.Fatalf("%+v; want delivery %d rejected with %s, settled %v", d, id, symbol, settled)
	}
}

// settlesNothing wants nothing left to be settled under a delivery-id.
func (p *transactor) settlesNothing(id uint32) {
	p.Helper()
	p.peerConn.settle(id, amqp.StateAccepted, false)
	p.outcomeLost(id)
}

// together makes everything that is written meanwhile reach the broker in one piece.
func (p *transactor) together(write func()) {
	p.gathers = true
	write()
	p.gathers = false
	p.raw(p.gathered)
	p.gathered = nil
}
