package sdkgo

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Sessions. An open receiver of a session is its lock.
var sessions = group{
	"session-accept":        sessionAccept,
	"session-next":          sessionNext,
	"session-next-waits":    sessionNextWaits,
	"session-held":          sessionHeld,
	"session-fifo":          sessionFIFO,
	"session-renew":         sessionRenew,
	"session-lock-lost":     sessionLockLost,
	"session-release":       sessionRelease,
	"session-state":         sessionState,
	"session-list":          sessionList,
	"session-empty-id":      sessionEmptyID,
	"session-required":      sessionRequired,
	"session-not-required":  sessionNotRequired,
	"session-dead-letter":   sessionDeadLetter,
	"session-deferred":      sessionDeferred,
	"session-survives-kill": sessionSurvivesKill,
	"session-cut":           sessionCut,
}

// sendIn sends texts with the session id s.
func (b *bus) sendIn(bodies ...string) {
	b.Helper()
	for _, body := range bodies {
		b.post(inSession("s", body))
	}
}

func (b *bus) wantSession(m *received, id string) {
	b.Helper()
	if m.SessionID == nil || *m.SessionID != id {
		b.Errorf("%q: session id %q, want %q", m.Body, deref(m.SessionID), id)
	}
}

func sessionAccept(b *bus) {
	s := b.accept("s")
	b.wantAbout("locked until", s.LockedUntil(), time.Now().Add(time.Minute), 2*time.Second)
	b.nothing(s)
	b.post(inSession("s", "A"), inSession("t", "X"))
	a := b.one(s, "A")
	b.wantSession(a, "s")
	b.wantCount(a, 0)
	b.complete(s, a)
	b.nothing(s)
}

func sessionNext(b *bus) {
	const n = 20
	var all []*message
	for i := range n {
		id := fmt.Sprint("s", i)
		all = append(all, inSession(id, "1"), inSession(id, "2"))
	}
	b.postBatch(all...)
	held := map[string]*azservicebus.SessionReceiver{}
	for range n {
		s, err := b.acceptNext(patience)
		b.must(err)
		held[s.SessionID()] = s
	}
	if len(held) != n {
		b.Fatalf("%d different sessions of %d", len(held), n)
	}
	got := map[string][]*received{}
	for id, s := range held {
		got[id] = b.take(s, "1", "2")
	}
	_, err := b.acceptNext(2 * time.Second)
	b.wantError("no-session", err)
	for id, s := range held {
		b.complete(s, got[id]...)
		b.close(s)
	}
	b.noSessionLeft()
}

func sessionNextWaits(b *bus) {
	began := time.Now()
	_, err := b.acceptNext(2 * time.Second)
	b.wantError("no-session", err)
	b.wantAfter("no session", time.Now(), began.Add(time.Second))
	b.wantBefore("no session", time.Now(), began.Add(4*time.Second))

	other := b.senderOf(b.connect())
	sent := make(chan time.Time, 1)
	go func() {
		time.Sleep(time.Second)
		if err := other.SendMessage(b.patient(), inSession("s", "A"), nil); err != nil {
			b.Errorf("send: %v", err)
		}
		sent <- time.Now()
	}()
	s, err := b.acceptNext(10 * time.Second)
	accepted := time.Now()
	b.wantBefore("accepted", accepted, (<-sent).Add(promptly))
	b.must(err)
	if s.SessionID() != "s" {
		b.Errorf("session %q", s.SessionID())
	}
	b.complete(s, b.one(s, "A"))
}

func sessionHeld(b *bus) {
	b.sendIn("A")
	holder := b.accept("s")
	other := b.connect()
	began := time.Now()
	_, err := other.AcceptSessionForQueue(b.patient(), b.queue, "s", nil)
	b.wantError("session-held", err)
	b.wantBefore("refused", time.Now(), began.Add(promptly))
	_, err = b.acceptNext(2 * time.Second)
	b.wantError("no-session", err)
	b.complete(holder, b.one(holder, "A"))
	b.close(holder)
	b.acceptBy(other, "s")
}

func sessionFIFO(b *bus) {
	var all []*message
	for i, body := range texts(100) {
		all = append(all, inSession(fmt.Sprint("s", i%4), body))
	}
	b.postAll(all)
	var receiving sync.WaitGroup
	for n := range 4 {
		s := b.accept(fmt.Sprint("s", n))
		receiving.Go(func() { b.inOrder(s, n) })
	}
	receiving.Wait()
	if b.Failed() {
		return
	}
	b.noSessionLeft()
}

