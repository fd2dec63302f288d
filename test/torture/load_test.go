package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	sendTime = 2 * time.Second // of a call to send
	// of a call to settle; after four seconds the SDK would try again by itself
	settleTime = time.Second
	patience   = 30 * time.Second      // of a call while nothing kills the broker
	pause      = 20 * time.Millisecond // between two clients
	credit     = 20                    // messages a receiver asks for
)

// load is the clients.
type load struct {
	t       *testing.T
	address string // connection string
	ledger  *ledger
	seed    uint64
	workers sync.WaitGroup
	patient bool // once nothing kills the broker any more, and no worker works
}

// within is the time of a call.
func (l *load) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if l.patient {
		d = patience
	}
	return context.WithTimeout(ctx, d)
}

// rng gives a worker its own stream of the seed.
func (l *load) rng(worker string, n int) *rand.Rand {
	var h uint64 = 14695981039346656037
	for _, c := range []byte(fmt.Sprint(worker, n)) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(l.seed, h))
}

// connect makes a client that tries everything once: a send that the SDK repeats may be there
// twice.
func (l *load) connect() *azservicebus.Client {
	c, err := azservicebus.NewClientFromConnectionString(l.address, &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		panic(err) // of the connection string
	}
	return c
}

func hangUp(c *azservicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the broker may be gone
}

// produce sends until the context ends: single messages, and every so often a batch. A sender that
// may not try again is of no use after a failure: a new one takes its place.
func (l *load) produce(ctx context.Context, queue string, producer int) {
	rng := l.rng(queue, producer)
	for counter := 0; ctx.Err() == nil; time.Sleep(pause) {
		client := l.connect()
		s, err := client.NewSender(queue, nil)
		for err == nil && ctx.Err() == nil {
			n, batch := 1, ""
			if rng.IntN(8) == 0 {
				n, batch = 2+rng.IntN(20), fmt.Sprintf("%s/%d-%d", queue, producer, counter)
			}
			ids := l.ledger.sending(queue, producer, counter, n, batch)
			counter += n
			err = l.send(ctx, s, ids, batch != "", rng)
			l.ledger.sentAs(ids, err)
		}
		hangUp(client)
	}
}

func (l *load) send(ctx context.Context, s *azservicebus.Sender, ids []string, batched bool, rng *rand.Rand) error {
	ctx, cancel := l.within(ctx, sendTime)
	defer cancel()
	if !batched {
		return s.SendMessage(ctx, &azservicebus.Message{Body: body(ids[0], rng), MessageID: &ids[0]}, nil)
	}
	batch, err := s.NewMessageBatch(ctx, &azservicebus.MessageBatchOptions{MaxBytes: 200 << 10})
	if err != nil {
		return err
	}
	for i, id := range ids {
		b := body(id, rng)
		if len(b) > 8<<10 {
			b = body(id, rand.New(rand.NewPCG(1, 1)))
		}
		if err := batch.AddMessage(&azservicebus.Message{Body: b, MessageID: &ids[i]}, nil); err != nil {
			l.t.Error(err)
			return err
		}
	}
	return s.SendMessageBatch(ctx, batch, nil)
}

// consume receives under locks until the context ends, one client after another.
func (l *load) consume(ctx context.Context, queue string, sub azservicebus.SubQueue, n int) {
	rng := l.rng(fmt.Sprint(queue, sub, "consumer"), n)
	for ; ctx.Err() == nil; time.Sleep(pause) {
		c := l.consumer(queue, sub)
		for again := true; again && ctx.Err() == nil; {
			again = l.take(ctx, c, rng)
		}
		hangUp(c.client)
	}
}

// consumer is a client that receives from one sub-queue.
type consumer struct {
	client   *azservicebus.Client
	receiver *azservicebus.Receiver
	queue    string
	sub      azservicebus.SubQueue
}

func (l *load) consumer(queue string, sub azservicebus.SubQueue) *consumer {
	c := &consumer{client: l.connect(), queue: queue, sub: sub}
	var err error
	if c.receiver, err = c.client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: sub}); err != nil {
		panic(err) // of the arguments
	}
	return c
}

