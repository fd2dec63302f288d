package sdkgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

type (
	message  = azservicebus.Message
	received = azservicebus.ReceivedMessage
)

const (
	// patience is how long anything may take that must happen.
	patience = 20 * time.Second
	// promptly is what the list calls "at once".
	promptly = 3 * time.Second
	// quiet is how long nothing must happen before a scenario believes that nothing will.
	quiet = 500 * time.Millisecond
)

var (
	noRetries = azservicebus.RetryOptions{MaxRetries: -1}
	stubborn  = azservicebus.RetryOptions{MaxRetries: 100, RetryDelay: 20 * time.Millisecond, MaxRetryDelay: 200 * time.Millisecond}
)

// bus is one scenario: its entity, its client with a sender, and what went wrong with it.
type bus struct {
	*testing.T
	place        place
	queue        string // or topic, with which sending has to do
	subscription string // with which receiving has to do; empty: with the queue
	retry        azservicebus.RetryOptions
	client       *azservicebus.Client
	sender       *azservicebus.Sender
	manager      *admin.Client // nil until somebody asks for it
	failure      *failure
}

// failure is what went wrong first with a scenario.
type failure struct {
	mu   sync.Mutex
	text string // guarded by mu
}

// place is where the broker is.
type place struct {
	connectionString    string
	tlsConnectionString string // without the emulator's flag; empty where nothing is administered
	authority           string // file with the certificate that is trusted then
	control             string // address of the API of ../run; empty where there is none
	webSocket           bool   // clients speak to it over WebSocket
}

func newBus(t *testing.T, at place, queue string, retry azservicebus.RetryOptions) *bus {
	t.Helper()
	b := &bus{T: t, place: at, queue: queue, retry: retry, failure: &failure{}}
	b.client = b.connect()
	b.sender = b.senderOf(b.client)
	return b
}

// at is the scenario on another queue or topic, with a new sender.
func (b *bus) at(queue string) *bus {
	b.Helper()
	other := *b
	other.queue, other.subscription = queue, ""
	other.sender = other.senderOf(b.client)
	return &other
}

// on is the scenario on a subscription of its topic: it receives from that.
func (b *bus) on(subscription string) *bus {
	other := *b
	other.subscription = subscription
	return &other
}

// Errorf notes the failure for the results and goes on.
func (b *bus) Errorf(format string, args ...any) {
	b.Helper()
	b.note(fmt.Sprintf(format, args...))
	b.T.Errorf(format, args...)
}

// Fatalf notes the failure for the results and ends the scenario.
func (b *bus) Fatalf(format string, args ...any) {
	b.Helper()
	b.note(fmt.Sprintf(format, args...))
	b.T.Fatalf(format, args...)
}

// note keeps the first failure, with the line of the scenario that it happened on.
func (b *bus) note(text string) {
	var callers [20]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	frame, more := frames.Next()
	for more && slices.Contains(helpers, filepath.Base(frame.File)) {
		frame, more = frames.Next()
	}
	b.failure.mu.Lock()
	defer b.failure.mu.Unlock()
	if b.failure.text == "" {
		b.failure.text = fmt.Sprintf("%s:%d: %s", filepath.Base(frame.File), frame.Line, text)
	}
}

// helpers are the files with the words of scenarios, not scenarios.
var helpers = []string{"bus_test.go", "check_test.go", "manage_test.go"}

// firstFailure is what the results say of a scenario that did not pass.
func (b *bus) firstFailure() string {
	b.failure.mu.Lock()
	defer b.failure.mu.Unlock()
	if b.failure.text == "" {
		return "the scenario did not end well; its log says more"
	}
	return b.failure.text
}

// patient is a context for a call that must succeed.
func (b *bus) patient() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

// try makes a call and returns its error. A stubborn scenario makes it again while there is no connection.
func (b *bus) try(call func(context.Context) error) error {
	ctx := b.patient()
	for {
		err := call(ctx)
		if b.retry != stubborn || !lost(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(stubborn.RetryDelay)
	}
}

func (b *bus) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%v", err)
	}
}

