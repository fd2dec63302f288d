package sdkgo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// late is how much later than its time a lock may end (reliability.md, I26).
const late = time.Second

func renew(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	first := *m.LockedUntil
	other := b.receiverOf(b.connect(b.broker.ConnectionString()), peekLock)
	for i := 0; time.Now().Before(first.Add(200 * time.Millisecond)); i++ {
		before := time.Now()
		holder := r
		if i%2 == 1 {
			holder = other // a token works from any connection
		}
		b.must(holder.RenewMessageLock(b.patient(), m, nil))
		if got, want := *m.LockedUntil, before.Add(time.Second); got.Before(want.Add(-50*time.Millisecond)) || got.After(time.Now().Add(1050*time.Millisecond)) {
			b.Errorf("renewed at %s until %s", before, got)
		}
		b.nothing(other)
	}
	b.must(r.CompleteMessage(b.patient(), m, nil))
	b.empty(peekLock)
}

func lockLost(b *bus) {
	b.send("a")
	r := b.receiver(peekLock)
	old := b.takeOne(r)
	m := b.takeOne(b.receiver(peekLock)) // waits
	if failures(m) != 1 || m.LockToken == old.LockToken {
		b.Errorf("count %d, token %x after %x", failures(m), m.LockToken, old.LockToken)
	}
	if over := time.Since(*old.LockedUntil); over < 0 || over > late {
		b.Errorf("back %s after the lock's end", over)
	}
	b.wantCode(r.CompleteMessage(b.patient(), old, nil), azservicebus.CodeLockLost)
	old = token(old) // the SDK takes a message for settled after one answer, whatever it was
	b.wantCode(r.CompleteMessage(b.patient(), old, nil), azservicebus.CodeLockLost)
	b.wantCode(r.AbandonMessage(b.patient(), old, nil), azservicebus.CodeLockLost)
	b.wantCode(r.DeferMessage(b.patient(), old, nil), azservicebus.CodeLockLost)
	b.wantCode(r.DeadLetterMessage(b.patient(), old, nil), azservicebus.CodeLockLost)
	b.wantCode(r.RenewMessageLock(b.patient(), old, nil), azservicebus.CodeLockLost)
	b.must(r.CompleteMessage(b.patient(), m, nil))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func connectionCut(b *bus) {
	b.send("a")
	client := b.connect(b.broker.ConnectionString())
	m := b.takeOne(b.receiverOf(client, peekLock))
	b.must(client.Close(b.patient()))
	again := b.takeOne(b.receiver(peekLock))
	if over := time.Since(*m.LockedUntil); over < 0 || over > late {
		b.Errorf("back %s after the lock's end", over)
	}
	if failures(again) != 1 || *again.SequenceNumber != *m.SequenceNumber {
		b.Errorf("count %d, number %d after %d", failures(again), *again.SequenceNumber, *m.SequenceNumber)
	}
}

func tenReceivers(b *bus) {
	const n = 2000
	b.sendMany(n)
	ctx, done := context.WithCancel(b.patient())
	defer done()
	var mu sync.Mutex
	seen := map[string]int{}
	var receiving sync.WaitGroup
	for i := range 10 {
		client := b.client
		if i%2 == 1 {
			client = b.connect(b.broker.ConnectionString())
		}
		r := b.receiverOf(client, peekLock)
		receiving.Go(func() {
			for {
				some, err := r.ReceiveMessages(ctx, 25, nil)
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				for _, m := range some {
					if failures(m) != 0 {
						b.Errorf("%q: count %d", m.Body, failures(m))
					}
					if err := r.CompleteMessage(b.patient(), m, nil); err != nil {
						b.Error(err)
					}
					mu.Lock()
					if seen[string(m.Body)]++; len(seen) == n {
						done()
					}
					mu.Unlock()
				}
			}
		})
	}
	receiving.Wait()
	for i := range n {
		if times := seen[fmt.Sprint(i)]; times != 1 {
			b.Errorf("message %d was delivered %d times", i, times)
		}
	}
	b.empty(peekLock)
}

func waitingReceivers(b *bus) {
	const n = 4
	arrivals := make(chan string, n)
	var waiting sync.WaitGroup
	for range n {
		r := b.receiver(peekLock)
		waiting.Go(func() {
			some, err := r.ReceiveMessages(b.patient(), 1, nil)
			if err != nil || len(some) != 1 {
				b.Error(len(some), err)
				return
			}
			arrivals <- string(some[0].Body)
		})
	}
	for i := range n {
		b.send(fmt.Sprint(i))
	}
	waiting.Wait()
	close(arrivals)
	seen := map[string]bool{}
	for body := range arrivals {
		seen[body] = true
	}
	if len(seen) != n {
		b.Errorf("%d receivers with one credit each got %v", n, seen)
	}
}
