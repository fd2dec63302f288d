package sdkgo

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Administration: lists, names, rights and what updates do to messages. What it makes has names
// that begin with the scenario's id, b.queue.
var administration = group{
	"admin-all-queues":    adminAllQueues,
	"admin-lists":         adminLists,
	"admin-exists":        adminExists,
	"admin-missing":       adminMissing,
	"admin-names":         adminNames,
	"admin-keys":          adminKeys,
	"admin-rights":        adminRights,
	"admin-forwarding":    adminForwarding,
	"admin-status":        adminStatus,
	"admin-update-acts":   adminUpdateActs,
	"admin-recreate":      adminRecreate,
	"admin-namespace":     adminNamespace,
	"admin-survives-kill": adminSurvivesKill,
}

// tenAtATime calls f with each name, on ten goroutines.
func tenAtATime(names []string, f func(name string)) {
	todo := make(chan string)
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for name := range todo {
				f(name)
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	workers.Wait()
}

// wantDone notes an error of a call that must succeed, from any goroutine.
func (b *bus) wantDone(what string, err error) {
	b.Helper()
	if err != nil {
		b.Errorf("%s: %v", what, err)
	}
}

func adminAllQueues(b *bus) {
	b.admin() // one client for all goroutines
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("%s-%03d", b.queue, i))
	}
	tenAtATime(names, func(name string) { b.wantDone("create "+name, b.tryCreateQueue(name, queueProperties{})) })
	for _, size := range []int32{0, 7} {
		b.wantNames("queues", b.queueNames(size), names...)
	}
	var counted []string
	pages(b, b.admin().NewListQueuesRuntimePropertiesPager(nil), func(p admin.ListQueuesRuntimePropertiesResponse) {
		for _, q := range p.QueueRuntimeProperties {
			counted = append(counted, q.QueueName)
			if strings.HasPrefix(q.QueueName, b.queue) && q.TotalMessageCount != 0 {
				b.Errorf("%s has %d messages", q.QueueName, q.TotalMessageCount)
			}
		}
	})
	b.wantNames("queues with counts", b.own(counted), names...)
	tenAtATime(names, func(name string) { b.wantDone("delete "+name, b.tryDeleteQueue(name)) })
	b.wantNames("queues", b.queueNames(0))
}

func adminLists(b *bus) {
	a := b.queue + "-a"
	topics := []string{a, b.queue + "-B", b.queue + "-c"}
	for _, name := range topics {
		b.createTopic(name, topicProperties{})
	}
	topics[1] = b.queue + "-b" // names of topics are shown in lower case
	b.wantNames("topics", b.topicNames(), topics...)
	var counted []string
	pages(b, b.admin().NewListTopicsRuntimePropertiesPager(nil), func(p admin.ListTopicsRuntimePropertiesResponse) {
		for _, t := range p.TopicRuntimeProperties {
			counted = append(counted, t.TopicName)
		}
	})
	b.wantNames("topics with counts", b.own(counted), topics...)
	b.wantNames("subscriptions", b.subscriptionNames(a))

	var subscriptions, ruleNamesWanted []string
	for i := range 120 {
		subscriptions = append(subscriptions, fmt.Sprintf("s%03d", i))
	}
	tenAtATime(subscriptions, func(name string) {
		b.wantDone("create "+name, b.tryCreateSubscription(a, name, subscriptionProperties{}))
	})
	b.wantNames("subscriptions", b.subscriptionNames(a), subscriptions...)
	counted = nil
	pages(b, b.admin().NewListSubscriptionsRuntimePropertiesPager(a, nil), func(p admin.ListSubscriptionsRuntimePropertiesResponse) {
		for _, s := range p.SubscriptionRuntimeProperties {
			counted = append(counted, s.SubscriptionName)
		}
	})
	b.wantNames("subscriptions with counts", counted, subscriptions...)
	for i := range 105 {
		ruleNamesWanted = append(ruleNamesWanted, fmt.Sprintf("r%03d", i))
	}
	tenAtATime(ruleNamesWanted, func(name string) { b.wantDone("create "+name, b.tryCreateRule(a, "s000", sqlRule(name, "1=0"))) })
	b.wantNames("rules", ruleNames(b.listRules(a, "s000")), append([]string{"$Default"}, ruleNamesWanted...)...)
	b.deleteTopic(topics...)
	b.wantNames("topics", b.topicNames())
}

