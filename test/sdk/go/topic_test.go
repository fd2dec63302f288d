package sdkgo

import (
	"bytes"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Topics. What a scenario does with a subscription it does on b.on(its name); sending is to the
// topic.
var topics = group{
	"topic-fan-out":         topicFanOut,
	"topic-batch":           topicBatch,
	"topic-no-subscription": topicNoSubscription,
	"topic-independent":     topicIndependent,
	"topic-dead-letter":     topicDeadLetter,
	"topic-max-delivery":    topicMaxDelivery,
	"topic-lock":            topicLock,
	"topic-sessions":        topicSessions,
	"topic-ttl":             topicTTL,
	"topic-schedule":        topicSchedule,
	"topic-schedule-rules":  topicScheduleRules,
	"topic-duplicates":      topicDuplicates,
	"topic-refused":         topicRefused,
	"topic-browse":          topicBrowse,
	"topic-status":          topicStatus,
}

// both are the scenario on its subscriptions one and two.
func (b *bus) both() []*bus { return []*bus{b.on("one"), b.on("two")} }

// wantNumbers checks the numbers of messages.
func (b *bus) wantNumbers(messages []*received, want ...int64) {
	b.Helper()
	var got []int64
	for _, m := range messages {
		n := number(m)
		if b.place.partitioned != nil {
			n &= 1<<48 - 1 // counts from 1 in each partition
		}
		got = append(got, n)
	}
	if !slices.Equal(got, want) {
		b.Errorf("numbers %v, want %v", got, want)
	}
}

// bare checks that a subscription has nothing at all.
func (b *bus) bare() {
	b.Helper()
	b.empty(peekLock)
	b.empty(deadLetters)
}

func topicFanOut(b *bus) {
	sent := func(body string) *message {
		return &message{
			Body: []byte(body), MessageID: to.Ptr("id-" + body), Subject: to.Ptr("subject"), CorrelationID: to.Ptr("correlation"),
			ContentType: to.Ptr("text/plain"), To: to.Ptr("to"), ReplyTo: to.Ptr("reply-to"), ReplyToSessionID: to.Ptr("reply-group"),
			SessionID: to.Ptr("group"), TimeToLive: to.Ptr(time.Hour), ApplicationProperties: map[string]any{"colour": "red"},
		}
	}
	b.post(sent("A"), sent("B"))
	var first []*received
	for _, s := range b.both() {
		r := s.receiver()
		got := s.take(r, "A", "B")
		s.wantNumbers(got, 1, 2)
		for i, m := range got {
			b.wantCount(m, 0)
			b.wantAbout("enqueued", deref(m.EnqueuedTime), time.Now(), 5*time.Second)
			b.wantProperties(m, map[string]any{"colour": "red"})
			for what, value := range map[string][2]string{
				"message id": {m.MessageID, "id-" + string(m.Body)}, "subject": {deref(m.Subject), "subject"}, "correlation id": {deref(m.CorrelationID), "correlation"},
				"content type": {deref(m.ContentType), "text/plain"}, "to": {deref(m.To), "to"}, "reply-to": {deref(m.ReplyTo), "reply-to"},
				"reply-to session id": {deref(m.ReplyToSessionID), "reply-group"}, "session id": {deref(m.SessionID), "group"},
			} {
				if value[0] != value[1] {
					b.Errorf("%q: %s %q, want %q", m.Body, what, value[0], value[1])
				}
			}
			b.wantExpiry(m, time.Hour)
			if first != nil && (!deref(first[i].EnqueuedTime).Equal(*m.EnqueuedTime) || deref(first[i].EnqueuedSequenceNumber) != deref(m.EnqueuedSequenceNumber)) {
				b.Errorf("%q: enqueued at %s as %d, the other copy at %s as %d", m.Body, clock(*m.EnqueuedTime), deref(m.EnqueuedSequenceNumber),
					clock(*first[i].EnqueuedTime), deref(first[i].EnqueuedSequenceNumber))
			}
		}
		if one, two := got[0].EnqueuedSequenceNumber, got[1].EnqueuedSequenceNumber; one == nil || two == nil || *two <= *one {
			b.Errorf("enqueued sequence numbers %v, %v", deref(one), deref(two))
		}
		first = got
		s.complete(r, got...)
		s.nothing(r)
	}
	for _, s := range b.both() {
		s.bare()
	}
}

func topicBatch(b *bus) {
	var all []*message
	var numbers []int64
	for i, body := range texts(100) {
		all = append(all, withID("id"+body, body))
		numbers = append(numbers, int64(i+1))
	}
	b.postBatch(all...)
	for _, s := range b.both() {
		r := s.receiver()
		got := s.take(r, texts(100)...)
		s.wantNumbers(got, numbers...)
		for _, m := range got {
			if m.MessageID != "id"+string(m.Body) {
				b.Errorf("%q: id %q", m.Body, m.MessageID)
			}
		}
		s.complete(r, got...)
		s.empty(peekLock)
	}
}

func topicNoSubscription(b *bus) {
	b.send("A")
	b.createSubscription(b.queue, "late", subscriptionProperties{})
	late := b.on("late")
	r := late.receiver()
	late.nothing(r)
	late.empty(peekLock)
	b.send("B")
	got := late.take(r, "B")
	late.wantNumbers(got, 1)
	late.complete(r, got...)
	late.nothing(r)
	if p := b.topicRuntime(b.queue); p.SizeInBytes != 0 || p.SubscriptionCount != 1 {
		b.Errorf("size %d, %d subscriptions", p.SizeInBytes, p.SubscriptionCount)
	}
}

func topicIndependent(b *bus) {
	b.send("A", "B", "C", "D")
	one, two := b.on("one"), b.on("two")
	r := one.receiver()
	got := one.take(r, "A", "B", "C", "D")
	one.complete(r, got[0])
	one.abandon(r, got[1])
	one.postpone(r, got[2])
	one.bury(r, got[3])
	peeked := two.peekAll(peekLock)
	two.wantTexts(peeked, "A", "B", "C", "D")
	for _, m := range peeked {
		two.wantState(m, azservicebus.MessageStateActive)
		two.wantCount(m, 0)
	}
	peeked = one.peekAll(peekLock)
	one.wantTexts(peeked, "B", "C")
	one.wantCount(peeked[0], 1)
	one.wantState(peeked[1], azservicebus.MessageStateDeferred)

	other := two.receiver()
	all := two.take(other, "A", "B", "C", "D")
	for _, m := range all {
		two.wantCount(m, 0)
	}
	two.complete(other, all...)
	two.bare()

	again := one.one(r, "B")
	one.wantCount(again, 1)
	one.complete(r, again)
	one.complete(r, one.deferred(r, number(got[2]))...)
	dlq := one.deadLetters()
	one.complete(dlq, one.one(dlq, "D"))
	one.bare()
}

func topicDeadLetter(b *bus) {
	one, two := b.on("one"), b.on("two")
	b.post(&message{Body: []byte("A"), MessageID: to.Ptr("id"), ApplicationProperties: map[string]any{"colour": "red"}})
	r, other := one.receiver(), two.receiver()
	m := one.one(r, "A")
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{Reason: to.Ptr("reason"), ErrorDescription: to.Ptr("description")}))
	one.nothing(r)
	dlq := one.deadLetters()
	dead := one.one(dlq, "A")
	one.wantReason(dead, "reason")
	one.wantDescription(dead, "description")
	one.wantProperties(dead, map[string]any{"DeadLetterReason": "reason", "DeadLetterErrorDescription": "description", "colour": "red"})
	one.wantNumber(dead, m)
	two.empty(deadLetters)
	two.complete(other, two.one(other, "A"))

	b.post(withID(dead.MessageID, string(dead.Body)))
	one.complete(dlq, dead)
	for s, r := range map[*bus]receiver{one: r, two: other} {
		m := s.one(r, "A")
		if m.MessageID != "id" {
			s.Errorf("id %q", m.MessageID)
		}
		s.wantCount(m, 0)
		s.wantReason(m, "")
		s.complete(r, m)
	}
	one.empty(deadLetters)
}

