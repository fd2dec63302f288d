package torture

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// outcome is what a client knows of a call.
type outcome uint8

const (
	never   outcome = iota
	unknown         // it was tried; nobody was told whether it happened
	ok
)

// slack is how far clocks and rounding to milliseconds may move a moment.
const slack = 20 * time.Millisecond

// place is what happened to a message in a queue, or in its dead-letter queue.
type place struct {
	completed, buried, deferred outcome
	doneAt                      time.Time // when the first ok of the three returned
	lastLock                    time.Time // when the newest delivery was locked
	lockedUntil                 time.Time // its end as last heard of
	free                        bool      // the newest delivery may have been settled
	count                       uint32    // its delivery count
}

// entry is a message.
type entry struct {
	queue             string
	producer, counter int
	batch             string // "": sent alone
	sent              outcome
	number            int64 // 0: never seen
	taken             int   // deliveries in receive-and-delete mode
	present           bool  // deferred, at the end
	main, dead        place
}

// ledger is what the clients tried and were told.
type ledger struct {
	mu       sync.Mutex // guards all below
	messages map[string]*entry
	numbers  map[string]string // message by queue and sequence number
	faults   map[string][]string
	acks     int64 // calls that were answered with ok
	ackedMsg int64 // messages in them
	unknowns int64
	once     once
}

func newLedger() *ledger {
	return &ledger{messages: map[string]*entry{}, numbers: map[string]string{}, faults: map[string][]string{}, once: once{ends: map[int64]int{}}}
}

// broken records that an invariant of reliability.md 5 does not hold.
func (l *ledger) broken(invariant, format string, args ...any) {
	l.faults[invariant] = append(l.faults[invariant], fmt.Sprintf(format, args...))
}

// body makes a message's body: its name, some noise, a checksum of both.
func body(id string, rng *rand.Rand) []byte {
	size := 10 + rng.IntN(300)
	switch rng.IntN(100) {
	case 0:
		size = 60 << 10 // many frames
	case 1, 2, 3:
		size = 5 << 10
	}
	b := make([]byte, 0, len(id)+1+size+64)
	b = append(append(b, id...), ' ')
	for range size {
		b = append(b, byte(rng.Uint32()))
	}
	sum := sha256.Sum256(b)
	return hex.AppendEncode(b, sum[:])
}

// idOf is the name in a body, and whether every byte of the body is as it was sent.
func idOf(b []byte) (string, bool) {
	const digits = 2 * sha256.Size
	if len(b) < digits {
		return "", false
	}
	content, sum := b[:len(b)-digits], b[len(b)-digits:]
	want := sha256.Sum256(content)
	id, _, found := strings.Cut(string(content), " ")
	return id, found && string(sum) == hex.EncodeToString(want[:])
}

// sending writes down messages before they are sent.
func (l *ledger) sending(queue string, producer, counter, count int, batch string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for n := counter; n < counter+count; n++ {
		id := fmt.Sprintf("%s/%d-%d", queue, producer, n)
		l.messages[id] = &entry{queue: queue, producer: producer, counter: n, batch: batch}
		ids = append(ids, id)
	}
	return ids
}

// sentAs writes down how a send ended.
func (l *ledger) sentAs(ids []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how := l.answered(err, len(ids))
	for _, id := range ids {
		l.messages[id].sent = how
	}
}

// answered counts a call.
func (l *ledger) answered(err error, messages int) outcome {
	if err != nil {
		l.unknowns++
		return unknown
	}
	l.acks++
	l.ackedMsg += int64(messages)
	return ok
}

// seen finds the entry of a message that came from the broker.
func (l *ledger) seen(queue string, m *azservicebus.ReceivedMessage) *entry {
	id, whole := idOf(m.Body)
	e := l.messages[id]
	if e == nil || !whole || e.queue != queue {
		l.broken("I2 no invention", "queue %s, number %d: %d bytes that begin with %.60q", queue, *m.SequenceNumber, len(m.Body), m.Body)
		return nil
	}
	number := *m.SequenceNumber
	if e.number == 0 {
		e.number = number
	} else if e.number != number {
		l.broken("I3 no doubling", "%s has the numbers %d and %d", id, e.number, number)
	}
	key := fmt.Sprint(queue, " ", number)
	if other, taken := l.numbers[key]; taken && other != id {
		l.broken("I12 numbers", "number %d of %s is that of %s and of %s", number, queue, other, id)
	}
	l.numbers[key] = id
	return e
}

