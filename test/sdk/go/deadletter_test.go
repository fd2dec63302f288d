package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var deadLettering = group{
	"dead-letter-reason":       deadLetterReason,
	"dead-letter-count-frozen": deadLetterCountFrozen,
	"dead-letter-not-twice":    deadLetterNotTwice,
	"dead-letter-defer":        deadLetterDefer,
	"dead-letter-paths":        deadLetterPaths,
}

// dead sends messages and dead-letters them.
func (b *bus) dead(bodies ...string) {
	b.Helper()
	b.send(bodies...)
	r := b.receiver()
	b.bury(r, b.take(r, bodies...)...)
}

func deadLetterReason(b *bus) {
	b.post(&message{Body: []byte("A"), MessageID: to.Ptr("id"), ApplicationProperties: map[string]any{"colour": "red"}})
	b.send("B")
	r := b.receiver()
	got := b.take(r, "A", "B")
	b.must(r.DeadLetterMessage(b.patient(), got[0], &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description")}))
	b.bury(r, got[1])
	b.nothing(r)
	b.empty(peekLock)

	dlq := b.deadLetters()
	dead := b.take(dlq, "A", "B")
	b.wantReason(dead[0], "reason")
	b.wantDescription(dead[0], "description")
	b.wantProperties(dead[0], map[string]any{"DeadLetterReason": "reason", "DeadLetterErrorDescription": "description", "colour": "red"})
	b.wantNumber(dead[0], got[0])
	b.wantCount(dead[0], 0)
	if dead[0].MessageID != "id" || !deref(dead[0].EnqueuedTime).Equal(*got[0].EnqueuedTime) {
		b.Errorf("id %q, enqueued at %s, before at %s", dead[0].MessageID, clock(deref(dead[0].EnqueuedTime)), clock(*got[0].EnqueuedTime))
	}
	b.wantReason(dead[1], "")
	b.wantDescription(dead[1], "")
	b.wantProperties(dead[1], nil)

	b.post(withID(dead[0].MessageID, string(dead[0].Body)))
	b.complete(dlq, dead...)
	b.empty(deadLetters)
	again := b.one(r, "A")
	b.wantCount(again, 0)
	b.wantReason(again, "")
	if again.MessageID != "id" || number(again) <= number(got[0]) {
		b.Errorf("id %q, number %d after %d", again.MessageID, number(again), number(got[0]))
	}
}

func deadLetterCountFrozen(b *bus) {
	b.send("A")
	r := b.receiver()
	b.abandon(r, b.one(r, "A"))
	b.bury(r, b.one(r, "A"))
	dlq := b.deadLetters()
	for range 4 {
		m := b.one(dlq, "A")
		b.wantCount(m, 1)
		b.abandon(dlq, m)
	}
	old := b.one(dlq, "A")
	b.wantCount(old, 1)
	second := b.deadLetters()
	c := b.waiting(second)
	m := b.ended(c, "A")
	b.wantOnTime("redelivered", c.at, deref(old.LockedUntil))
	b.wantCount(m, 1)
	b.complete(second, m)
}

func deadLetterNotTwice(b *bus) {
	b.dead("A")
	dlq := b.deadLetters()
	b.wantError("not-allowed", dlq.DeadLetterMessage(b.patient(), b.one(dlq, "A"), nil))
	b.wantTexts(b.peekAll(deadLetters), "A")
	b.nothing(b.deadLetters())
}

func deadLetterDefer(b *bus) {
	b.dead("A", "B")
	peeked := b.peekAll(deadLetters)
	b.wantTexts(peeked, "A", "B")
	for _, m := range peeked {
		b.wantCount(m, 0)
		b.wantState(m, azservicebus.MessageStateActive)
	}
	dlq := b.deadLetters()
	a := b.one(dlq, "A")
	before := *a.LockedUntil
	time.Sleep(10 * time.Millisecond) // the time of a lock has milliseconds
	b.renew(dlq, a)
	if !a.LockedUntil.After(before) {
		b.Errorf("renewed until %s, was %s", clock(*a.LockedUntil), clock(before))
	}
	b.postpone(dlq, a)
	second := b.one(dlq, "B")
	peeked = b.peekAll(deadLetters)
	b.wantTexts(peeked, "A", "B")
	b.wantState(peeked[0], azservicebus.MessageStateDeferred)
	b.wantCount(peeked[0], 0)
	b.wantState(peeked[1], azservicebus.MessageStateActive)
	got := b.deferred(dlq, number(a))
	b.wantTexts(got, "A")
	b.complete(dlq, got[0], second)
	b.empty(deadLetters)
}

func deadLetterPaths(b *bus) {
	b.dead("A")
	for _, path := range []string{"dead-letter-paths/$DeadLetterQueue", "DEAD-LETTER-PATHS/$deadletterqueue"} {
		r, err := b.client.NewReceiverForQueue(path, nil)
		b.must(err)
		b.abandon(r, b.one(r, "A"))
		b.close(r)
	}
	s, err := b.client.NewSender("dead-letter-paths/$DeadLetterQueue", nil)
	b.must(err)
	b.wantError("not-allowed", s.SendMessage(b.patient(), text("B"), nil))
	b.wantTexts(b.peekAll(deadLetters), "A")
}
