package sdkgo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

func cleanRestart(b *bus) {
	b.send("locked", "completed", "active")
	r := b.receiver(peekLock)
	got := b.take(r, 2)
	b.must(r.CompleteMessage(b.patient(), got[1], nil))
	before := b.peek(peekLock)
	b.broker.Restart()
	after := b.peek(peekLock)
	b.wantBodies(after, "locked", "active")
	for i, m := range after {
		if *m.SequenceNumber != *before[i].SequenceNumber || !m.EnqueuedTime.Equal(*before[i].EnqueuedTime) || m.MessageID != before[i].MessageID {
			b.Errorf("before %+v, after %+v", before[i], m)
		}
	}
	other := b.receiver(peekLock)
	b.wantBodies(b.take(other, 1), "active")
	b.nothing(other)                                               // the lock is still there
	b.must(other.CompleteMessage(b.patient(), token(got[0]), nil)) // and its token works
	b.wantCode(other.CompleteMessage(b.patient(), token(got[1]), nil), azservicebus.CodeLockLost)
	b.wantBodies(b.peek(peekLock), "active")
}

func crashWithLocks(b *bus) {
	b.send("complete", "abandon", "renew", "completed", "expire")
	r := b.receiver(peekLock)
	got := b.take(r, 5)
	b.must(r.CompleteMessage(b.patient(), got[3], nil))
	b.broker.Crash()
	if b.broker.Server().Recovered().Clean {
		b.Error("the crash was a clean end")
	}
	other := b.receiver(peekLock)
	b.nothing(other)
	for i, m := range got { // all the new broker can know them by
		got[i] = token(m)
	}
	b.must(other.CompleteMessage(b.patient(), got[0], nil))
	b.must(other.AbandonMessage(b.patient(), got[1], nil))
	b.must(other.RenewMessageLock(b.patient(), got[2], nil))
	b.wantCode(other.CompleteMessage(b.patient(), got[3], nil), azservicebus.CodeLockLost)
	again := b.takeOne(other)
	if string(again.Body) != "abandon" || failures(again) != 1 {
		b.Errorf("%q with count %d", again.Body, failures(again))
	}
	b.must(other.CompleteMessage(b.patient(), again, nil))
	expired := b.takeOne(other)
	if over := time.Since(*got[4].LockedUntil); string(expired.Body) != "expire" || failures(expired) != 1 || over < 0 || over > late {
		b.Errorf("%q with count %d, %s after the lock's end", expired.Body, failures(expired), over)
	}
	b.must(other.CompleteMessage(b.patient(), expired, nil))
	b.must(other.CompleteMessage(b.patient(), got[2], nil)) // renewed
	b.empty(peekLock)
}

// reconnect: links that wait while the broker goes away and comes back work again, with no code of the program's.
func reconnect(b *bus) {
	s, r := b.sender(), b.receiver(peekLock)
	for i := range 3 {
		b.must(s.SendMessage(b.patient(), text(fmt.Sprint(i)), nil))
		m := b.takeOne(r)
		b.wantBodies([]*azservicebus.ReceivedMessage{m}, fmt.Sprint(i))
		b.must(r.CompleteMessage(b.patient(), m, nil))
		b.broker.Restart()
	}
}

// complete settles as a program does that lives through the end of a connection. For a delivery of a connection that is gone the SDK fails
// again and again, and ends the new connection each time; by its token it can be settled.
func complete(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
	first, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := r.CompleteMessage(first, m, nil); err == nil {
		return nil
	}
	second, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return r.CompleteMessage(second, token(m), nil)
}

// TestKilledUnderLoad kills the real binary three times while programs send and receive, and shows SM-001, SM-030, SM-053, WP-222:
// no call that the SDK retries fails, nothing that was sent is missing, nothing that was completed comes back.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	process := harness.StartProcess(t, "--entities", "testdata/orders.json")
	client := connect(t, process.ConnectionString(), azservicebus.RetryOptions{MaxRetries: 100, RetryDelay: 20 * time.Millisecond, MaxRetryDelay: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()

	var sent, completed, unknown sync.Map // by body; unknown: a complete whose answer got lost
	var acknowledged atomic.Int64
	stop := make(chan struct{})
	var sending, receiving sync.WaitGroup
	for p := range 4 {
		s, err := client.NewSender("orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		sending.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprint(p, "-", i)
				if err := s.SendMessage(ctx, text(body), nil); err != nil {
					t.Errorf("send %s: %v", body, err)
					return
				}
				sent.Store(body, true)
				acknowledged.Add(1)
			}
		})
	}
	drained, allDone := context.WithCancel(ctx)
	defer allDone()
	for range 3 {
		r, err := client.NewReceiverForQueue("orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		receiving.Go(func() {
			for drained.Err() == nil {
				some, err := r.ReceiveMessages(drained, 10, nil)
				if err != nil && drained.Err() == nil {
					t.Errorf("receive: %v", err)
					return
				}
				for _, m := range some { // few: when the connection ends, the SDK spends seconds on each before it gives up
					if _, again := completed.Load(string(m.Body)); again && failures(m) > 0 {
						t.Errorf("%s came back, with number %d", m.Body, *m.SequenceNumber)
					}
					if complete(ctx, r, m) == nil {
						completed.Store(string(m.Body), true)
					} else {
						unknown.Store(string(m.Body), true)
					}
				}
			}
		})
	}
	for range 3 {
		for from := acknowledged.Load(); acknowledged.Load() < from+300 && ctx.Err() == nil; { // it works
			time.Sleep(10 * time.Millisecond)
		}
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		if _, err := process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	sending.Wait()
	missing := func() (bodies []string) {
		sent.Range(func(body, _ any) bool {
			_, ok := completed.Load(body)
			_, maybe := unknown.Load(body)
			if !ok && !maybe {
				bodies = append(bodies, body.(string))
			}
			return true
		})
		return bodies
	}
	peeker, err := client.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	for {
		left, err := peeker.PeekMessages(ctx, 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &first})
		if err != nil {
			t.Errorf("waiting for an empty queue: %v", err)
			break
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	allDone()
	receiving.Wait()
	if lost := missing(); len(lost) > 0 {
		t.Errorf("%d messages were sent and never completed, one is %s", len(lost), lost[0])
	}
	t.Logf("%d messages over three kills", acknowledged.Load())
}
