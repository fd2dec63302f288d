package servicebus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// keyedMessage is a message with an id and, where they are not empty, a session id and a partition
// key.
func keyedMessage(id, session, key string) []byte {
	var m []byte
	if key != "" {
		m = amqp.AppendSection(m, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyPartitionKey), Value: key}})
	}
	p := amqp.Properties{}
	if id != "" {
		p.MessageID = id
	}
	if session != "" {
		p.GroupID = amqp.Some(session)
	}
	return amqp.AppendData(amqp.AppendProperties(m, &p), []byte("x"))
}

// partitioned makes a queue partitioned.
func partitioned(change func(*event.Properties)) func(*event.Properties) {
	return func(p *event.Properties) {
		if p.EnablePartitioning = true; change != nil {
			change(p)
		}
	}
}

func detects(p *event.Properties) { p.RequiresDuplicateDetection = true }

func ofSession(p *event.Properties) { p.RequiresSession = true }

// SM-115, SM-208, SM-209, SM-214, SM-215, SM-216, SM-217, SM-389, S4-24, S4-32, S4-33, S4-45 to
// S4-50, S4-52 to S4-55, S4-66, S4-71: which messages may be sent in one transaction. "0" and
// "mySession" are keys of one partition, "tenant-a" of another. What is refused has the transaction
// fail, and nothing of it is stored.
func TestTransactionalSendsToPartitions(t *testing.T) {
	type sent struct{ id, session, key string }
	for _, c := range []struct {
		name    string
		change  func(*event.Properties)
		first   sent
		second  sent
		refused string // the second; "": it is not
	}{
		{"no key", nil, sent{"1", "", "0"}, sent{"2", "", ""}, keylessText},
		{"the partition key of the documents, twice", nil, sent{"1", "", "myPartitionKey"}, sent{"2", "", "myPartitionKey"}, ""},
		{"two keys", nil, sent{"1", "", "1"}, sent{"2", "", "2"}, spreadText},
		{"two keys of one partition", nil, sent{"1", "", "0"}, sent{"2", "", "mySession"}, spreadText},
		{"a message-id is no key", nil, sent{"1", "", "0"}, sent{"0", "", ""}, keylessText},
		{"two of them of one partition", detects, sent{"0", "", ""}, sent{"mySession", "", ""}, spreadText},
		{"two of them with one partition key", detects, sent{"0", "", "k"}, sent{"mySession", "", "k"}, ""},
		{"a message-id and the equal partition key", detects, sent{"0", "", ""}, sent{"1", "", "0"}, ""},
		{"two of them of two partitions", detects, sent{"0", "", ""}, sent{"1", "", ""}, spreadText},
		{"the session of the documents, twice", ofSession, sent{"1", "mySession", ""}, sent{"2", "mySession", ""}, ""},
		{"with an equal partition key", ofSession, sent{"1", "mySession", "mySession"}, sent{"2", "mySession", ""}, ""},
		{"with another one", ofSession, sent{"1", "mySession", ""}, sent{"2", "mySession", "0"}, "The partition key must equal the session id"},
		{"two sessions", ofSession, sent{"1", "mySession", ""}, sent{"2", "tenant-a", ""}, spreadText},
		{"two sessions of one partition", ofSession, sent{"1", "mySession", ""}, sent{"2", "0", ""}, sessionsText},
		{"a session that the queue does not need, and another", nil, sent{"1", "mySession", ""}, sent{"2", "0", ""}, sessionsText},
		{"a session and the equal partition key", nil, sent{"1", "mySession", ""}, sent{"2", "", "mySession"}, ""},
		{"a session and another key of its partition", nil, sent{"1", "mySession", ""}, sent{"2", "", "0"}, spreadText},
		{"no session", ofSession, sent{"1", "mySession", ""}, sent{"2", "", "mySession"}, "The SessionId was not set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("wide", partitioned(c.change))
				b.queue("plain", c.change)
				p := b.transactor()
				p.attachSender(1, "wide")
				txn := p.declare()
				p.send(txn, 1, keyedMessage(c.first.id, c.first.session, c.first.key))
				second := keyedMessage(c.second.id, c.second.session, c.second.key)
				if c.refused != "" {
					p.notSent(txn, 1, second, amqp.CondNotAllowed, c.refused)
					p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
					b.shows("wide", "[]")
				} else {
					p.send(txn, 1, second)
					p.commit(txn)
					b.shows("wide", "["+c.first.id+" "+c.second.id+"]")
				}
				// SM-217: what only partitions forbid
				if c.refused == keylessText || c.refused == spreadText || c.refused == sessionsText {
					p := b.transactor()
					p.attachSender(1, "plain")
					txn = p.declare()
					p.send(txn, 1, keyedMessage(c.first.id, c.first.session, c.first.key))
					p.send(txn, 1, second)
					p.commit(txn)
					b.shows("plain", "["+c.first.id+" "+c.second.id+"]")
				}
				p.peerConn.send(1, p.next(), keyedMessage("after", "mySession", ""))
			})
		})
	}
}

