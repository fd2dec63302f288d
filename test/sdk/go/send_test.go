package sdkgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"
)

var sending = group{
	"send-receive-complete": sendReceiveComplete,
	"send-all-properties":   sendAllProperties,
	"send-again":            sendAgain,
	"send-property-types":   sendPropertyTypes,
	"send-raw":              sendRaw,
	"send-batch":            sendBatch,
	"send-batch-1mib":       sendBatch1MiB,
	"send-batch-refused":    sendBatchRefused,
	"send-large":            sendLarge,
	"send-many-at-once":     sendManyAtOnce,
	"send-unknown-queue":    sendUnknownQueue,
}

func sendReceiveComplete(b *bus) {
	b.send("hello", "again")
	r := b.receiver()
	hello := b.one(r, "hello")
	b.wantCount(hello, 0)
	b.wantState(hello, azservicebus.MessageStateActive)
	if number(hello) < 1 || hello.MessageID == "" {
		b.Errorf("number %d, id %q", number(hello), hello.MessageID)
	}
	b.wantAbout("enqueued", deref(hello.EnqueuedTime), time.Now(), 2*time.Second)
	b.wantLocked(hello, time.Minute, 2*time.Second)
	if raw := hello.RawAMQPMessage; raw.Header.TTL != 0 || raw.Properties.AbsoluteExpiryTime != nil {
		b.Errorf("header ttl %s, absolute-expiry-time %v", raw.Header.TTL, raw.Properties.AbsoluteExpiryTime)
	}
	again := b.one(r, "again")
	if number(again) <= number(hello) || again.MessageID == hello.MessageID {
		b.Errorf("numbers %d, %d, ids %q, %q", number(hello), number(again), hello.MessageID, again.MessageID)
	}
	b.complete(r, hello, again)
	b.nothing(r)
	b.empty(peekLock)
	b.empty(deadLetters)
}

func sendAllProperties(b *bus) {
	sent := &message{
		Body: []byte("body"), ContentType: to.Ptr("application/json"), CorrelationID: to.Ptr("correlation"), MessageID: to.Ptr("id"),
		PartitionKey: to.Ptr("group"), SessionID: to.Ptr("group"), ReplyTo: to.Ptr("reply-to"), ReplyToSessionID: to.Ptr("reply-group"),
		Subject: to.Ptr("subject"), To: to.Ptr("to"), TimeToLive: to.Ptr(time.Hour), ApplicationProperties: map[string]any{"colour": "red"},
	}
	asSent := func(m *received) {
		b.Helper()
		if got := m.Message(); !cmp.Equal(got, sent) {
			b.Errorf("received %+v, sent %+v (-want +got):\n%s", got, sent, cmp.Diff(sent, got))
		}
	}
	b.post(sent, sent)
	r := b.receiver()
	got := b.receive(r, 2)
	asSent(got[0])
	asSent(got[1])
	b.complete(r, got[1])
	b.abandon(r, got[0])
	again := b.one(r, "body")
	asSent(again)
	b.wantNumber(again, got[0])
	b.wantCount(again, 1)
}

func sendAgain(b *bus) {
	asSent := func(m *received) *received {
		b.Helper()
		if deref(m.PartitionKey) != "group" || deref(m.Subject) != "subject" || m.ApplicationProperties["colour"] != "red" {
			b.Errorf("received %+v", m.Message())
		}
		return m
	}
	b.post(&message{Body: []byte("A"), PartitionKey: to.Ptr("group"), Subject: to.Ptr("subject"), ApplicationProperties: map[string]any{"colour": "red"}})
	r := b.receiver()
	first := asSent(b.one(r, "A"))
	b.post(first.Message())
	b.complete(r, first)
	second := asSent(b.one(r, "A"))
	if number(second) <= number(first) {
		b.Errorf("numbers %d, %d", number(first), number(second))
	}
	b.bury(r, second)
	dead := b.deadLetters()
	letter := asSent(b.one(dead, "A"))
	b.post(letter.Message())
	b.complete(dead, letter)
	b.complete(r, asSent(b.one(r, "A")))
	b.empty(peekLock)
	b.empty(deadLetters)
}

