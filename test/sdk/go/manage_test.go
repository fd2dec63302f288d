package sdkgo

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Properties that scenarios give and get. What is nil was left out.
type (
	queueProperties        = admin.QueueProperties
	topicProperties        = admin.TopicProperties
	subscriptionProperties = admin.SubscriptionProperties
	rule                   = admin.RuleProperties
)

// admin is the scenario's administration client.
func (b *bus) admin() *admin.Client {
	b.Helper()
	if b.manager == nil {
		b.manager = b.adminWith(b.place.tlsConnectionString)
	}
	return b.manager
}

// adminWith makes an administration client that trusts the broker's certificate.
func (b *bus) adminWith(connectionString string) *admin.Client {
	b.Helper()
	transport := &http.Transport{TLSClientConfig: b.trusting()}
	b.Cleanup(transport.CloseIdleConnections)
	client, err := admin.NewClientFromConnectionString(connectionString, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	b.must(err)
	return client
}

// withKey is a connection string with another name and key.
func withKey(connectionString, name, key string) string {
	parts := strings.Split(connectionString, ";")
	for i, part := range parts {
		switch word, _, _ := strings.Cut(part, "="); word {
		case "SharedAccessKeyName":
			parts[i] = "SharedAccessKeyName=" + name
		case "SharedAccessKey":
			parts[i] = "SharedAccessKey=" + key
		}
	}
	return strings.Join(parts, ";")
}

// manage makes a call of the administration client that must succeed. A stubborn scenario makes it
// again while there is no connection.
func (b *bus) manage(call func(context.Context) error) {
	b.Helper()
	ctx := b.patient()
	for {
		err := call(ctx)
		var answered *azcore.ResponseError
		if err == nil || b.retry != stubborn || errors.As(err, &answered) || ctx.Err() != nil {
			b.must(err)
			return
		}
		time.Sleep(stubborn.RetryDelay)
	}
}

// Queues.

func (b *bus) tryCreateQueue(name string, p queueProperties) error {
	if p.EnablePartitioning == nil {
		p.EnablePartitioning = b.place.partitioned
	}
	_, err := b.admin().CreateQueue(b.patient(), name, &admin.CreateQueueOptions{Properties: &p})
	return err
}

func (b *bus) createQueue(name string, p queueProperties) {
	b.Helper()
	b.manage(func(context.Context) error { return b.tryCreateQueue(name, p) })
}

// getQueue returns nil where there is none.
func (b *bus) getQueue(name string) *queueProperties {
	b.Helper()
	var r *admin.GetQueueResponse
	b.manage(func(ctx context.Context) (err error) {
		r, err = b.admin().GetQueue(ctx, name, nil)
		return err
	})
	if r == nil {
		return nil
	}
	return &r.QueueProperties
}

func (b *bus) tryUpdateQueue(name string, p queueProperties) error {
	_, err := b.admin().UpdateQueue(b.patient(), name, p, nil)
	return err
}

func (b *bus) updateQueue(name string, change func(*queueProperties)) {
	b.Helper()
	p := b.mustQueue(name)
	change(&p)
	b.must(b.tryUpdateQueue(name, p))
}

func (b *bus) mustQueue(name string) queueProperties {
	b.Helper()
	p := b.getQueue(name)
	if p == nil {
		b.Fatalf("there is no queue %s", name)
	}
	return *p
}

func (b *bus) queueRuntime(name string) admin.QueueRuntimeProperties {
	b.Helper()
	var r *admin.GetQueueRuntimePropertiesResponse
	b.manage(func(ctx context.Context) (err error) {
		r, err = b.admin().GetQueueRuntimeProperties(ctx, name, nil)
		return err
	})
	if r == nil {
		b.Fatalf("there is no queue %s", name)
	}
	return r.QueueRuntimeProperties
}

func (b *bus) tryDeleteQueue(name string) error {
	_, err := b.admin().DeleteQueue(b.patient(), name, nil)
	return err
}

func (b *bus) deleteQueue(names ...string) {
	b.Helper()
	for _, name := range names {
		b.must(b.tryDeleteQueue(name))
	}
}

// Topics.

func (b *bus) tryCreateTopic(name string, p topicProperties) error {
	if p.EnablePartitioning == nil {
		p.EnablePartitioning = b.place.partitioned
	}
	_, err := b.admin().CreateTopic(b.patient(), name, &admin.CreateTopicOptions{Properties: &p})
	return err
}

// createTopic makes a topic with subscriptions that have default properties.
func (b *bus) createTopic(name string, p topicProperties, subscriptions ...string) {
	b.Helper()
	b.manage(func(context.Context) error { return b.tryCreateTopic(name, p) })
	for _, s := range subscriptions {
		b.createSubscription(name, s, subscriptionProperties{})
	}
}

// getTopic returns nil where there is none.
func (b *bus) getTopic(name string) *topicProperties {
	b.Helper()
	var r *admin.GetTopicResponse
	b.manage(func(ctx context.Context) (err error) {
		r, err = b.admin().GetTopic(ctx, name, nil)
		return err
	})
	if r == nil {
		return nil
	}
	return &r.TopicProperties
}

func (b *bus) mustTopic(name string) topicProperties {
	b.Helper()
	p := b.getTopic(name)
	if p == nil {
		b.Fatalf("there is no topic %s", name)
	}
	return *p
}

func (b *bus) tryUpdateTopic(name string, p topicProperties) error {
	_, err := b.admin().UpdateTopic(b.patient(), name, p, nil)
	return err
}

func (b *bus) updateTopic(name string, change func(*topicProperties)) {
	b.Helper()
	p := b.mustTopic(name)
	change(&p)
	b.must(b.tryUpdateTopic(name, p))
}

func (b *bus) topicRuntime(name string) admin.TopicRuntimeProperties {
	b.Helper()
	var r *admin.GetTopicRuntimePropertiesResponse
	b.manage(func(ctx context.Context) (err error) {
		r, err = b.admin().GetTopicRuntimeProperties(ctx, name, nil)
		return err
	})
	if r == nil {
		b.Fatalf("there is no topic %s", name)
	}
	return r.TopicRuntimeProperties
}

func (b *bus) tryDeleteTopic(name string) error {
	_, err := b.admin().DeleteTopic(b.patient(), name, nil)
	return err
}

func (b *bus) deleteTopic(names ...string) {
	b.Helper()
	for _, name := range names {
		b.must(b.tryDeleteTopic(name))
	}
}

// Subscriptions.

func (b *bus) tryCreateSubscription(topic, name string, p subscriptionProperties) error {
	_, err := b.admin().CreateSubscription(b.patient(), topic, name, &admin.CreateSubscriptionOptions{Properties: &p})
	return err
}

func (b *bus) createSubscription(topic, name string, p subscriptionProperties) {
	b.Helper()
	b.manage(func(context.Context) error { return b.tryCreateSubscription(topic, name, p) })
}

// getSubscription returns nil where there is none.
func (b *bus) getSubscription(topic, name string) *subscriptionProperties {
	b.Helper()
	var r *admin.GetSubscriptionResponse
	b.manage(func(ctx context.Context) (err error) {
		r, err = b.admin().GetSubscription(ctx, topic, name, nil)
		return err
	})
	if r == nil {
		return nil
	}
	if !strings.EqualFold(r.TopicName, topic) || !strings.EqualFold(r.SubscriptionName, name) {
		b.Errorf("subscription %s of %s, want %s of %s", r.SubscriptionName, r.TopicName, name, topic)
	}
	return &r.SubscriptionProperties
}

func (b *bus) mustSubscription(topic, name string) subscriptionProperties {
	b.Helper()
	p := b.getSubscription(topic, name)
	if p == nil {
		b.Fatalf("there is no subscription %s of %s", name, topic)
	}
	return *p
}

func (b *bus) tryUpdateSubscription(topic, name string, p subscriptionProperties) error {
	_, err := b.admin().UpdateSubscription(b.patient(), topic, name, p, nil)
	return err
}

func (b *bus) updateSubscription(topic, name string, change func(*subscriptionProperties)) {
	b.Helper()
	p := b.mustSubscription(topic, name)
	change(&p)
	b.must(b.tryUpdateSubscription(topic, name, p))
}

func (b *bus) subscriptionRuntime(topic, name string) admin.SubscriptionRuntimeProperties {
	b.Helper()
	r, err := b.admin().GetSubscriptionRuntimeProperties(b.patient(), topic, name, nil)
	b.must(err)
	if r == nil {
		b.Fatalf("there is no subscription %s of %s", name, topic)
	}
	return r.SubscriptionRuntimeProperties
}

func (b *bus) tryDeleteSubscription(topic, name string) error {
	_, err := b.admin().DeleteSubscription(b.patient(), topic, name, nil)
	return err
}

// Rules.

func sqlRule(name, filter string) rule {
	return rule{Name: name, Filter: &admin.SQLFilter{Expression: filter}}
}

func sqlRuleWithAction(name, filter, action string) rule {
	return rule{Name: name, Filter: &admin.SQLFilter{Expression: filter}, Action: &admin.SQLAction{Expression: action}}
}

func (b *bus) tryCreateRule(topic, subscription string, r rule) error {
	_, err := b.admin().CreateRule(b.patient(), topic, subscription, &admin.CreateRuleOptions{Name: to.Ptr(r.Name), Filter: r.Filter, Action: r.Action})
	return err
}

func (b *bus) createRule(topic, subscription string, rules ...rule) {
	b.Helper()
	for _, r := range rules {
		b.must(b.tryCreateRule(topic, subscription, r))
	}
}

// getRule returns nil where there is none.
func (b *bus) getRule(topic, subscription, name string) *rule {
	b.Helper()
	r, err := b.admin().GetRule(b.patient(), topic, subscription, name, nil)
	b.must(err)
	if r == nil {
		return nil
	}
	return &r.RuleProperties
}

func (b *bus) tryDeleteRule(topic, subscription, name string) error {
	_, err := b.admin().DeleteRule(b.patient(), topic, subscription, name, nil)
	return err
}

func (b *bus) deleteRule(topic, subscription string, names ...string) {
	b.Helper()
	for _, name := range names {
		b.must(b.tryDeleteRule(topic, subscription, name))
	}
}

// Lists.

// pages goes through all pages of a list.
func pages[P any](b *bus, pager *runtime.Pager[P], page func(P)) {
	b.Helper()
	for pager.More() {
		p, err := pager.NextPage(b.patient())
		b.must(err)
		page(p)
	}
}

// own are the names that belong to the scenario. The pager asks for pages until one is empty, by
// how many it has had: when another scenario makes an entity meanwhile whose name comes before, it
// gets the last one again, as in the service.
func (b *bus) own(names []string) []string {
	return slices.Compact(slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, b.queue) }))
}