// SM-215, SM-233, 12.1: the settlements of a transaction are in one partition, with its sends.
// After a failure its messages are locked as before and can be settled separately. Requests about
// messages of two partitions are refused in a transaction.
func TestTransactionalSettlementsOfPartitions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(nil))
		b.put("wide", keyedMessage("1", "", "tenant-a"), keyedMessage("2", "", "tenant-a"), keyedMessage("3", "", "1"))
		p := b.transactor()
		p.attachSender(1, "wide")
		p.attachReceiver(2, "wide", amqp.SenderUnsettled)
		p.attachManagement("wide")
		p.credit(2, 0, 3, false)
		of := map[any]openedMessage{}
		for range 3 {
			m := p.receive()
			of[m.properties.MessageID] = m
		}
		txn := p.declare()
		p.settle(txn, of["1"].id, amqp.StateAccepted, amqp.StateAccepted)
		p.peerConn.settle(of["3"].id, stateInTransaction(txn, amqp.StateAccepted), false)
		p.stillUnsettled(of["3"].id, amqp.CondNotAllowed)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		b.shows("wide", "[1 2 3]")
		txn = p.declare()
		p.settle(txn, of["2"].id, amqp.StateAccepted, amqp.StateAccepted)
		p.notSent(txn, 1, keyedMessage("4", "", "1"), amqp.CondNotAllowed, spreadText)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		tokens := []amqp.UUID{uuidOf(of["1"].tag), uuidOf(of["3"].tag)}
		txn = p.declare()
		p.manage(txn, 400, amqp.CondNotAllowed, "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(tokens...)}, {Key: "disposition-status", Value: "completed"}})
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		txn = p.declare()
		p.settle(txn, of["1"].id, amqp.StateAccepted, amqp.StateAccepted)
		p.settle(txn, of["2"].id, amqp.StateAccepted, amqp.StateAccepted)
		p.send(txn, 1, keyedMessage("4", "", "tenant-a"))
		p.commit(txn)
		// its lock was not lost with the transaction that it could not be in
		p.peerConn.settle(of["3"].id, amqp.StateAccepted, false)
		p.outcome(of["3"].id, amqp.StateAccepted)
		b.shows("wide", "[4]")
	})
}

// SM-216, S4-54: neither do the settlement of a message of one session and the state of another go
// together, by link or by request, though they be in one partition.
func TestTransactionOfTwoSessions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(ofSession))
		b.put("wide", keyedMessage("1", "mySession", ""), keyedMessage("2", "0", ""))
		p := b.transactor()
		p.attachSender(1, "wide")
		p.attachManagement("wide")
		p.acceptSession(2, "wide", "mySession")
		p.acceptSession(3, "wide", "0")
		p.credit(2, 0, 1, false)
		m := p.receive()
		state := func(session string) amqp.Map {
			return amqp.Map{{Key: "session-id", Value: session}, {Key: "session-state", Value: []byte("s")}}
		}
		txn := p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.manage(txn, 400, amqp.CondNotAllowed, "set-session-state", state("0"))
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		txn = p.declare()
		p.manage(txn, 200, "", "set-session-state", state("0"))
		p.manage(txn, 400, amqp.CondNotAllowed, "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(m.tag))},
			{Key: "disposition-status", Value: "completed"}, {Key: "session-id", Value: "mySession"}})
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		txn = p.declare()
		p.manage(txn, 200, "", "set-session-state", state("mySession"))
		p.send(txn, 1, keyedMessage("3", "mySession", ""))
		p.manage(txn, 200, "", "update-disposition", amqp.Map{{Key: "lock-tokens", Value: uuids(uuidOf(m.tag))},
			{Key: "disposition-status", Value: "completed"}, {Key: "session-id", Value: "mySession"}})
		p.commit(txn)
		b.shows("wide", "[2 3]")
	})
}

