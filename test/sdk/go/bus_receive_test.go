package sdkgo

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

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

// untilAll makes a receive call wait for all that it asks for. What comes between two calls the SDK
// releases, and what is released comes back behind others.
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

// attach makes the link of a receiver, by a peek that finds nothing. A receive call with a short
// wait may otherwise end before it has asked, and the SDK takes the connection for broken then.
func (b *bus) attach(r receiver) {
	b.Helper()
	if _, hasLink := r.(*azservicebus.SessionReceiver); !hasLink {
		b.peekFrom(r, 1, math.MaxInt64)
	}
}

// call is a receive call of one message that goes on beside the scenario. Until it is done it
// belongs to its goroutine.
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

// token is a message of which nothing is known but the lock: the SDK settles it through
// $management.
func token(m *received) *received {
	return &received{LockToken: m.LockToken, LockedUntil: m.LockedUntil}
}

// completeOver completes a message whose connection is gone. For a delivery of that connection the
// SDK tries in vain, and ends the new connection each time; by its token it can be settled.
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

// acceptFreed accepts a session, by a client of its own, that another may still hold, no later than
// a time.
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

// noSessionLeft stands for an empty peek in queues with sessions, once the scenario's session
// receivers are closed.
func (b *bus) noSessionLeft() {
	b.Helper()
	b.wantError("no-session", b.try(func(context.Context) error {
		_, err := b.acceptNext(time.Second)
		return err
	}))
}

// Time.