// inOrder receives the messages of a session one at a time. It runs beside the scenario.
func (b *bus) inOrder(s *azservicebus.SessionReceiver, n int) {
	abandoned := false
	for i := 0; i < 25; {
		some, err := s.ReceiveMessages(b.patient(), 1, nil)
		if err != nil || len(some) > 1 {
			b.Errorf("session %d: %q, %v", n, bodies(some), err)
			return
		}
		for _, m := range some {
			wanted := 0
			if i == 2 && abandoned {
				wanted = 1
			}
			if string(m.Body) != fmt.Sprint(4*i+n) || count(m) != wanted {
				b.Errorf("session %d: %q with count %d, want %d with %d", n, m.Body, count(m), 4*i+n, wanted)
				return
			}
			if i == 2 && !abandoned {
				abandoned, err = true, s.AbandonMessage(b.patient(), m, nil)
			} else {
				i, err = i+1, s.CompleteMessage(b.patient(), m, nil)
			}
			if err != nil {
				b.Errorf("session %d: %q: %v", n, m.Body, err)
				return
			}
		}
	}
	if err := s.Close(b.patient()); err != nil {
		b.Errorf("session %d: %v", n, err)
	}
}

func sessionRenew(b *bus) {
	b.sendIn("A")
	s := b.accept("s")
	first := s.LockedUntil()
	b.wantAbout("locked until", first, time.Now().Add(5*time.Second), 2*time.Second)
	a := b.one(s, "A")
	time.Sleep(2500 * time.Millisecond)
	b.must(s.RenewSessionLock(b.patient(), nil))
	b.wantAbout("renewed until", s.LockedUntil(), time.Now().Add(5*time.Second), 2*time.Second)
	outlive(first)
	_, err := b.connect().AcceptSessionForQueue(b.patient(), b.queue, "s", nil)
	b.wantError("session-held", err)
	b.complete(s, a)
	b.close(s)
	b.noSessionLeft()
}

func sessionLockLost(b *bus) {
	b.sendIn("A", "B")
	old := b.accept("s")
	end := old.LockedUntil()
	a := b.take(old, "A", "B")[0]
	time.Sleep(time.Until(end))
	s := b.acceptFreed("s", end.Add(promptly))
	got := b.take(s, "A", "B")
	for _, m := range got {
		b.wantCount(m, 1)
	}

	// The SDK waits 3 to 5 s and attaches again before it says that the lock is lost; the new
	// holder keeps the session until then.
	lost := make(chan error, 1)
	go func() { lost <- old.CompleteMessage(b.patient(), a, nil) }()
	time.Sleep(2500 * time.Millisecond)
	b.must(s.RenewSessionLock(b.patient(), nil))
	b.wantError("session-lock-lost", <-lost)
	b.wantError("session-lock-lost", old.RenewSessionLock(b.patient(), nil))

	b.complete(s, got...)
	b.close(s)
	b.noSessionLeft()
}

func sessionRelease(b *bus) {
	b.sendIn("A", "B")
	first := b.accept("s")
	b.complete(first, b.take(first, "A", "B")[0])
	b.close(first)
	closed := time.Now()
	s := b.acceptBy(b.connect(), "s")
	b.wantBefore("accepted", time.Now(), closed.Add(promptly))
	m := b.one(s, "B")
	b.wantCount(m, 0)
	b.complete(s, m)
	b.nothing(s)
}

func sessionState(b *bus) {
	b.sendIn("A")
	s := b.accept("s")
	b.wantSessionState(s, nil)
	large := noise(10_000)
	for _, state := range [][]byte{{0x00, 0x01, 0xff}, large} {
		b.must(s.SetSessionState(b.patient(), state, nil))
		b.wantSessionState(s, state)
	}
	b.complete(s, b.one(s, "A"))
	b.close(s)

	other := b.connect()
	s = b.acceptBy(other, "s")
	b.wantSessionState(s, large)
	b.must(s.SetSessionState(b.patient(), nil, nil))
	b.wantSessionState(s, nil)
	b.close(s)
	b.wantSessionState(b.acceptBy(other, "s"), nil)
}

func (b *bus) wantSessionState(s *azservicebus.SessionReceiver, want []byte) {
	b.Helper()
	got, err := s.GetSessionState(b.patient(), nil)
	b.must(err)
	if !bytes.Equal(got, want) {
		b.Errorf("state %.20x of %d bytes, want %.20x of %d", got, len(got), want, len(want))
	}
}

