package broker_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/test/sas"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// sdkAdmin returns the administration client of the Go SDK, which always uses TLS.
func sdkAdmin(t *testing.T, b *harness.Broker) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClientFromConnectionString(b.ConnectionString(), &sdk.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: web(t, b)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// web returns an HTTP client that trusts a broker's certificate and follows no redirects.
func web(t *testing.T, b *harness.Broker) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(b.Server().Trust())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// P24: with a refused partition, our client and an SDK can list and get all runtime properties.
// Counts of entities with messages there are -1 (docs/decisions/0018).
func TestRuntimeBesideARefusedPartition(t *testing.T) {
	t.Parallel()
	data := ""
	b := harness.Start(t, func(s *settings.Settings) { data, s.Storage.Partitions = s.Storage.Data, 2 })
	lost := fill(t, b)
	b.Stop()
	damage(t, data, 1)
	b.Start()
	checkOurs(t, connect(t, b.ConnectionString(), admin.Options{}), lost)
	c := sdkAdmin(t, b)
	checkQueues(t, c, lost)
	checkTopics(t, c, lost)
}

// fill creates queues, and topics with a subscription, with a message each. It returns which of
// them are on partition 1.
func fill(t *testing.T, b *harness.Broker) (lost map[string]bool) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, b.ConnectionString(), admin.Options{})
	cs, err := client.ParseConnectionString(b.ConnectionString())
	check(err)
	bus, err := client.Dial(t.Context(), cs, client.Options{})
	check(err)
	lost = map[string]bool{}
	for i := range 8 {
		queue, topic := fmt.Sprintf("q%d", i), fmt.Sprintf("t%d", i)
		for _, e := range []*admin.Entity{
			admin.NewEntity(event.Queue, queue), admin.NewEntity(event.Topic, topic), admin.NewEntity(event.Subscription, topic+"/Subscriptions/s"),
		} {
			_, err := c.Create(t.Context(), e)
			check(err)
		}
		for _, path := range []string{queue, topic} {
			e, _ := b.Server().Engine().Find(path)
			lost[path] = e.Hosts[0] == 1
			s, err := bus.NewSender(t.Context(), path)
			check(err)
			check(s.Send(t.Context(), client.NewMessage([]byte("x"))))
		}
	}
	check(bus.Close())
	return lost
}

// shown returns a count as shown: -1 for an entity on the lost partition.
func shown(lost bool, count int64) int64 {
	if lost {
		return -1
	}
	return count
}

// checkQueues lists and gets the queues with the SDK.
func checkQueues(t *testing.T, c *sdk.Client, lost map[string]bool) {
	t.Helper()
	page, err := c.NewListQueuesRuntimePropertiesPager(nil).NextPage(t.Context())
	if err != nil || len(page.QueueRuntimeProperties) != 9 {
		t.Fatalf("%+v, %v; want len(page.QueueRuntimeProperties) == 9", page, err)
	}
	for _, q := range page.QueueRuntimeProperties {
		if q.QueueName == "orders" { // of the harness
			continue
		}
		if want := shown(lost[q.QueueName], 1); int64(q.ActiveMessageCount) != want || q.TotalMessageCount != want || (q.SizeInBytes > 0) == lost[q.QueueName] {
			t.Errorf("%s: %+v; want int64(q.ActiveMessageCount) == want && q.TotalMessageCount == want && (q.SizeInBytes > 0) != lost[q.QueueName]", q.QueueName, q)
		}
		one, err := c.GetQueueRuntimeProperties(t.Context(), q.QueueName, nil)
		if err != nil || one.ActiveMessageCount != q.ActiveMessageCount || one.SizeInBytes != q.SizeInBytes {
			t.Errorf("%s: %+v, %v; want one.ActiveMessageCount == q.ActiveMessageCount && one.SizeInBytes == q.SizeInBytes", q.QueueName, one, err)
		}
	}
}

// checkTopics lists the topics and their subscriptions with the SDK.
func checkTopics(t *testing.T, c *sdk.Client, lost map[string]bool) {
	t.Helper()
	page, err := c.NewListTopicsRuntimePropertiesPager(nil).NextPage(t.Context())
	if err != nil || len(page.TopicRuntimeProperties) != 8 {
		t.Fatalf("%+v, %v; want len(page.TopicRuntimeProperties) == 8", page, err)
	}
	for _, topic := range page.TopicRuntimeProperties {
		if int64(topic.ScheduledMessageCount) != shown(lost[topic.TopicName], 0) || topic.SubscriptionCount != 1 {
			t.Errorf("%s: %+v; want int64(topic.ScheduledMessageCount) == shown(lost[topic.TopicName], 0) && topic.SubscriptionCount == 1", topic.TopicName, topic)
		}
		subscriptions, err := c.NewListSubscriptionsRuntimePropertiesPager(topic.TopicName, nil).NextPage(t.Context())
		if err != nil || len(subscriptions.SubscriptionRuntimeProperties) != 1 {
			t.Fatalf("%s: %v; want len(subscriptions.SubscriptionRuntimeProperties) == 1", topic.TopicName, err)
		}
		want := shown(lost[topic.TopicName], 1)
		if s := subscriptions.SubscriptionRuntimeProperties[0]; int64(s.ActiveMessageCount) != want || s.TotalMessageCount != want {
			t.Errorf("%s: %+v; want int64(s.ActiveMessageCount) == want && s.TotalMessageCount == want", topic.TopicName, s)
		}
	}
}