// take receives once and does with each message what the dice say. It says whether the client is
// still good.
func (l *load) take(ctx context.Context, c *consumer, rng *rand.Rand) bool {
	some, good := l.receive(ctx, c.receiver)
	var rescue *consumer // settles by tokens what came by a connection that is gone
	settle := func(m *azservicebus.ReceivedMessage, how settlement) {
		if good {
			good = l.settle(c, m, m, how)
		}
		if !good {
			if rescue == nil {
				rescue = l.consumer(c.queue, c.sub)
			}
			l.settle(rescue, m, token(m), how)
		}
	}
	for i, m := range some {
		if !l.ledger.delivered(c.queue, c.sub, m) {
			continue
		}
		dice := rng.IntN(1000)
		switch {
		case c.sub == azservicebus.SubQueueDeadLetter && dice < 900:
			settle(m, complete)
		case c.sub == azservicebus.SubQueueDeadLetter:
			settle(m, abandon)
		case dice < 750:
			settle(m, complete)
		case dice < 850:
			settle(m, abandon)
		case dice < 890:
			settle(m, bury)
		case dice < 900:
			settle(m, postpone)
		case dice < 970:
			if l.renew(c, m) {
				settle(m, complete)
			}
		case dice < 974:
			l.stall(ctx, c, m, time.Duration(rng.IntN(200))*time.Millisecond)
		case dice == 974 && i > 0: // vanish, with locks held
			good = false
			some = nil
		default: // forget it
		}
		if some == nil {
			break
		}
	}
	if rescue != nil {
		hangUp(rescue.client)
	}
	return good
}

// stall completes a message when its lock has ended: too late.
func (l *load) stall(ctx context.Context, c *consumer, m *azservicebus.ReceivedMessage, late time.Duration) {
	l.workers.Go(func() {
		select {
		case <-time.After(time.Until(*m.LockedUntil) + late):
		case <-ctx.Done():
			return
		}
		other := l.consumer(c.queue, c.sub)
		defer hangUp(other.client)
		l.settle(other, m, token(m), complete)
	})
}

// receive says whether the client is still good, beside what came.
func (l *load) receive(ctx context.Context, r *azservicebus.Receiver) ([]*azservicebus.ReceivedMessage, bool) {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	some, err := r.ReceiveMessages(waiting, credit, nil)
	return some, err == nil && len(some) > 0 || waiting.Err() != nil
}

// token is what is left of a message for a client that did not receive it.
func token(m *azservicebus.ReceivedMessage) *azservicebus.ReceivedMessage {
	return &azservicebus.ReceivedMessage{LockToken: m.LockToken}
}

// settle settles the delivery m: as itself on its link, or as its token. It says whether that went
// well.
func (l *load) settle(c *consumer, m, as *azservicebus.ReceivedMessage, how settlement) bool {
	l.ledger.settling(c.sub, m)
	ctx, cancel := l.within(context.Background(), settleTime)
	defer cancel()
	began := time.Now()
	err := attempt(ctx, c.receiver, as, how)
	l.ledger.settled(c.sub, m, how, began, *m.LockedUntil, err)
	return err == nil
}

func attempt(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, how settlement) error {
	switch how {
	case complete:
		return r.CompleteMessage(ctx, m, nil)
	case abandon:
		return r.AbandonMessage(ctx, m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"abandoned": true}})
	case bury:
		return r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: to.Ptr("torture"), ErrorDescription: to.Ptr("on purpose")})
	case postpone:
		return r.DeferMessage(ctx, m, nil)
	}
	panic(how)
}

// renew renews a lock. An answer that gets lost may have moved the end all the same; the later one
// is not relied on.
func (l *load) renew(c *consumer, m *azservicebus.ReceivedMessage) bool {
	ctx, cancel := l.within(context.Background(), settleTime)
	defer cancel()
	err := c.receiver.RenewMessageLock(ctx, m, nil)
	l.ledger.renewed(m, err)
	return err == nil
}

// takeRest receives and deletes what is left, up to a message that is sent now: what went away
// before it has left a gap in the numbers.
func (l *load) takeRest(ctx context.Context) {
	client := l.connect()
	ids := l.ledger.sending(onceQueue, producers, 0, 1, "")
	s, err := client.NewSender(onceQueue, nil)
	if err == nil {
		err = l.send(ctx, s, ids, false, l.rng("last", 0))
		l.ledger.sentAs(ids, err)
	}
	if err != nil {
		l.t.Errorf("sending failed with no fault around: %v", err)
	}
	hangUp(client)
	while, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go func() {
		for while.Err() == nil && !l.ledger.tookOnce(ids[0]) {
			time.Sleep(pause)
		}
		cancel() // that was the last one
	}()
	l.takeAway(while)
}

// takeAway receives and deletes until the context ends, one client after another.
func (l *load) takeAway(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(pause) {
		client := l.connect()
		r, err := client.NewReceiverForQueue(onceQueue, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		for good := err == nil; good && ctx.Err() == nil; {
			waiting, cancel := context.WithTimeout(ctx, time.Second)
			some, err := r.ReceiveMessages(waiting, credit, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: pause})
			good = err == nil && len(some) > 0 || waiting.Err() != nil
			cancel()
			for _, m := range some {
				l.ledger.took(onceQueue, m)
			}
		}
		hangUp(client)
		l.ledger.tookLast(ctx.Err() != nil)
	}
}