func adminExists(b *bus) {
	const queue, topic = "admin-exists-Queue", "admin-exists-Topic"
	b.createQueue(queue, queueProperties{})
	b.wantError("admin-exists", b.tryCreateQueue("ADMIN-exists-queue", queueProperties{}))
	b.wantError("admin-exists", b.tryCreateTopic("admin-exists-queue", topicProperties{}))
	b.mustQueue("admin-EXISTS-queue")
	b.createTopic(topic, topicProperties{}, "Sub")
	b.wantNames("topics", b.topicNames(), "admin-exists-topic")
	b.wantError("admin-exists", b.tryCreateTopic("admin-exists-topic", topicProperties{}))
	b.wantError("admin-exists", b.tryCreateQueue("admin-exists-TOPIC", queueProperties{}))
	b.wantError("admin-exists", b.tryCreateSubscription(topic, "sub", subscriptionProperties{}))
	b.wantError("admin-exists", b.tryCreateRule(topic, "sub", sqlRule("$default", "1=1")))
	b.deleteQueue(queue)
	b.deleteTopic(topic)
}

// wantNone checks that something was not found, which the SDK says by nil.
func wantNone[T any](b *bus, what string, got *T, err error) {
	b.Helper()
	if err != nil || got != nil {
		b.Errorf("%s: %+v, %v; want neither", what, got, err)
	}
}

func adminMissing(b *bus) {
	const x, topic = "admin-missing-x", "admin-missing-topic"
	ctx := b.patient()
	queue, err := b.admin().GetQueue(ctx, x, nil)
	wantNone(b, "queue", queue, err)
	queueRuntime, err := b.admin().GetQueueRuntimeProperties(ctx, x, nil)
	wantNone(b, "queue's runtime", queueRuntime, err)
	aTopic, err := b.admin().GetTopic(ctx, x, nil)
	wantNone(b, "topic", aTopic, err)
	topicRuntime, err := b.admin().GetTopicRuntimeProperties(ctx, x, nil)
	wantNone(b, "topic's runtime", topicRuntime, err)
	subscription, err := b.admin().GetSubscription(ctx, x, "s", nil)
	wantNone(b, "subscription", subscription, err)
	subscriptionRuntime, err := b.admin().GetSubscriptionRuntimeProperties(ctx, x, "s", nil)
	wantNone(b, "subscription's runtime", subscriptionRuntime, err)

	b.wantError("admin-missing", b.tryUpdateQueue(x, queueProperties{}))
	b.wantError("admin-missing", b.tryUpdateTopic(x, topicProperties{}))
	b.wantError("admin-missing", b.tryUpdateSubscription(x, "s", subscriptionProperties{}))
	b.wantError("admin-missing", b.tryCreateSubscription(x, "s", subscriptionProperties{}))
	b.wantError("admin-missing", b.tryDeleteQueue(x))
	b.wantError("admin-missing", b.tryDeleteTopic(x))
	b.wantError("admin-missing", b.tryDeleteSubscription(x, "s"))

	b.createTopic(topic, topicProperties{}, "one")
	subscription, err = b.admin().GetSubscription(ctx, topic, "two", nil)
	wantNone(b, "subscription of a topic", subscription, err)
	missing, err := b.admin().GetRule(ctx, topic, "one", "missing", nil)
	wantNone(b, "rule", missing, err)
	b.wantError("admin-missing", b.tryCreateRule(topic, "two", sqlRule("r", "1=1")))
	b.deleteTopic(topic)
}

func adminNames(b *bus) {
	const queue, topic, subscription = "admin-names/of.some_kind/a-1", "admin-names/topic", "a.b_c-D"
	b.createQueue(queue, queueProperties{})
	b.createTopic(topic, topicProperties{}, subscription)
	b.wantNames("topics", b.topicNames(), topic)
	b.mustSubscription(topic, subscription)
	b.mustQueue(queue)
	q, s := b.at(queue), b.at(topic).on(subscription)
	q.send("A")
	q.removes(q.receiver(), "A")
	s.send("B")
	s.removes(s.receiver(), "B")
	b.deleteQueue(queue)
	b.deleteTopic(topic)

	long := b.queue + "-" + strings.Repeat("x", 260-len(b.queue)-1)
	b.wantError("admin-bad-request", b.tryCreateQueue(long+"x", queueProperties{}))
	b.createQueue(long, queueProperties{})
	b.mustQueue(long)
	b.deleteQueue(long)
	const other = "admin-names-topic"
	b.createTopic(other, topicProperties{}, strings.Repeat("s", 50))
	b.mustSubscription(other, strings.Repeat("s", 50))
	b.wantError("admin-bad-request", b.tryCreateSubscription(other, strings.Repeat("s", 51), subscriptionProperties{}))
	b.deleteTopic(other)
}

