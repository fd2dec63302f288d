package sdkgo

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

func sendAndReceive(b *bus) {
	before := time.Now().Add(-time.Second)
	b.send("hello")
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	b.wantBodies([]*azservicebus.ReceivedMessage{m}, "hello")
	if failures(m) != 0 || deref(m.SequenceNumber) < 1 || m.LockToken == [16]byte{} || m.State != azservicebus.MessageStateActive {
		b.Errorf("count %d, number %d, token %x, state %d", failures(m), deref(m.SequenceNumber), m.LockToken, m.State)
	}
	if at := deref(m.EnqueuedTime); at.Before(before) || at.After(time.Now().Add(time.Second)) {
		b.Errorf("enqueued at %s", at)
	}
	if left := time.Until(deref(m.LockedUntil)); left < 50*time.Second || left > 61*time.Second {
		b.Errorf("a lock of a minute has %s left", left)
	}
	b.must(r.CompleteMessage(b.patient(), m, nil))
	b.empty(peekLock)
	b.nothing(r)
}

func everyProperty(b *bus) {
	sent := &azservicebus.Message{
		Body: []byte("body"), ContentType: to.Ptr("application/json"), CorrelationID: to.Ptr("correlation"), MessageID: to.Ptr("id"),
		PartitionKey: to.Ptr("group"), ReplyTo: to.Ptr("reply-to"), ReplyToSessionID: to.Ptr("reply-group"), SessionID: to.Ptr("group"),
		Subject: to.Ptr("subject"), TimeToLive: to.Ptr(time.Hour), To: to.Ptr("to"), ApplicationProperties: map[string]any{"colour": "red"},
	}
	b.must(b.sender().SendMessage(b.patient(), sent, nil))
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	if got := m.Message(); !reflect.DeepEqual(got, sent) {
		b.Errorf("received %+v, sent %+v", got, sent)
	}
	b.must(r.AbandonMessage(b.patient(), m, nil))
	again := b.takeOne(r)
	if again.MessageID != m.MessageID || *again.SequenceNumber != *m.SequenceNumber || !reflect.DeepEqual(again.Message(), sent) {
		b.Errorf("second delivery %+v, first %+v", again, m)
	}
}

func propertyTypes(b *bus) {
	sent := map[string]any{
		"ubyte": uint8(200), "byte": int8(-100), "ushort": uint16(60000), "short": int16(-30000), "uint": uint32(4e9), "int": int32(-2e9),
		"ulong": uint64(math.MaxUint64), "long": int64(math.MinInt64), "float": float32(1.5), "double": math.Pi, "true": true, "false": false,
		"string": "ein Äpfelchen", "empty": "", "long string": strings.Repeat("x", 1000), "timestamp": time.UnixMilli(1700000000123).UTC(),
		"uuid": amqp.UUID{1, 2, 3, 15: 16}, "binary": []byte{0, 255}, "zero": int64(0), "null": nil,
	}
	properties := maps.Clone(sent)
	properties["symbol"] = amqp.Symbol("sign")
	sent["symbol"] = "sign" // what the SDK makes of a symbol when it reads one
	b.must(b.sender().SendMessage(b.patient(), &azservicebus.Message{ApplicationProperties: properties}, nil))
	got := b.takeOne(b.receiver(receiveAndDelete)).ApplicationProperties
	for name, want := range sent {
		v := got[name]
		if at, ok := v.(time.Time); ok {
			v = at.UTC()
		}
		if !reflect.DeepEqual(v, want) {
			b.Errorf("%s: %T %v, sent %T %v", name, v, v, want, want)
		}
	}
	if len(got) != len(sent) {
		b.Errorf("%d properties, sent %d", len(got), len(sent))
	}
}

func bodyKinds(b *bus) {
	s, r := b.sender(), b.receiver(receiveAndDelete)
	for _, sent := range []azservicebus.AMQPAnnotatedMessageBody{
		{Data: [][]byte{[]byte("one"), {}, []byte("three")}},
		{Value: "a value"},
		{Value: int64(-7)},
		{Value: map[string]any{"a": int64(1), "b": []byte("x")}},
		{Sequence: [][]any{{"a", int64(1)}, {true}}},
	} {
		b.must(s.SendAMQPAnnotatedMessage(b.patient(), &azservicebus.AMQPAnnotatedMessage{
			Body:                sent,
			Header:              &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7},
			Footer:              map[any]any{"foot": "note"},
			MessageAnnotations:  map[any]any{"x-mine": "kept"},
			DeliveryAnnotations: map[any]any{"x-hop": "kept too"},
		}, nil))
		got := b.takeOne(r).RawAMQPMessage
		if !reflect.DeepEqual(got.Body, sent) {
			b.Errorf("body %+v, sent %+v", got.Body, sent)
		}
		if got.Footer["foot"] != "note" || got.MessageAnnotations["x-mine"] != "kept" || got.DeliveryAnnotations["x-hop"] != "kept too" {
			b.Errorf("footer %v, annotations %v, delivery annotations %v", got.Footer, got.MessageAnnotations, got.DeliveryAnnotations)
		}
		if got.Header == nil || !got.Header.Durable || got.Header.Priority != 7 {
			b.Errorf("header %+v", got.Header)
		}
	}
}

func noMessageID(b *bus) {
	b.send("a", "b")
	got := b.take(b.receiver(receiveAndDelete), 2)
	if got[0].MessageID == "" || got[1].MessageID == "" || got[0].MessageID == got[1].MessageID {
		b.Errorf("ids %q and %q", got[0].MessageID, got[1].MessageID)
	}
}

