package sdkgo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

var connections = group{
	"connection-wrong-key":              connectionWrongKey,
	"connection-idle":                   connectionIdle,
	"connection-idle-links":             connectionIdleLinks,
	"connection-detached":               connectionDetached,
	"connection-cut-send":               connectionCutSend,
	"connection-cut-waiting":            connectionCutWaiting,
	"connection-cut-lock":               connectionCutLock,
	"connection-cut-receive-and-delete": connectionCutReceiveAndDelete,
	"connection-kill-between-calls":     connectionKillBetweenCalls,
	"connection-kill-locks":             connectionKillLocks,
	"connection-kill-under-load":        connectionKillUnderLoad,
}

var key = regexp.MustCompile(`SharedAccessKey=[^;]*`)

func connectionWrongKey(b *bus) {
	client := b.connectWith(key.ReplaceAllString(b.place.connectionString, "SharedAccessKey=another"))
	b.wantError("unauthorized", b.senderOf(client).SendMessage(b.patient(), text("A"), nil))
	b.wantError("unauthorized", b.receiveError(b.receiverOf(client, peekLock)))
	b.wantError("unauthorized", b.peekError(b.receiverOf(client, peekLock)))
	b.send("B")
	r := b.receiver()
	b.one(r, "B")
	b.nothing(r)
}

func connectionIdle(b *bus) {
	b.send("A")
	r := b.receiver()
	b.complete(r, b.one(r, "A"))
	b.nothingUntil(r, time.Now().Add(65*time.Second))
	b.send("B")
	sent := time.Now()
	m := b.one(r, "B")
	b.wantBefore("B received", time.Now(), sent.Add(promptly))
	b.wantCount(m, 0)
	b.complete(r, m)
}

// goOn has a sender, a receiver and a peek do something, whatever became of their links.
func (b *bus) goOn(r, peeker receiver, body string) {
	b.Helper()
	b.send(body)
	b.complete(r, b.one(r, body))
	b.wantTexts(b.peekFrom(peeker, 1, 0))
}

func connectionIdleLinks(b *bus) {
	b.restart(`{"limits": {"link-idle": "2s", "no-links": "2s"}}`)
	r, peeker := b.receiver(), b.receiver()
	b.goOn(r, peeker, "A")
	time.Sleep(3 * time.Second) // without links
	b.goOn(r, peeker, "B")
	time.Sleep(8 * time.Second) // without a connection: it goes after 4
	if n := b.cut(); n != 0 {
		b.Errorf("%d connections", n)
	}
	b.goOn(r, peeker, "C")
	b.kill(nil) // which takes the settings back
}

func connectionDetached(b *bus) {
	update := func(n int32) func() {
		return func() { b.updateQueue(b.queue, func(q *queueProperties) { q.MaxDeliveryCount = &n }) }
	}
	restart := func() { b.restart("") }
	r, peeker := b.receiver(), b.receiver()
	b.goOn(r, peeker, "A")
	update(20)()
	b.goOn(r, peeker, "B")
	restart()
	b.goOn(r, peeker, "C")
	b.waitThrough(r, update(30), b.send, "D")
	b.waitThrough(r, restart, b.send, "E")
	b.empty(peekLock)
}

// waitThrough has a receiver wait while something happens, which costs it its link or connection.
// It gets what is sent then.
func (b *bus) waitThrough(r receiver, happens func(), send func(...string), body string) {
	b.Helper()
	c := b.waiting(r)
	time.Sleep(quiet)
	happens()
	since := time.Now()
	send(body)
	<-c.done
	if c.err != nil && !lost(c.err) {
		b.Fatalf("receive: %v", c.err)
	}
	if len(c.got) == 0 {
		c.got = b.receive(r, 1)
	}
	b.wantTexts(c.got, body)
	b.wantBefore(body+" received", time.Now(), since.Add(patience))
	b.complete(r, c.got...)
}