func topicMaxDelivery(b *bus) {
	few, many := b.on("few"), b.on("many")
	b.send("A")
	r := few.receiver()
	for n := range 2 {
		m := few.one(r, "A")
		few.wantCount(m, n)
		few.abandon(r, m)
	}
	few.nothing(r)
	few.empty(peekLock)
	dead := few.one(few.deadLetters(), "A")
	few.wantCount(dead, 2)
	few.wantReason(dead, "MaxDeliveryCountExceeded")
	few.wantDescription(dead, "Message could not be consumed after 2 delivery attempts.")
	r = many.receiver()
	for n := range 3 {
		m := many.one(r, "A")
		many.wantCount(m, n)
		many.abandon(r, m)
	}
	m := many.one(r, "A")
	many.wantCount(m, 3)
	many.complete(r, m)
	many.empty(deadLetters)
}

func topicLock(b *bus) {
	short, long := b.on("short"), b.on("long")
	r, other := short.receiver(), long.receiver()
	b.send("A", "B")
	got := short.take(r, "A", "B")
	for _, m := range got {
		short.wantLocked(m, 5*time.Second, 2*time.Second)
	}
	unhurried := long.take(other, "A", "B")
	for _, m := range unhurried {
		long.wantLocked(m, time.Minute, 2*time.Second)
	}
	long.complete(other, unhurried...)
	before := *got[0].LockedUntil
	time.Sleep(10 * time.Millisecond) // the time of a lock has milliseconds
	short.renew(r, got[0])
	if !got[0].LockedUntil.After(before) {
		b.Errorf("renewed until %s, was %s", clock(*got[0].LockedUntil), clock(before))
	}
	short.complete(r, got[0])
	second := short.receiver()
	m := short.redelivered(second, got[1])
	short.wantError("lock-lost", r.CompleteMessage(b.patient(), got[1], nil))
	short.complete(second, m)
}

