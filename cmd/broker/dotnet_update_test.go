package broker_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// What SDK 7.21.0 for .NET leaves out of the PUT of an entity that it has read: what only the
// broker sets, unlimited durations, the window for duplicates that are not looked for, and the
// times of keys.
var (
	dotnetNeverSends = regexp.MustCompile(`<(SizeInBytes|MessageCount|CreatedAt|UpdatedAt|AccessedAt|EntityAvailabilityStatus|SubscriptionCount|SqlFilterCount|` +
		`CorrelationFilterCount|IsClientAffine|CreatedTime|ModifiedTime)>[^<]*</[A-Za-z]+>|<CountDetails.*</CountDetails>`)
	unlimitedDuration = regexp.MustCompile(`<[A-Za-z]+>P10675199DT2H48M5\.4775807S</[A-Za-z]+>`)
	duplicateWindow   = regexp.MustCompile(`<DuplicateDetectionHistoryTimeWindow>[^<]*</DuplicateDetectionHistoryTimeWindow>`)
	descriptionInside = regexp.MustCompile(`<([A-Za-z]+)Description [^>]*>(.*)</[A-Za-z]+Description>`)
)

// dotnetPut is the body of the PUT with which .NET writes back an entity as it was read.
func dotnetPut(t *testing.T, read string) string {
	t.Helper()
	found := descriptionInside.FindStringSubmatch(read)
	if found == nil {
		t.Fatalf("no description in %s", read)
	}
	kind, text := found[1], unlimitedDuration.ReplaceAllString(dotnetNeverSends.ReplaceAllString(found[2], ""), "")
	if !strings.Contains(text, "<RequiresDuplicateDetection>true<") {
		text = duplicateWindow.ReplaceAllString(text, "")
	}
	return strings.ReplaceAll(dotnetBody(kind, text), "i:type=", `xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type=`)
}

// dotnetRecorded is the PUT of the recorded UpdateQueueAsync, of a queue with the defaults.
const dotnetRecorded = `<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>1024</MaxSizeInMegabytes><RequiresDuplicateDetection>false</RequiresDuplicateDetection><RequiresSession>false</RequiresSession>` +
	`<DeadLetteringOnMessageExpiration>false</DeadLetteringOnMessageExpiration><MaxDeliveryCount>10</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations>` +
	`<IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules/><Status>Active</Status><SupportOrdering>true</SupportOrdering><EnablePartitioning>false</EnablePartitioning>` +
	`<EnableExpress>false</EnableExpress><MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>`

// entityLink is a link to an entity that an update must not detach.
type entityLink struct {
	path     string
	sender   *client.Sender
	receiver *client.Receiver
}

