package sdkgo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var forwarding = group{
	"forward-queue":                forwardQueue,
	"forward-properties":           forwardProperties,
	"forward-existing":             forwardExisting,
	"forward-topics":               forwardTopics,
	"forward-chain":                forwardChain,
	"forward-refused":              forwardRefused,
	"forward-unable":               forwardUnable,
	"forward-transfer-dead-letter": forwardTransferDeadLetter,
	"forward-dead-letters":         forwardDeadLetters,
	"forward-dead-letters-stay":    forwardDeadLettersStay,
	"forward-dead-letters-full":    forwardDeadLettersFull,
	"forward-door":                 forwardDoor,
	"forward-survives-kill":        forwardSurvivesKill,
}

var transferDeadLetters = &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueTransfer}

const hopLimit = "MaxTransferHopCountExceeded"

// forwarder makes a queue whose name ends like that, and which forwards to another one.
func (b *bus) forwarder(end, target string) *bus {
	b.Helper()
	b.createQueue(b.queue+end, queueProperties{ForwardTo: to.Ptr(target)})
	return b.at(b.queue + end)
}

// chain makes five queues, each of which forwards to the next and the last to the scenario's.
func (b *bus) chain() (links []*bus) {
	b.Helper()
	target := b.queue
	for i := 5; i > 0; i-- {
		link := b.forwarder(fmt.Sprintf("-%d", i), target)
		links, target = append([]*bus{link}, links...), link.queue
	}
	return links
}

// wantDead receives a message of a sub-queue, which has the text and the reason.
func (b *bus) wantDead(options *azservicebus.ReceiverOptions, body, reason string) *received {
	b.Helper()
	r := b.receiverOf(b.client, options)
	m := b.one(r, body)
	b.wantReason(m, reason)
	b.complete(r, m)
	return m
}

// wantDrained waits until a queue has no message of any kind.
func (b *bus) wantDrained() {
	b.Helper()
	b.wantRuntime("has no messages", func(r admin.QueueRuntimeProperties) bool {
		return r.TotalMessageCount == 0 && r.TransferMessageCount == 0
	})
}

// wantRuntime waits until the counters of a queue are as they should be.
func (b *bus) wantRuntime(what string, reached func(admin.QueueRuntimeProperties) bool) {
	b.Helper()
	for end := time.Now().Add(promptly); ; time.Sleep(50 * time.Millisecond) {
		r := b.queueRuntime(b.queue)
		if reached(r) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("it is not so that %s %s: %+v", b.queue, what, r)
		}
	}
}

// fill sends large messages until the queue is full.
func (b *bus) fill() {
	b.Helper()
	for range 10 {
		if err := b.trySend(text(large)); err != nil {
			b.wantError("queue-full", err)
			return
		}
	}
	b.Fatalf("the queue is never full")
}

// large is a text of which few fit into the smallest queue.
var large = string(make([]byte, 200_000))

func forwardQueue(b *bus) {
	source := b.forwarder("-source", b.queue)
	source.sendAll(texts(100))
	r := b.receiver()
	got := b.take(r, texts(100)...)
	for _, m := range got {
		b.wantCount(m, 0)
	}
	b.complete(r, got...)
	b.nothing(r)
	source.wantDrained()
	_, err := source.receiver().ReceiveMessages(b.patient(), 1, nil)
	b.wantError("not-allowed", err, "auto-forwarding enabled")
}

func forwardProperties(b *bus) {
	source := b.forwarder("-source", b.queue)
	b.send("X")
	source.send("B")
	source.post(&message{
		Body: []byte("A"), ContentType: to.Ptr("application/json"), CorrelationID: to.Ptr("correlation"), MessageID: to.Ptr("id"), PartitionKey: to.Ptr("group"),
		SessionID: to.Ptr("group"), ReplyTo: to.Ptr("reply-to"), ReplyToSessionID: to.Ptr("reply-group"), Subject: to.Ptr("subject"), To: to.Ptr("to"),
		TimeToLive: to.Ptr(time.Hour), ApplicationProperties: map[string]any{"colour": "red"},
	})
	got, last, first := b.receive(b.receiver(), 3), int64(3), int64(2)
	// A has a partition of its own, of the same number there as here
	if b.place.partitioned != nil {
		slices.SortFunc(got, func(one, other *received) int { return cmp.Compare(string(other.Body), string(one.Body)) })
		last = number(got[2])
		first = last&^(1<<48-1) + 1
	}
	b.wantEach(bodies(got), []string{"X", "B", "A"})
	a := got[2]
	for name, pair := range map[string][2]any{
		"body": {string(a.Body), "A"}, "content type": {deref(a.ContentType), "application/json"}, "correlation id": {deref(a.CorrelationID), "correlation"},
		"message id": {a.MessageID, "id"}, "partition key": {deref(a.PartitionKey), "group"}, "session id": {deref(a.SessionID), "group"},
		"reply-to": {deref(a.ReplyTo), "reply-to"}, "reply-to session id": {deref(a.ReplyToSessionID), "reply-group"},
		"subject": {deref(a.Subject), "subject"}, "to": {deref(a.To), "to"}, "number": {number(a), last},
		"enqueued sequence number": {deref(a.EnqueuedSequenceNumber), first}, "dead-letter source": {deref(a.DeadLetterSource), ""},
	} {
		if pair[0] != pair[1] {
			b.Errorf("%s %v, want %v", name, pair[0], pair[1])
		}
	}
	b.wantProperties(a, map[string]any{"colour": "red"})
	b.wantExpiry(a, time.Hour)
}