// Clients.

// connect makes a further client, with a connection of its own. It is closed at the end of the scenario.
func (b *bus) connect() *azservicebus.Client {
	b.Helper()
	return b.connectWith(b.place.connectionString)
}

func (b *bus) connectWith(connectionString string) *azservicebus.Client {
	b.Helper()
	options := &azservicebus.ClientOptions{RetryOptions: b.retry}
	if b.place.webSocket {
		options.NewWebSocketConn = webSocketTo(connectionString, nil)
	}
	return b.connectBy(connectionString, options)
}

func (b *bus) connectBy(connectionString string, options *azservicebus.ClientOptions) *azservicebus.Client {
	b.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connectionString, options)
	b.must(err)
	b.Cleanup(func() { b.closeClient(client) })
	return client
}

func (b *bus) closeClient(client *azservicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = client.Close(ctx) // its connection may have been cut
}

func (b *bus) senderOf(client *azservicebus.Client) *azservicebus.Sender {
	b.Helper()
	s, err := client.NewSender(b.queue, nil)
	b.must(err)
	return s
}

// Sending.

func text(body string) *message { return &message{Body: []byte(body)} }

func withID(id, body string) *message { return &message{Body: []byte(body), MessageID: to.Ptr(id)} }

func inSession(id, body string) *message { return &message{Body: []byte(body), SessionID: to.Ptr(id)} }

func mortal(body string, life time.Duration) *message {
	return &message{Body: []byte(body), TimeToLive: to.Ptr(life)}
}

// texts are the numbers from 0 to n-1.
func texts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// send sends a message per text, one after another.
func (b *bus) send(bodies ...string) {
	b.Helper()
	for _, body := range bodies {
		b.post(text(body))
	}
}

// post sends messages, one after another.
func (b *bus) post(messages ...*message) {
	b.Helper()
	for _, m := range messages {
		b.must(b.trySend(m))
	}
}

func (b *bus) trySend(m *message) error {
	return b.try(func(ctx context.Context) error { return b.sender.SendMessage(ctx, m, nil) })
}

// batch makes one batch of all messages.
func (b *bus) batch(messages ...*message) *azservicebus.MessageBatch {
	b.Helper()
	batch, err := b.sender.NewMessageBatch(b.patient(), nil)
	b.must(err)
	for _, m := range messages {
		b.must(batch.AddMessage(m, nil))
	}
	return batch
}

// postBatch sends messages as one batch.
func (b *bus) postBatch(messages ...*message) {
	b.Helper()
	b.must(b.sender.SendMessageBatch(b.patient(), b.batch(messages...), nil))
}

// sendAll sends texts in as few batches as it takes.
func (b *bus) sendAll(bodies []string) {
	b.Helper()
	var all []*message
	for _, body := range bodies {
		all = append(all, text(body))
	}
	b.postAll(all)
}

// postAll sends messages in as few batches as it takes.
func (b *bus) postAll(messages []*message) {
	b.Helper()
	for len(messages) > 0 {
		batch := b.batch()
		for len(messages) > 0 && batch.AddMessage(messages[0], nil) == nil {
			messages = messages[1:]
		}
		b.must(b.sender.SendMessageBatch(b.patient(), batch, nil))
	}
}

// schedule schedules texts by the call and returns their numbers.
func (b *bus) schedule(at time.Time, messages ...*message) []int64 {
	b.Helper()
	var numbers []int64
	b.must(b.try(func(ctx context.Context) (err error) {
		numbers, err = b.sender.ScheduleMessages(ctx, messages, at, nil)
		return err
	}))
	return numbers
}

func (b *bus) cancel(number int64) error {
	return b.sender.CancelScheduledMessages(b.patient(), []int64{number}, nil)
}

// soon is a time from now, whole in milliseconds like all times on the wire.
func soon(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Millisecond) }

// Receivers.

