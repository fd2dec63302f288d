package torture

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// What moves, or is done in a transaction, is somewhere exactly once, whenever the broker is killed
// (I19, I21; SM-238, SM-267). Two loops run beside one another:
//
//   - a → b and c: a client receives a message from queue a, sends its bytes to queue b and to
//     topic c, completes it, and commits, all in one transaction across entities. In the end b and
//     c have it exactly once if and only if a has it no more.
//   - 1 → 2 → 3: what is sent to a queue is forwarded to a topic, whose subscription forwards it to
//     a queue. In the end all of it is there, once, and nothing is on the way.
const movesEntities = `{"UserConfig": {"Namespaces": [{"Name": "torture",
	"Queues": [
		{"Name": "tx-a", "Properties": {"LockDuration": "PT5S", "MaxDeliveryCount": 100000}}, {"Name": "tx-b"},
		{"Name": "chain-3"}, {"Name": "chain-1", "Properties": {"ForwardTo": "chain-2"}}],
	"Topics": [
		{"Name": "tx-c", "Subscriptions": [{"Name": "s"}]},
		{"Name": "chain-2", "Subscriptions": [{"Name": "s", "Properties": {"ForwardTo": "chain-3"}}]}]}]}}`

const (
	movesProducers = 2 // per loop
	movesWorkers   = 3

	// killsOfOne is how many kills one directory goes through. All of it is read after every kill,
	// and looked through by the clients in the end, so a thousand kills of one directory take
	// hours. What grows old over many kills is left to TestTorture.
	killsOfOne = 50
	// A broker serves for as long as this before it is killed, at least and at most. Each magnitude
	// between them is as likely as any other: most of what a kill can cut off is begun in the first
	// moments after a start.
	shortestService, longestService = 20 * time.Millisecond, 1200 * time.Millisecond
)

// TestMoves kills the broker while messages move, alone and in transactions: killsOfOne times, and
// then again with a new directory and the next seed.
func TestMoves(t *testing.T) {
	binary, first := harness.Build(t, t.TempDir()), firstSeed()
	var all figures
	var commits, rollbacks int
	began := time.Now()
	for run := uint64(0); !t.Failed() && (all.kills < *rounds || time.Since(began) < *duration); run++ {
		t.Run(fmt.Sprint(first+run), func(t *testing.T) {
			kills := min(killsOfOne, max(*rounds-all.kills, 5))
			m := &moves{rig: newRig(t, binary, movesEntities, first+run, kills)}
			m.address = m.process.Address()
			m.run(kills)
			all.kills, all.early, all.tails = all.kills+m.figures.kills, all.early+m.figures.early, all.tails+m.figures.tails
			commits, rollbacks = commits+m.commits, rollbacks+m.rollbacks
		})
	}
	t.Logf("in all %d kills, %d of them while starting, %d left a tail; %d commits with ok, %d rolled back; %s", all.kills, all.early, all.tails,
		commits, rollbacks, time.Since(began).Round(time.Second))
}

// moves is the two loops.
type moves struct {
	*rig
	address            string     // of the broker, which every start has
	mu                 sync.Mutex // guards what follows
	commits, rollbacks int
}

// run has the loops go on while the broker is killed that often, and closes the books.
func (m *moves) run(kills int) {
	m.serves = func(rng *rand.Rand) time.Duration {
		return time.Duration(float64(shortestService) * math.Pow(float64(longestService)/float64(shortestService), rng.Float64()))
	}
	m.killing(kills, 0, func(ctx context.Context) {
		for n := range movesProducers {
			for _, queue := range []string{"tx-a", "chain-1"} {
				m.load.workers.Go(func() { m.load.produce(ctx, queue, n) })
			}
		}
		for n := range movesWorkers {
			m.load.workers.Go(func() { m.work(ctx, n) })
		}
	})
	m.close()
	m.end()
	m.wantSealed()
	m.Logf("seed %d: %d kills, %d of them while starting; %d calls acknowledged, %d unknown; %d commits with ok, %d rolled back", m.seed,
		m.figures.kills, m.figures.early, m.ledger.acks, m.ledger.unknowns, m.commits, m.rollbacks)
	if m.commits == 0 {
		m.Error("this run does not count: nothing was committed")
	}
	m.reportFaults()
}

