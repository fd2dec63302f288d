package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	callTimeout = 2 * time.Second        // of a send
	settleTime  = 400 * time.Millisecond // of a settlement on its link; the SDK tries again after four seconds, and ends the connection then
	pause       = 20 * time.Millisecond  // after a failure
	credit      = 20                     // messages a receiver asks for
)

// load is the clients.
type load struct {
	t       *testing.T
	address string // connection string
	ledger  *ledger
	seed    uint64
	hurry   atomic.Bool // no more stalling: the end is near
	workers sync.WaitGroup
}

// rng gives a worker its own stream of the seed.
func (l *load) rng(worker string, n int) *rand.Rand {
	var h uint64 = 14695981039346656037
	for _, c := range []byte(fmt.Sprint(worker, n)) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(l.seed, h))
}

// connect makes a client that tries everything once: a send that the SDK repeats may be there twice.
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

// produce sends until the context ends: single messages, and every so often a batch.
func (l *load) produce(ctx context.Context, queue string, producer int) {
	rng := l.rng(queue, producer)
	client := l.connect()
	defer hangUp(client)
	s, err := client.NewSender(queue, nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	for counter := 0; ctx.Err() == nil; {
		n, name := 1, ""
		if rng.IntN(8) == 0 {
			n = 2 + rng.IntN(20)
			name = fmt.Sprintf("%s/%d-%d", queue, producer, counter)
		}
		counters := make([]int, n)
		for i := range counters {
			counters[i] = counter
			counter++
		}
		ids := l.ledger.sending(queue, producer, counters, name)
		err := l.send(ctx, s, ids, name != "", rng)
		l.ledger.sentAs(ids, err)
		if err != nil {
			time.Sleep(pause)
		}
	}
}

func (l *load) send(ctx context.Context, s *azservicebus.Sender, ids []string, batched bool, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
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

// consume receives under locks until the context ends, and does with each message what the dice say.
func (l *load) consume(ctx context.Context, queue string, sub azservicebus.SubQueue, n int) {
	rng := l.rng(fmt.Sprint(queue, sub, "consumer"), n)
	for ctx.Err() == nil {
		client := l.connect()
		l.session(ctx, client, queue, sub, rng)
		hangUp(client)
	}
}

// session receives with one client until that vanishes.
func (l *load) session(ctx context.Context, client *azservicebus.Client, queue string, sub azservicebus.SubQueue, rng *rand.Rand) {
	r, err := client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: sub})
	if err != nil {
		l.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		some := l.receive(ctx, r)
		gone := false // the connection these came by
		for i, m := range some {
			if !l.ledger.delivered(queue, sub, m) {
				continue
			}
			switch dice := rng.IntN(1000); {
			case sub == azservicebus.SubQueueDeadLetter && dice < 900:
				gone = l.settle(ctx, r, sub, m, complete, gone) || gone
			case sub == azservicebus.SubQueueDeadLetter:
				gone = l.settle(ctx, r, sub, m, abandon, gone) || gone
			case dice < 750:
				gone = l.settle(ctx, r, sub, m, complete, gone) || gone
			case dice < 850:
				gone = l.settle(ctx, r, sub, m, abandon, gone) || gone
			case dice < 890:
				gone = l.settle(ctx, r, sub, m, bury, gone) || gone
			case dice < 900:
				gone = l.settle(ctx, r, sub, m, postpone, gone) || gone
			case dice < 970:
				if l.renew(ctx, r, m) {
					gone = l.settle(ctx, r, sub, m, complete, gone) || gone
				}
			case dice < 975 && !l.hurry.Load(): // stall, and come too late
				l.workers.Go(func() {
					late := *m
					select {
					case <-time.After(time.Until(*late.LockedUntil) + time.Duration(rng.IntN(200))*time.Millisecond):
					case <-ctx.Done():
					}
					l.settle(context.WithoutCancel(ctx), r, sub, &late, complete, true)
				})
			case dice < 976 && i > 0: // vanish, with locks held
				return
			default: // forget it
			}
		}
	}
}

func (l *load) receive(ctx context.Context, r *azservicebus.Receiver) []*azservicebus.ReceivedMessage {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	some, err := r.ReceiveMessages(waiting, credit, nil)
	if err != nil && waiting.Err() == nil || err == nil && len(some) == 0 {
		time.Sleep(pause)
	}
	return some
}

// settle settles a delivery: on its link, or by its token when the link is gone or fails. It says whether it failed.
func (l *load) settle(ctx context.Context, r *azservicebus.Receiver, sub azservicebus.SubQueue, m *azservicebus.ReceivedMessage, how settlement, gone bool) (failed bool) {
	ctx = context.WithoutCancel(ctx) // its own time is short
	l.ledger.settling(sub, m)
	until := *m.LockedUntil
	if !gone {
		began := time.Now()
		err := attempt(ctx, settleTime, r, m, how)
		l.ledger.settled(sub, m, how, began, until, err)
		if err == nil {
			return false
		}
	}
	token := &azservicebus.ReceivedMessage{LockToken: m.LockToken}
	began := time.Now()
	err := attempt(ctx, 2*settleTime, r, token, how)
	l.ledger.settled(sub, m, how, began, until, err)
	return true
}

func attempt(ctx context.Context, timeout time.Duration, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, how settlement) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
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

func (l *load) renew(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	// An answer that gets lost may have moved the end of the lock: from here on it is not known.
	err := r.RenewMessageLock(ctx, m, nil)
	l.ledger.renewed(m, err)
	return err == nil
}

// takeAway receives and deletes until the context ends.
func (l *load) takeAway(ctx context.Context, n int) {
	client := l.connect()
	defer hangUp(client)
	r, err := client.NewReceiverForQueue(onceQueue, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		l.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		some, err := r.ReceiveMessages(waiting, credit, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: pause})
		cancel()
		for _, m := range some {
			l.ledger.took(onceQueue, m)
		}
		if err != nil {
			time.Sleep(pause)
		}
	}
}
