package servicebus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

// put makes an entity with default properties, which change adjusts when it is not nil.
func (b *broker) put(t testing.TB, kind event.EntityKind, path string, change func(*event.Properties)) {
	t.Helper()
	p := engine.DefaultProperties(kind)
	if change != nil {
		change(&p)
	}
	must(b.PutEntity(context.Background(), engine.PutEntity{Kind: kind, Path: path, Properties: p}))(t)
}

// broker is a real engine on a temporary directory behind a server on a free port.
type broker struct {
	*host.Namespace
	address string
	stop    func()
}

func startBroker(t testing.TB, queues ...string) *broker {
	t.Helper()
	return startBrokerWith(t, servicebus.Limits{}, queues...)
}

func startBrokerWith(t testing.TB, limits servicebus.Limits, queues ...string) *broker {
	t.Helper()
	b := startBrokerIn(t, t.TempDir(), limits)
	for _, q := range queues {
		b.put(t, event.Queue, q, nil)
	}
	return b
}

// startBrokerIn starts a broker on the data in a directory.
func startBrokerIn(t testing.TB, dir string, limits servicebus.Limits) *broker {
	t.Helper()
	return startBrokerOn(t, dir, 2, limits, host.Options{Properties: message.Properties})
}

// startBrokerOn is startBrokerIn with that many partitions of the log.
func startBrokerOn(t testing.TB, dir string, logs int, limits servicebus.Limits, options host.Options) *broker {
	t.Helper()
	store, err := log.Open(context.Background(), dir, log.Options{Partitions: logs})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := host.Open(context.Background(), store, options)
	if err != nil {
		t.Fatal(err)
	}
	server := &servicebus.Server{Broker: ns, Options: servicebus.Options{
		Namespace: "sbns", AllowPlainWithoutTLS: true, Limits: limits,
		Access: access.New(access.Options{Development: true, Rules: []event.AccessRule{
			{Name: "RootManageSharedAccessKey", Primary: "SAS_KEY_VALUE", Rights: event.Rights{event.Manage}},
			{Name: "listen", Primary: "listen-key", Rights: event.Rights{event.Listen}},
			{Name: "send", Primary: "send-key", Rights: event.Rights{event.Send}},
		}}),
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(nc)
		}
	}()
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		l.Close()
		<-served
		server.Close(ctx)
		ns.Close()
		store.Close()
		if n := server.Panics(); n > 0 {
			t.Errorf("%d connections ended in a panic", n)
		}
	})
	t.Cleanup(stop)
	return &broker{Namespace: ns, address: l.Addr().String(), stop: stop}
}

type testWriter struct{ t testing.TB }

// Write takes a line of the broker's log. The clients are unmodified SDKs: that the broker finds
// fault with what they send is a failure.
func (w testWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "protocol fault") {
		w.t.Errorf("%s", p)
	}
	if testing.Verbose() {
		fmt.Print(string(p))
	}
	return len(p), nil
}