// drain receives until 2 s pass without a message, although there was nothing to peek before.
// Before each receive call it calls next.
func (b *bus) drain(r receiver, atOnce int, next func(seen int)) []string {
	b.Helper()
	var seen []string
	last, left := time.Now(), true
	for time.Since(last) < 2*time.Second || left {
		if time.Since(last) > patience {
			b.Fatalf("nothing comes, and something is left")
		}
		if time.Since(last) > time.Second {
			left = len(b.peekFrom(r, 1, 0)) > 0
		}
		next(len(seen))
		ctx, cancel := context.WithTimeout(b.Context(), quiet)
		some, err := r.ReceiveMessages(ctx, atOnce, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !lost(err) {
			b.Fatalf("receive: %v", err)
		}
		if len(some) > 0 {
			last, left = time.Now(), true
		}
		seen = append(seen, bodies(some)...)
	}
	return seen
}

func connectionCutSend(b *bus) {
	all := texts(300)
	for i, body := range all {
		b.send(body)
		if i == 99 || i == 199 {
			b.cut()
		}
	}
	seen := map[string]bool{}
	for _, body := range b.drain(b.remover(), 100, func(int) {}) {
		seen[body] = true
	}
	for _, body := range all {
		if !seen[body] {
			b.Errorf("%s is missing", body)
		}
	}
}

func connectionCutWaiting(b *bus) {
	other := *b
	other.sender = b.senderOf(b.connect())
	b.waitThrough(b.receiver(), func() { b.cut() }, other.send, "A")
	b.empty(peekLock)
}

func connectionCutLock(b *bus) {
	b.send("A")
	r := b.receiver()
	m := b.one(r, "A")
	b.cut()
	cut := time.Now()
	b.nothing(b.elsewhere())
	b.completeOver(r, m)
	b.wantBefore("A completed", time.Now(), cut.Add(patience))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func connectionCutReceiveAndDelete(b *bus) {
	all := texts(500)
	b.sendAll(all)
	cuts := []int{100, 200, 300}
	var cutting sync.WaitGroup
	defer cutting.Wait()
	seen := map[string]int{}
	for _, body := range b.drain(b.remover(), 50, func(n int) {
		if len(cuts) > 0 && n >= cuts[0] {
			cuts = cuts[1:]
			cutting.Go(func() { b.cut() }) // while the call is under way
		}
	}) {
		seen[body]++
	}
	for body, times := range seen {
		if times > 1 {
			b.Errorf("%s came %d times", body, times)
		}
	}
	b.empty(peekLock)
}

func connectionKillBetweenCalls(b *bus) {
	r, peeker := b.receiver(), b.receiver()
	b.goOn(r, peeker, "A")
	for _, body := range []string{"B", "C"} {
		b.kill(nil)
		b.goOn(r, peeker, body)
	}
}

func connectionKillLocks(b *bus) {
	b.send("A", "B")
	r := b.receiver()
	got := b.take(r, "A", "B")
	b.kill(nil)
	b.nothing(b.elsewhere())
	b.completeOver(r, got[0])
	b.wantBefore("A completed", time.Now(), deref(got[1].LockedUntil))
	second := b.receiver()
	b.complete(second, b.redelivered(second, got[1]))
	b.empty(peekLock)
	b.empty(deadLetters)
}

// load is senders and receivers that go on while the broker is killed, and what they know.
type load struct {
	*bus
	sent atomic.Int64 // acknowledged

	mu        sync.Mutex
	received  map[string]bool // guarded by mu; by text
	completed map[int64]bool  // guarded by mu; by number: a text that was sent twice has two
}

func connectionKillUnderLoad(b *bus) {
	l := &load{bus: b, received: map[string]bool{}, completed: map[int64]bool{}}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	drained, end := context.WithCancel(ctx)
	defer end()
	var sending, receiving sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		sending.Go(func() { l.send(ctx, name) })
	}
	for range 2 {
		receiving.Go(func() { l.receive(drained) })
	}
	for _, n := range []int64{100, 250} {
		for l.sent.Load() < n && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		b.kill(nil)
	}
	sending.Wait()
	for len(b.peekAll(peekLock)) > 0 {
		if ctx.Err() != nil {
			b.Fatalf("messages are left after a minute")
		}
		time.Sleep(50 * time.Millisecond)
	}
	end()
	receiving.Wait()
	for _, name := range []string{"a", "b"} {
		for i := range 200 {
			if body := fmt.Sprint(name, i); !l.received[body] {
				b.Errorf("%s was sent and never received", body)
			}
		}
	}
	b.empty(deadLetters)
}

// send sends 200 texts of its own. The SDK sends what fails again.
func (l *load) send(ctx context.Context, name string) {
	s := l.senderOf(l.connect())
	for i := range 200 {
		body := fmt.Sprint(name, i)
		err := s.SendMessage(ctx, text(body), nil)
		for lost(err) && ctx.Err() == nil {
			err = s.SendMessage(ctx, text(body), nil)
		}
		if err != nil {
			l.Errorf("send %s: %v", body, err)
			return
		}
		l.sent.Add(1)
	}
}

// receive receives messages and completes them, until the context ends.
func (l *load) receive(ctx context.Context) {
	r := l.elsewhere()
	for ctx.Err() == nil {
		some, err := r.ReceiveMessages(ctx, 10, nil)
		if err != nil && ctx.Err() == nil && !lost(err) {
			l.Errorf("receive: %v", err)
			return
		}
		var completing sync.WaitGroup
		for _, m := range some {
			l.arrived(m)
			completing.Go(func() {
				// the SDK would try for a minute; the message comes back
				ctx, cancel := context.WithTimeout(l.Context(), quiet)
				defer cancel()
				if r.CompleteMessage(ctx, m, nil) == nil {
					l.mu.Lock()
					l.completed[number(m)] = true
					l.mu.Unlock()
				}
			})
		}
		completing.Wait()
	}
}

func (l *load) arrived(m *received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received[string(m.Body)] = true
	if l.completed[number(m)] {
		l.Errorf("%s, number %d, came again after it was completed", m.Body, number(m))
	}
}
