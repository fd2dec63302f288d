package sdkgo

import (
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/google/go-cmp/cmp"
)

// Administration of each kind of entity: properties, counters and times.
var administrationOfEntities = group{
	"admin-queue":        adminQueue,
	"admin-topic":        adminTopic,
	"admin-subscription": adminSubscription,
	"admin-immutable":    adminImmutable,
	"admin-limits":       adminLimits,
	"admin-counters":     adminCounters,
	"admin-times":        adminTimes,
}

const infinite = "P10675199DT2H48M5.4775807S"

// wantFields checks those fields of got that want has; both are structs of one type.
func wantFields[T any](b *bus, what string, got, want T) {
	b.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range w.NumField() {
		if w.Field(i).IsZero() {
			continue
		}
		if !cmp.Equal(g.Field(i).Interface(), w.Field(i).Interface()) {
			b.Errorf("%s: %s is %v, want %v (-want +got):\n%s", what, w.Type().Field(i).Name, reflect.Indirect(g.Field(i)), reflect.Indirect(w.Field(i)), cmp.Diff(w.Field(i).Interface(), g.Field(i).Interface()))
		}
	}
}

func adminQueue(b *bus) {
	const plain, full = "admin-queue-plain", "admin-queue-full"
	b.createQueue(plain, queueProperties{})
	p := b.mustQueue(plain)
	wantFields(b, plain, p, queueProperties{
		LockDuration: to.Ptr("PT1M"), MaxSizeInMegabytes: to.Ptr(int32(1024)), RequiresDuplicateDetection: to.Ptr(false), RequiresSession: to.Ptr(false),
		DefaultMessageTimeToLive: to.Ptr(infinite), DeadLetteringOnMessageExpiration: to.Ptr(false), DuplicateDetectionHistoryTimeWindow: to.Ptr("PT10M"),
		MaxDeliveryCount: to.Ptr(int32(10)), EnableBatchedOperations: to.Ptr(true), Status: to.Ptr(admin.EntityStatusActive), AutoDeleteOnIdle: to.Ptr(infinite),
		EnablePartitioning: to.Ptr(false),
	})
	if deref(p.ForwardTo)+deref(p.ForwardDeadLetteredMessagesTo)+deref(p.UserMetadata) != "" || len(p.AuthorizationRules) != 0 {
		b.Errorf("%s has what nobody gave it: %+v", plain, p)
	}

	b.createQueue(full, queueProperties{
		LockDuration: to.Ptr("PT90S"), MaxSizeInMegabytes: to.Ptr(int32(2048)), RequiresDuplicateDetection: to.Ptr(true),
		DuplicateDetectionHistoryTimeWindow: to.Ptr("PT60S"), RequiresSession: to.Ptr(true), DefaultMessageTimeToLive: to.Ptr("PT24H"),
		DeadLetteringOnMessageExpiration: to.Ptr(true), MaxDeliveryCount: to.Ptr(int32(5)), EnableBatchedOperations: to.Ptr(false),
		AutoDeleteOnIdle: to.Ptr("PT60M"), UserMetadata: to.Ptr("a&b"),
	})
	want := queueProperties{
		LockDuration: to.Ptr("PT1M30S"), MaxSizeInMegabytes: to.Ptr(int32(2048)), RequiresDuplicateDetection: to.Ptr(true),
		DuplicateDetectionHistoryTimeWindow: to.Ptr("PT1M"), RequiresSession: to.Ptr(true), DefaultMessageTimeToLive: to.Ptr("P1D"),
		DeadLetteringOnMessageExpiration: to.Ptr(true), MaxDeliveryCount: to.Ptr(int32(5)), EnableBatchedOperations: to.Ptr(false),
		AutoDeleteOnIdle: to.Ptr("PT1H"), UserMetadata: to.Ptr("a&b"), Status: to.Ptr(admin.EntityStatusActive),
	}
	wantFields(b, full, b.mustQueue(full), want)
	change := func(p *queueProperties) {
		p.LockDuration, p.DefaultMessageTimeToLive = to.Ptr("PT30S"), to.Ptr(infinite)
		p.MaxDeliveryCount, p.UserMetadata = to.Ptr(int32(2147483647)), to.Ptr("new")
	}
	b.updateQueue(full, change)
	change(&want)
	wantFields(b, full, b.mustQueue(full), want)

	b.deleteQueue(plain, full)
	for _, name := range []string{plain, full} {
		if b.getQueue(name) != nil {
			b.Errorf("%s is there", name)
		}
		b.wantError("admin-missing", b.tryDeleteQueue(name))
	}
}