// client is one that tries everything once.
func (b *broker) client(t testing.TB, rule, key string) *azservicebus.Client {
	t.Helper()
	cs := fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true", b.address, rule, key)
	c, err := azservicebus.NewClientFromConnectionString(cs, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: -1},
		// a way to look at the bytes
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", b.address)
			if err != nil {
				return nil, err
			}
			return servicebus.Record(t, nc), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (b *broker) root(t testing.TB) *azservicebus.Client {
	return b.client(t, "RootManageSharedAccessKey", "SAS_KEY_VALUE")
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func receiveOne(t testing.TB, r *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	t.Helper()
	ms := must(r.ReceiveMessages(timeout(t), 1, nil))(t)
	if len(ms) != 1 {
		t.Fatalf("%d messages", len(ms))
	}
	return ms[0]
}

// WP-040, WP-073, WP-082, WP-106, WP-107, WP-108: the unmodified SDK sends, receives and completes.
func TestSDKSendReceiveComplete(t *testing.T) {
	b := startBroker(t, "orders")
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("hello"), ApplicationProperties: map[string]any{"n": int64(7)}}, nil); err != nil {
		t.Fatal(err)
	}
	r := must(c.NewReceiverForQueue("orders", nil))(t)
	m := receiveOne(t, r)
	if string(m.Body) != "hello" || m.MessageID == "" || m.DeliveryCount != 1 || m.LockedUntil == nil || *m.SequenceNumber != 1 || m.ApplicationProperties["n"] != int64(7) {
		t.Fatalf(`%+v; want string(m.Body) == "hello" && m.MessageID != "" && m.DeliveryCount == 1 && m.LockedUntil != nil && *m.SequenceNumber == 1 && m.ApplicationProperties["n"] == int64(7)`, m)
	}
	if err := r.RenewMessageLock(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.CompleteMessage(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	peeked := must(r.PeekMessages(ctx, 10, nil))(t)
	if len(peeked) != 0 {
		t.Fatalf("%d messages left", len(peeked))
	}
}

// WP-109 to WP-114, WP-174: every way to settle.
func TestSDKSettle(t *testing.T) {
	b := startBroker(t, "orders")
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("x"), MessageID: new("id-1")}, nil); err != nil {
		t.Fatal(err)
	}
	r := must(c.NewReceiverForQueue("orders", nil))(t)
	m := receiveOne(t, r)
	if err := r.AbandonMessage(ctx, m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"a": "1"}}); err != nil {
		t.Fatal(err)
	}
	m = receiveOne(t, r)
	if m.DeliveryCount != 2 || m.ApplicationProperties["a"] != "1" || m.MessageID != "id-1" {
		t.Fatalf(`%+v; want m.DeliveryCount == 2 && m.ApplicationProperties["a"] == "1" && m.MessageID == "id-1"`, m)
	}
	reason, text := "because", "of this"
	if err := r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &text, PropertiesToModify: map[string]any{"a": "2"}}); err != nil {
		t.Fatal(err)
	}
	dlq := must(c.NewReceiverForQueue("orders", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))(t)
	m = receiveOne(t, dlq)
	if *m.DeadLetterReason != reason || *m.DeadLetterErrorDescription != text || m.ApplicationProperties["a"] != "2" || m.DeliveryCount != 2 {
		t.Fatalf(`%+v; want *m.DeadLetterReason == reason && *m.DeadLetterErrorDescription == text && m.ApplicationProperties["a"] == "2" && m.DeliveryCount == 2`, m)
	}
	if err := dlq.AbandonMessage(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	m = receiveOne(t, dlq)
	if m.DeliveryCount != 2 {
		t.Fatalf("counted in the dead-letter queue: %d", m.DeliveryCount)
	}
	if err := dlq.DeferMessage(ctx, m, nil); err != nil {
		t.Fatal(err)
	}
	peeked := must(dlq.PeekMessages(ctx, 10, nil))(t)
	if len(peeked) != 1 || peeked[0].State != azservicebus.MessageStateDeferred || peeked[0].LockedUntil != nil {
		t.Fatalf("%+v; want len(peeked) == 1 && peeked[0].State == azservicebus.MessageStateDeferred && peeked[0].LockedUntil == nil", peeked)
	}
}

// WP-075, WP-078, WP-122, WP-131: a batch, a large message, receive-and-delete.
func TestSDKBatchAndLarge(t *testing.T) {
	b := startBroker(t, "orders")
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	batch := must(s.NewMessageBatch(ctx, nil))(t)
	for i := range 5 {
		if err := batch.AddMessage(&azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SendMessageBatch(ctx, batch, nil); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789", 25_000)
	if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte(large)}, nil); err != nil {
		t.Fatal(err)
	}
	r := must(c.NewReceiverForQueue("orders", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))(t)
	ids := map[string]bool{}
	for i := 0; i < 6; {
		for _, m := range must(r.ReceiveMessages(ctx, 6-i, nil))(t) {
			if want := fmt.Sprint(i); i < 5 && string(m.Body) != want || i == 5 && string(m.Body) != large {
				t.Fatalf("message %d: %d bytes", i, len(m.Body))
			}
			if *m.SequenceNumber != int64(i+1) || m.LockedUntil != nil || ids[m.MessageID] {
				t.Fatalf("message %d: %+v", i, m)
			}
			ids[m.MessageID] = true
			i++
		}
	}
	tooLarge := make([]byte, 300<<10)
	err := s.SendMessage(ctx, &azservicebus.Message{Body: tooLarge}, nil)
	var e *azservicebus.Error
	if !errors.Is(err, azservicebus.ErrMessageTooLarge) && !errors.As(err, &e) {
		t.Fatalf("%v; want that the message is too large", err)
	}
}

