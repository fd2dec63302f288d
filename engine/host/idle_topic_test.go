package host

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// SM-300, SM-303 to SM-305: what keeps topics and subscriptions, and what does not.
func TestIdleTopics(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	temporary := func(kind event.EntityKind, path string, changes ...func(*event.Properties)) *engine.Entity {
		t.Helper()
		p := engine.DefaultProperties(kind)
		p.AutoDeleteOnIdle = 5 * time.Minute
		for _, change := range changes {
			change(&p)
		}
		e, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: kind, Path: path, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	subscriptionOf := func(topic, name string) *engine.Entity {
		t.Helper()
		return b.entity(t, event.Subscription, topic+"/Subscriptions/"+name)
	}
	sent := temporary(event.Topic, "sent")
	temporary(event.Subscription, "sent/Subscriptions/unread") // topic sends alone do not keep it
	read := temporary(event.Subscription, "sent/Subscriptions/read")
	ruled := temporary(event.Subscription, "sent/Subscriptions/ruled")
	temporary(event.Topic, "below")
	below := subscriptionOf("below", "s") // whose use keeps the topic
	scheduled := temporary(event.Topic, "scheduled")
	temporary(event.Topic, "quiet")
	subscriptionOf("quiet", "s") // is deleted with it
	temporary(event.Topic, "updated")
	forwards := temporary(event.Subscription, "updated/Subscriptions/forwards", func(p *event.Properties) { p.ForwardTo = "sent" })
	if forwards.Properties.AutoDeleteOnIdle != event.Forever {
		t.Error("SM-305: an entity that forwards is never idle")
	}
	b.publish(t, scheduled, "later", b.Now().Add(time.Hour), nil)

	d.turn(4 * time.Minute)
	b.publish(t, sent, "a", 0, nil)
	b.holds(t, read)
	b.holds(t, below)
	if _, err := b.PutRule(t.Context(), engine.PutRule{Subscription: ruled.Path, Rule: sql("more", "1=1")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutEntity(t.Context(), engine.PutEntity{Kind: event.Topic, Path: "updated", Mode: engine.UpdateOnly, Properties: b.must(t, "updated").Properties}); err != nil {
		t.Fatal(err)
	}
	d.turn(90 * time.Second)
	if err := b.collectIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"sent": true, "sent/Subscriptions/unread": false, "sent/Subscriptions/read": true, "sent/Subscriptions/ruled": true,
		"below": true, "below/Subscriptions/s": true, "scheduled": true, "quiet": false, "quiet/Subscriptions/s": false,
		"updated": true, "updated/Subscriptions/forwards": true,
	} {
		if _, there := b.Find(path); there != want {
			t.Errorf("%s is there: %t", path, there)
		}
	}
}
