package broker_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

const atomVersion = "?api-version=2024-05"

// dotnetBody returns the body of a PUT in .NET's layout.
func dotnetBody(kind, properties string) string {
	return `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><` + kind + `Description xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">` +
		properties + `</` + kind + `Description></content></entry>`
}

// dotnetKeys returns authorization rules with one key in .NET's layout.
func dotnetKeys(name, primary string) string {
	return `<AuthorizationRules><AuthorizationRule xmlns:p5="http://www.w3.org/2001/XMLSchema-instance" p5:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType>` +
		`<ClaimValue>None</ClaimValue><Rights><AccessRights>Send</AccessRights></Rights><KeyName>` + name + `</KeyName><PrimaryKey>` + primary + `</PrimaryKey><SecondaryKey>s</SecondaryKey></AuthorizationRule></AuthorizationRules>`
}

// names requests items under the spellings of a table.
type names struct {
	*testing.T
	b *harness.Broker
}

// ask sends a request and checks the status and fragments of the answer.
func (n names) ask(status int, method, path, body string, fragments ...string) {
	n.Helper()
	headers := []string{"Content-Type", "application/atom+xml"}
	if strings.HasPrefix(method, "UPDATE") {
		method, headers = "PUT", append(headers, "If-Match", "*")
	}
	query := atomVersion
	got, text := ask(n.T, n.b, "http", method, path+query, body, headers...)
	if got != status {
		n.Errorf("%s %s: status %d, not %d: %s", method, path, got, status, text)
	}
	for _, fragment := range fragments {
		if !strings.Contains(text, fragment) {
			n.Errorf("%s %s: no %s in %s", method, path, fragment, text)
		}
	}
}

// shown returns the fragments of an entry with a path and a title.
func (n names) shown(path, title string) []string {
	_, port, _ := net.SplitHostPort(n.b.Server().Addrs()[0].String())
	return []string{"<id>http://localhost:" + port + "/" + path + "?", `<title type="text">` + title + "</title>"}
}