// WP-048, WP-049, WP-057, WP-058: forbidden operations, as the SDK reports them.
func TestSDKRefusals(t *testing.T) {
	b := startBroker(t, "orders")
	ctx := timeout(t)
	code := func(err error) azservicebus.Code {
		t.Helper()
		var e *azservicebus.Error
		if !errors.As(err, &e) {
			t.Fatalf("not a service bus error: %v", err)
		}
		return e.Code
	}
	send := func(c *azservicebus.Client, queue string) error {
		s := must(c.NewSender(queue, nil))(t)
		return s.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil)
	}
	if got := code(send(b.root(t), "nothing")); got != azservicebus.CodeNotFound {
		t.Errorf("%+v, want %+v", got, azservicebus.CodeNotFound)
	}
	if got := code(send(b.client(t, "RootManageSharedAccessKey", "wrong"), "orders")); got != azservicebus.CodeUnauthorizedAccess {
		t.Errorf("%+v, want %+v", got, azservicebus.CodeUnauthorizedAccess)
	}
	if got := code(send(b.client(t, "listen", "listen-key"), "orders")); got != azservicebus.CodeUnauthorizedAccess {
		t.Errorf("%+v, want %+v", got, azservicebus.CodeUnauthorizedAccess)
	}
	r := must(b.client(t, "send", "send-key").NewReceiverForQueue("orders", nil))(t)
	_, err := r.ReceiveMessages(ctx, 1, nil)
	if got := code(err); got != azservicebus.CodeUnauthorizedAccess || !strings.Contains(err.Error(), "'Listen' claim(s) are required") {
		t.Errorf(`%+v %+v; want got == azservicebus.CodeUnauthorizedAccess && strings.Contains(err.Error(), "'Listen' claim(s) are required")`, got, err)
	}
}

// SM-327, WP-016: links without traffic are detached; the SDK's sender, its receiver and its
// management link go on without an error, although none of them tries twice. Messages sent
// meanwhile are there, and locks are kept.
func TestSDKIdleLinks(t *testing.T) {
	const idle = time.Second
	b := startBrokerWith(t, servicebus.Limits{LinkIdle: idle}, "orders")
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	r := must(c.NewReceiverForQueue("orders", nil))(t)
	for i := range 2 {
		if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
		m := receiveOne(t, r)
		if want := fmt.Sprint(i); string(m.Body) != want || m.DeliveryCount != 1 {
			t.Fatalf("%s, %d times; want %s", m.Body, m.DeliveryCount, want)
		}
		time.Sleep(idle + idle/2) // longer than any link may be idle
		if err := r.RenewMessageLock(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.CompleteMessage(ctx, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := must(r.PeekMessages(ctx, 10, nil))(t); len(left) != 0 {
		t.Errorf("%d messages left", len(left))
	}
}

// SM-005, SM-018, WP-072: thousands of sends under way on one link, all delivered, in order of
// their numbers.
func TestSDKManyAtOnce(t *testing.T) {
	b := startBroker(t, "orders")
	c, ctx := b.root(t), timeout(t)
	s := must(c.NewSender("orders", nil))(t)
	// Opens the link: the SDK does not check again under the lock that it takes for that. So two
	// first sends at once would open two links, and the token renewal of the overwritten one would
	// never end.
	must(s.NewMessageBatch(ctx, nil))(t)
	const workers, each = 50, 60
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, w, i)}, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r := must(c.NewReceiverForQueue("orders", nil))(t)
	seen := map[string]bool{}
	for len(seen) < workers*each {
		ms, err := r.ReceiveMessages(ctx, 500, nil)
		if err != nil {
			t.Fatal(len(seen), err)
		}
		for _, m := range ms {
			wg.Go(func() {
				if err := r.CompleteMessage(ctx, m, nil); err != nil {
					t.Error(err)
				}
			})
			if seen[string(m.Body)] {
				t.Fatalf("%s twice", m.Body)
			}
			seen[string(m.Body)] = true
		}
		wg.Wait()
	}
}