func adminTopic(b *bus) {
	const plain, full = "admin-topic-plain", "admin-topic-full"
	b.createTopic(plain, topicProperties{})
	wantFields(b, plain, b.mustTopic(plain), topicProperties{
		MaxSizeInMegabytes: to.Ptr(int32(1024)), RequiresDuplicateDetection: to.Ptr(false), DefaultMessageTimeToLive: to.Ptr(infinite),
		DuplicateDetectionHistoryTimeWindow: to.Ptr("PT10M"), EnableBatchedOperations: to.Ptr(true), Status: to.Ptr(admin.EntityStatusActive),
		AutoDeleteOnIdle: to.Ptr(infinite), EnablePartitioning: to.Ptr(false),
	})
	wantSubscriptions := func(name string, want int32) {
		b.Helper()
		if got := b.topicRuntime(name).SubscriptionCount; got != want {
			b.Errorf("%s has %d subscriptions, want %d", name, got, want)
		}
	}
	wantSubscriptions(plain, 0)
	want := topicProperties{
		MaxSizeInMegabytes: to.Ptr(int32(3072)), RequiresDuplicateDetection: to.Ptr(true), DuplicateDetectionHistoryTimeWindow: to.Ptr("PT1M"),
		DefaultMessageTimeToLive: to.Ptr("P1D"), AutoDeleteOnIdle: to.Ptr("PT1H"), UserMetadata: to.Ptr("topic"),
	}
	b.createTopic(full, want)
	wantFields(b, full, b.mustTopic(full), want)
	change := func(p *topicProperties) {
		p.DefaultMessageTimeToLive, p.DuplicateDetectionHistoryTimeWindow, p.UserMetadata = to.Ptr("P2D"), to.Ptr("PT2M"), to.Ptr("new")
	}
	b.updateTopic(full, change)
	change(&want)
	wantFields(b, full, b.mustTopic(full), want)

	b.createSubscription(full, "a", subscriptionProperties{})
	b.createSubscription(full, "b", subscriptionProperties{})
	wantSubscriptions(full, 2)
	b.must(b.tryDeleteSubscription(full, "a"))
	wantSubscriptions(full, 1)
	topic := b.at(full)
	topic.send("M")
	b.deleteTopic(full)
	if b.getTopic(full) != nil || b.getSubscription(full, "b") != nil {
		b.Errorf("the deleted topic or its subscription is there")
	}
	b.wantError("entity-not-found", topic.receiveError(topic.on("b").receiver()))
	b.createTopic(full, topicProperties{})
	wantSubscriptions(full, 0)
	b.deleteTopic(plain, full)
}

func adminSubscription(b *bus) {
	const topic = "admin-subscription-topic"
	b.createTopic(topic, topicProperties{}, "plain")
	p := b.mustSubscription(topic, "plain")
	wantFields(b, "plain", p, subscriptionProperties{
		LockDuration: to.Ptr("PT1M"), RequiresSession: to.Ptr(false), DefaultMessageTimeToLive: to.Ptr(infinite), DeadLetteringOnMessageExpiration: to.Ptr(false),
		EnableDeadLetteringOnFilterEvaluationExceptions: to.Ptr(true), MaxDeliveryCount: to.Ptr(int32(10)), EnableBatchedOperations: to.Ptr(true),
		Status: to.Ptr(admin.EntityStatusActive), AutoDeleteOnIdle: to.Ptr(infinite),
	})
	if deref(p.ForwardTo)+deref(p.ForwardDeadLetteredMessagesTo) != "" {
		b.Errorf("plain forwards: %+v", p)
	}
	want := subscriptionProperties{
		LockDuration: to.Ptr("PT30S"), RequiresSession: to.Ptr(true), DefaultMessageTimeToLive: to.Ptr("PT1H"), DeadLetteringOnMessageExpiration: to.Ptr(true),
		EnableDeadLetteringOnFilterEvaluationExceptions: to.Ptr(false), MaxDeliveryCount: to.Ptr(int32(3)), AutoDeleteOnIdle: to.Ptr("PT10M"),
		UserMetadata: to.Ptr("sub"),
	}
	b.createSubscription(topic, "full", want)
	wantFields(b, "full", b.mustSubscription(topic, "full"), want)
	change := func(p *subscriptionProperties) {
		p.LockDuration, p.MaxDeliveryCount, p.UserMetadata = to.Ptr("PT1M"), to.Ptr(int32(4)), to.Ptr("new")
	}
	b.updateSubscription(topic, "full", change)
	change(&want)
	wantFields(b, "full", b.mustSubscription(topic, "full"), want)
	b.must(b.tryDeleteSubscription(topic, "full"))
	if b.getSubscription(topic, "full") != nil {
		b.Errorf("full is there")
	}
	b.wantError("admin-missing", b.tryDeleteSubscription(topic, "full"))
	b.wantNames("subscriptions", b.subscriptionNames(topic), "plain")
	b.deleteTopic(topic)
}