// accessRule makes an authorization rule with keys of its own.
func accessRule(name string, rights ...admin.AccessRight) admin.AuthorizationRule {
	key := func(c string) *string { return to.Ptr(name + strings.Repeat(c, 43-len(name)) + "=") }
	return admin.AuthorizationRule{KeyName: to.Ptr(name), AccessRights: rights, PrimaryKey: key("1"), SecondaryKey: key("2")}
}

// wantAccess checks authorization rules, in their order.
func (b *bus) wantAccess(got []admin.AuthorizationRule, want ...admin.AuthorizationRule) {
	b.Helper()
	describe := func(all []admin.AuthorizationRule) string {
		var s []string
		for _, r := range all {
			s = append(s, fmt.Sprint(deref(r.KeyName), r.AccessRights, deref(r.PrimaryKey), deref(r.SecondaryKey)))
		}
		return strings.Join(s, "; ")
	}
	if describe(got) != describe(want) {
		b.Errorf("authorization rules %s, want %s", describe(got), describe(want))
	}
}

// Rules that entities of scenarios have.
var (
	senderRule = accessRule("sender", admin.AccessRightSend)
	readerRule = accessRule("reader", admin.AccessRightListen)
	ownerRule  = accessRule("owner", admin.AccessRightManage, admin.AccessRightSend, admin.AccessRightListen)
)

// as is the scenario on another entity, with the key of a rule.
func (b *bus) as(r admin.AuthorizationRule, key *string, entity string) *bus {
	b.Helper()
	other := *b
	other.client = b.connectWith(withKey(b.place.connectionString, *r.KeyName, *key))
	return other.at(entity)
}

func adminKeys(b *bus) {
	const one, two, topic = "admin-keys-one", "admin-keys-two", "admin-keys-topic"
	b.createQueue(one, queueProperties{AuthorizationRules: []admin.AuthorizationRule{senderRule, readerRule, ownerRule}})
	b.createQueue(two, queueProperties{})
	b.wantAccess(b.mustQueue(one).AuthorizationRules, senderRule, readerRule, ownerRule)

	s := b.as(senderRule, senderRule.PrimaryKey, one)
	s.send("A")
	b.wantError("unauthorized", s.receiveError(s.receiver()))
	b.wantError("unauthorized", s.at(two).trySend(text("X")))
	r := b.as(readerRule, readerRule.PrimaryKey, one)
	r.removes(r.receiver(), "A")
	b.wantError("unauthorized", r.trySend(text("X")))
	b.as(senderRule, senderRule.SecondaryKey, one).send("B")

	b.updateQueue(one, func(p *queueProperties) { p.AuthorizationRules = p.AuthorizationRules[1:] })
	b.wantAccess(b.mustQueue(one).AuthorizationRules, readerRule, ownerRule)
	b.wantError("unauthorized", b.as(senderRule, senderRule.PrimaryKey, one).trySend(text("X")))

	b.createTopic(topic, topicProperties{AuthorizationRules: []admin.AuthorizationRule{readerRule}}, "one")
	b.wantAccess(b.mustTopic(topic).AuthorizationRules, readerRule)
	b.at(topic).send("C")
	sub := b.as(readerRule, readerRule.PrimaryKey, topic).on("one")
	sub.removes(sub.receiver(), "C")
	b.wantError("admin-bad-request", b.tryCreateQueue("admin-keys-x", queueProperties{
		AuthorizationRules: []admin.AuthorizationRule{accessRule("half", admin.AccessRightManage)},
	}))
	b.deleteQueue(one, two)
	b.deleteTopic(topic)
}

func adminRights(b *bus) {
	const queue = "admin-rights-queue"
	b.createQueue(queue, queueProperties{AuthorizationRules: []admin.AuthorizationRule{readerRule, ownerRule}})
	with := func(name, key string) *bus {
		other := *b
		other.manager = b.adminWith(withKey(b.place.tlsConnectionString, name, key))
		return &other
	}
	reader := with("reader", *readerRule.PrimaryKey)
	_, err := reader.admin().GetQueue(b.patient(), queue, nil)
	b.wantError("admin-unauthorized", err)
	b.wantError("admin-unauthorized", reader.tryUpdateQueue(queue, queueProperties{}))
	b.wantError("admin-unauthorized", reader.tryDeleteQueue(queue))
	b.wantError("admin-unauthorized", reader.tryCreateQueue("admin-rights-x", queueProperties{}))

	owner := with("owner", *ownerRule.PrimaryKey)
	owner.updateQueue(queue, func(p *queueProperties) { p.LockDuration = to.Ptr("PT30S") })
	if p := owner.mustQueue(queue); deref(p.LockDuration) != "PT30S" {
		b.Errorf("lock duration %s", deref(p.LockDuration))
	}
	_, err = owner.admin().NewListQueuesPager(nil).NextPage(b.patient())
	b.wantError("admin-unauthorized", err)
	_, err = with("RootManageSharedAccessKey", "not-the-key").admin().GetQueue(b.patient(), queue, nil)
	b.wantError("admin-unauthorized", err)
	b.deleteQueue(queue)
}

