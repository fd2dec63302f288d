package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// machine drives a partition by hand, with a log in memory.
type machine struct {
	*Partition
	frame memory
	log   []byte
	now   event.Time
}

func newMachine() *machine {
	return &machine{Partition: NewPartition(0, 1, index.New()), now: 1_000_000}
}

// ask decides a command, adopts the outcome and applies it.
func (m *machine) ask(cmd Command) Reply {
	out := m.Decide(m.now, cmd)
	m.Adopt(&out)
	if len(out.Events) > 0 {
		m.log = event.AppendRecord(m.log, &m.frame, m.now, out.Events)
	}
	for _, ev := range out.Events {
		m.Apply(m.now, ev)
	}
	return out.Reply
}

func (m *machine) tick() {
	for at := m.NextDeadline(); at != 0 && at <= m.now; at = m.NextDeadline() {
		m.ask(&Tick{})
	}
}

// receive locks a message under a token made of a number.
func (m *machine) receive(id event.Slice, n int) (event.LockToken, bool) {
	token := event.LockToken{13: 1, 14: byte(n >> 8), 15: byte(n)}
	r := m.ask(&Receive{Slice: id, Token: token})
	return token, r.Delivery() != nil
}

func (m *machine) queue(id event.EntityID, p event.Properties) event.Slice {
	m.Configure(&Entity{ID: id, Kind: event.Queue, Path: fmt.Sprint("queue", id), Properties: p})
	return event.Slice{Entity: id}
}

func refusal(r Reply) Code {
	if e, ok := r.Err.(*Error); ok {
		return e.Code
	}
	return 0
}

// SM-236: 100 messages can be sent in a transaction, one by one or in batches; one more is refused
// with the service's words, and then so is the commit.
func TestTransactionMessages(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 10, 100} {
		m := newMachine()
		q := m.queue(1, testQueue())
		id := event.TransactionID{1}
		send := func(n int) Reply {
			cmd := &Send{Slice: q}
			for i := range n {
				cmd.Messages = append(cmd.Messages, Message{ID: fmt.Append(nil, i), Body: []byte("x")})
			}
			return m.ask(&Stage{Transaction: id, Operation: cmd})
		}
		for range 100 / batch {
			if r := send(batch); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if r := m.ask(&Commit{Transaction: id}); r.Err != nil || m.Index().NextSequence(q) != 101 {
			t.Fatalf("batches of %d: %v, the next number is %d", batch, r.Err, m.Index().NextSequence(q))
		}
		id = event.TransactionID{2}
		for range 100 / batch {
			send(batch)
		}
		if r := send(1); refusal(r) != QuotaExceeded || !strings.HasPrefix(r.Err.Error(), "Cannot send more than 100 messages in a single transaction") {
			t.Errorf("message 101: %v", r.Err)
		}
		if r := m.ask(&Commit{Transaction: id}); refusal(r) != TransactionFailed || m.Index().NextSequence(q) != 101 {
			t.Errorf("commit with message 101: %v", r.Err)
		}
	}
}