// MA-142: if .NET updates an entity without changes, no link is notified and every link continues,
// for every kind of entity.
func TestDotnetUpdateThatChangesNothing(t *testing.T) {
	t.Parallel()
	queue, topic, sub := engine.DefaultProperties(event.Queue), engine.DefaultProperties(event.Topic), engine.DefaultProperties(event.Subscription)
	with := func(p event.Properties, change func(*event.Properties)) event.Properties {
		change(&p)
		return p
	}
	partitioned := func(p *event.Properties) { p.EnablePartitioning, p.MaxSizeMegabytes = true, 16384 }
	premium := func(p *event.Properties) { p.MaxSizeMegabytes, p.MaxMessageSizeKilobytes = 81920, 102400 }
	keys := []event.AccessRule{{Name: "Both", Rights: event.Rights{event.Send, event.Listen}, Primary: "p", Secondary: "s"}, {Name: "one", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "s"}}
	entities := []engine.PutEntity{
		{Kind: event.Queue, Path: "plain", Properties: queue},
		{Kind: event.Queue, Path: "partitioned", Properties: with(queue, partitioned)},
		{Kind: event.Queue, Path: "older", Properties: with(queue, func(p *event.Properties) { p.EnablePartitioning = true })},
		{Kind: event.Queue, Path: "keys", Properties: with(queue, func(p *event.Properties) { p.AccessRules = keys })},
		{Kind: event.Queue, Path: "forwards", Properties: with(queue, func(p *event.Properties) { p.ForwardTo, p.ForwardDeadLetteredMessagesTo = "Plain", "sb://Host/PLAIN" })},
		{Kind: event.Queue, Path: "sessions", Properties: with(queue, func(p *event.Properties) { p.RequiresSession = true })},
		{Kind: event.Queue, Path: "file", Properties: with(queue, func(p *event.Properties) {
			p.DuplicateDetectionWindow, p.DefaultMessageTimeToLive, p.MaxDeliveryCount = 20*time.Second, time.Hour, 3
		})},
		{Kind: event.Queue, Path: "duplicates", Properties: with(queue, func(p *event.Properties) {
			p.RequiresDuplicateDetection, p.DuplicateDetectionWindow, p.AutoDeleteOnIdle, p.UserMetadata = true, time.Hour, time.Hour, "meta"
		})},
		{Kind: event.Queue, Path: "large", Properties: with(queue, premium)},
		{Kind: event.Topic, Path: "topic", Properties: with(topic, func(p *event.Properties) { p.FilteringBeforePublishing = true })},
		{Kind: event.Topic, Path: "split", Properties: with(topic, partitioned)},
		{Kind: event.Topic, Path: "keyed", Properties: with(topic, func(p *event.Properties) { p.AccessRules, p.SupportOrdering = keys, false })},
		{Kind: event.Subscription, Path: "topic/Subscriptions/plain", Properties: sub},
		{Kind: event.Subscription, Path: "topic/Subscriptions/sessions", Properties: with(sub, func(p *event.Properties) { p.RequiresSession = true })},
		{Kind: event.Subscription, Path: "topic/Subscriptions/forwards", Properties: with(sub, func(p *event.Properties) { p.ForwardTo, p.AutoDeleteOnIdle = "plain", time.Hour })},
		{Kind: event.Subscription, Path: "split/Subscriptions/s", Properties: sub},
	}
	for _, tier := range []settings.Tier{settings.Standard, settings.Premium} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			b := harness.Start(t, func(s *settings.Settings) { s.Tier = tier })
			bus := dial(t, b)
			var links []entityLink
			for i := range entities {
				if _, err := b.Server().Engine().PutEntity(t.Context(), entities[i]); err != nil {
					t.Fatal(err)
				}
				links = append(links, attach(t, bus, &entities[i]))
			}
			told := 0
			defer b.Server().Engine().Watch(func(engine.Change) { told++ })()
			for i := range entities {
				path := "/" + entities[i].Path
				_, read := ask(t, b, "http", "GET", path+atomVersion, "")
				body := dotnetPut(t, read)
				if path == "/plain" && body != dotnetBody("Queue", dotnetRecorded) {
					t.Errorf("%s: %s is not what was recorded", path, body)
				}
				if status, text := ask(t, b, "http", "PUT", path+atomVersion, body, "If-Match", "*", "Content-Type", "application/atom+xml"); status != 200 || told != 0 {
					t.Errorf("%s: status %d, %d changes: %s\n%s", path, status, told, text, body)
				}
				told = 0
			}
			for _, l := range links {
				checkLink(t, l)
			}
		})
	}
}

// attach attaches a sender and a receiver if the entity can have them. With sessions, the receiver
// holds one.
func attach(t *testing.T, bus *client.Client, e *engine.PutEntity) entityLink {
	t.Helper()
	l, err := entityLink{path: e.Path}, error(nil)
	if e.Kind != event.Subscription {
		if l.sender, err = bus.NewSender(t.Context(), e.Path); err != nil {
			t.Fatal(e.Path, err)
		}
	}
	session := "s"
	switch {
	case e.Kind == event.Topic, e.Properties.ForwardTo != "":
	case e.Properties.RequiresSession:
		l.receiver, err = bus.NewSessionReceiver(t.Context(), e.Path, &session, time.Second, client.PeekLock)
	default:
		l.receiver, err = bus.NewReceiver(t.Context(), e.Path, client.PeekLock)
	}
	if err != nil {
		t.Fatal(e.Path, err)
	}
	return l
}

// checkLink sends or receives over a link.
func checkLink(t *testing.T, l entityLink) {
	t.Helper()
	if l.sender != nil {
		m := client.NewMessage([]byte("x"))
		if strings.HasSuffix(l.path, "sessions") {
			session := "s"
			m.Properties.GroupID = &session
		}
		if err := l.sender.Send(t.Context(), m); err != nil {
			t.Errorf("%s: %v", l.path, err)
		}
	}
	if l.receiver == nil {
		return
	}
	if err := l.receiver.Credit(1); err != nil {
		t.Errorf("%s: %v", l.path, err)
	}
	if _, err := l.receiver.Drain(t.Context()); err != nil {
		t.Errorf("%s: %v", l.path, err)
	}
}