func sendPropertyTypes(b *bus) {
	want := map[string]any{
		"ubyte": uint8(math.MaxUint8), "byte": int8(math.MinInt8), "ushort": uint16(math.MaxUint16), "short": int16(math.MinInt16),
		"uint": uint32(math.MaxUint32), "int": int32(math.MinInt32), "ulong": uint64(math.MaxUint64), "long": int64(math.MinInt64),
		"zero": int64(0), "small": uint32(1), "float": float32(math.MaxFloat32), "double": math.SmallestNonzeroFloat64, "infinity": math.Inf(-1),
		"true": true, "false": false, "empty": "", "umlaut": "ä", "string": strings.Repeat("x", 1000),
		"time": time.UnixMilli(1700000000123).UTC(), "before 1970": time.UnixMilli(-1).UTC(), "late": time.UnixMilli(253402300799999).UTC(),
		"uuid": amqp.UUID{1, 2, 3, 15: 16}, "binary": []byte{0, 255}, "no bytes": []byte{}, "null": nil,
	}
	properties := maps.Clone(want)
	properties["symbol"] = amqp.Symbol("sign")
	want["symbol"] = "sign" // what the SDK makes of a symbol when it reads one
	b.post(&message{Body: []byte("a"), ApplicationProperties: properties})
	got := b.one(b.receiver(), "a").ApplicationProperties
	for name, value := range got {
		if at, ok := value.(time.Time); ok {
			got[name] = at.UTC()
		}
		if w, known := want[name]; !known || !cmp.Equal(got[name], w) {
			b.Errorf("%s: %T %.40v, sent %T %.40v (-want +got):\n%s", name, got[name], got[name], w, w, cmp.Diff(w, got[name]))
		}
	}
	if len(got) != len(want) {
		b.Errorf("%d properties of %d", len(got), len(want))
	}
}

func sendRaw(b *bus) {
	sent := []azservicebus.AMQPAnnotatedMessageBody{
		{Data: [][]byte{{0x00, 0xff}}},
		{Data: [][]byte{{}}},
		{Value: "a value"},
		{Value: int64(-7)},
		{Value: map[string]any{"a": "x"}},
		{Sequence: [][]any{{"a", int64(1)}}},
		{Data: [][]byte{[]byte("one"), {}, []byte("three")}},
	}
	past := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, body := range sent {
		annotations := map[any]any{
			"x-mine": "kept", "x-opt-sequence-number": int64(777777), "x-opt-enqueued-time": past, "x-opt-locked-until": past,
		}
		if b.place.partitioned != nil {
			annotations["x-opt-partition-key"] = b.key
		}
		b.must(b.sender.SendAMQPAnnotatedMessage(b.patient(), &azservicebus.AMQPAnnotatedMessage{
			Body:                body,
			Header:              &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7},
			MessageAnnotations:  annotations,
			DeliveryAnnotations: map[any]any{"x-hop": "kept too"},
			Footer:              map[any]any{"foot": "note"},
		}, nil))
	}
	for i, m := range b.receive(b.receiver(), len(sent)) {
		raw := m.RawAMQPMessage
		if !sameBody(raw.Body, sent[i]) {
			b.Errorf("body %d: %q, sent %q", i, raw.Body, sent[i])
		}
		if raw.MessageAnnotations["x-mine"] != "kept" || raw.DeliveryAnnotations["x-hop"] != "kept too" || raw.Footer["foot"] != "note" {
			b.Errorf("body %d: annotations %v, delivery annotations %v, footer %v", i, raw.MessageAnnotations, raw.DeliveryAnnotations, raw.Footer)
		}
		if !raw.Header.Durable || raw.Header.Priority != 7 {
			b.Errorf("body %d: header %+v", i, raw.Header)
		}
		if number(m)&(1<<48-1) >= 777777 {
			b.Errorf("body %d: number %d", i, number(m))
		}
		b.wantAbout("enqueued", deref(m.EnqueuedTime), time.Now(), 5*time.Second)
		b.wantAfter("locked until", deref(m.LockedUntil), time.Now())
	}
}