// in is the place of a delivery.
func (e *entry) in(sub azservicebus.SubQueue) *place {
	if sub == azservicebus.SubQueueDeadLetter {
		return &e.dead
	}
	return &e.main
}

// delivered writes down a delivery under a lock. It says whether the message is one of ours.
func (l *ledger) delivered(queue string, sub azservicebus.SubQueue, m *azservicebus.ReceivedMessage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.seen(queue, m)
	if e == nil {
		return false
	}
	p := e.in(sub)
	id, _ := idOf(m.Body)
	locked := m.LockedUntil.Add(-lockDuration)
	if !p.doneAt.IsZero() && locked.After(p.doneAt.Add(slack)) {
		l.broken("I4 done is done", "%s was settled at %s and locked again at %s", id, p.doneAt, locked)
	}
	if locked.Before(p.lastLock) {
		return true // an older delivery that waited in the SDK
	}
	if !p.free && locked.Before(p.lockedUntil.Add(-slack)) {
		l.broken("I5 one lock", "%s was locked until %s and locked again at %s", id, p.lockedUntil, locked)
	}
	if m.DeliveryCount < p.count {
		l.broken("I10 count", "%s was delivered with count %d after %d", id, m.DeliveryCount, p.count)
	}
	p.lastLock, p.lockedUntil, p.free, p.count = locked, *m.LockedUntil, false, m.DeliveryCount
	return true
}

// took writes down a delivery in receive-and-delete mode.
func (l *ledger) took(queue string, m *azservicebus.ReceivedMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.seen(queue, m); e != nil {
		if e.taken++; e.taken > 1 {
			l.broken("I4 done is done", "%s was received and deleted %d times", m.Body[:20], e.taken)
		}
		l.acks++
		l.ackedMsg++
		l.once.numbers, l.once.some = append(l.once.numbers, *m.SequenceNumber), true
	}
}

// tookOnce says whether a message came in receive-and-delete mode.
func (l *ledger) tookOnce(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.messages[id].taken > 0
}

// settlement is one of the ways to settle.
type settlement uint8

const (
	complete settlement = iota
	abandon
	bury
	postpone // defer
)

// settling writes down that a delivery may be settled from now on.
func (l *ledger) settling(sub azservicebus.SubQueue, m *azservicebus.ReceivedMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, _ := idOf(m.Body)
	l.messages[id].in(sub).free = true
}

// settled writes down how a settlement ended that was asked for at the time began.
func (l *ledger) settled(sub azservicebus.SubQueue, m *azservicebus.ReceivedMessage, how settlement, began time.Time, until time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, _ := idOf(m.Body)
	p := l.messages[id].in(sub)
	result := l.answered(err, 1)
	if result == ok && began.After(until.Add(slack)) {
		l.broken("I7 honest settle", "%s was settled with ok at %s, locked until %s", id, began, until)
	}
	var what *outcome
	switch how {
	case complete:
		what = &p.completed
	case bury:
		what = &p.buried
	case postpone:
		what = &p.deferred
	case abandon:
		return
	}
	if result == ok {
		if !p.doneAt.IsZero() {
			l.broken("I6 fencing", "%s was settled with ok twice: %+v", id, *p)
		}
		p.doneAt = time.Now()
	}
	*what = max(*what, result)
}

// renewed writes down a renewal.
func (l *ledger) renewed(m *azservicebus.ReceivedMessage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, _ := idOf(m.Body)
	p := &l.messages[id].main
	if l.answered(err, 0) == ok && !m.LockedUntil.Before(p.lockedUntil) {
		p.lockedUntil = *m.LockedUntil
	}
}

