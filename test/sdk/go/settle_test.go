package sdkgo

import (
	"maps"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var settling = group{
	"settle-twice":         settleTwice,
	"settle-four-ways":     settleFourWays,
	"settle-properties":    settleProperties,
	"settle-survives-kill": settleSurvivesKill,
}

func settleTwice(b *bus) {
	b.send("A")
	r := b.receiver()
	m := b.one(r, "A")
	b.complete(r, m)
	// of the message itself the SDK knows that it is settled
	b.wantError("lock-lost", r.CompleteMessage(b.patient(), token(m), nil))
	b.wantError("lock-lost", r.AbandonMessage(b.patient(), token(m), nil))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func settleFourWays(b *bus) {
	b.send("A", "B", "C", "D", "E")
	r := b.receiver()
	got := b.take(r, "A", "B", "C", "D")
	for _, m := range got {
		b.wantCount(m, 0)
	}
	b.bury(r, got[3])
	b.postpone(r, got[2])
	b.abandon(r, got[1])
	b.complete(r, got[0])

	again := b.one(r, "B")
	b.wantCount(again, 1)
	b.wantNumber(again, got[1])
	e := b.one(r, "E")
	b.wantCount(e, 0)
	b.abandon(r, again, e)

	peeked := b.peekAll(peekLock)
	b.wantTexts(peeked, "B", "C", "E")
	for i, counted := range []int{2, 1, 1} {
		b.wantCount(peeked[i], counted)
	}
	b.wantState(peeked[0], azservicebus.MessageStateActive)
	b.wantState(peeked[1], azservicebus.MessageStateDeferred)
	b.wantState(peeked[2], azservicebus.MessageStateActive)
	b.wantCount(b.one(b.deadLetters(), "D"), 0)
}

func settleProperties(b *bus) {
	want := map[string]any{"colour": "red", "size": int64(1)}
	b.post(&message{Body: []byte("A"), ApplicationProperties: maps.Clone(want)})
	r := b.receiver()
	m := b.one(r, "A")

	change := map[string]any{"size": int64(2), "why": "again"}
	b.must(r.AbandonMessage(b.patient(), m, &azservicebus.AbandonMessageOptions{PropertiesToModify: change}))
	maps.Copy(want, change)
	m = b.one(r, "A")
	b.wantProperties(m, want)

	change = map[string]any{"why": "later"}
	b.must(r.DeferMessage(b.patient(), m, &azservicebus.DeferMessageOptions{PropertiesToModify: change}))
	maps.Copy(want, change)
	m = b.deferred(r, number(m))[0]
	b.wantProperties(m, want)

	change = map[string]any{"why": "last", "added": int64(3)}
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{
		Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description"), PropertiesToModify: change,
	}))
	maps.Copy(want, change)
	dead := b.one(b.deadLetters(), "A")
	b.wantProperties(dead, want)
	b.wantReason(dead, "reason")
	b.wantDescription(dead, "description")
}

func settleSurvivesKill(b *bus) {
	for _, body := range []string{"A", "B", "C", "D", "E"} {
		b.post(&message{Body: []byte(body), ApplicationProperties: map[string]any{"own": body}})
	}
	r := b.receiver()
	got := b.take(r, "A", "B", "C", "D")
	b.complete(r, got[0])
	b.abandon(r, got[1])
	b.postpone(r, got[2])
	b.buryFor("reason", r, got[3])
	before := b.peekAll(peekLock)
	b.kill(nil)

	after := b.peekAll(peekLock)
	b.wantTexts(after, "B", "C", "E")
	b.wantCount(after[0], 1)
	b.wantState(after[1], azservicebus.MessageStateDeferred)
	for i, m := range after {
		if !slices.Equal(what(m), what(before[i])) {
			b.Errorf("%v after the kill, %v before", what(m), what(before[i]))
		}
	}
	b.wantReason(b.one(b.deadLetters(), "D"), "reason")

	left := b.take(r, "B", "E")
	b.complete(r, append(left, b.deferred(r, number(got[2]))...)...)
	b.empty(peekLock)
	b.kill(nil)
	b.empty(peekLock)
}

// what is what identifies a message.
func what(m *received) []any {
	return []any{number(m), deref(m.EnqueuedTime).UTC(), m.MessageID, m.ApplicationProperties["own"]}
}