// work moves messages from a to b and c until the context ends, one connection after another.
func (m *moves) work(ctx context.Context, n int) {
	rng := m.load.rng("worker", n)
	for ; ctx.Err() == nil; time.Sleep(pause) {
		r, err := dialRaw(m.address, "tx-a", "tx-b", "tx-c")
		for err == nil && ctx.Err() == nil {
			err = m.move(r, rng)
		}
		if r != nil {
			r.conn.Close()
		}
	}
}

// move moves one message, or now and then changes its mind, or vanishes.
func (m *moves) move(r *raw, rng *rand.Rand) error {
	d, err := r.receive()
	if err != nil {
		return err
	}
	txn, err := r.declare()
	if err != nil {
		return err
	}
	message := carried(d.body)
	for _, handle := range rng.Perm(2) {
		if err := r.sendIn(txn, uint32(toB+handle), message); err != nil {
			return err
		}
	}
	if rng.IntN(50) == 0 {
		return fmt.Errorf("left with an open transaction")
	}
	if err := r.completeIn(txn, d); err != nil {
		return err
	}
	fail := rng.IntN(10) == 0
	err = r.discharge(txn, fail)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	if m.ledger.answered(err, 1) == ok && !fail {
		m.commits++
	} else if err == nil {
		m.rollbacks++
	}
	return err
}

// carried is the message that another one has as its body sections.
func carried(message []byte) []byte {
	s, err := amqp.ScanMessage(message, amqp.DefaultLimits)
	if err != nil {
		return message // the ledger finds that it is none of ours
	}
	return s.Body.Of(message)
}

// close looks where every message is, once nothing moves any more.
func (m *moves) close() {
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Minute)
	defer cancel()
	m.load.patient = true
	client := m.load.connect()
	defer hangUp(client)
	var a, b, c, end map[string]int
	// three times the same: nothing is on the way
	for quiet := 0; quiet < 3; time.Sleep(lockDuration / 2) {
		before := fmt.Sprint(len(a), len(b), len(c), len(end))
		a, b = m.look(ctx, client, "tx-a", ""), m.look(ctx, client, "tx-b", "")
		c, end = m.look(ctx, client, "tx-c", "s"), m.look(ctx, client, "chain-3", "")
		if quiet++; before != fmt.Sprint(len(a), len(b), len(c), len(end)) {
			quiet = 0
		}
		if ctx.Err() != nil {
			m.Fatal("I26 liveness: messages go on moving")
		}
	}
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	for id, e := range m.ledger.messages {
		if e.queue == "chain-1" {
			if n := end[id]; n > 1 || n == 0 && e.sent == ok {
				m.ledger.broken("I21 chain", "%s, sent with outcome %d, is there %d times", id, e.sent, n)
			}
			continue
		}
		at := [3]int{a[id], b[id], c[id]}
		if at != [3]int{1, 0, 0} && at != [3]int{0, 1, 1} && (at != [3]int{} || e.sent == ok) {
			m.ledger.broken("I19 transaction", "%s, sent with outcome %d, is in a, b and c %v times", id, e.sent, at)
		}
	}
	for _, queue := range []string{"chain-1", "tx-a", "tx-b", "chain-3"} {
		if dead := m.deadLetters(ctx, client, queue); len(dead) > 0 {
			m.ledger.broken("I21 chain", "%d dead letters in %s: %v", len(dead), queue, dead)
		}
	}
}

// look counts the messages of a queue, or of a subscription.
func (m *moves) look(ctx context.Context, client *azservicebus.Client, entity, subscription string) map[string]int {
	var r *azservicebus.Receiver
	var err error
	if subscription == "" {
		r, err = client.NewReceiverForQueue(entity, nil)
	} else {
		r, err = client.NewReceiverForSubscription(entity, subscription, nil)
	}
	if err != nil {
		m.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()
	return m.counted(entity, m.peek(ctx, r))
}

func (m *moves) deadLetters(ctx context.Context, client *azservicebus.Client, queue string) map[string]int {
	r, err := client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		m.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()
	return m.counted(queue, m.peek(ctx, r))
}

func (m *moves) counted(entity string, all []*azservicebus.ReceivedMessage) map[string]int {
	ids := map[string]int{}
	for _, x := range all {
		id, whole := idOf(x.Body)
		if !whole || m.ledger.messages[id] == nil {
			m.Errorf("I2 no invention: number %d of %s begins with %.60q", *x.SequenceNumber, entity, x.Body)
		}
		ids[id]++
	}
	return ids
}
