package servicebus

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-413, SM-214, S4-45, S4-48: messages that a transaction sends through a partitioned queue or
// topic to a queue that is not partitioned use the partition of the transaction, whatever their
// keys. "0" and "mySession" are keys of one partition, "tenant-a" of another.
func TestTransactionThroughPartitionsToPlainQueue(t *testing.T) {
	type sent struct{ id, session, key, via string }
	settles := sent{id: "settles"}
	for _, c := range []struct {
		name    string
		through func(*event.Properties)
		to      func(*event.Properties)
		does    []sent // in one transaction
		refused string // the last of them; "": none is
	}{
		{"no key", nil, nil, []sent{settles, {id: "1"}}, ""},
		{"twice", nil, nil, []sent{settles, {id: "1"}, {id: "2"}}, ""},
		{"a partition key of another partition", nil, nil, []sent{settles, {id: "1", key: "tenant-a"}}, ""},
		{"a session of another partition", nil, ofSession, []sent{settles, {id: "1", session: "tenant-a"}}, ""},
		{"sessions of two partitions", nil, ofSession, []sent{settles, {id: "1", session: "tenant-a"}, {id: "2", session: "0"}}, ""},
		{"a message-id that is a key of another partition", detects, nil, []sent{settles, {id: "tenant-a"}}, ""},
		{"behind a message with a key", nil, nil, []sent{{id: "1", key: "tenant-a"}, {id: "2"}, {id: "3", key: "0"}}, ""},
		{"behind a message with a via key", nil, nil, []sent{{id: "1", via: "tenant-a"}, {id: "2"}}, ""},
		{"a via key of the partition", nil, nil, []sent{settles, {id: "1"}, {id: "2", via: "mySession"}}, ""},
		{"a via key of another partition", nil, nil, []sent{settles, {id: "1"}, {id: "2", via: "tenant-a"}}, spreadText},
		{"the first operation, without a key", nil, nil, []sent{{id: "1"}}, firstText},
		{"to a partitioned queue", nil, partitioned(nil), []sent{settles, {id: "1"}}, keylessText},
		{"to a partitioned queue, as the first operation", nil, partitioned(nil), []sent{{id: "1"}}, keylessText},
	} {
		for _, from := range []string{"wide", "topic/Subscriptions/s"} {
			t.Run(c.name+" from "+from, func(t *testing.T) {
				bubble(t, nil, func(b *bench) {
					b.queue("wide", partitioned(c.through))
					b.topic("topic", partitioned(c.through))
					b.subscription("topic", "s", nil)
					b.queue("to", c.to)
					b.put("wide", keyedMessage("0", "", "mySession"))
					b.put("topic", keyedMessage("0", "", "mySession"))
					p := b.transactor()
					p.attachReceiver(2, from, amqp.SenderUnsettled)
					p.attachSender(1, "to") // which goes through the first
					p.credit(2, 0, 1, false)
					m := p.receive()
					encode := func(m sent) []byte {
						if m.via == "" {
							return keyedMessage(m.id, m.session, m.key)
						}
						return append(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyViaPartitionKey), Value: m.via}}), keyedMessage(m.id, "", "")...)
					}
					txn, want := p.declare(), []any{}
					for i, s := range c.does {
						switch {
						case s == settles:
							p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
						case c.refused != "" && i == len(c.does)-1:
							p.notSent(txn, 1, encode(s), amqp.CondNotAllowed, c.refused)
							p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
							b.shows(from, "[0]")
							b.shows("to", "[]")
							return
						default:
							p.send(txn, 1, encode(s))
							want = append(want, s.id)
						}
					}
					p.commit(txn)
					b.arrives("to", fmt.Sprint(want))
				})
			})
		}
	}
}

// SM-413: a batch of messages with different keys uses it as well, unless one of them has a via
// key.
func TestBatchThroughPartitionsToPlainQueue(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(nil))
		b.queue("to", nil)
		b.put("wide", keyedMessage("0", "", "mySession"))
		p := b.transactor()
		p.attachReceiver(2, "wide", amqp.SenderUnsettled)
		p.attachSender(1, "to")
		p.credit(2, 0, 1, false)
		m, keys := p.receive(), batchOf(keyedMessage("1", "tenant-a", ""), keyedMessage("2", "", ""), keyedMessage("3", "", "0"))
		via := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyViaPartitionKey), Value: "mySession"}})
		const distinct = "Batching brokered messages with distinct SessionId or PartitionKey is not supported"
		txn := p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.put(txn, 1, amqp.MessageFormatBatch, batchOf(keyedMessage("1", "", ""), append(via, keyedMessage("2", "", "")...)))
		p.rejectedText(p.last, amqp.CondNotAllowed, distinct)
		p.rollBack(txn)
		txn = p.declare()
		p.put(txn, 1, amqp.MessageFormatBatch, keys)
		p.rejectedText(p.last, amqp.CondNotAllowed, distinct)
		p.rollBack(txn)
		txn = p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.put(txn, 1, amqp.MessageFormatBatch, keys)
		p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
		p.commit(txn)
		b.arrives("to", "[1 2 3]")
	})
}

// SM-413: .NET settles a message of a partitioned queue and sends one without any key, as
// NServiceBus does for a message that came without a PartitionKey. The transfer is the SDK's, with
// another delivery-id and txn-id.
func TestDotnetSendsFromPartitionsToPlainQueue(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(nil))
		b.queue("to", nil)
		b.put("wide", keyedMessage("0", "", ""))
		p := b.transactor()
		p.attachReceiver(1, "wide", amqp.SenderUnsettled)
		p.credit(1, 0, 1, false)
		m := p.receive()
		p.attachSender(0, "to")
		txn := p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		body, err := hex.DecodeString(fmt.Sprintf("005314c02a0b4352%02xa0040200000043404240005334c01402a010%x40404041005373c0120da1036d2d42404040404040404040404040005375a00142", p.next(), txn))
		if err != nil {
			t.Fatal(err)
		}
		transfer, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		p.spoken.say(0, transfer)
		p.raw(append([]byte{0, 0, 0, byte(8 + len(body)), 2, 0, 0, 0}, body...))
		p.staged(amqp.RoleReceiver, p.last, p.last, txn, amqp.StateAccepted)
		p.commit(txn)
		b.arrives("to", "[m-B]")
		b.shows("wide", "[]")
	})
}