func forwardExisting(b *bus) {
	b.createQueue(b.queue+"-source", queueProperties{})
	source := b.at(b.queue + "-source")
	source.send("A", "B", "C")
	b.updateQueue(source.queue, func(p *queueProperties) { p.ForwardTo = to.Ptr(b.queue) })
	r := b.receiver()
	b.complete(r, b.take(r, "A", "B", "C")...)
	b.updateQueue(source.queue, func(p *queueProperties) { p.ForwardTo = nil })
	source = b.at(source.queue)
	source.send("D")
	there := source.receiver()
	source.complete(there, source.one(there, "D"))
	b.nothing(b.receiver())
}

func forwardTopics(b *bus) {
	one, two := b.queue+"-one", b.queue+"-two"
	b.createTopic(two, topicProperties{}, "all")
	b.createSubscription(two, "red", subscriptionProperties{ForwardTo: to.Ptr(b.queue), DefaultRule: to.Ptr(sqlRule("red", "colour = 'red'"))})
	b.createTopic(one, topicProperties{})
	b.createSubscription(one, "on", subscriptionProperties{ForwardTo: to.Ptr(two)})
	source := b.forwarder("-source", one)
	source.post(&message{Body: []byte("A"), ApplicationProperties: map[string]any{"colour": "blue"}},
		&message{Body: []byte("B"), ApplicationProperties: map[string]any{"colour": "red"}})
	r := b.receiver()
	got := b.one(r, "B")
	b.wantProperties(got, map[string]any{"colour": "red"})
	b.complete(r, got)
	b.nothing(r)
	all := b.at(two).on("all")
	b.wantEach(bodies(all.receive(all.receiver(), 2)), []string{"A", "B"})
}

func forwardChain(b *bus) {
	links := b.chain()
	links[0].send("A")
	links[1].send("B")
	r := b.receiver()
	b.complete(r, b.one(r, "B"))
	b.nothing(r)
	dead := links[4].wantDead(deadLetters, "A", hopLimit)
	b.wantDescription(dead, "The maximum number of allowed hops when forwarding between queues has been exceeded.")

	b.createQueue(b.queue+"-a", queueProperties{})
	second := b.forwarder("-b", b.queue+"-a")
	b.updateQueue(b.queue+"-a", func(p *queueProperties) { p.ForwardTo = to.Ptr(second.queue) })
	first := b.at(b.queue + "-a")
	first.send("C")
	first.wantDead(deadLetters, "C", hopLimit)
}

func forwardRefused(b *bus) {
	source := b.forwarder("-source", b.queue)
	source.post(text("A"), inSession("s", "B"), inSession("s", "C"))
	s := b.accept("s")
	b.complete(s, b.take(s, "B", "C")...)
	dlq := source.deadLetters()
	a := source.one(dlq, "A")
	if got := deref(a.DeadLetterErrorDescription); !strings.Contains(got, "The SessionId was not set on a message") {
		b.Errorf("description %q", got)
	}
	source.complete(dlq, a)
}

// unable makes a queue that takes nothing, and one that forwards to it.
func (b *bus) unable() *bus {
	b.Helper()
	b.createQueue(b.queue+"-off", queueProperties{Status: to.Ptr(admin.EntityStatusSendDisabled)})
	return b.forwarder("-to-off", b.queue+"-off")
}

func forwardUnable(b *bus) {
	b.createQueue(b.queue+"-gone", queueProperties{})
	off, gone, full := b.unable(), b.forwarder("-to-gone", b.queue+"-gone"), b.forwarder("-to-full", b.queue)
	b.deleteQueue(b.queue + "-gone")
	b.fill()
	for _, source := range []*bus{off, gone, full} {
		source.send(large)
	}
	off.wantDead(deadLetters, large, "MessagingEntityDisabledException")
	gone.wantDead(deadLetters, large, "MessagingEntityNotFoundException")
	full.wantDead(deadLetters, large, "QuotaExceededException")
}