func forgedAnnotations(b *bus) {
	long := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	b.must(b.sender().SendAMQPAnnotatedMessage(b.patient(), &azservicebus.AMQPAnnotatedMessage{
		Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("x")}},
		MessageAnnotations: map[any]any{"x-opt-sequence-number": int64(777777), "x-opt-enqueued-time": long, "x-opt-locked-until": long,
			"x-opt-partition-key": nil, "x-opt-deadletter-source": nil},
	}, nil))
	m := b.takeOne(b.receiver(peekLock))
	if *m.SequenceNumber == 777777 || m.EnqueuedTime.Equal(long) || m.LockedUntil.Equal(long) {
		b.Errorf("number %d, enqueued %s, locked until %s", *m.SequenceNumber, m.EnqueuedTime, m.LockedUntil)
	}
}

func batch(b *bus) {
	const n = 50
	s := b.sender()
	batch, err := s.NewMessageBatch(b.patient(), nil)
	b.must(err)
	for i := range n {
		b.must(batch.AddMessage(&azservicebus.Message{Body: fmt.Append(nil, i), MessageID: to.Ptr(fmt.Sprint("id", i)),
			ApplicationProperties: map[string]any{"i": int64(i)}}, nil))
	}
	b.must(s.SendMessageBatch(b.patient(), batch, nil))
	got := b.take(b.receiver(peekLock), n)
	for i, m := range got {
		if string(m.Body) != fmt.Sprint(i) || m.MessageID != fmt.Sprint("id", i) || m.ApplicationProperties["i"] != int64(i) {
			b.Errorf("place %d: body %q, id %q, properties %v", i, m.Body, m.MessageID, m.ApplicationProperties)
		}
		if *m.SequenceNumber != *got[0].SequenceNumber+int64(i) {
			b.Errorf("place %d: number %d, the first had %d", i, *m.SequenceNumber, *got[0].SequenceNumber)
		}
	}
}

func bigBatch(b *bus) {
	s := b.sender()
	batch, err := s.NewMessageBatch(b.patient(), nil)
	b.must(err)
	sums := map[[32]byte]bool{}
	for {
		body := noise(1000 + rand.N(20000))
		if err := batch.AddMessage(&azservicebus.Message{Body: body}, nil); errors.Is(err, azservicebus.ErrMessageTooLarge) {
			break
		} else {
			b.must(err)
		}
		sums[sha256.Sum256(body)] = true
	}
	if batch.NumBytes() < 1000<<10 {
		b.Errorf("a batch is full with %d bytes", batch.NumBytes())
	}
	b.must(s.SendMessageBatch(b.patient(), batch, nil))
	for _, m := range b.take(b.receiver(peekLock), len(sums)) {
		if !sums[sha256.Sum256(m.Body)] {
			b.Errorf("message %d: %d bytes that were not sent", *m.SequenceNumber, len(m.Body))
		}
		delete(sums, sha256.Sum256(m.Body))
	}
}

func noise(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return body
}

func largeMessage(b *bus) {
	body := noise(200 << 10)
	b.must(b.sender().SendMessage(b.patient(), &azservicebus.Message{Body: body}, nil))
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	if !bytes.Equal(m.Body, body) {
		b.Errorf("%d bytes differ from the %d sent", len(m.Body), len(body))
	}
	b.must(r.CompleteMessage(b.patient(), m, nil))
}

func atTheLimit(b *bus) {
	s := b.sender()
	body := noise(256 << 10)
	for errors.Is(s.SendMessage(b.patient(), &azservicebus.Message{Body: body}, nil), azservicebus.ErrMessageTooLarge) {
		body = body[1:]
	}
	r := b.receiver(peekLock)
	m := b.takeOne(r)
	if !bytes.Equal(m.Body, body) {
		b.Errorf("%d bytes differ from the %d sent", len(m.Body), len(body))
	}
	b.must(r.DeadLetterMessage(b.patient(), m, &azservicebus.DeadLetterOptions{ErrorDescription: to.Ptr(strings.Repeat("x", 4000))}))
	if m := b.takeOne(b.receiver(deadLetters)); !bytes.Equal(m.Body, body) {
		b.Errorf("%d bytes differ from the %d sent", len(m.Body), len(body))
	}
}

func oversized(b *bus) {
	s := b.sender()
	for range 2 {
		err := s.SendMessage(b.patient(), &azservicebus.Message{Body: noise(300 << 10)}, nil)
		if !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			b.Errorf("300 KiB into a queue that takes 256: %v", err)
		}
		b.must(s.SendMessage(b.patient(), text("small"), nil))
	}
	b.wantBodies(b.take(b.receiver(peekLock), 2), "small", "small")
	b.nothing(b.receiver(peekLock))
}

func manySends(b *bus) {
	const n = 150
	s := b.sender()
	var sending sync.WaitGroup
	for i := range n {
		sending.Go(func() {
			for j := range 20 {
				if err := s.SendMessage(b.patient(), text(fmt.Sprint(i, "-", j)), nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	sending.Wait()
	seen := map[string]bool{}
	for _, m := range b.take(b.receiver(receiveAndDelete), n*20) {
		seen[string(m.Body)] = true
	}
	if len(seen) != n*20 {
		b.Errorf("%d different messages of %d", len(seen), n*20)
	}
}