// receiver is a receiver of a queue, of its dead letters or of a session.
type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*received, error)
	ReceiveDeferredMessages(context.Context, []int64, *azservicebus.ReceiveDeferredMessagesOptions) ([]*received, error)
	PeekMessages(context.Context, int, *azservicebus.PeekMessagesOptions) ([]*received, error)
	CompleteMessage(context.Context, *received, *azservicebus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *received, *azservicebus.AbandonMessageOptions) error
	DeferMessage(context.Context, *received, *azservicebus.DeferMessageOptions) error
	DeadLetterMessage(context.Context, *received, *azservicebus.DeadLetterOptions) error
	Close(context.Context) error
}

// Ways to receive.
var (
	peekLock         *azservicebus.ReceiverOptions
	receiveAndDelete = &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	deadLetters      = &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
)

func (b *bus) receiverOf(client *azservicebus.Client, options *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	b.Helper()
	var r *azservicebus.Receiver
	var err error
	if b.subscription == "" {
		r, err = client.NewReceiverForQueue(b.queue, options)
	} else {
		r, err = client.NewReceiverForSubscription(b.queue, b.subscription, options)
	}
	b.must(err)
	return r
}

func (b *bus) receiver() *azservicebus.Receiver {
	b.Helper()
	return b.receiverOf(b.client, peekLock)
}

// elsewhere is a receiver of another client.
func (b *bus) elsewhere() *azservicebus.Receiver {
	b.Helper()
	return b.receiverOf(b.connect(), peekLock)
}

func (b *bus) remover() *azservicebus.Receiver {
	b.Helper()
	return b.receiverOf(b.client, receiveAndDelete)
}

func (b *bus) deadLetters() *azservicebus.Receiver {
	b.Helper()
	return b.receiverOf(b.client, deadLetters)
}

func (b *bus) close(r receiver) {
	b.Helper()
	b.must(r.Close(b.patient()))
}

// Receiving.

// untilAll makes a receive call wait for all that it asks for. What comes between two calls the SDK releases, and what is
// released comes back behind others.
var untilAll = &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: patience}

