package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/ledgerbus/ledgerbus/test/harness"
)

// patience is how long a call of an honest client may take at all. What it takes as a rule is the
// benchmark's business.
const patience = 30 * time.Second

// honest is clients that do nothing wrong.
type honest struct {
	tb      testing.TB
	process *harness.Process
	began   time.Time
	workers sync.WaitGroup
	over    atomic.Bool
	// strained says that the broker may say of itself that it is not well; it has to answer all the
	// same
	disturbed bool

	mu    sync.Mutex
	calls map[string][]time.Duration // by what was asked
}

func newHonest(tb testing.TB, process *harness.Process) *honest {
	return &honest{tb: tb, process: process, began: time.Now(), calls: map[string][]time.Duration{}}
}

// call makes a call and writes down how long it took. Whatever goes on, it has to be answered.
func (h *honest) call(what string, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	err := f(ctx)
	took := time.Since(began)
	if err != nil {
		h.tb.Errorf("honest client: at %s %s failed after %s: %v", time.Since(h.began).Round(time.Second), what, took.Round(time.Millisecond), err)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[what] = append(h.calls[what], took)
	return true
}

func (h *honest) client() *azservicebus.Client {
	var options azservicebus.ClientOptions
	// a client that is told that the broker is busy has to try again soon enough to be answered in
	// time
	if h.disturbed {
		options.RetryOptions = azservicebus.RetryOptions{MaxRetries: 50, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: time.Second}
	}
	c, err := azservicebus.NewClientFromConnectionString(h.process.ConnectionString(), &options)
	if err != nil {
		panic(err) // of the connection string
	}
	return c
}

// work starts the clients: one that sends, receives and completes on a connection it has had from
// the beginning, one that connects anew each time, and one that asks for the broker's health.
func (h *honest) work(ctx context.Context) {
	ready := make(chan struct{})
	h.workers.Go(func() { h.exchange(ctx, ready) })
	<-ready
	h.workers.Go(func() { h.connect(ctx) })
	h.workers.Go(func() { h.health(ctx) })
}

func (h *honest) exchange(ctx context.Context, ready chan struct{}) {
	client := h.client()
	defer hangUp(client)
	sender, err := client.NewSender("honest", nil)
	if err != nil {
		h.tb.Error(err)
	}
	receiver, err := client.NewReceiverForQueue("honest", nil)
	if err != nil {
		h.tb.Error(err)
	}
	for n := 0; ctx.Err() == nil; n++ {
		ok := h.call("send", func(ctx context.Context) error {
			return sender.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, n)}, nil)
		})
		var got []*azservicebus.ReceivedMessage
		ok = ok && h.call("receive", func(ctx context.Context) (err error) {
			got, err = receiver.ReceiveMessages(ctx, 1, nil)
			return err
		})
		ok = ok && h.call("peek", func(ctx context.Context) error {
			_, err := receiver.PeekMessages(ctx, 1, nil)
			return err
		})
		for _, m := range got {
			if string(m.Body) != fmt.Sprint(n) {
				h.tb.Errorf("honest client: message %d is %q", n, m.Body)
			}
			ok = ok && h.call("complete", func(ctx context.Context) error { return receiver.CompleteMessage(ctx, m, nil) })
		}
		if n == 0 {
			close(ready)
		}
		if !ok {
			return
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// connect sends a message over a connection of its own, again and again.
func (h *honest) connect(ctx context.Context) {
	for ctx.Err() == nil {
		client := h.client()
		sender, err := client.NewSender("other", nil)
		if err != nil {
			h.tb.Error(err)
		}
		ok := h.call("connect and send", func(ctx context.Context) error {
			return sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil)
		})
		hangUp(client)
		if !ok {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// diskHangs is a condition that the broker may name: other work on this machine has kept its disk
// for a second. No attack of these tests reaches the disk, and the broker has to answer all the
// same.
const diskHangs = `"disk-hangs"`

func (h *honest) health(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		h.call("health", func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.process.Address()+"/health", http.NoBody)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			said, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
			if response.StatusCode != http.StatusOK && !h.disturbed && !strings.Contains(string(said), diskHangs) {
				return fmt.Errorf("health: %s: %s", response.Status, said)
			}
			return err
		})
		pause(ctx, 100*time.Millisecond)
	}
}

func hangUp(c *azservicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// quantile is over all calls on connections that were there, or over those of one kind.
func (h *honest) quantile(q float64, kinds ...string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Duration
	for _, kind := range kinds {
		all = append(all, h.calls[kind]...)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// onLink is what is asked over links that are there.
var onLink = []string{"send", "receive", "peek", "complete"}