func topicSessions(b *bus) {
	b.post(inSession("s", "A"), inSession("s", "B"), inSession("t", "C"))
	b.send("D")
	grouped, plain := b.on("grouped"), b.on("plain")
	s := grouped.accept("s")
	got := grouped.take(s, "A", "B")
	b.must(s.SetSessionState(b.patient(), []byte("state"), nil))
	state, err := s.GetSessionState(b.patient(), nil)
	if b.must(err); string(state) != "state" {
		b.Errorf("state %q", state)
	}
	grouped.complete(s, got...)
	grouped.nothing(s)
	grouped.close(s)
	t := grouped.accept("t")
	grouped.complete(t, grouped.one(t, "C"))
	grouped.close(t)
	dlq := grouped.deadLetters()
	dead := grouped.one(dlq, "D")
	grouped.wantReason(dead, "Session id is null.")
	grouped.wantDescription(dead, "Session enabled entity doesn't allow a message whose session identifier is null.")
	grouped.complete(dlq, dead)
	grouped.noSessionLeft()

	r := plain.receiver()
	all := plain.receive(r, 4)
	if plain.place.partitioned != nil { // a session has its partition
		slices.SortFunc(all, func(one, other *received) int { return bytes.Compare(one.Body, other.Body) })
	}
	plain.wantTexts(all, "A", "B", "C", "D")
	for i, id := range []string{"s", "s", "t"} {
		plain.wantSession(all[i], id)
	}
	plain.complete(r, all...)
}

func topicTTL(b *bus) {
	const limit = 3 * time.Second
	capped := b.at("topic-ttl-capped")
	b.createTopic(capped.queue, topicProperties{DefaultMessageTimeToLive: to.Ptr("PT3S")})
	b.createSubscription(capped.queue, "long", subscriptionProperties{DefaultMessageTimeToLive: to.Ptr("PT1H"), DeadLetteringOnMessageExpiration: to.Ptr(true)})
	capped = capped.on("long")
	short, long := b.on("short"), b.on("long")
	b.send("A")
	b.post(mortal("B", time.Hour))
	var last time.Time
	for s, life := range map[*bus]time.Duration{short: limit, long: time.Hour} {
		peeked := s.peekAll(peekLock)
		s.wantTexts(peeked, "A", "B")
		s.wantLasting(peeked[0])
		s.wantExpiry(peeked[1], life)
		last = *peeked[1].EnqueuedTime
	}
	capped.post(mortal("C", time.Hour))
	peeked := capped.peekAll(peekLock)
	capped.wantTexts(peeked, "C")
	capped.wantExpiry(peeked[0], limit)
	if c := *peeked[0].EnqueuedTime; c.After(last) {
		last = c
	}
	outlive(last.Add(limit))
	short.nothing(short.receiver())
	for _, m := range short.take(short.deadLetters(), "A", "B") {
		short.wantReason(m, "TTLExpiredException")
	}
	r := long.receiver()
	got := long.take(r, "A", "B")
	for _, m := range got {
		long.wantExpiry(m, time.Hour)
	}
	long.complete(r, got...)
	capped.nothing(capped.receiver())
	capped.one(capped.deadLetters(), "C")
}

func topicSchedule(b *bus) {
	receivers := map[*bus]receiver{}
	for _, s := range b.both() {
		receivers[s] = s.receiver()
	}
	b.send("O")
	for s, r := range receivers {
		s.complete(r, s.one(r, "O"))
	}
	due := soon(4 * time.Second)
	numbers := append(b.schedule(due, text("A"), text("B")), b.schedule(due, text("X"))...)
	if slices.Sort(numbers); len(slices.Compact(numbers)) != 3 {
		b.Errorf("numbers %d", numbers)
	}
	b.must(b.cancel(numbers[2]))
	c := text("C")
	c.ScheduledEnqueueTime = &due
	b.post(c)
	if p := b.topicRuntime(b.queue); p.ScheduledMessageCount != 3 {
		b.Errorf("the topic has %d scheduled", p.ScheduledMessageCount)
	}
	if p := b.subscriptionRuntime(b.queue, "one"); p.ActiveMessageCount != 0 || p.TotalMessageCount != 0 {
		b.Errorf("the subscription has %d active, %d in total", p.ActiveMessageCount, p.TotalMessageCount)
	}
	for s := range receivers {
		s.empty(peekLock)
	}
	for s, r := range receivers {
		got := s.receive(r, 3)
		s.wantOnTime("received", time.Now(), due)
		s.wantEach(bodies(got), []string{"A", "B", "C"})
		for _, m := range got {
			s.wantAfter("enqueued", *m.EnqueuedTime, due)
		}
		s.complete(r, got...)
	}
	for s, r := range receivers {
		s.nothing(r)
	}
	if p := b.topicRuntime(b.queue); p.ScheduledMessageCount != 0 {
		b.Errorf("the topic has %d scheduled", p.ScheduledMessageCount)
	}
}