func adminImmutable(b *bus) {
	const queue, topic = "admin-immutable-queue", "admin-immutable-topic"
	b.createQueue(queue, queueProperties{})
	with := func(change func(*queueProperties)) error {
		p := b.mustQueue(queue)
		change(&p)
		return b.tryUpdateQueue(queue, p)
	}
	b.wantError("admin-bad-request", with(func(p *queueProperties) { p.RequiresSession, p.LockDuration = to.Ptr(true), to.Ptr("PT30S") }),
		"The value for the RequiresSession property of an existing Queue cannot be changed")
	b.wantError("admin-bad-request", with(func(p *queueProperties) { p.RequiresDuplicateDetection = to.Ptr(true) }),
		"The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed")
	b.wantError("admin-bad-request", with(func(p *queueProperties) { p.EnablePartitioning = to.Ptr(true) }))
	wantFields(b, queue, b.mustQueue(queue), queueProperties{LockDuration: to.Ptr("PT1M"), RequiresSession: to.Ptr(false)})

	b.createTopic(topic, topicProperties{}, "one")
	t := b.mustTopic(topic)
	t.EnablePartitioning = to.Ptr(true)
	b.wantError("admin-bad-request", b.tryUpdateTopic(topic, t), "Partitioning cannot be changed for Topic. ")
	s := b.mustSubscription(topic, "one")
	s.RequiresSession = to.Ptr(true)
	b.wantError("admin-bad-request", b.tryUpdateSubscription(topic, "one", s),
		"The value for the RequiresSession property of an existing Subscription cannot be changed")
	b.deleteQueue(queue)
	b.deleteTopic(topic)
}

func adminLimits(b *bus) {
	const x, low, high = "admin-limits-x", "admin-limits-a", "admin-limits-b"
	detecting := func(window string) queueProperties {
		return queueProperties{RequiresDuplicateDetection: to.Ptr(true), DuplicateDetectionHistoryTimeWindow: &window}
	}
	for _, p := range []queueProperties{
		{LockDuration: to.Ptr("PT4S")}, {LockDuration: to.Ptr("PT5M1S")}, {AutoDeleteOnIdle: to.Ptr("PT4M59S")}, detecting("PT19S"), detecting("P7DT1S"),
		{MaxDeliveryCount: to.Ptr(int32(0))}, {MaxSizeInMegabytes: to.Ptr(int32(16384))}, {DefaultMessageTimeToLive: to.Ptr("PT0S")},
		{UserMetadata: to.Ptr(strings.Repeat("x", 1025))},
	} {
		b.wantError("admin-bad-request", b.tryCreateQueue(x, p))
	}
	if b.getQueue(x) != nil {
		b.Errorf("a queue that was refused is there")
	}
	for name, p := range map[string]queueProperties{
		low: {
			LockDuration: to.Ptr("PT5S"), AutoDeleteOnIdle: to.Ptr("PT5M"), RequiresDuplicateDetection: to.Ptr(true),
			DuplicateDetectionHistoryTimeWindow: to.Ptr("PT20S"), MaxDeliveryCount: to.Ptr(int32(1)), UserMetadata: to.Ptr(strings.Repeat("x", 1024)),
		},
		high: {
			LockDuration: to.Ptr("PT5M"), RequiresDuplicateDetection: to.Ptr(true), DuplicateDetectionHistoryTimeWindow: to.Ptr("P7D"),
			MaxDeliveryCount: to.Ptr(int32(2147483647)), MaxSizeInMegabytes: to.Ptr(int32(5120)),
		},
	} {
		b.createQueue(name, p)
		wantFields(b, name, b.mustQueue(name), p)
	}
	b.deleteQueue(low, high)
}

// wantCounts checks the counters of a queue.
func (b *bus) wantCounters(p admin.QueueRuntimeProperties, active, dead, scheduled int32) {
	b.Helper()
	if p.ActiveMessageCount != active || p.DeadLetterMessageCount != dead || p.ScheduledMessageCount != scheduled || p.TransferMessageCount != 0 ||
		p.TransferDeadLetterMessageCount != 0 || p.TotalMessageCount != int64(active+dead+scheduled) {
		b.Errorf("counters %+v, want %d active, %d dead-lettered, %d scheduled", p, active, dead, scheduled)
	}
	if full := active+dead+scheduled > 0; p.SizeInBytes > 0 != full {
		b.Errorf("%d bytes of %d messages", p.SizeInBytes, p.TotalMessageCount)
	}
}