// checkOurs lists the queues with our own client.
func checkOurs(t *testing.T, c *admin.Client, lost map[string]bool) {
	t.Helper()
	all, err := c.List(t.Context(), event.Queue, "")
	if err != nil || len(all) != 9 {
		t.Fatalf("%d queues, %v", len(all), err)
	}
	unknown := 0
	for _, q := range all {
		if q.Runtime.Unknown {
			unknown++
		}
		if q.Path != "orders" && (q.Runtime.Unknown != lost[q.Path] || q.Runtime.Active < 0 || q.Runtime.SizeBytes < 0) {
			t.Errorf("%s: %+v; want unknown: %t, and no negative count or size", q.Path, q.Runtime, lost[q.Path])
		}
	}
	if unknown == 0 || unknown == len(all) {
		t.Errorf("%d of %d queues are on partition 1", unknown, len(all))
	}
}

// damage flips a bit in the oldest frames of a partition's log.
func damage(t *testing.T, data string, partition int) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(data, "partitions", fmt.Sprintf("%02d", partition), "wal", "*", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	bytes, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)-20] ^= 1
	if err := os.WriteFile(segments[0], bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request as text, so that it can be one that no client would send.
func ask(t *testing.T, b *harness.Broker, scheme, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(b.Server().Addrs()[0].String())
	r, err := http.NewRequestWithContext(t.Context(), method, scheme+"://localhost:"+port+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "//localhost:" + port + path
	r.Header.Set("Authorization", sas.Token("sb://localhost", "RootManageSharedAccessKey", "SAS_KEY_VALUE", time.Now().Add(time.Hour)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := web(t, b).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// S21, S23, end to end from the socket: links have the scheme of the request, the root needs no
// version, an unclean path is refused after the token and never redirected. Requests of foreign
// pages and bodies that are not XML are refused too.
func TestManagementFromTheSocket(t *testing.T) {
	t.Parallel()
	b := harness.Start(t)
	_, port, _ := net.SplitHostPort(b.Server().Addrs()[0].String())
	const description = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>`
	const version = "?api-version=2021-05"
	for _, scheme := range []string{"http", "https"} {
		for _, c := range []struct {
			method, path, body string
			headers            []string
			status             int
			fragment           string
		}{
			{"GET", "/orders" + version, "", nil, 200, "<id>" + scheme + "://localhost:" + port + "/orders?"},
			{"GET", "/", "", nil, 200, "Publicly Listed Services"},
			{"GET", "//orders" + version, "", nil, 400, "SubCode=40000"},
			{"GET", "//orders" + version, "", []string{"Authorization", "x"}, 401, "<Code>401</Code>"},
			{"DELETE", "/x/../orders" + version, "", nil, 400, "SubCode=40000"},
			{"DELETE", "/x/%2e%2e/orders" + version, "", []string{"Authorization", "x"}, 401, "<Code>401</Code>"},
			{"DELETE", "/orders/." + version, "", nil, 400, "SubCode=40000"},
			{"DELETE", "/orders" + version, "", []string{"Origin", "http://evil.example"}, 403, "origins"},
			{"DELETE", "/orders" + version, "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "origins"},
			{"PUT", "/other" + version, description, []string{"Content-Type", "text/plain"}, 415, "<Code>415</Code>"},
			{"PUT", "/other" + version, description, []string{"Origin", "null", "Content-Type", "application/xml"}, 403, "origins"},
			{"GET", "/other" + version, "", nil, 200, "Publicly Listed Services"},
			{"GET", "/orders" + version, "", nil, 200, "<QueueDescription"},
		} {
			if status, text := ask(t, b, scheme, c.method, c.path, c.body, c.headers...); status != c.status || !strings.Contains(text, c.fragment) {
				t.Errorf("%s %s %s %v: %d %s; want status == c.status && strings.Contains(text, c.fragment)", scheme, c.method, c.path, c.headers, status, text)
			}
		}
	}
}

// MA-061, MA-084, MA-141 across a crash and a start from a checkpoint: times in rules keep their
// zone, and access rules have their creation times, whatever a client sends.
func TestWhatWasGivenStays(t *testing.T) {
	t.Parallel()
	b := harness.Start(t)
	c := connect(t, b.ConnectionString(), admin.Options{})
	if _, err := c.Create(t.Context(), admin.NewEntity(event.Topic, "events")); err != nil {
		t.Fatal(err)
	}
	s := admin.NewEntity(event.Subscription, "events/Subscriptions/s")
	var times []event.Property
	for _, text := range []string{"2026-01-02T03:04:05", "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05+02:00"} {
		v, _ := event.ParseInstant(text)
		times = append(times, event.Property{Name: fmt.Sprintf("@t%d", len(times)), Value: v})
	}
	s.SetDefaultRule(event.Rule{Name: "times", Filter: event.Filter{Kind: event.SQLFilter, Text: "a IN (@t0, @t1, @t2)", Parameters: times},
		Action: event.Action{Text: "SET b = @t0", Parameters: times}})
	if _, err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	q := admin.NewEntity(event.Queue, "guarded")
	given := event.AccessRule{Name: "given", Rights: event.Rights{event.Send}, Primary: "k", Secondary: "k", CreatedAt: 1577934245678, ModifiedAt: 1609556645000}
	q.Properties.AccessRules = []event.AccessRule{given, {Name: "bare", Rights: event.Rights{event.Listen}, Primary: "k", Secondary: "k"}}
	q.Present.Add(document.AuthorizationRules)
	made, err := c.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range q.Properties.AccessRules {
		q.Properties.AccessRules[i].CreatedAt, q.Properties.AccessRules[i].ModifiedAt = made.CreatedAt, made.CreatedAt
	}
	for _, again := range []func(){func() {}, b.Crash, b.Restart} {
		again()
		rules, err := c.Rules(t.Context(), "events/Subscriptions/s")
		if err != nil || len(rules) != 1 || !slices.Equal(rules[0].Filter.Parameters, times) || !slices.Equal(rules[0].Action.Parameters, times) {
			t.Errorf("%+v, %v; want len(rules) == 1 && slices.Equal(rules[0].Filter.Parameters, times) && slices.Equal(rules[0].Action.Parameters, times)", rules, err)
		}
		if got := counts(t, c, event.Queue, "guarded").Properties.AccessRules; !cmp.Equal(got, q.Properties.AccessRules) {
			t.Errorf("%+v (-want +got):\n%s", got, cmp.Diff(q.Properties.AccessRules, got))
		}
		sub := counts(t, c, event.Subscription, "events/Subscriptions/s")
		if topic := counts(t, c, event.Topic, "events"); sub.AccessedAt != sub.CreatedAt || topic.AccessedAt != 0 {
			t.Errorf("accessed at %v and %v", sub.AccessedAt, topic.AccessedAt)
		}
	}
}

// changesOf counts the events about entities in a data directory, by kind.
func changesOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	var dump strings.Builder
	if err := tools.Dump(&dump, dir, tools.DumpOptions{Partition: -1, JSON: true}); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, kind := range []string{"EntityCreated", "EntityUpdated", "EntityDeleted", "RuleAdded", "RuleUpdated", "RuleRemoved"} {
		n[kind] = strings.Count(dump.String(), `"`+kind+`"`)
	}
	return n
}

// MA-123: an unchanged entity file changes nothing: no start writes an event for it.
func TestTheSameFileAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "entities.json")
	const text = `{"UserConfig": {"Namespaces": [{"Name": "ns", "Queues": [
		{"Name": "orders", "Properties": {"LockDuration": "PT30S", "AuthorizationRules": [{"KeyName": "reader", "Rights": ["Listen"], "PrimaryKey": "first", "SecondaryKey": "second"}]}}],
		"Topics": [{"Name": "events", "Subscriptions": [{"Name": "s", "Rules": [
			{"Name": "sql", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "at < @t", "Parameters": {"@t": {"Type": "dateTime", "Value": "2026-01-02T03:04:05"}}}}},
			{"Name": "fields", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "x", "Properties": {"n": 1}}}}]}]}]}]}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := 0
	for i := range 3 {
		s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {dir}, "listen": {"127.0.0.1:0"}, "entities": {file}}})
		if err != nil {
			t.Fatal(err)
		}
		srv, err := broker.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, n := range changesOf(t, dir) {
			got += n
		}
		switch {
		case i == 0:
			if want = got; want < 3 {
				t.Fatalf("%d changes", want)
			}
		case got != want:
			t.Errorf("start %d: %d changes, not %d", i, got, want)
		}
	}
}