// queueNames lists the scenario's queues, with pages of a size; 0: the usual one.
func (b *bus) queueNames(size int32) (names []string) {
	b.Helper()
	pages(b, b.admin().NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: size}), func(p admin.ListQueuesResponse) {
		for _, q := range p.Queues {
			names = append(names, q.QueueName)
		}
	})
	return b.own(names)
}

func (b *bus) topicNames() (names []string) {
	b.Helper()
	pages(b, b.admin().NewListTopicsPager(nil), func(p admin.ListTopicsResponse) {
		for _, t := range p.Topics {
			names = append(names, t.TopicName)
		}
	})
	return b.own(names)
}

func (b *bus) subscriptionNames(topic string) (names []string) {
	b.Helper()
	pages(b, b.admin().NewListSubscriptionsPager(topic, nil), func(p admin.ListSubscriptionsResponse) {
		for _, s := range p.Subscriptions {
			names = append(names, s.SubscriptionName)
		}
	})
	return names
}

func (b *bus) listRules(topic, subscription string) (all []rule) {
	b.Helper()
	b.manage(func(ctx context.Context) error {
		all = nil
		for pager := b.admin().NewListRulesPager(topic, subscription, nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return err
			}
			all = append(all, page.Rules...)
		}
		return nil
	})
	return all
}

func ruleNames(rules []rule) (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// wantNames checks names in their order.
func (b *bus) wantNames(what string, got []string, want ...string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s: %d names %.300q, want %d: %.300q", what, len(got), got, len(want), want)
	}
}
