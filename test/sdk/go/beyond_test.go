package sdkgo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
)

// What this SDK shows beyond the list, each on a broker of its own in the test's process.

// startBus starts a broker with the queue "orders" and a client of it.
func startBus(t *testing.T, retry azservicebus.RetryOptions, changes ...func(*event.Properties)) (*harness.Broker, *bus) {
	t.Helper()
	broker := harness.Start(t, harness.Queue("orders", changes...))
	return broker, newBus(t, place{connectionString: broker.ConnectionString()}, "orders", retry)
}

// TestBogusToken shows SM-027, WP-163 and WP-175: a token that no lock has neither settles nor
// renews, and harms nothing.
func TestBogusToken(t *testing.T) {
	t.Parallel()
	_, b := startBus(t, noRetries)
	b.send("a")
	r := b.receiver()
	for _, token := range [][16]byte{{}, {1, 2, 3}} {
		m := &received{LockToken: token}
		b.wantError("lock-lost", r.CompleteMessage(b.patient(), m, nil))
		b.wantError("lock-lost", r.RenewMessageLock(b.patient(), m, nil))
	}
	b.one(r, "a")
}

// TestDeadToken shows SM-027 and SM-047: when a lock has ended its token does nothing, whichever
// way it is used.
func TestDeadToken(t *testing.T) {
	t.Parallel()
	_, b := startBus(t, noRetries, harness.Lock(300*time.Millisecond))
	b.send("a")
	r := b.receiver()
	// the SDK takes a message for settled after one answer, whatever it was
	old := token(b.one(r, "a"))
	outlive(*old.LockedUntil)
	b.wantError("lock-lost", r.CompleteMessage(b.patient(), old, nil))
	b.wantError("lock-lost", r.AbandonMessage(b.patient(), old, nil))
	b.wantError("lock-lost", r.DeferMessage(b.patient(), old, nil))
	b.wantError("lock-lost", r.DeadLetterMessage(b.patient(), old, nil))
	b.wantError("lock-lost", r.RenewMessageLock(b.patient(), old, nil))
	b.wantTexts(b.peekAll(peekLock), "a")
	b.empty(deadLetters)
}

// TestMaxDeliveryCountByLocks shows SM-033 and SM-100: a lock that ends counts like an abandoned
// message.
func TestMaxDeliveryCountByLocks(t *testing.T) {
	t.Parallel()
	_, b := startBus(t, noRetries, harness.Lock(300*time.Millisecond), func(p *event.Properties) { p.MaxDeliveryCount = 2 })
	b.send("a")
	r := b.receiver()
	for n := range 2 {
		b.wantCount(b.one(r, "a"), n)
	}
	dead := b.one(b.deadLetters(), "a")
	b.wantReason(dead, "MaxDeliveryCountExceeded")
	b.wantCount(dead, 2)
	b.empty(peekLock)
}

// TestAtTheLimit shows SM-015 and SM-034: the largest message is delivered, with all that the
// broker adds to it.
func TestAtTheLimit(t *testing.T) {
	t.Parallel()
	_, b := startBus(t, noRetries)
	body := noise(256 << 10)
	for errors.Is(b.trySend(&message{Body: body}), azservicebus.ErrMessageTooLarge) {
		body = body[1:]
	}
	r := b.receiver()
	m := b.receive(r, 1)[0]
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{ErrorDescription: to.Ptr(strings.Repeat("x", 4000))}))
	for _, m := range append(b.receive(b.deadLetters(), 1), m) {
		if !bytes.Equal(m.Body, body) {
			b.Errorf("%d bytes differ from the %d sent", len(m.Body), len(body))
		}
	}
}

// TestCleanRestart shows SM-001, SM-030 and SM-053 for a broker that is stopped and not killed.
func TestCleanRestart(t *testing.T) {
	t.Parallel()
	broker, b := startBus(t, stubborn)
	b.send("locked", "completed", "active")
	r := b.receiver()
	got := b.take(r, "locked", "completed")
	b.complete(r, got[1])
	before := b.peekAll(peekLock)
	broker.Restart()
	after := b.peekAll(peekLock)
	b.wantTexts(after, "locked", "active")
	for i, m := range after {
		if number(m) != number(before[i]) || !m.EnqueuedTime.Equal(*before[i].EnqueuedTime) || m.MessageID != before[i].MessageID {
			b.Errorf("before %+v, after %+v", before[i], m)
		}
	}
	other := b.elsewhere()
	b.one(other, "active")
	b.nothing(other) // the lock is still there
	b.complete(other, token(got[0]))
	b.wantError("lock-lost", other.CompleteMessage(b.patient(), token(got[1]), nil))
	b.wantTexts(b.peekAll(peekLock), "active")
}