func forwardTransferDeadLetter(b *bus) {
	b.restart(`{"forwarding": {"failures-to": "transfer-dead-letter"}}`)
	links, off, full := b.chain(), b.unable(), b.forwarder("-to-full", b.queue)
	b.fill()
	for _, source := range []*bus{links[0], off, full} {
		source.send(large)
	}
	links[4].wantDead(transferDeadLetters, large, hopLimit)
	off.wantDead(transferDeadLetters, large, "MessagingEntityDisabledException")
	full.wantDead(transferDeadLetters, large, "QuotaExceededException")
	links[4].nothing(links[4].deadLetters())
	b.kill(nil)
}

func forwardDeadLetters(b *bus) {
	b.createQueue(b.queue+"-source", queueProperties{ForwardDeadLetteredMessagesTo: to.Ptr(b.queue)})
	source := b.at(b.queue + "-source")
	source.post(&message{Body: []byte("A"), ApplicationProperties: map[string]any{"colour": "red"}})
	there := source.receiver()
	source.buryFor("reason", there, source.one(there, "A"))
	r := b.receiver()
	a := b.one(r, "A")
	b.wantProperties(a, map[string]any{"colour": "red"})
	b.wantReason(a, "reason")
	b.wantCount(a, 0)
	if got := deref(a.DeadLetterSource); got != source.queue {
		b.Errorf("dead-letter source %q, want %q", got, source.queue)
	}
	b.complete(r, a)
	b.nothing(r)
	_, err := source.deadLetters().ReceiveMessages(b.patient(), 1, nil)
	b.wantError("not-allowed", err, "auto-forwarding enabled")
}

func forwardDeadLettersStay(b *bus) {
	b.createQueue(b.queue+"-a", queueProperties{ForwardDeadLetteredMessagesTo: to.Ptr(b.queue)})
	second := b.forwarder("-b", b.queue+"-a")
	b.updateQueue(b.queue+"-a", func(p *queueProperties) { p.ForwardTo = to.Ptr(second.queue) })
	first := b.at(b.queue + "-a")
	first.send("C")
	first.wantRuntime("has one dead letter", func(r admin.QueueRuntimeProperties) bool {
		return r.TotalMessageCount == 1 && r.DeadLetterMessageCount == 1 && r.TransferMessageCount == 0
	})
	b.nothing(b.receiver())
	b.updateQueue(first.queue, func(p *queueProperties) { p.ForwardDeadLetteredMessagesTo = nil })
	first.wantDead(deadLetters, "C", hopLimit)
}

func forwardDeadLettersFull(b *bus) {
	b.createQueue(b.queue+"-source", queueProperties{ForwardDeadLetteredMessagesTo: to.Ptr(b.queue)})
	source := b.at(b.queue + "-source")
	b.fill()
	source.send(large)
	there := source.receiver()
	source.buryFor("reason", there, source.one(there, large))
	source.wantRuntime("has one message", func(r admin.QueueRuntimeProperties) bool { return r.TotalMessageCount == 1 })
	r := b.receiver()
	for late := false; !late; {
		m := b.receive(r, 1)[0]
		if late = m.DeadLetterSource != nil; late {
			b.wantReason(m, "reason")
			b.wantEach([]string{*m.DeadLetterSource}, []string{source.queue})
		}
		b.complete(r, m)
	}
	b.nothing(r)
	source.wantDrained()
}

func forwardDoor(b *bus) {
	source := b.forwarder("-source", b.queue)
	source.post(withID("0", "O"))
	r := b.receiver()
	b.complete(r, b.one(r, "O"))
	due := soon(4 * time.Second)
	source.schedule(due, withID("3", "C"))
	source.post(withID("1", "A"), withID("1", "X"), &message{Body: []byte("B"), MessageID: to.Ptr("2"), TimeToLive: to.Ptr(time.Hour)})
	got := b.take(r, "A", "B")
	b.wantExpiry(got[1], time.Hour)
	b.one(r, "C")
	b.wantAfter("received C", time.Now(), due)
	b.nothing(r)
}

func forwardSurvivesKill(b *bus) {
	topic := b.queue + "-topic"
	b.createTopic(topic, topicProperties{})
	b.createSubscription(topic, "on", subscriptionProperties{ForwardTo: to.Ptr(b.queue)})
	source := b.forwarder("-source", topic)
	var all []string
	for round := range 4 {
		var some []string
		for _, body := range texts(100) {
			some = append(some, fmt.Sprintf("%d %s", round, body))
		}
		source.sendAll(some)
		b.kill(nil)
		all, source = append(all, some...), b.at(source.queue)
	}
	r := b.remover()
	b.wantEach(bodies(b.receive(r, len(all))), all)
	b.nothing(b.receiver())
	source.wantDrained()
	if n := b.subscriptionRuntime(topic, "on").TotalMessageCount; n != 0 {
		b.Errorf("the subscription has %d messages", n)
	}
}
