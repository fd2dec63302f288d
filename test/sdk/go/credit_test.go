package sdkgo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var credit = group{
	"credit-drain-on-close": creditDrainOnClose,
	"credit-between-calls":  creditBetweenCalls,
	"credit-prefetch":       creditPrefetch,
	"credit-ten-receivers":  creditTenReceivers,
	"credit-streaming":      creditStreaming,
}

// upTo receives what there is, up to n messages, with a wait.
func (b *bus) upTo(r receiver, n int, wait time.Duration) []*received {
	b.Helper()
	b.attach(r)
	ctx, cancel := context.WithTimeout(b.Context(), wait)
	defer cancel()
	some, err := r.ReceiveMessages(ctx, n, nil)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("receive: %v", err)
	}
	return some
}

func creditDrainOnClose(b *bus) {
	r := b.receiver()
	began := time.Now()
	b.wantTexts(b.upTo(r, 10, 200*time.Millisecond))
	b.wantBefore("nothing", time.Now(), began.Add(promptly))
	b.send("A", "B", "C")
	for n := range 5 {
		var got []*received
		for end := time.Now().Add(patience); len(got) < 3 && time.Now().Before(end); {
			got = append(got, b.upTo(r, 10, time.Second)...)
		}
		// the SDK takes what comes between calls and releases it: that is late
		b.wantEach(bodies(got), []string{"A", "B", "C"})
		for _, m := range got {
			b.wantCount(m, n)
		}
		slices.SortFunc(got, func(x, y *received) int { return cmp.Compare(number(y), number(x)) })
		b.abandon(r, got...)
	}
	rest := b.receive(r, 3)
	b.wantEach(bodies(rest), []string{"A", "B", "C"})
	b.complete(r, rest...)
	b.wantTexts(b.upTo(r, 10, 300*time.Millisecond))
	b.close(r)
	b.send("D")
	sent := time.Now()
	second := b.receiver()
	d := b.one(second, "D")
	b.wantBefore("D received", time.Now(), sent.Add(promptly))
	b.wantCount(d, 0)
	b.complete(second, d)
	b.empty(peekLock)
}

func creditBetweenCalls(b *bus) {
	first, second := b.receiver(), b.receiver()
	for _, body := range texts(3) {
		b.wantTexts(b.upTo(first, 10, 200*time.Millisecond))
		b.send(body)
		sent := time.Now()
		m := b.one(second, body)
		b.wantBefore("received", time.Now(), sent.Add(7*time.Second))
		b.wantCount(m, 0)
		b.complete(second, m)
	}
	b.empty(peekLock)
}

func creditPrefetch(b *bus) {
	var all []*message
	for _, body := range texts(100) {
		all = append(all, text(body))
	}
	b.postBatch(all...)
	first := b.receiver()
	taken := b.upTo(first, 50, patience)
	if len(taken) < 10 {
		b.Fatalf("a call for 50 of 100 messages got %d", len(taken))
	}
	b.complete(first, taken[:10]...)
	b.close(first)
	second := b.receiver()
	var rest []*received
	for end := time.Now().Add(patience); len(rest) < 90 && time.Now().Before(end); {
		some := b.upTo(second, 90-len(rest), time.Second)
		for _, m := range some {
			if count(m) > 1 {
				b.wantCount(m, 1)
			}
		}
		b.complete(second, some...) // at once: the last 40 come when the locks of these would end
		rest = append(rest, some...)
	}
	b.wantEach(append(bodies(taken[:10]), bodies(rest)...), texts(100))
	b.empty(peekLock)
	b.empty(deadLetters)
}

// handled are the texts of messages that loops completed.
type handled struct {
	all  chan struct{} // closed once there are as many as are waited for
	want int

	mu    sync.Mutex
	texts []string // guarded by mu
}

func (h *handled) add(m *received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, string(m.Body))
	if len(h.texts) == h.want {
		close(h.all)
	}
}

// handle receives and completes messages until the context ends. It runs beside the scenario.
func (b *bus) handle(ctx context.Context, r *azservicebus.Receiver, atOnce int, h *handled) {
	for ctx.Err() == nil {
		some, err := r.ReceiveMessages(ctx, atOnce, nil)
		if err != nil && ctx.Err() == nil {
			b.Errorf("receive: %v", err)
			return
		}
		for _, m := range some {
			if count(m) != 0 {
				b.wantCount(m, 0)
			}
			if err := r.CompleteMessage(b.patient(), m, nil); err != nil {
				b.Errorf("complete %q: %v", m.Body, err)
			}
			h.add(m)
		}
	}
}

// all waits until all messages were handled.
func (b *bus) all(h *handled) {
	b.Helper()
	select {
	case <-h.all:
	case <-b.patient().Done():
		b.Errorf("not all messages in %s", patience)
	}
}

func creditTenReceivers(b *bus) {
	all := texts(1000)
	b.sendAll(all)
	h := &handled{all: make(chan struct{}), want: len(all)}
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var receiving sync.WaitGroup
	for i := range 10 {
		r := b.receiver()
		if i%2 == 1 {
			r = b.elsewhere()
		}
		receiving.Go(func() { b.handle(ctx, r, 25, h) })
	}
	b.all(h)
	end()
	receiving.Wait()
	b.wantEach(h.texts, all)
	b.empty(peekLock)
}

func creditStreaming(b *bus) {
	all := texts(500)
	h := &handled{all: make(chan struct{}), want: len(all)}
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var loop sync.WaitGroup
	r := b.receiver()
	loop.Go(func() { b.handle(ctx, r, 20, h) })
	b.sendAll(all)
	b.all(h)
	closed := time.Now()
	end()
	loop.Wait()
	b.close(r)
	b.wantBefore("the loop ended", time.Now(), closed.Add(5*time.Second))
	b.wantEach(h.texts, all)
	b.empty(peekLock)
	b.send("A")
	b.wantCount(b.one(b.receiver(), "A"), 0)
}
