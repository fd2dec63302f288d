package sdkgo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	queue        string // or topic, that it sends to
	key          string // of its messages, where entities are partitioned
	subscription string // that it receives from; empty: from the queue
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
	partitioned         *bool  // of entities that scenarios make; nil: they say nothing of it
	webSocket           bool   // clients speak to it over WebSocket
}

func newBus(t *testing.T, at place, queue string, retry azservicebus.RetryOptions) *bus {
	t.Helper()
	b := &bus{T: t, place: at, queue: queue, key: queue, retry: retry, failure: &failure{}}
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
var helpers = []string{"bus_test.go", "bus_send_test.go", "bus_receive_test.go", "check_test.go", "manage_test.go"}

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

// try makes a call and returns its error. A stubborn scenario makes it again while there is no
// connection.
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

// connect makes a further client, with a connection of its own. It is closed at the end of the
// scenario.
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

// outlive waits until 100 ms after a time.
func outlive(t time.Time) { time.Sleep(time.Until(t) + 100*time.Millisecond) }

// warmUp makes the links of sender and receiver, so that they are there when the clock runs.
func (b *bus) warmUp(r receiver) {
	b.Helper()
	b.send("O")
	b.complete(r, b.one(r, "O"))
}

// The broker.

// kill ends the broker where it stands and starts it again, with changes of the queue; it serves
// then.
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

// restart stops the broker in order and starts it again, with settings until its next start; it
// serves then.
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
