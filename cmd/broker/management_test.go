package broker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

func connect(t *testing.T, connectionString string, o admin.Options) *admin.Client {
	t.Helper()
	c, err := admin.New(connectionString, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// counts returns the message counts of an entity.
func counts(t *testing.T, c *admin.Client, kind event.EntityKind, path string) *admin.Entity {
	t.Helper()
	e, err := c.Get(t.Context(), kind, path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// MA-001, MA-002, MA-012: every listener serves the same API, plain and with TLS on the same port,
// and on a port with TLS only, as 443 would be.
func TestManagementOnEveryListener(t *testing.T) {
	t.Parallel()
	data := ""
	b := harness.Start(t, func(s *settings.Settings) {
		s.Listening.Addresses = append(s.Listening.Addresses, "127.0.0.1:0/tls")
		data = s.Storage.Data
	})
	pem, err := os.ReadFile(filepath.Join(data, "tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	o := admin.Options{TLS: &tls.Config{RootCAs: roots}}
	plain := b.ConnectionString()
	inTLS := strings.Replace(plain, "UseDevelopmentEmulator=true;", "", 1)
	_, port, _ := net.SplitHostPort(b.Server().Addrs()[0].String())
	_, onlyTLS, _ := net.SplitHostPort(b.Server().Addrs()[1].String())
	for i, cs := range []string{plain, inTLS, strings.Replace(inTLS, ":"+port, ":"+onlyTLS, 1)} {
		c := connect(t, cs, o)
		if _, err := c.Create(t.Context(), admin.NewEntity(event.Queue, "q"+string(rune('a'+i)))); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		all, err := c.List(t.Context(), event.Queue, "")
		if err != nil || len(all) != i+2 {
			t.Fatalf("%d: %d queues, %v", i, len(all), err)
		}
	}
	if _, err := connect(t, strings.Replace(plain, ":"+port, ":"+onlyTLS, 1), o).List(t.Context(), event.Queue, ""); err == nil {
		t.Error("a listener with TLS alone answers without")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// managedEntities are the entities of TestManagementOverCrashes.
var managedEntities = map[string]event.EntityKind{"orders": event.Queue, "events": event.Topic,
	"events/Subscriptions/all": event.Subscription, "events/Subscriptions/none": event.Subscription}

// useManaged sends two messages to each entity and dead-letters one message of the queue.
func useManaged(ctx context.Context, t *testing.T, connection string) {
	t.Helper()
	cs, err := client.ParseConnectionString(connection)
	must(t, err)
	bus, err := client.Dial(ctx, cs, client.Options{})
	must(t, err)
	for _, entity := range []string{"orders", "events"} {
		s, err := bus.NewSender(ctx, entity)
		must(t, err)
		must(t, s.Send(ctx, client.NewMessage([]byte("a"))))
		must(t, s.Send(ctx, client.NewMessage([]byte("b"))))
	}
	r, err := bus.NewReceiver(ctx, "orders", client.PeekLock)
	must(t, err)
	must(t, r.Credit(1))
	m, err := r.Receive(ctx)
	must(t, err)
	must(t, r.DeadLetter(ctx, m, "test", ""))
	must(t, bus.Close())
}

// MA-100 to MA-106, MA-110, MA-125: acknowledged changes survive a crash, with their counts and
// times.
func TestManagementOverCrashes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := harness.Start(t)
	c := connect(t, b.ConnectionString(), admin.Options{})
	create := func(kind event.EntityKind, path string) {
		t.Helper()
		_, err := c.Create(ctx, admin.NewEntity(kind, path))
		must(t, err)
		b.Crash()
		counts(t, c, kind, path)
	}
	create(event.Topic, "events")
	create(event.Subscription, "events/Subscriptions/all")
	create(event.Subscription, "events/Subscriptions/none")
	must(t, c.DeleteRule(ctx, "events/Subscriptions/none", "$Default"))
	b.Crash()
	if rules, err := c.Rules(ctx, "events/Subscriptions/none"); err != nil || len(rules) != 0 {
		t.Fatalf("%v %v; want len(rules) == 0", rules, err)
	}
	fresh := counts(t, c, event.Queue, "orders")
	if fresh.AccessedAt != 0 {
		t.Errorf("MA-104: accessed at %v", fresh.AccessedAt)
	}
	fresh.Properties.LockDuration = 10 * time.Second
	_, err := c.Update(ctx, fresh)
	must(t, err)
	useManaged(ctx, t, b.ConnectionString())

	holds := map[string]any{}
	for path, kind := range managedEntities {
		holds[path] = counts(t, c, kind, path).Runtime
	}
	q := counts(t, c, event.Queue, "orders")
	if q.Runtime.Active != 1 || q.Runtime.DeadLetter != 1 || q.Runtime.SizeBytes == 0 || !(q.CreatedAt < q.UpdatedAt && q.UpdatedAt < q.AccessedAt) {
		t.Errorf("MA-100, MA-102, MA-103: %+v", q)
	}
	topic := counts(t, c, event.Topic, "events")
	if topic.Runtime.Active != 0 || topic.Runtime.Subscriptions != 2 || topic.Runtime.SizeBytes == 0 {
		t.Errorf("MA-101, MA-105: %+v", topic.Runtime)
	}
	if all := counts(t, c, event.Subscription, "events/Subscriptions/all"); all.Runtime.Active != 2 {
		t.Errorf("%+v; want all.Runtime.Active == 2", all.Runtime)
	}
	b.Crash()
	for path, kind := range managedEntities {
		if after := counts(t, c, kind, path).Runtime; !cmp.Equal(any(after), holds[path]) {
			t.Errorf("MA-106: %s had %+v, has %+v (-want +got):\n%s", path, holds[path], after, cmp.Diff(holds[path], any(after)))
		}
	}
	must(t, c.Delete(ctx, event.Topic, "events"))
	b.Crash()
	if _, err := c.Get(ctx, event.Subscription, "events/Subscriptions/all"); !admin.IsNotFound(err) {
		t.Errorf("a subscription of a topic that was deleted: %v", err)
	}
}

// Every change is an event with the origin and the values before and after. Keys are never shown.
func TestManagementIsAudited(t *testing.T) {
	t.Parallel()
	ctx, data := t.Context(), ""
	b := harness.Start(t, func(s *settings.Settings) { data = s.Storage.Data })
	c := connect(t, b.ConnectionString(), admin.Options{Product: "auditor/1.0"})
	e := counts(t, c, event.Queue, "orders")
	e.Properties.MaxDeliveryCount = 7
	e.Properties.AccessRules = []event.AccessRule{{Name: "reader", Rights: event.Rights{event.Listen}, Primary: "marker-of-a-key", Secondary: "marker-of-a-key"}}
	if _, err := c.Update(ctx, e); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, event.Queue, "orders"); err != nil {
		t.Fatal(err)
	}
	b.Stop()
	var dump strings.Builder
	if err := tools.Dump(&dump, data, tools.DumpOptions{Partition: -1, JSON: true}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"EntityUpdated", "EntityDeleted", "RootManageSharedAccessKey", "auditor/1.0", `"maxDeliveryCount":7`, `"before"`, "reader"} {
		if !strings.Contains(strings.ToLower(dump.String()), strings.ToLower(part)) {
			t.Errorf("the dump has no %s", part)
		}
	}
	if strings.Contains(dump.String(), "marker-of-a-key") {
		t.Error("S31: the dump shows a key")
	}
}