func topicScheduleRules(b *bus) {
	b.getRule(b.queue, "one", "red") // has its connection before the clock runs
	b.batch()                        // so has the sender
	due := soon(4 * time.Second)
	b.schedule(due, coloured("A", "red"), coloured("B", "blue"))
	b.deleteRule(b.queue, "one", "red")
	b.createRule(b.queue, "one", sqlRule("blue", "colour = 'blue'"))
	one := b.on("one")
	r := one.receiver()
	one.complete(r, one.one(r, "B"))
	one.nothing(r)
	one.bare()
}

func topicDuplicates(b *bus) {
	b.post(withID("1", "A"), withID("1", "X"), withID("2", "B"))
	one, renamed := b.on("one"), b.on("renamed")
	r := one.receiver()
	got := one.take(r, "A", "B")
	if got[0].MessageID != "1" || got[1].MessageID != "2" {
		b.Errorf("ids %q, %q", got[0].MessageID, got[1].MessageID)
	}
	one.complete(r, got...)
	b.post(withID("2", "Y"))
	one.nothing(r)
	r = renamed.receiver()
	got = renamed.take(r, "A", "B")
	if got[0].MessageID != "same" || got[1].MessageID != "same" {
		b.Errorf("ids %q, %q", got[0].MessageID, got[1].MessageID)
	}
	renamed.complete(r, got...)
	renamed.nothing(r)
}

func topicRefused(b *bus) {
	b.wantError("not-allowed", b.receiveError(b.receiver()))
	s, err := b.client.NewSender(b.queue+"/Subscriptions/one", nil)
	b.must(err)
	b.wantError("not-allowed", s.SendMessage(b.patient(), text("A"), nil))
	missing := b.on("missing")
	b.wantError("entity-not-found", missing.receiveError(missing.receiver()))
	b.wantError("entity-not-found", missing.peekError(missing.receiver()))
	b.send("B")
	one := b.on("one")
	r := one.receiver()
	one.complete(r, one.one(r, "B"))
	one.empty(peekLock)
}

func topicBrowse(b *bus) {
	b.send("L", "D", "A")
	one := b.on("one")
	r := one.receiver()
	got := one.take(r, "L", "D")
	one.postpone(r, got[1])
	shouted := b.at("TOPIC-BROWSE").on("ONE")
	for _, s := range []*bus{one, one, shouted} {
		peeked := s.peekAll(peekLock)
		s.wantTexts(peeked, "L", "D", "A")
		s.wantNumbers(peeked, 1, 2, 3)
		s.wantState(peeked[0], azservicebus.MessageStateActive)
		s.wantState(peeked[1], azservicebus.MessageStateDeferred)
		s.wantState(peeked[2], azservicebus.MessageStateActive)
	}
	other := shouted.receiver()
	shouted.complete(other, shouted.deferred(other, number(got[1]))...)
	one.complete(r, got[0])
	a := one.one(r, "A")
	one.wantCount(a, 0)
	one.complete(r, a)
	one.empty(peekLock)
}

func topicStatus(b *bus) {
	open, closed := b.on("open"), b.on("closed")
	b.send("A")
	b.wantError("disabled", closed.receiveError(closed.receiver()))
	b.wantError("disabled", closed.peekError(closed.receiver()))
	r := open.receiver()
	open.complete(r, open.one(r, "A"))

	setStatus := func(status admin.EntityStatus) {
		b.updateTopic(b.queue, func(p *topicProperties) { p.Status = &status })
		if got := b.mustTopic(b.queue).Status; deref(got) != status {
			b.Errorf("status %s, want %s", deref(got), status)
		}
	}
	setStatus(admin.EntityStatusSendDisabled)
	b.wantError("disabled", b.senderOf(b.client).SendMessage(b.patient(), text("B"), nil))
	setStatus(admin.EntityStatusActive)
	b.must(b.senderOf(b.client).SendMessage(b.patient(), b.keyed(text("C")), nil))

	// the SDK sends no status, which makes it active
	b.updateSubscription(b.queue, "closed", func(*subscriptionProperties) {})
	r = closed.receiver()
	closed.complete(r, closed.take(r, "A", "C")...)
	r = open.receiver()
	open.complete(r, open.one(r, "C"))
}