// S4-50, S4-71, SM-215: the examples of the documents. A message with the partition key
// "myPartitionKey" is sent in a committed transaction, and received. So is one of the session
// "mySession", by a receiver that accepts that session.
func TestTransactionalExamples(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(nil))
		b.queue("sessions", partitioned(ofSession))
		p := b.transactor()
		p.attachSender(1, "wide")
		txn := p.declare()
		p.send(txn, 1, keyedMessage("keyed", "", "myPartitionKey"))
		p.commit(txn)
		p = b.transactor() // a transaction is about one entity
		p.attachSender(1, "sessions")
		txn = p.declare()
		p.send(txn, 1, keyedMessage("in session", "mySession", ""))
		p.commit(txn)
		r := b.root()
		r.attachReceiver(1, "wide", amqp.SenderUnsettled)
		r.acceptSession(2, "sessions", "mySession")
		for handle, want := range map[uint32]string{1: "keyed", 2: "in session"} {
			r.credit(handle, 0, 2, false)
			if m := r.receive(); m.properties.MessageID != want {
				t.Errorf("%v comes, not %s", m.properties.MessageID, want)
			}
			r.quiet(time.Second)
		}
	})
}

// SM-012, S4-35, 10.2: a batch to a partitioned queue that detects duplicates needs ids, or one
// key; a single message is given one.
func TestBatchWithoutIDs(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("detects", partitioned(detects))
		b.queue("wide", partitioned(nil))
		p := &transactor{peerConn: b.root()}
		p.attachSender(1, "detects")
		p.attachSender(2, "wide")
		batch := func(handle uint32, refused string, messages ...[]byte) {
			t.Helper()
			p.write(0, &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(p.next()), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batchOf(messages...))
			if refused == "" {
				p.accepted(p.last)
				return
			}
			p.rejectedText(p.last, amqp.CondNotAllowed, refused)
		}
		const distinct = "Batching brokered messages with distinct SessionId or PartitionKey is not supported"
		batch(1, withoutKeyText, keyedMessage("", "", ""), keyedMessage("", "", ""))
		batch(1, withoutKeyText, keyedMessage("1", "", ""), keyedMessage("", "", ""))
		batch(1, withoutKeyText, keyedMessage("", "", ""))
		batch(1, distinct, keyedMessage("1", "", ""), keyedMessage("2", "", ""))
		batch(1, "", keyedMessage("", "", "k"), keyedMessage("", "", "k"))
		batch(1, "", keyedMessage("", "s", ""), keyedMessage("", "s", ""))
		batch(1, "", keyedMessage("1", "", ""), keyedMessage("1", "", ""))
		batch(2, "", keyedMessage("", "", ""), keyedMessage("", "", ""))
		batch(2, distinct, keyedMessage("", "", "k"), keyedMessage("", "", "l"))
		batch(2, distinct, keyedMessage("", "", "k"), keyedMessage("", "", ""))
		p.peerConn.send(1, p.next(), keyedMessage("", "", ""))
	})
}

// SM-218, SM-244, 12.5: for a message sent through a partitioned queue in a transaction, the
// via-partition-key chooses the partition of that queue, where the settlement is as well; its own
// key chooses the partition at the destination.
func TestSendThroughPartitions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("wide", partitioned(nil))
		b.queue("ends", partitioned(nil))
		b.put("wide", keyedMessage("1", "", "mySession"))
		p := b.transactor()
		p.attachReceiver(2, "wide", amqp.SenderUnsettled)
		p.attachSender(1, "ends") // which goes through the first
		p.credit(2, 0, 1, false)
		m := p.receive()
		via := func(id, key, via string) []byte {
			a := amqp.Map{{Key: amqp.Symbol(keyPartitionKey), Value: key}, {Key: amqp.Symbol(keyViaPartitionKey), Value: via}}
			return append(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, a), newMessage(id, "x")...)
		}
		txn := p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.send(txn, 1, via("2", "tenant-a", "0"))
		p.notSent(txn, 1, via("3", "0", "tenant-a"), amqp.CondNotAllowed, spreadText)
		p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
		txn = p.declare()
		p.settle(txn, m.id, amqp.StateAccepted, amqp.StateAccepted)
		p.send(txn, 1, via("2", "tenant-a", "0"))
		p.commit(txn)
		synctest.Wait()
		b.shows("wide", "[]")
		r := b.root()
		r.attachReceiver(1, "ends", amqp.SenderUnsettled)
		r.credit(1, 0, 1, false)
		if got := r.receive(); got.properties.MessageID != "2" || value(got.annotations, keySequence).(int64)>>48 != 5 || value(got.annotations, keyPartitionKey) != "tenant-a" {
			t.Errorf(`%+v; want got.properties.MessageID == "2" && value(got.annotations, keySequence).(int64) >> 48 == 5 && value(got.annotations, keyPartitionKey) == "tenant-a"`, got)
		}
	})
}

