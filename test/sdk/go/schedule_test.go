package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var scheduling = group{
	"schedule-property":      scheduleProperty,
	"schedule-call":          scheduleCall,
	"schedule-cancel":        scheduleCancel,
	"schedule-time-to-live":  scheduleTimeToLive,
	"schedule-survives-kill": scheduleSurvivesKill,
}

// scheduledAt is a message with a scheduled time.
func scheduledAt(t time.Time, m *message) *message {
	m.ScheduledEnqueueTime = &t
	return m
}

func scheduleProperty(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	due, past := soon(4*time.Second), soon(-time.Hour)
	b.post(scheduledAt(due, text("A")), scheduledAt(past, text("B")))
	b.schedule(past, text("C"))
	asked := time.Now()
	for _, m := range b.take(r, "B", "C") {
		b.wantState(m, azservicebus.MessageStateActive)
	}
	b.wantBefore("what was due", time.Now(), asked.Add(promptly))
	b.nothing(r)
	peeked := map[string]azservicebus.MessageState{}
	for _, m := range b.peekAll(peekLock) {
		peeked[string(m.Body)] = m.State
	}
	if len(peeked) != 3 || peeked["A"] != azservicebus.MessageStateScheduled {
		b.Errorf("peeked %v", peeked)
	}
	c := b.waiting(r)
	a := b.ended(c, "A")
	b.wantOnTime("received", c.at, due)
	b.wantAfter("enqueued", deref(a.EnqueuedTime), due)
	b.wantState(a, azservicebus.MessageStateScheduled)
}

func scheduleCall(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	due := soon(4 * time.Second)
	numbers := b.schedule(due, text("A"), text("B"))
	if len(numbers) != 2 || numbers[0] >= numbers[1] {
		b.Fatalf("numbers %d", numbers)
	}
	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "A", "B")
	for i, m := range peeked {
		b.wantState(m, azservicebus.MessageStateScheduled)
		if number(m) != numbers[i] {
			b.Errorf("%q peeked with the number %d, scheduled with %d", m.Body, number(m), numbers[i])
		}
	}
	b.nothing(r)
	got := b.take(r, "A", "B")
	b.wantOnTime("received", time.Now(), due)
	for _, m := range got {
		b.wantAfter("enqueued", deref(m.EnqueuedTime), due)
		if number(m) <= numbers[1] {
			b.Errorf("%q: number %d, scheduled with %d", m.Body, number(m), numbers)
		}
	}
}

func scheduleCancel(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	numbers := b.schedule(soon(4*time.Second), text("A"), text("B"))
	b.must(b.cancel(numbers[0]))
	b.wantTexts(b.peekAll(peekLock), "B")
	b.wantError("message-not-found", b.cancel(numbers[0]))
	b.wantError("message-not-found", b.cancel(999_999))
	b.one(r, "B")
	b.nothing(r)
	b.wantError("message-not-found", b.cancel(numbers[1]))
}

func scheduleTimeToLive(b *bus) {
	r := b.receiver()
	b.warmUp(r)
	due := soon(4 * time.Second)
	b.post(scheduledAt(due, mortal("A", time.Second)))
	m := b.one(r, "A")
	b.wantAfter("enqueued", deref(m.EnqueuedTime), due)
	b.wantExpiry(m, time.Second)
	b.complete(r, m)
	b.empty(deadLetters)
}

func scheduleSurvivesKill(b *bus) {
	b.batch() // the sender has its link before the clock runs
	late := soon(6 * time.Second)
	b.schedule(late, text("B"))
	x := b.schedule(late, text("X"))
	b.schedule(soon(time.Second), text("A"))
	b.must(b.cancel(x[0]))
	b.kill(nil)
	due := late
	if now := time.Now(); now.After(due) {
		due = now // the broker has been there since now, which is late, and not its fault
	}
	r := b.receiver()
	b.one(r, "A")
	b.one(r, "B")
	b.wantAfter("B received", time.Now(), late)
	b.wantBefore("B received", time.Now(), due.Add(promptly))
	b.nothing(r)
	b.wantTexts(b.peekAll(peekLock), "A", "B")
}
