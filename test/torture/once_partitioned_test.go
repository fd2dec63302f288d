package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/tools/client"
)

// Clients that do nothing twice by themselves: what the SDK has sent again after an answer that it
// did not wait for, or settled on another link, cannot be told from what the broker has doubled.

// dialOnce connects such a client.
func (f *fence) dialOnce(ctx context.Context) (*client.Client, error) {
	cs, err := client.ParseConnectionString(f.process.ConnectionString())
	if err != nil {
		f.Error(err)
		return nil, err
	}
	return client.Dial(ctx, cs, client.Options{})
}

// senderOnce connects such a client that sends to a stream.
func (f *fence) senderOnce(ctx context.Context, s *stream) (send func(id string) error, close func(), err error) {
	c, err := f.dialOnce(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	sender, err := c.NewSender(ctx, s.source)
	return func(id string) error { return f.sendSingle(sender, id, s.key) }, func() { _ = c.Close() }, err
}

// open reports whether an error leaves the outcome of a send without a key open, which it may when
// the log fails that the broker had given it to.
func (f *fence) open(s *stream, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.key == "" && !strings.Contains(err.Error(), "server-busy") && (f.failing || time.Since(f.fenced) < time.Second)
}

func (f *fence) sendSingle(sender *client.Sender, id, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m := client.NewMessage(make([]byte, 200))
	m.Properties.MessageID = id
	if key != "" {
		m.Annotations = amqp.Annotations{"x-opt-partition-key": key}
	}
	began := time.Now()
	err := sender.Send(ctx, m)
	f.told(id, began, err)
	return err
}

// finishOnce is finish with such clients.
func (f *fence) finishOnce(ctx context.Context, s *stream) {
	for ; ctx.Err() == nil; time.Sleep(nextClient) {
		c, err := f.dialOnce(ctx)
		if err != nil {
			continue
		}
		r, err := c.NewReceiver(ctx, s.end, client.PeekLock)
		if err == nil {
			err = r.Credit(credit)
		}
		for err == nil && ctx.Err() == nil {
			err = f.finishNext(ctx, s, r)
		}
		_ = c.Close()
	}
}

func (f *fence) finishNext(ctx context.Context, s *stream, r *client.Receiver) error {
	m, err := r.Receive(ctx)
	if err != nil {
		return err
	}
	number, is1 := m.Annotations["x-opt-sequence-number"].(int64)
	until, is2 := m.Annotations["x-opt-locked-until"].(time.Time)
	id, is3 := m.Properties.MessageID.(string)
	if !is1 || !is2 || !is3 {
		f.Errorf("%s: %v comes with %v", s.name, m.Properties.MessageID, m.Annotations)
		return errors.New("no message of ours")
	}
	e := f.came(s, id, number, m.Header.DeliveryCount, until)
	settling, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err = r.Complete(settling, m)
	if f.ended(e, err); err != nil {
		return err
	}
	return r.Credit(1)
}

// came writes down that a message was delivered, and checks that it may have been.
func (f *fence) came(s *stream, id string, number int64, attempt uint32, until time.Time) *trail {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.trail(id)
	e.numbers[number] = true
	e.story = append(e.story, fmt.Sprintf("%s number %d came, attempt %d, locked until %s", stamp(), number, attempt, until.Format("05.000")))
	s.comes++
	// what was delivered to another receiver before, under a lock that was lost with the disk, may
	// be seen late
	if e.done && until.Add(-lockDuration).After(e.settled) {
		f.Errorf("%s: %s was completed and came again: %s", s.name, id, strings.Join(e.story, "; "))
	}
	if !e.done {
		e.settled = time.Now()
	}
	if len(e.numbers) > 1 {
		f.Errorf("%s: %s is there %d times: %s", s.name, id, len(e.numbers), strings.Join(e.story, "; "))
	}
	return e
}

// ended writes down what was said of a completion.
func (f *fence) ended(e *trail, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.done, e.maybe = e.done || err == nil, e.maybe || err != nil
	e.story = append(e.story, fmt.Sprintf("%s its completion is answered %v", stamp(), err))
}