// dial connects to the broker over AMQP.
func dial(t *testing.T, b *harness.Broker) *client.Client {
	t.Helper()
	cs, err := client.ParseConnectionString(b.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	bus, err := client.Dial(t.Context(), cs, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	return bus
}

// pass sends a message to one path and receives it from another.
func pass(t *testing.T, bus *client.Client, from, to string, settle func(*client.Receiver, *amqp.Message) error) *amqp.Message {
	t.Helper()
	s, err := bus.NewSender(t.Context(), from)
	if err != nil {
		t.Fatal(from, err)
	}
	if err := s.Send(t.Context(), client.NewMessage([]byte("x"))); err != nil {
		t.Fatal(from, err)
	}
	return take(t, bus, to, settle)
}

func take(t *testing.T, bus *client.Client, path string, settle func(*client.Receiver, *amqp.Message) error) *amqp.Message {
	t.Helper()
	r, err := bus.NewReceiver(t.Context(), path, client.PeekLock)
	if err != nil {
		t.Fatal(path, err)
	}
	defer r.Close(t.Context())
	if err := r.Credit(1); err != nil {
		t.Fatal(path, err)
	}
	m, err := r.Receive(t.Context())
	if err != nil {
		t.Fatal(path, err)
	}
	if err := settle(r, m); err != nil {
		t.Fatal(path, err)
	}
	return m
}

func complete(t *testing.T) func(*client.Receiver, *amqp.Message) error {
	return func(r *client.Receiver, m *amqp.Message) error { return r.Complete(t.Context(), m) }
}

func deadLetter(t *testing.T) func(*client.Receiver, *amqp.Message) error {
	return func(r *client.Receiver, m *amqp.Message) error { return r.DeadLetter(t.Context(), m, "no", "") }
}

// SM-311, SM-399, MA-139: names of new queues and topics are shown in lower case. Names of
// subscriptions, rules and keys, forwarding targets and AMQP addresses keep their spelling.
func TestNamesInLowerCase(t *testing.T) {
	t.Parallel()
	n := names{t, harness.Start(t)}
	queue := n.shown("names.queue/eu", "names.queue/eu")
	key := dotnetKeys("Some.Key", "p")
	n.ask(201, "PUT", "/Names.Queue/EU", dotnetBody("Queue", key), append(queue, "<KeyName>Some.Key</KeyName>")...)
	n.ask(409, "PUT", "/names.QUEUE/eu", dotnetBody("Queue", ""))
	n.ask(409, "PUT", "/NAMES.queue/eu", dotnetBody("Topic", ""))
	n.ask(200, "UPDATE", "/NAMES.QUEUE/eu", dotnetBody("Queue", key), queue...)
	n.ask(200, "GET", "/Names.Queue/EU", "", queue...)
	n.ask(200, "GET", "/$Resources/queues", "", queue[1])
	n.ask(201, "PUT", "/Names.Topic", dotnetBody("Topic", ""), n.shown("names.topic", "names.topic")...)
	sub := n.shown("names.topic/Subscriptions/Some.Sub", "Some.Sub")
	n.ask(201, "PUT", "/Names.TOPIC/Subscriptions/Some.Sub", dotnetBody("Subscription", ""), sub...)
	n.ask(200, "GET", "/names.topic/Subscriptions/some.sub", "", sub...)
	n.ask(200, "GET", "/Names.Topic/Subscriptions", "", sub[1])
	rule := n.shown("names.topic/Subscriptions/Some.Sub/Rules/Some.Rule", "Some.Rule")
	n.ask(201, "PUT", "/Names.Topic/Subscriptions/Some.Sub/Rules/Some.Rule", dotnetBody("Rule", ""), rule[1], "<Name>Some.Rule</Name>")
	n.ask(201, "PUT", "/From", dotnetBody("Queue", "<ForwardTo>Names.Queue/EU</ForwardTo>"), "/Names.Queue/EU</ForwardTo>")
	n.ask(200, "GET", "/from", "", "/Names.Queue/EU</ForwardTo>")
	n.ask(200, "DELETE", "/FROM", "")

	bus := dial(t, n.b)
	s, err := bus.NewSender(t.Context(), "Names.QUEUE/eu")
	if err != nil || s.Send(t.Context(), client.NewMessage([]byte("x"))) != nil {
		t.Fatal(err)
	}
	take(t, bus, "names.queue/EU", deadLetter(t))
	n.ask(201, "PUT", "/Dead", dotnetBody("Queue", ""))
	n.ask(200, "UPDATE", "/names.queue/eu", dotnetBody("Queue", "<ForwardDeadLetteredMessagesTo>dEAD</ForwardDeadLetteredMessagesTo>"), "/dEAD</ForwardDeadLetteredMessagesTo>")
	moved := take(t, bus, "Dead", complete(t))
	if got := moved.Annotations["x-opt-deadletter-source"]; got != "names.queue/eu" {
		t.Errorf("DeadLetterSource %v", got)
	}
	m := pass(t, bus, "Names.Topic", "NAMES.topic/subscriptions/Some.Sub", deadLetter(t))
	if m == nil {
		t.Error("no message")
	}
}

// writeOlder writes the log of a version that kept the spelling of names: a queue with a message, a
// topic with a subscription, and a queue that forwards.
func writeOlder(t *testing.T, dir string) {
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	_, w := d.Lead(0)
	at := event.TimeOf(time.Now().Add(-time.Hour))
	forwards := engine.DefaultProperties(event.Queue)
	forwards.ForwardTo = "Names.Queue"
	for i, e := range []event.EntityCreated{
		{EntityKind: event.Queue, Path: "Names.Queue", Properties: engine.DefaultProperties(event.Queue)},
		{EntityKind: event.Topic, Path: "Names.Topic", Properties: engine.DefaultProperties(event.Topic)},
		{EntityKind: event.Subscription, Path: "Names.Topic/Subscriptions/Old", Topic: 2, Properties: engine.DefaultProperties(event.Subscription)},
		{EntityKind: event.Queue, Path: "From", Properties: forwards},
	} {
		e.Envelope, e.HashVersion, e.Hosts = event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}}, 1, []byte{0}
		d.Append(w, at, &e)
	}
	keys := engine.DefaultProperties(event.Queue)
	keys.AccessRules = []event.AccessRule{{Name: "k", Rights: event.Rights{event.Send}, Primary: "p", Secondary: "s"}}
	d.Append(w, at, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: 5}}, EntityKind: event.Queue, Path: "keys", HashVersion: 1, Hosts: []byte{0}, Properties: keys})
	d.Append(w, at, &event.RuleAdded{Envelope: event.Envelope{Slice: event.Slice{Entity: 3}}, Rule: event.Rule{Name: "All", Filter: event.Filter{Kind: event.TrueFilter}, CreatedAt: at}})
	d.Close()
}

