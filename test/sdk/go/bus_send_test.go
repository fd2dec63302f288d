package sdkgo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

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

// keyed is a message as the scenario sends it. Where entities are partitioned, a message without a
// key of its own gets one of the scenario's: what the scenarios say of the order of messages holds
// only within one partition. That messages without a key go to all partitions is shown elsewhere
// (SM-200, SM-213).
func (b *bus) keyed(m *message) *message {
	if b.place.partitioned == nil || m.SessionID != nil || m.PartitionKey != nil {
		return m
	}
	one := *m
	one.PartitionKey = &b.key
	return &one
}

// together reports whether messages can be in one batch: a partitioned entity takes no batch with
// several sessions (SM-209, semantics.md 10.2).
func (b *bus) together(one, other *message) bool {
	return b.place.partitioned == nil || deref(one.SessionID) == deref(other.SessionID)
}

func (b *bus) trySend(m *message) error {
	m = b.keyed(m)
	return b.try(func(ctx context.Context) error { return b.sender.SendMessage(ctx, m, nil) })
}

// batch makes one batch of all messages.
func (b *bus) batch(messages ...*message) *azservicebus.MessageBatch {
	b.Helper()
	batch, err := b.sender.NewMessageBatch(b.patient(), nil)
	b.must(err)
	for _, m := range messages {
		b.must(batch.AddMessage(b.keyed(m), nil))
	}
	return batch
}

// postBatch sends messages as one batch, or, where that is refused because of their sessions, one
// after another.
func (b *bus) postBatch(messages ...*message) {
	b.Helper()
	if slices.ContainsFunc(messages, func(m *message) bool { return !b.together(m, messages[0]) }) {
		b.post(messages...)
		return
	}
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
		batch, first := b.batch(), messages[0]
		for len(messages) > 0 && b.together(first, messages[0]) && batch.AddMessage(b.keyed(messages[0]), nil) == nil {
			messages = messages[1:]
		}
		b.must(b.sender.SendMessageBatch(b.patient(), batch, nil))
	}
}

// schedule schedules texts by the call and returns their numbers.
func (b *bus) schedule(at time.Time, messages ...*message) []int64 {
	b.Helper()
	var numbers []int64
	for i := range messages {
		messages[i] = b.keyed(messages[i])
	}
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