func adminForwarding(b *bus) {
	const target, source, topic = "admin-forwarding-target", "admin-forwarding-source", "admin-forwarding-topic"
	wantTarget := func(got *string) {
		b.Helper()
		if scheme, rest, _ := strings.Cut(deref(got), "://"); scheme == "" || !strings.HasSuffix(rest, "/"+target) {
			b.Errorf("dead letters go to %q", deref(got))
		}
	}
	b.createQueue(target, queueProperties{})
	b.createQueue(source, queueProperties{ForwardDeadLetteredMessagesTo: to.Ptr(target)})
	wantTarget(b.mustQueue(source).ForwardDeadLetteredMessagesTo)
	b.updateQueue(source, func(p *queueProperties) { p.LockDuration = to.Ptr("PT30S") })
	wantTarget(b.mustQueue(source).ForwardDeadLetteredMessagesTo)
	b.createTopic(topic, topicProperties{})
	b.createSubscription(topic, "one", subscriptionProperties{ForwardDeadLetteredMessagesTo: to.Ptr(target)})
	wantTarget(b.mustSubscription(topic, "one").ForwardDeadLetteredMessagesTo)
	b.wantError("admin-bad-request", b.tryCreateQueue("admin-forwarding-x", queueProperties{ForwardDeadLetteredMessagesTo: to.Ptr("admin-forwarding-missing")}),
		"auto forwarding destination entity doesn't exist")
	if b.getQueue("admin-forwarding-x") != nil {
		b.Errorf("a queue that was refused is there")
	}
	b.deleteQueue(source, target)
	b.deleteTopic(topic)
}

func adminStatus(b *bus) {
	const name = "admin-status-queue"
	b.createQueue(name, queueProperties{})
	q := b.at(name)
	q.send("A", "B")
	set := func(status admin.EntityStatus) *bus {
		b.updateQueue(name, func(p *queueProperties) { p.Status = &status })
		if got := b.mustQueue(name).Status; deref(got) != status {
			b.Errorf("status %s, want %s", deref(got), status)
		}
		return b.at(name)
	}
	q = set(admin.EntityStatusReceiveDisabled)
	q.send("C")
	b.wantError("disabled", q.receiveError(q.receiver()))
	b.wantError("disabled", q.peekError(q.receiver()))
	q = set(admin.EntityStatusSendDisabled)
	b.wantError("disabled", q.trySend(text("X")))
	q.removes(q.receiver(), "A")
	q = set(admin.EntityStatusDisabled)
	b.wantError("disabled", q.trySend(text("X")))
	b.wantError("disabled", q.receiveError(q.receiver()))
	q = set(admin.EntityStatusActive)
	q.removes(q.receiver(), "B", "C")
	b.deleteQueue(name)
}

func adminUpdateActs(b *bus) {
	const name = "admin-update-acts-queue"
	b.createQueue(name, queueProperties{})
	q := b.at(name)
	q.send("A", "B")
	q.wantLocked(q.one(q.receiver(), "A"), time.Minute, 2*time.Second)
	b.updateQueue(name, func(p *queueProperties) {
		p.LockDuration, p.MaxDeliveryCount, p.DefaultMessageTimeToLive = to.Ptr("PT10S"), to.Ptr(int32(1)), to.Ptr("PT1H")
	})
	r := q.receiver()
	second := q.one(r, "B")
	q.wantLocked(second, 10*time.Second, 2*time.Second)
	q.abandon(r, second)
	dead := q.one(q.deadLetters(), "B")
	q.wantReason(dead, "MaxDeliveryCountExceeded")
	q = b.at(name)
	q.send("C")
	c := q.removes(q.receiver(), "C")[0]
	if life := deref(c.ExpiresAt).Sub(deref(c.EnqueuedTime)); life != time.Hour {
		b.Errorf("C lives for %s", life)
	}
	b.deleteQueue(name)
	b.wantError("entity-not-found", q.receiveError(q.receiver()))
}