// sameBody compares bodies. Sections of no bytes are the same whether they are nil or not.
func sameBody(got, want azservicebus.AMQPAnnotatedMessageBody) bool {
	return slices.EqualFunc(got.Data, want.Data, bytes.Equal) && reflect.DeepEqual(got.Value, want.Value) && reflect.DeepEqual(got.Sequence, want.Sequence)
}

func sendBatch(b *bus) {
	var all []*message
	for i, body := range texts(100) {
		m := withID("id"+body, body)
		m.ApplicationProperties = map[string]any{"i": int64(i)}
		all = append(all, m)
	}
	b.postBatch(all...)
	got := b.take(b.receiver(), texts(100)...)
	for i, m := range got {
		if m.MessageID != fmt.Sprint("id", i) || m.ApplicationProperties["i"] != int64(i) || number(m) != number(got[0])+int64(i) {
			b.Errorf("place %d: id %q, properties %v, number %d, the first had %d", i, m.MessageID, m.ApplicationProperties, number(m), number(got[0]))
		}
	}
}

func sendBatch1MiB(b *bus) {
	batch := b.batch()
	var sent [][]byte
	for {
		body := noise(4000)
		err := batch.AddMessage(&message{Body: body}, nil)
		if errors.Is(err, azservicebus.ErrMessageTooLarge) {
			break
		}
		b.must(err)
		sent = append(sent, body)
	}
	if len(sent) < 240 {
		b.Errorf("a batch is full with %d messages", len(sent))
	}
	b.must(b.sender.SendMessageBatch(b.patient(), batch, nil))
	r := b.receiver()
	got := b.receive(r, len(sent))
	for i, m := range got {
		if !bytes.Equal(m.Body, sent[i]) {
			b.Errorf("message %d has other bytes", i)
		}
	}
	b.complete(r, got...)
	b.empty(peekLock)
}

// noise is random bytes.
func noise(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return body
}

func sendBatchRefused(b *bus) {
	err := b.sender.SendMessageBatch(b.patient(), b.batch(inSession("s", "A"), text("B")), nil)
	if b.place.partitioned != nil {
		b.wantError("not-allowed", err, "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled")
	} else {
		b.wantError("not-allowed", err, "The SessionId was not set on a message")
	}
	b.post(inSession("s", "C"))
	s := b.accept("s")
	b.complete(s, b.one(s, "C"))
	b.nothing(s)
}

func sendLarge(b *bus) {
	body := noise(204_800)
	b.post(&message{Body: body})
	r := b.receiver()
	m := b.receive(r, 1)[0]
	if !bytes.Equal(m.Body, body) {
		b.Errorf("%d bytes differ from the %d sent", len(m.Body), len(body))
	}
	b.complete(r, m)
	b.empty(peekLock)
}

func sendManyAtOnce(b *bus) {
	all := texts(1500)
	var sending sync.WaitGroup
	for _, body := range all {
		sending.Go(func() {
			if err := b.trySend(text(body)); err != nil {
				b.Errorf("send %s: %v", body, err)
			}
		})
	}
	sending.Wait()
	r := b.remover()
	b.wantEach(bodies(b.receive(r, len(all))), all)
	b.nothing(r)
}

func sendUnknownQueue(b *bus) {
	const missing = "send-unknown-queue-missing"
	s, err := b.client.NewSender(missing, nil)
	b.must(err)
	b.wantError("entity-not-found", s.SendMessage(b.patient(), text("A"), nil))
	r, err := b.client.NewReceiverForQueue(missing, nil)
	b.must(err)
	b.wantError("entity-not-found", b.receiveError(r))
	b.wantError("entity-not-found", b.peekError(r))
	b.send("B")
	b.one(b.receiver(), "B")
	b.wantError("entity-not-found", b.receiveError(r))
}

// receiveError is the error of a receive call that should have one.
func (b *bus) receiveError(r receiver) error {
	b.Helper()
	return b.try(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := r.ReceiveMessages(ctx, 1, nil)
		return err
	})
}

// peekError is the error of a peek that should have one.
func (b *bus) peekError(r receiver) error {
	b.Helper()
	return b.try(func(ctx context.Context) error {
		_, err := r.PeekMessages(ctx, 1, nil)
		return err
	})
}