// receive receives exactly n messages, in as many calls as it takes.
func (b *bus) receive(r receiver, n int) []*received {
	b.Helper()
	var all []*received
	err := b.try(func(ctx context.Context) error {
		for len(all) < n {
			some, err := r.ReceiveMessages(ctx, n-len(all), untilAll)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	if err != nil {
		b.Fatalf("received %d of %d messages: %v", len(all), n, err)
	}
	return all
}

// take receives messages that have these texts, in this order.
func (b *bus) take(r receiver, bodies ...string) []*received {
	b.Helper()
	all := b.receive(r, len(bodies))
	b.wantTexts(all, bodies...)
	return all
}

// one receives a message that has this text.
func (b *bus) one(r receiver, body string) *received {
	b.Helper()
	return b.take(r, body)[0]
}

// nothing is a receive call that gets nothing.
func (b *bus) nothing(r receiver) {
	b.Helper()
	b.nothingUntil(r, time.Now().Add(quiet))
}

func (b *bus) nothingUntil(r receiver, end time.Time) {
	b.Helper()
	b.attach(r)
	ctx, cancel := context.WithDeadline(b.Context(), end)
	defer cancel()
	some, err := r.ReceiveMessages(ctx, 1, nil)
	if len(some) > 0 {
		b.Fatalf("received %q where nothing should be", some[0].Body)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("receiving nothing: %v", err)
	}
}

// attach makes the link of a receiver, by a peek that finds nothing. A receive call with a short wait may otherwise end before
// it has asked, and the SDK takes the connection for broken then.
func (b *bus) attach(r receiver) {
	b.Helper()
	if _, hasLink := r.(*azservicebus.SessionReceiver); !hasLink {
		b.peekFrom(r, 1, math.MaxInt64)
	}
}

// call is a receive call of one message that goes on beside the scenario. Until it is done it belongs to its goroutine.
type call struct {
	done chan struct{}
	got  []*received
	err  error
	at   time.Time // when it ended
}

// waiting begins a call.
func (b *bus) waiting(r receiver) *call {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.got, c.err = r.ReceiveMessages(ctx, 1, nil)
		c.at = time.Now()
	}()
	b.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// ended waits until a call ended and returns its message, which must have this text.
func (b *bus) ended(c *call, body string) *received {
	b.Helper()
	<-c.done
	b.must(c.err)
	b.wantTexts(c.got, body)
	return c.got[0]
}

// still checks that a call has got nothing yet.
func (b *bus) still(c *call) {
	b.Helper()
	select {
	case <-c.done:
		b.Fatalf("a call that should wait got %q, %v", bodies(c.got), c.err)
	default:
	}
}

// deferred receives deferred messages by their numbers.
func (b *bus) deferred(r receiver, numbers ...int64) []*received {
	b.Helper()
	var all []*received
	b.must(b.try(func(ctx context.Context) (err error) {
		all, err = r.ReceiveDeferredMessages(ctx, numbers, nil)
		return err
	}))
	return all
}

// wantMissing checks that deferred messages are not found.
func (b *bus) wantMissing(r receiver, numbers ...int64) {
	b.Helper()
	all, err := r.ReceiveDeferredMessages(b.patient(), numbers, nil)
	if len(all) > 0 {
		b.Errorf("received %q by the numbers %d", bodies(all), numbers)
	}
	b.wantError("message-not-found", err)
}

// Settling.

func (b *bus) complete(r receiver, messages ...*received) {
	b.Helper()
	for _, m := range messages {
		b.must(r.CompleteMessage(b.patient(), m, nil))
	}
}

func (b *bus) abandon(r receiver, messages ...*received) {
	b.Helper()
	for _, m := range messages {
		b.must(r.AbandonMessage(b.patient(), m, nil))
	}
}

func (b *bus) postpone(r receiver, messages ...*received) {
	b.Helper()
	for _, m := range messages {
		b.must(r.DeferMessage(b.patient(), m, nil))
	}
}

// bury dead-letters messages without options.
func (b *bus) bury(r receiver, messages ...*received) {
	b.Helper()
	for _, m := range messages {
		b.must(r.DeadLetterMessage(b.patient(), m, nil))
	}
}

func (b *bus) buryFor(reason string, r receiver, m *received) {
	b.Helper()
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{Reason: &reason}))
}

// token is a message of which nothing is known but the lock: the SDK settles it through $management.
func token(m *received) *received {
	return &received{LockToken: m.LockToken, LockedUntil: m.LockedUntil}
}

// completeOver completes a message whose connection is gone. For a delivery of that connection the SDK tries in vain, and
// ends the new connection each time; by its token it can be settled.
func (b *bus) completeOver(r receiver, m *received) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), quiet)
	defer cancel()
	if r.CompleteMessage(ctx, m, nil) != nil {
		b.must(b.try(func(ctx context.Context) error { return r.CompleteMessage(ctx, token(m), nil) }))
	}
}

// Peeking.

// peekPages peeks page after page, as the SDK goes on by itself, until a page is empty.
func (b *bus) peekPages(r receiver, size int) [][]*received {
	b.Helper()
	var pages [][]*received
	for {
		page := b.peek(r, size, nil)
		if len(page) == 0 {
			return pages
		}
		pages = append(pages, page)
	}
}

// peekFrom peeks a page from a number.
func (b *bus) peekFrom(r receiver, size int, number int64) []*received {
	b.Helper()
	return b.peek(r, size, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &number})
}

func (b *bus) peek(r receiver, size int, options *azservicebus.PeekMessagesOptions) []*received {
	b.Helper()
	var page []*received
	b.must(b.try(func(ctx context.Context) (err error) {
		page, err = r.PeekMessages(ctx, size, options)
		return err
	}))
	return page
}

// peekAll peeks everything there is, with a new receiver.
func (b *bus) peekAll(options *azservicebus.ReceiverOptions) []*received {
	b.Helper()
	r := b.receiverOf(b.client, options)
	var all []*received
	for _, page := range b.peekPages(r, 100) {
		all = append(all, page...)
	}
	b.close(r)
	return all
}

