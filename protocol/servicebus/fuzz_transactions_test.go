package servicebus

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// scriptTransaction is the id of the first transaction that a script declares, before it gets any
// text: the container has the id before.
var scriptTransaction = append(make([]byte, 15), 2)

// transactionScripts begin transactions, do all that can be part of one, and end them.
func transactionScripts(t testing.TB) (scripts [][]byte) {
	coordinator := &amqp.Attach{Name: "c", Handle: 8, Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Coordinator{Capabilities: []amqp.Symbol{"amqp:local-transactions"}}}
	control := func(id uint32, asked amqp.Control) []byte {
		return amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 8, DeliveryID: amqp.Some(id), DeliveryTag: []byte{1}}, controlMessage(asked))
	}
	declare := control(0, &amqp.Declare{})
	commit, rollback := control(90, &amqp.Discharge{TxnID: scriptTransaction}), control(91, &amqp.Discharge{TxnID: scriptTransaction, Fail: true})
	sender := func(handle uint32, address string, properties ...amqp.Pair) *amqp.Attach {
		return &amqp.Attach{Name: address, Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: address}, Properties: properties}
	}
	receiver := func(handle uint32, address string) *amqp.Attach {
		return &amqp.Attach{Name: address, Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: address}}
	}
	part := stateInTransaction(scriptTransaction, nil)
	send := func(handle, id uint32, more bool) *amqp.Transfer {
		return &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(id), State: part, More: more}
	}
	settle := func(outcome amqp.DeliveryState, settled bool) *amqp.Disposition {
		return &amqp.Disposition{Role: true, First: 0, Last: amqp.Some(uint32(1)), Settled: settled, State: stateInTransaction(scriptTransaction, outcome)}
	}
	alone := bytes.Join([][]byte{script(sender(1, "q"), coordinator), declare}, nil)
	grouped := bytes.Join([][]byte{script(coordinator, receiver(2, "q"), fuzzCredit()), declare}, nil)
	add := func(parts ...[]byte) { scripts = append(scripts, bytes.Join(parts, nil)) }
	for _, end := range [][]byte{commit, rollback, script(&amqp.Detach{Handle: 8}), script(&amqp.End{}), script(&amqp.Close{}), append(bytes.Clone(commit), commit...)} {
		add(alone, script(send(1, 1, false), send(1, 2, true), send(1, 3, false)), end)
		add(alone, script(send(1, 1, true)), end, script(&amqp.Transfer{Handle: 1}))
		for _, outcome := range []amqp.DeliveryState{amqp.StateAccepted, amqp.StateReleased, amqp.Modified{UndeliverableHere: true}, amqp.Rejected{}, nil} {
			add(grouped, script(sender(3, "t"), send(3, 1, false), settle(outcome, false), settle(outcome, true)), end, script(settle(amqp.StateAccepted, false)))
		}
		// transactions whose commit has an unknown outcome
		add(script(coordinator, filtered(2, "a"), fuzzCredit()), declare, script(settle(amqp.StateAccepted, false)), end)
		add(grouped, script(receiver(4, "s"), receiver(5, "t/subscriptions/u"), sender(6, "s", amqp.Pair{Key: amqp.Symbol(keyDestination), Value: "q"})), end)
		add(script(coordinator, sender(1, "q", amqp.Pair{Key: amqp.Symbol(keyDestination), Value: "sb://h/t"})), declare, script(send(1, 1, false)), end)
	}
	bodies := operationBodies()
	for name := range operations {
		address := map[concern]string{ofReceived: "s/$management", ofShown: "s/$management", ofSent: "q/$management", ofRules: "t/subscriptions/u/$management"}[operations[name].about]
		frames := script(coordinator, filtered(2, "a"), fuzzCredit(), sender(5, address), receiver(6, address), &amqp.Flow{Handle: amqp.Some(uint32(6)), LinkCredit: amqp.Some(uint32(9))})
		request := amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 5, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte{1}, State: part}, requestFor(name, bodies[name]))
		add(frames, declare, request, commit)
	}
	return scripts
}

// The scripts know the id of their transaction: else they would show nothing.
func TestTransactionScripts(t *testing.T) {
	t.Parallel()
	declared, states, refused := 0, 0, 0
	for _, script := range transactionScripts(t) {
		var answer []byte
		synctest.Test(t, func(t *testing.T) { answer = answersTo(t, script, true) })
		for len(answer) >= 8 {
			if isProtocolHeader(answer) {
				answer = answer[8:]
				continue
			}
			size := binary.BigEndian.Uint32(answer)
			if size > 8 && answer[5] == amqp.FrameTypeAMQP {
				p, _, _ := amqp.DecodePerformative(answer[8:size], amqp.DefaultLimits)
				d, _ := p.(*amqp.Disposition)
				if d == nil {
					d = &amqp.Disposition{}
				}
				switch st := d.State.(type) {
				case amqp.Declared:
					if declared++; !bytes.Equal(st.TxnID, scriptTransaction) {
						t.Fatalf("declared %x", st.TxnID)
					}
				case amqp.TransactionalState:
					states++
				case amqp.Rejected:
					refused++
				}
			}
			answer = answer[size:]
		}
	}
	if n := len(transactionScripts(t)); declared != n || states < n/2 || refused < n/4 {
		t.Errorf("%d scripts: %d declared, %d states, %d refused", n, declared, states, refused)
	}
}