// The size of one transaction is bounded, and so is the number of transactions. A transaction that
// could not begin is not begun by a later operation either.
func TestTransactionBounds(t *testing.T) {
	t.Parallel()
	m := newMachine()
	q := m.queue(1, testQueue())
	send := &Send{Slice: q, Messages: []Message{{Body: []byte("x")}}}
	large := &Stage{Transaction: event.TransactionID{1}, Operation: send, Bytes: maxStagedBytes / 2}
	if r := m.ask(large); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := m.ask(large); refusal(r) != QuotaExceeded {
		t.Errorf("more bytes than a transaction may have: %v", r.Err)
	}
	many := &Stage{Transaction: event.TransactionID{2}, Operation: &Settle{Slice: q, More: make([]event.LockToken, maxStaged)}}
	if r := m.ask(many); refusal(r) != QuotaExceeded {
		t.Errorf("more messages than a transaction may settle: %v", r.Err)
	}
	wide := &Stage{Transaction: event.TransactionID{2}, Operation: &Settle{Slice: q, More: make([]event.LockToken, 1023),
		Changes: event.Changes{{Name: strings.Repeat("n", maxStagedBytes/1024)}}}}
	if r := m.ask(wide); refusal(r) != QuotaExceeded {
		t.Errorf("a record that would be too large: %v", r.Err)
	}
	for i := range maxTransactions - 2 {
		cmd := *large
		cmd.Transaction = event.TransactionID{3, byte(i >> 8), byte(i)}
		if r := m.ask(&cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	more := *large
	more.Transaction = event.TransactionID{4}
	if r := m.ask(&more); refusal(r) != Busy {
		t.Errorf("transaction %d: %v", maxTransactions+1, r.Err)
	}
	if r := m.ask(&Rollback{Transaction: event.TransactionID{3}, Cause: event.AbortRolledBack}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := m.ask(&more); refusal(r) != UnknownTransaction {
		t.Errorf("the second operation of a transaction whose first was refused: %v", r.Err)
	}
	m.now = m.now.Add(transactionLimit)
	if m.tick(); len(m.transactions.bytes) != 0 || m.transactions.deadline() != 0 {
		t.Errorf("%d bytes are reserved by nobody, until %v", len(m.transactions.bytes), m.transactions.deadline())
	}
	if r := m.ask(&Commit{Transaction: event.TransactionID{3, 0, 1}}); refusal(r) != UnknownTransaction {
		t.Errorf("commit of a transaction whose time is over: %v", r.Err)
	}
}

// A committed transaction leaves the state that its operations would have left, had they been
// carried out one after the other at the time of the commit: a rule sees the effects of earlier
// operations as it would then have found them in the index.
func TestCommitIsItsOperations(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		together, apart := newMachine(), newMachine()
		for _, m := range []*machine{together, apart} {
			rng := rand.New(rand.NewPCG(seed, 1))
			setTheScene(m, rng)
			operations := someOperations(m, rng)
			id, commit := event.TransactionID{1}, m.now.Add(20*time.Second)
			for _, op := range operations {
				if m == together {
					op = &Stage{Transaction: id, Operation: op}
				} else {
					m.now = commit
				}
				if r := m.ask(op); r.Err != nil {
					t.Fatalf("seed %d: %+v: %v", seed, op, r.Err)
				}
			}
			m.now = commit
			if m == together {
				if r := m.ask(&Commit{Transaction: id}); r.Err != nil {
					t.Fatalf("seed %d: %v", seed, r.Err)
				}
			}
		}
		if !bytes.Equal(together.Index().Encode(nil), apart.Index().Encode(nil)) {
			t.Fatalf("seed %d: the states differ", seed)
		}
	}
}

// setTheScene makes a queue, a queue with sessions, and a topic with two subscriptions.
func setTheScene(m *machine, rng *rand.Rand) {
	p := testQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Hour
	m.queue(1, p)
	p = testQueue()
	p.RequiresSession = true
	m.queue(2, p)
	p = testQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Hour
	m.Configure(&Entity{ID: 3, Kind: event.Topic, Path: "events", Properties: p})
	for sub := event.EntityID(4); sub < 6; sub++ {
		e := &Entity{ID: sub, Kind: event.Subscription, Topic: 3, Path: fmt.Sprint("events/Subscriptions/", sub), Properties: testQueue()}
		m.Configure(e)
		all := sql("all", "1 = 1")
		if m.ConfigureRule(e, all); sub == 5 {
			all.Name, all.Action.Text = "changed", "SET x = 1"
			m.ConfigureRule(e, all)
		}
	}
	for i := range 20 {
		m.ask(&Send{Slice: event.Slice{Entity: 1}, Messages: []Message{{ID: fmt.Append(nil, "old", i), Body: make([]byte, rng.IntN(50))}}})
		m.ask(&Send{Slice: event.Slice{Entity: 2}, Messages: []Message{{ID: fmt.Append(nil, i), SessionID: []byte("s"), HasSession: true}}})
	}
	for i := range 10 {
		m.ask(&Send{Slice: event.Slice{Entity: 1}, Messages: []Message{{ID: fmt.Append(nil, "later", i), ScheduledFor: m.now.Add(time.Hour)}}})
	}
	m.ask(AcceptSession(event.Slice{Entity: 2}, &Receiver{Session: &SessionRequest{ID: []byte("s")}}, event.LockToken{12: 1}))
}

// someOperations returns operations that a transaction may have, in any order.
func someOperations(m *machine, rng *rand.Rand) (all []Command) {
	plain, inSession, topic := event.Slice{Entity: 1}, event.Slice{Entity: 2}, event.Slice{Entity: 3}
	cancelled := event.SequenceNumber(21)
	for i := range 1 + rng.IntN(20) {
		switch rng.IntN(6) {
		case 0, 1, 5:
			cmd := &Send{Slice: []event.Slice{plain, topic}[rng.IntN(2)]}
			for range 1 + rng.IntN(4) {
				cmd.Messages = append(cmd.Messages, Message{ID: fmt.Append(nil, [...]string{"old", "new"}[rng.IntN(2)], rng.IntN(30)),
					Body: bytes.Repeat([]byte("y"), rng.IntN(20)), ScheduledFor: event.Time(rng.IntN(2)) * m.now.Add(2*time.Hour)})
			}
			all = append(all, cmd)
		case 2:
			token, _ := m.receive(plain, i)
			all = append(all, &Settle{Slice: plain, Token: token, Outcome: Complete + SettleOutcome(rng.IntN(5)), Changes: event.Changes{{Name: "p"}}})
		case 3:
			if cancelled++; cancelled <= 30 {
				all = append(all, &CancelScheduled{Slice: plain, Sequences: []event.SequenceNumber{cancelled}})
			}
		default:
			all = append(all, &SetSessionState{Slice: inSession, SessionID: []byte("s"), Session: event.LockToken{12: 1}, State: make([]byte, rng.IntN(30))})
		}
	}
	return all
}