func adminRecreate(b *bus) {
	const x = "admin-recreate-x"
	b.createQueue(x, queueProperties{})
	q := b.at(x)
	q.send("A", "B")
	r := q.receiver()
	q.bury(r, q.one(r, "A"))
	b.deleteQueue(x)
	q = b.at(x)
	b.wantError("entity-not-found", q.trySend(text("X")))
	b.wantError("entity-not-found", q.receiveError(q.receiver()))

	b.createTopic(x, topicProperties{}, "one")
	one := b.at(x).on("one")
	one.bare()
	one.send("C")
	one.wantNumbers(one.removes(one.receiver(), "C"), 1)
	b.deleteTopic(x)

	b.createQueue(x, queueProperties{})
	b.mustQueue(x)
	q = b.at(x)
	q.bare()
	if p := b.queueRuntime(x); p.TotalMessageCount != 0 || p.SizeInBytes != 0 {
		b.Errorf("a new queue has %d messages in %d bytes", p.TotalMessageCount, p.SizeInBytes)
	}
	q.send("D")
	q.wantNumbers(q.removes(q.receiver(), "D"), 1)
	b.deleteQueue(x)
}

func adminNamespace(b *bus) {
	p, err := b.admin().GetNamespaceProperties(b.patient(), nil)
	b.must(err)
	if p.Name == "" || p.SKU != "Standard" || p.MessagingUnits != nil {
		b.Errorf("name %q, tier %q, units %v", p.Name, p.SKU, p.MessagingUnits)
	}
	for _, at := range []time.Time{p.CreatedTime, p.ModifiedTime} {
		if at.IsZero() || at.After(time.Now()) {
			b.Errorf("created %s, modified %s", p.CreatedTime, p.ModifiedTime)
		}
	}
	flagged, err := b.adminWith(b.place.connectionString).GetNamespaceProperties(b.patient(), nil)
	if b.must(err); flagged.Name != p.Name {
		b.Errorf("name %q under the emulator's flag, %q without", flagged.Name, p.Name)
	}
}

func adminSurvivesKill(b *bus) {
	const queue, topic, gone = "admin-survives-kill-queue", "admin-survives-kill-topic", "admin-survives-kill-gone"
	b.createQueue(queue, queueProperties{
		LockDuration: to.Ptr("PT30S"), UserMetadata: to.Ptr("meta"), AuthorizationRules: []admin.AuthorizationRule{senderRule},
	})
	b.createTopic(topic, topicProperties{})
	b.createSubscription(topic, "one", subscriptionProperties{MaxDeliveryCount: to.Ptr(int32(3))})
	b.createRule(topic, "one", sqlRule("red", "colour = 'red'"))
	b.createQueue(gone, queueProperties{})
	b.updateQueue(queue, func(p *queueProperties) { p.MaxDeliveryCount = to.Ptr(int32(7)) })
	b.deleteQueue(gone)
	q := b.at(queue)
	q.send("A", "B")
	r := q.receiver()
	q.bury(r, q.one(r, "A"))
	q.schedule(soon(time.Hour), text("C"))
	before := b.queueRuntime(queue)
	b.kill(nil)

	p := b.mustQueue(queue)
	if deref(p.LockDuration) != "PT30S" || deref(p.UserMetadata) != "meta" || deref(p.MaxDeliveryCount) != 7 {
		b.Errorf("lock duration %s, metadata %s, max delivery count %d", deref(p.LockDuration), deref(p.UserMetadata), deref(p.MaxDeliveryCount))
	}
	b.wantAccess(p.AuthorizationRules, senderRule)
	b.mustTopic(topic)
	if s := b.mustSubscription(topic, "one"); deref(s.MaxDeliveryCount) != 3 {
		b.Errorf("the subscription's max delivery count is %d", deref(s.MaxDeliveryCount))
	}
	b.wantRules(topic, "one", defaultRule, sqlRule("red", "colour = 'red'"))
	if b.getQueue(gone) != nil {
		b.Errorf("the deleted queue is there")
	}
	after := b.queueRuntime(queue)
	if !after.CreatedAt.Equal(before.CreatedAt) || after.SizeInBytes != before.SizeInBytes {
		b.Errorf("created %s with %d bytes, before %s with %d", after.CreatedAt, after.SizeInBytes, before.CreatedAt, before.SizeInBytes)
	}
	b.wantCounters(before, 1, 1, 1)
	b.wantCounters(after, 1, 1, 1)
	m := q.one(r, "B")
	q.wantLocked(m, 30*time.Second, 2*time.Second)
	q.complete(r, m)
	b.deleteQueue(queue)
	b.deleteTopic(topic)
	b.kill(nil)
	if b.getQueue(queue) != nil || b.getTopic(topic) != nil {
		b.Errorf("what was deleted is there")
	}
}