// SM-388, S4-49, S4-54: on one AMQP session a transaction on an entity follows one on "first",
// through which everything is sent. The key, and whether two keys are refused, depend on the
// destination. "0" and "mySession" are keys of one partition.
func TestTransactionIsJudgedByItsEntity(t *testing.T) {
	type sent struct{ id, session, key, via string }
	for _, c := range []struct {
		name    string
		first   func(*event.Properties)
		to      func(*event.Properties)
		one     sent
		another sent
		refused string // the second, or where there is none the first; "": none is
	}{
		{"a message-id is a key there", partitioned(nil), partitioned(detects), sent{id: "0"}, sent{id: "1", key: "0"}, ""},
		{"two ids of one partition", partitioned(nil), partitioned(detects), sent{id: "0"}, sent{id: "mySession"}, spreadText},
		{"a message-id is a key in the first alone", partitioned(detects), partitioned(nil), sent{id: "0"}, sent{}, keylessText},
		{"two keys of one partition", partitioned(nil), partitioned(nil), sent{id: "1", key: "0"}, sent{id: "2", key: "mySession"}, spreadText},
		{"two sessions of one partition", partitioned(nil), partitioned(ofSession), sent{id: "1", session: "0"}, sent{id: "2", session: "mySession"}, sessionsText},
		{"one session twice", partitioned(nil), partitioned(ofSession), sent{id: "1", session: "0"}, sent{id: "2", session: "0"}, ""},
		{"two sessions under one via key", partitioned(nil), partitioned(ofSession), sent{"1", "a", "", "k"}, sent{"2", "b", "", "k"}, ""},
		{"two via keys of one partition", partitioned(nil), partitioned(nil), sent{"1", "", "a", "0"}, sent{"2", "", "a", "mySession"}, spreadText},
		{"two sessions of an entity with one partition", partitioned(nil), ofSession, sent{id: "1", session: "0"}, sent{id: "2", session: "mySession"}, ""},
		{"two sessions, through one with one partition", nil, partitioned(ofSession), sent{id: "1", session: "a"}, sent{id: "2", session: "b"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("first", c.first)
				b.queue("to", c.to)
				encode := func(m sent) []byte {
					if m.via == "" {
						return keyedMessage(m.id, m.session, m.key)
					}
					a := amqp.Map{{Key: amqp.Symbol(keyViaPartitionKey), Value: m.via}}
					if m.key != "" {
						a = append(a, amqp.Pair{Key: amqp.Symbol(keyPartitionKey), Value: m.key})
					}
					return append(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, a), keyedMessage(m.id, m.session, "")...)
				}
				p := b.transactor()
				p.attachSender(1, "first")
				txn := p.declare()
				p.send(txn, 1, keyedMessage("0", "", "0"))
				p.commit(txn)
				p.attachSender(2, "to")
				txn = p.declare()
				last := c.one
				if c.another != (sent{}) {
					p.send(txn, 2, encode(c.one))
					last = c.another
				}
				if c.refused != "" {
					p.notSent(txn, 2, encode(last), amqp.CondNotAllowed, c.refused)
					p.notCommitted(txn, amqp.CondTransactionRollback, rolledBackText)
					synctest.Wait()
					b.shows("to", "[]")
					return
				}
				p.send(txn, 2, encode(last))
				p.commit(txn)
				time.Sleep(time.Second)
				if got := b.shown("to"); got != "["+c.one.id+" "+c.another.id+"]" && got != "["+c.another.id+" "+c.one.id+"]" {
					t.Errorf("it shows %s", got)
				}
			})
		})
	}
}

// value is that of an annotation; nil: there is none.
func value(annotations amqp.Map, key string) any {
	v, _ := annotations.Get(key)
	return v
}