func adminCounters(b *bus) {
	const queue, topic = "admin-counters-queue", "admin-counters-topic"
	b.createQueue(queue, queueProperties{})
	b.wantCounters(b.queueRuntime(queue), 0, 0, 0)
	q := b.at(queue)
	q.send("A", "B")
	scheduled := q.schedule(soon(time.Hour), text("C"))
	r := q.receiver()
	q.bury(r, q.one(r, "A"))
	held := q.one(r, "B")
	b.wantCounters(b.queueRuntime(queue), 1, 1, 1)

	b.createTopic(topic, topicProperties{}, "one", "two")
	t := b.at(topic)
	t.send("A", "B")
	t.schedule(soon(time.Hour), text("C"))
	one := t.on("one")
	r2 := one.receiver()
	one.bury(r2, one.one(r2, "A"))
	counters := map[string][]admin.SubscriptionRuntimeProperties{}
	for _, name := range []string{"one", "two"} {
		counters[name] = append(counters[name], b.subscriptionRuntime(topic, name))
	}
	pages(b, b.admin().NewListSubscriptionsRuntimePropertiesPager(topic, nil), func(p admin.ListSubscriptionsRuntimePropertiesResponse) {
		for _, item := range p.SubscriptionRuntimeProperties {
			counters[item.SubscriptionName] = append(counters[item.SubscriptionName], item.SubscriptionRuntimeProperties)
		}
	})
	for name, want := range map[string][2]int32{"one": {1, 1}, "two": {2, 0}} {
		if n := len(counters[name]); n != 2 {
			b.Errorf("counters of %s were shown %d times", name, n)
		}
		for _, p := range counters[name] {
			if p.ActiveMessageCount != want[0] || p.DeadLetterMessageCount != want[1] || p.TotalMessageCount != 2 {
				b.Errorf("counters of %s: %+v, want %d active, %d dead-lettered", name, p, want[0], want[1])
			}
		}
	}
	if p := b.topicRuntime(topic); p.ScheduledMessageCount != 1 || p.SubscriptionCount != 2 || p.SizeInBytes == 0 || p.SQLFilterCount != 2 || p.CorrelationFilterCount != 0 {
		b.Errorf("counters of the topic: %+v", p)
	}

	q.complete(r, held)
	dlq := q.deadLetters()
	q.complete(dlq, q.one(dlq, "A"))
	b.must(q.cancel(scheduled[0]))
	b.wantCounters(b.queueRuntime(queue), 0, 0, 0)
	b.deleteQueue(queue)
	b.deleteTopic(topic)
}

func adminTimes(b *bus) {
	const queue, topic = "admin-times-queue", "admin-times-topic"
	b.createQueue(queue, queueProperties{})
	p := b.queueRuntime(queue)
	b.wantAbout("created", p.CreatedAt, time.Now(), 5*time.Second)
	if p.AccessedAt.Year() != 1 {
		b.Errorf("a new queue was accessed at %s", p.AccessedAt)
	}
	later()
	b.updateQueue(queue, func(p *queueProperties) { p.UserMetadata = to.Ptr("meta") })
	p = b.queueRuntime(queue)
	b.wantOrder(p.CreatedAt, p.UpdatedAt)
	q := b.at(queue)
	q.send("A")
	q.removes(q.receiver(), "A")
	latest := time.Now().Add(5 * time.Second)
	for p = b.queueRuntime(queue); !p.AccessedAt.After(p.UpdatedAt) && time.Now().Before(latest); p = b.queueRuntime(queue) {
		time.Sleep(100 * time.Millisecond)
	}
	b.wantOrder(p.CreatedAt, p.UpdatedAt, p.AccessedAt)

	b.createTopic(topic, topicProperties{}, "one")
	later()
	b.updateSubscription(topic, "one", func(p *subscriptionProperties) { p.UserMetadata = to.Ptr("meta") })
	one := b.at(topic).on("one")
	one.send("B")
	one.removes(one.receiver(), "B")
	s := b.subscriptionRuntime(topic, "one")
	b.wantOrder(s.CreatedAt, s.UpdatedAt, s.AccessedAt)
	b.wantAbout("accessed", s.AccessedAt, time.Now(), 30*time.Second)
	b.deleteQueue(queue)
	b.deleteTopic(topic)
}

// later waits for a later instant of the broker's, which are whole milliseconds: two requests can
// come in one.
func later() {
	for now := time.Now().UnixMilli(); time.Now().UnixMilli() <= now+1; {
		time.Sleep(time.Millisecond)
	}
}

// wantOrder checks that each time is later than the one before.
func (b *bus) wantOrder(times ...time.Time) {
	b.Helper()
	for i := 1; i < len(times); i++ {
		if !times[i].After(times[i-1]) {
			b.Errorf("times %v are not in their order", times)
			return
		}
	}
}