// SM-399, MA-139: names of an older log keep their spelling. New and recreated names are in lower
// case.
func TestNamesOfAnOlderLog(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	writeOlder(t, data)
	n := names{t, harness.Start(t, func(s *settings.Settings) { s.Storage.Data, s.Storage.Partitions = data, 1 }, harness.Queue("NAMES.queue"))}
	bus := dial(t, n.b)
	queue := n.shown("Names.Queue", "Names.Queue")
	n.ask(200, "GET", "/names.queue", "", queue...)
	n.ask(409, "PUT", "/names.queue", dotnetBody("Queue", ""))
	n.ask(200, "UPDATE", "/names.queue", dotnetBody("Queue", ""), queue...)
	n.ask(200, "GET", "/$Resources/Queues", "", queue[1], `<title type="text">From</title>`)
	n.ask(200, "GET", "/names.topic/Subscriptions/old", "", n.shown("Names.Topic/Subscriptions/Old", "Old")...)
	n.ask(201, "PUT", "/names.topic/Subscriptions/New", dotnetBody("Subscription", ""), n.shown("Names.Topic/Subscriptions/New", "New")...)
	pass(t, bus, "names.topic", "Names.Topic/Subscriptions/New", complete(t))
	take(t, bus, "names.topic/subscriptions/old", complete(t))

	pass(t, bus, "from", "names.queue", complete(t)) // an order of the older log
	n.ask(201, "PUT", "/Second", dotnetBody("Queue", "<ForwardTo>NAMES.QUEUE</ForwardTo>"), n.shown("second", "second")...)
	pass(t, bus, "Second", "Names.Queue", complete(t))
	n.ask(201, "PUT", "/Names.Target", dotnetBody("Queue", ""))
	n.ask(200, "UPDATE", "/NAMES.queue", dotnetBody("Queue", "<ForwardTo>names.target</ForwardTo>"), queue...)
	bus = dial(t, n.b) // the other connection is still to be told of the update
	pass(t, bus, "names.queue", "NAMES.target", complete(t))

	n.ask(200, "DELETE", "/names.queue", "")
	n.ask(201, "PUT", "/Names.Queue", dotnetBody("Queue", ""), n.shown("names.queue", "names.queue")...)
	bus = dial(t, n.b)
	pass(t, bus, "From", "Names.Queue", complete(t)) // the order finds the recreated entity
	n.b.Crash()
	n.ask(200, "GET", "/NAMES.QUEUE", "", n.shown("names.queue", "names.queue")...)
	n.ask(200, "GET", "/from", "", n.shown("From", "From")...)
	n.ask(200, "GET", "/names.topic/Subscriptions/new", "", n.shown("Names.Topic/Subscriptions/New", "New")...)
}

// MA-141: a key of an older log has no times until it is changed. Then its change time is known,
// but not its creation time.
func TestKeysOfAnOlderLog(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	writeOlder(t, data)
	n := names{t, harness.Start(t, func(s *settings.Settings) { s.Storage.Data, s.Storage.Partitions = data, 1 })}
	const without, modified = "</Rights><KeyName>k</KeyName>", "</Rights><ModifiedTime>20"
	n.ask(200, "GET", "/keys", "", without)
	n.ask(200, "UPDATE", "/keys", dotnetBody("Queue", dotnetKeys("k", "p")), without)
	n.ask(200, "UPDATE", "/keys", dotnetBody("Queue", dotnetKeys("k", "other")), modified)
	n.ask(200, "GET", "/keys", "", modified)
	n.ask(200, "UPDATE", "/keys", dotnetBody("Queue", dotnetKeys("again", "p")), "</Rights><CreatedTime>20")
}

// MA-123, SM-399: an emulator file in mixed case writes no event at its second and third start, and
// clients use its spelling.
func TestAFileInMixedCase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "Config.json")
	const text = `{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [
		{"Name": "Names.Queue", "Properties": {"ForwardDeadLetteredMessagesTo": "Names.Dead"}}, {"Name": "Names.Dead"}],
		"Topics": [{"Name": "Names.Topic", "Subscriptions": [{"Name": "Some.Sub", "Properties": {"ForwardTo": "Names.QUEUE"}}, {"Name": "Other"}]}]}], "Logging": {"Type": "File"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	var want map[string]int
	for i := range 3 {
		s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {data}, "listen": {"127.0.0.1:0"}, "entities": {file}}})
		if err != nil {
			t.Fatal(err)
		}
		srv, err := broker.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			useAFileInMixedCase(t, srv.Addrs()[0].String())
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		got := changesOf(t, data)
		if want == nil {
			want = got
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || got["EntityCreated"] != 5 || got["EntityUpdated"] != 0 {
			t.Errorf("start %d: %v, not %v", i, got, want)
		}
	}
}

// useAFileInMixedCase sends and receives under the names in the file.
func useAFileInMixedCase(t *testing.T, address string) {
	t.Helper()
	cs, err := client.ParseConnectionString("Endpoint=sb://" + address + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true")
	if err != nil {
		t.Fatal(err)
	}
	bus, err := client.Dial(t.Context(), cs, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	pass(t, bus, "Names.Topic", "Names.Queue", deadLetter(t))
	moved := take(t, bus, "Names.Dead", complete(t))
	if got := moved.Annotations["x-opt-deadletter-source"]; got != "names.queue" {
		t.Errorf("DeadLetterSource %v", got)
	}
	take(t, bus, "Names.Topic/Subscriptions/Other", complete(t))
}