// stillThere writes down what peek shows after all was drained.
func (l *ledger) stillThere(queue string, sub azservicebus.SubQueue, m *azservicebus.ReceivedMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.seen(queue, m)
	if e == nil {
		return
	}
	if m.State != azservicebus.MessageStateDeferred || sub == azservicebus.SubQueueDeadLetter || e.main.deferred == never {
		id, _ := idOf(m.Body)
		l.broken("I26 liveness", "%s is left in %s, sub-queue %d, in state %d, number %d: %+v", id, queue, sub, m.State, *m.SequenceNumber, *e)
		return
	}
	e.present = true
}

// books is what the ledger says in the end.
type books struct {
	messages, sentOK, sentUnknown int
	appeared                      int // unknown sends that were there
	// unseen: sent with ok, and gone in receive-and-delete mode without having reached a client
	lost, unseen int
	// gaps in the numbers of receive-and-delete mode: in all, the longest
	vanished, vanishedAtOnce int
	doubled                  int
}

// close checks what can be checked only when nothing moves any more.
func (l *ledger) close() books {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b books
	for id, e := range l.messages {
		b.messages++
		if e.sent == ok {
			b.sentOK++
		} else {
			b.sentUnknown++
			if e.number != 0 {
				b.appeared++
			}
		}
		l.closeMessage(&b, id, e)
	}
	// Each of them had a number when it went away: a lost one whose number was given again is
	// missing without a gap.
	if b.vanished, b.vanishedAtOnce = l.gaps(); b.unseen > b.vanished {
		l.broken("I1 no loss", "%d messages sent with ok went away in receive-and-delete mode, %d numbers were on their way", b.unseen, b.vanished)
	}
	l.closeBatches()
	l.closeProducers()
	b.doubled += len(l.faults["I3 no doubling"]) + len(l.faults["I4 done is done"])
	return b
}

// closeMessage checks that a message is where it must be, and in one place.
func (l *ledger) closeMessage(b *books, id string, e *entry) {
	switch {
	case e.queue == onceQueue:
		if e.sent == ok && e.taken == 0 {
			b.unseen++
		}
		return
	case e.main.deferred == ok && !e.present:
		b.lost++
		l.broken("I16 deferred", "%s was deferred with ok and is gone", id)
	case e.main.buried == ok && e.dead.completed == never:
		b.lost++
		l.broken("I1 no loss", "%s was dead-lettered with ok and never came out of the dead-letter queue", id)
	case e.sent == ok && e.main.completed == never && e.dead.completed == never && !e.present:
		b.lost++
		l.broken("I1 no loss", "%s was sent with ok and is gone: number %d, %+v", id, e.number, e.main)
	}
	if e.main.completed == ok && (e.dead.completed != never || e.present) || e.dead.completed == ok && e.present {
		b.doubled++
		l.broken("I17 one place", "%s: completed %d, from the dead-letter queue %d, deferred %v", id, e.main.completed, e.dead.completed, e.present)
	}
}

// closeBatches checks that of each batch all messages are there, or none.
func (l *ledger) closeBatches() {
	type batch struct{ all, there int }
	batches := map[string]*batch{}
	for _, e := range l.messages {
		if e.batch == "" || e.queue == onceQueue {
			continue
		}
		if batches[e.batch] == nil {
			batches[e.batch] = &batch{}
		}
		batches[e.batch].all++
		if e.number != 0 {
			batches[e.batch].there++
		}
	}
	for name, t := range batches {
		if t.there != 0 && t.there != t.all {
			l.broken("I19 atomic", "%d of %d messages of batch %s are there", t.there, t.all, name)
		}
	}
}

// closeProducers checks that what a producer sent later has a larger number.
func (l *ledger) closeProducers() {
	producers := map[string][]*entry{}
	for _, e := range l.messages {
		key := fmt.Sprint(e.queue, " ", e.producer)
		producers[key] = append(producers[key], e)
	}
	for key, sent := range producers {
		slices.SortFunc(sent, func(a, b *entry) int { return cmp.Compare(a.counter, b.counter) })
		var highest int64 // number of a message whose send had returned
		for _, e := range sent {
			if e.number != 0 && e.number <= highest {
				l.broken("I12 numbers", "message %d of %s got number %d after %d", e.counter, key, e.number, highest)
			}
			if e.sent == ok {
				highest = max(highest, e.number)
			}
		}
	}
}