func sessionList(b *bus) {
	var all []*message
	var ids []string
	for i := range 120 {
		ids = append(ids, fmt.Sprintf("s%03d", i))
		all = append(all, inSession(ids[i], "A"))
	}
	b.postAll(all)
	b.wantEach(b.listSessions(nil), ids)

	before := time.Now()
	s := b.accept("stateful")
	b.must(s.SetSessionState(b.patient(), []byte("state"), nil))
	b.close(s)
	time.Sleep(time.Second)
	after := time.Now()
	b.wantEach(b.listSessions(nil), append(ids, "stateful"))
	before = before.Add(-time.Second)
	b.wantEach(b.listSessions(&before), []string{"stateful"})
	b.wantEach(b.listSessions(&after), nil)
}

// listSessions lists all sessions, or those whose state was updated after a time.
func (b *bus) listSessions(updatedAfter *time.Time) []string {
	b.Helper()
	var all []string
	pager := b.client.NewListSessionsForQueuePager(b.queue, &azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: updatedAfter})
	for pager.More() {
		page, err := pager.NextPage(b.patient())
		b.must(err)
		all = append(all, page.Sessions...)
	}
	return all
}

func sessionEmptyID(b *bus) {
	b.post(inSession("", "A"), inSession("b", "B"))
	s := b.accept("")
	a := b.one(s, "A")
	b.wantSession(a, "")
	b.complete(s, a)
	b.nothing(s)
}

func sessionRequired(b *bus) {
	b.wantError("not-allowed", b.receiveError(b.receiver()),
		"It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	b.wantError("not-allowed", b.trySend(text("A")), "The SessionId was not set on a message")
	b.sendIn("B")
	s := b.accept("s")
	b.one(s, "B")
	b.nothing(s)
}

func sessionNotRequired(b *bus) {
	_, err := b.client.AcceptSessionForQueue(b.patient(), b.queue, "s", nil)
	b.wantError("not-allowed", err)
	_, err = b.acceptNext(patience)
	b.wantError("not-allowed", err)
	b.sendIn("A")
	r := b.receiver()
	a := b.one(r, "A")
	b.wantSession(a, "s")
	b.complete(r, a)
}

func sessionDeadLetter(b *bus) {
	b.sendIn("A", "B")
	s := b.accept("s")
	for n := range 2 {
		a := b.one(s, "A")
		b.wantCount(a, n)
		b.abandon(s, a)
	}
	m := b.one(s, "B")
	b.wantCount(m, 0)
	b.complete(s, m)
	b.nothing(s)
	dlq := b.deadLetters()
	dead := b.one(dlq, "A")
	b.wantSession(dead, "s")
	b.wantReason(dead, "MaxDeliveryCountExceeded")
	b.wantCount(dead, 2)
	b.complete(dlq, dead)
}

func sessionDeferred(b *bus) {
	b.sendIn("A")
	s := b.accept("s")
	a := b.one(s, "A")
	b.postpone(s, a)
	b.close(s)
	t := b.accept("t")
	b.wantMissing(t, number(a))
	b.close(t)
	s = b.accept("s")
	got := b.deferred(s, number(a))
	b.wantTexts(got, "A")
	b.wantSession(got[0], "s")
	b.complete(s, got...)
	b.wantMissing(s, number(a))
}

func sessionSurvivesKill(b *bus) {
	b.sendIn("A", "B")
	first := b.accept("s")
	b.must(first.SetSessionState(b.patient(), []byte("state"), nil))
	b.abandon(first, b.one(first, "A"))
	b.take(first, "A", "B")
	b.kill(nil)
	s := b.acceptFreed("s", time.Now().Add(5*time.Second))
	b.wantSessionState(s, []byte("state"))
	got := b.take(s, "A", "B")
	b.wantCount(got[0], 1)
	b.wantCount(got[1], 0)
	b.complete(s, got...)
	b.close(s)
	b.noSessionLeft()
}

func sessionCut(b *bus) {
	b.sendIn("A")
	client := b.connect()
	b.one(b.acceptBy(client, "s"), "A")
	b.cut()
	cut := time.Now()
	b.closeClient(client)
	s := b.acceptFreed("s", cut.Add(5*time.Second))
	a := b.one(s, "A")
	b.wantCount(a, 0)
	b.complete(s, a)
}
