package sdkgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

const (
	// patience is how long anything may take that must happen.
	patience = 20 * time.Second
	// quiet is how long nothing must happen before a test believes that nothing will.
	quiet = 150 * time.Millisecond
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	goleak.VerifyTestMain(m)
}

// bus is a broker with the queue "orders", and a client of it.
type bus struct {
	*testing.T
	broker *harness.Broker
	client *azservicebus.Client
}

func newBus(t *testing.T, options ...harness.Option) *bus {
	t.Helper()
	b := &bus{T: t, broker: harness.Start(t, options...)}
	b.client = b.connect(b.broker.ConnectionString())
	return b
}

// connect makes a further client. Its retries are those of a program that knows the broker is near.
func (b *bus) connect(connectionString string) *azservicebus.Client {
	b.Helper()
	return connect(b.T, connectionString, azservicebus.RetryOptions{MaxRetries: 20, RetryDelay: 20 * time.Millisecond, MaxRetryDelay: 200 * time.Millisecond})
}

func connect(t *testing.T, connectionString string, retry azservicebus.RetryOptions) *azservicebus.Client {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{RetryOptions: retry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx) // the broker may be gone already
	})
	return client
}

// patient is a context for a call that must succeed.
func (b *bus) patient() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

func (b *bus) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bus) sender() *azservicebus.Sender {
	b.Helper()
	s, err := b.client.NewSender("orders", nil)
	b.must(err)
	return s
}

// send sends a message per body.
func (b *bus) send(bodies ...string) {
	b.Helper()
	s := b.sender()
	for _, body := range bodies {
		b.must(s.SendMessage(b.patient(), text(body), nil))
	}
	b.must(s.Close(b.patient()))
}

func text(body string) *azservicebus.Message { return &azservicebus.Message{Body: []byte(body)} }

// sendMany sends n messages "0", "1"… in batches.
func (b *bus) sendMany(n int) {
	b.Helper()
	s := b.sender()
	for i := 0; i < n; {
		batch, err := s.NewMessageBatch(b.patient(), nil)
		b.must(err)
		for ; i < n && batch.NumMessages() < 500; i++ {
			b.must(batch.AddMessage(text(fmt.Sprint(i)), nil))
		}
		b.must(s.SendMessageBatch(b.patient(), batch, nil))
	}
	b.must(s.Close(b.patient()))
}

// Ways to receive.
var (
	peekLock         *azservicebus.ReceiverOptions
	receiveAndDelete = &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	deadLetters      = &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
)

func (b *bus) receiver(options *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	b.Helper()
	return b.receiverOf(b.client, options)
}

func (b *bus) receiverOf(client *azservicebus.Client, options *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	b.Helper()
	r, err := client.NewReceiverForQueue("orders", options)
	b.must(err)
	return r
}

// take receives exactly n messages.
func (b *bus) take(r *azservicebus.Receiver, n int) []*azservicebus.ReceivedMessage {
	b.Helper()
	var all []*azservicebus.ReceivedMessage
	for ctx := b.patient(); len(all) < n; {
		some, err := r.ReceiveMessages(ctx, n-len(all), nil)
		if err != nil {
			b.Fatalf("received %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, some...)
	}
	return all
}

func (b *bus) takeOne(r *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	b.Helper()
	return b.take(r, 1)[0]
}

// nothing checks that no message arrives.
func (b *bus) nothing(r *azservicebus.Receiver) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), quiet)
	defer cancel()
	some, err := r.ReceiveMessages(ctx, 1, nil)
	if len(some) > 0 {
		b.Errorf("received %q where nothing should be", some[0].Body)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("receiving nothing: %v", err)
	}
}

// peek peeks everything there is.
func (b *bus) peek(options *azservicebus.ReceiverOptions) []*azservicebus.ReceivedMessage {
	b.Helper()
	r := b.receiverOf(b.connect(b.broker.ConnectionString()), options)
	first := int64(0)
	var all []*azservicebus.ReceivedMessage
	for {
		some, err := r.PeekMessages(b.patient(), 100, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &first})
		b.must(err)
		if len(some) == 0 {
			b.must(r.Close(b.patient()))
			return all
		}
		all = append(all, some...)
		first = *some[len(some)-1].SequenceNumber + 1
	}
}

// empty checks that there is nothing to peek.
func (b *bus) empty(options *azservicebus.ReceiverOptions) {
	b.Helper()
	if all := b.peek(options); len(all) != 0 {
		b.Errorf("%d messages where none should be, the first %q", len(all), all[0].Body)
	}
}

func bodies(messages []*azservicebus.ReceivedMessage) []string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	return all
}

func (b *bus) wantBodies(got []*azservicebus.ReceivedMessage, want ...string) {
	b.Helper()
	if !slices.Equal(bodies(got), want) {
		b.Fatalf("messages %q, want %q", bodies(got), want)
	}
}

// wantCode checks for the SDK's classification of an error: what programs branch on.
func (b *bus) wantCode(err error, code azservicebus.Code) {
	b.Helper()
	var e *azservicebus.Error
	if !errors.As(err, &e) || e.Code != code {
		b.Errorf("error %v, want code %q", err, code)
	}
}

// failures is the delivery count of the wire: how many deliveries failed before. The Go SDK shows one more, peeked or not.
func failures(m *azservicebus.ReceivedMessage) uint32 { return m.DeliveryCount - 1 }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