// empty checks that there is nothing to peek.
func (b *bus) empty(options *azservicebus.ReceiverOptions) {
	b.Helper()
	b.wantTexts(b.peekAll(options))
}

// Sessions.

func (b *bus) accept(id string) *azservicebus.SessionReceiver {
	b.Helper()
	return b.acceptBy(b.client, id)
}

func (b *bus) acceptBy(client *azservicebus.Client, id string) *azservicebus.SessionReceiver {
	b.Helper()
	var s *azservicebus.SessionReceiver
	b.must(b.try(func(ctx context.Context) (err error) {
		if b.subscription == "" {
			s, err = client.AcceptSessionForQueue(ctx, b.queue, id, nil)
		} else {
			s, err = client.AcceptSessionForSubscription(ctx, b.queue, b.subscription, id, nil)
		}
		return err
	}))
	if s.SessionID() != id {
		b.Fatalf("accepted session %q, asked for %q", s.SessionID(), id)
	}
	return s
}

// acceptFreed accepts a session, by a client of its own, that another may still hold, no later than a time.
func (b *bus) acceptFreed(id string, latest time.Time) *azservicebus.SessionReceiver {
	b.Helper()
	client := b.connect()
	for {
		var s *azservicebus.SessionReceiver
		err := b.try(func(ctx context.Context) (err error) {
			s, err = client.AcceptSessionForQueue(ctx, b.queue, id, nil)
			return err
		})
		if held := kinds["session-held"](err); !held || time.Now().After(latest) {
			b.must(err)
			b.wantBefore("session accepted", time.Now(), latest)
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// acceptNext accepts the next session, for which it waits.
func (b *bus) acceptNext(wait time.Duration) (*azservicebus.SessionReceiver, error) {
	ctx, cancel := context.WithTimeout(b.Context(), wait)
	defer cancel()
	if b.subscription != "" {
		return b.client.AcceptNextSessionForSubscription(ctx, b.queue, b.subscription, nil)
	}
	return b.client.AcceptNextSessionForQueue(ctx, b.queue, nil)
}

// noSessionLeft stands for an empty peek in queues with sessions, once the scenario's session receivers are closed.
func (b *bus) noSessionLeft() {
	b.Helper()
	b.wantError("no-session", b.try(func(context.Context) error {
		_, err := b.acceptNext(time.Second)
		return err
	}))
}

// Time.

// outlive waits until 100 ms after a time.
func outlive(t time.Time) { time.Sleep(time.Until(t) + 100*time.Millisecond) }

// warmUp makes the links of sender and receiver, so that they are there when the clock runs.
func (b *bus) warmUp(r receiver) {
	b.Helper()
	b.send("O")
	b.complete(r, b.one(r, "O"))
}

// The broker.

// kill ends the broker where it stands and starts it again, with changes of the queue; it serves then.
func (b *bus) kill(changes map[string]any) {
	b.Helper()
	if changes == nil {
		b.ask("/kill", "")
		return
	}
	body, err := json.Marshal(map[string]any{b.queue: changes})
	b.must(err)
	b.ask("/kill", string(body))
}

// restart stops the broker in order and starts it again, with settings until its next start; it serves then.
func (b *bus) restart(settings string) {
	b.Helper()
	b.ask("/restart", settings)
}

// cut resets all connections and returns how many there were.
func (b *bus) cut() int {
	b.Helper()
	var answer struct{ Connections int }
	b.must(json.Unmarshal(b.ask("/cut", ""), &answer))
	return answer.Connections
}

var control = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (b *bus) ask(path, body string) []byte {
	b.Helper()
	request, err := http.NewRequestWithContext(b.patient(), http.MethodPost, b.place.control+path, strings.NewReader(body))
	b.must(err)
	response, err := control.Do(request)
	b.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("POST %s: %d %s %v", path, response.StatusCode, text, err)
	}
	return text
}
