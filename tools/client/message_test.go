package client

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestLockToken(t *testing.T) {
	t.Parallel()
	tag := []byte{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	if got := LockToken(&amqp.Message{DeliveryTag: tag}).String(); got != "00112233-4455-6677-8899-aabbccddeeff" {
		t.Errorf(`%+v, want "00112233-4455-6677-8899-aabbccddeeff"`, got)
	}
	if got := LockToken(&amqp.Message{DeliveryTag: []byte{1}}); got != uuid.Nil {
		t.Errorf("%+v, want %+v", got, uuid.Nil)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	subject, session := "s", ""
	m := &amqp.Message{
		Header:      &amqp.MessageHeader{DeliveryCount: 2},
		Properties:  &amqp.MessageProperties{MessageID: uint64(7), Subject: &subject, GroupID: &session, CorrelationID: amqp.UUID{1}},
		Annotations: amqp.Annotations{"x-opt-sequence-number": int64(9), "x-opt-enqueue-sequence-number": int64(4), "x-opt-enqueued-time": at, "x-opt-message-state": int32(1), "x-opt-deadletter-source": "orders"},
		ApplicationProperties: map[string]any{"DeadLetterReason": "R", "DeadLetterErrorDescription": nil, "n": int32(1), "nan": math.NaN(),
			"id": amqp.UUID{2}},
		Data: [][]byte{[]byte("he"), []byte("llo")},
	}
	got, err := json.Marshal(View(m))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"sequenceNumber":9,"messageId":"7","messageIdType":"ulong","state":"deferred","sessionId":"","subject":"s","correlationId":"01000000-0000-0000-0000-000000000000","correlationIdType":"uuid","priority":0,` +
		`"enqueuedSequenceNumber":4,"enqueuedTime":"2026-01-02T03:04:05Z","deliveryCount":2,"deadLetterReason":"R","deadLetterSource":"orders",` +
		`"properties":{"id":"02000000-0000-0000-0000-000000000000","n":1,"nan":"NaN"},"propertyTypes":{"id":"uuid","n":"int","nan":"double"},"body":"hello"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestBodiesInJSON(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]*amqp.Message{
		`""`:                     {},
		`"text"`:                 {Data: [][]byte{[]byte("text")}},
		`{"base64":"/wA="}`:      {Data: [][]byte{{0xff, 0}}},
		`{"1":[true,"a"]}`:       {Value: map[any]any{int32(1): []any{true, "a"}}},
		`[[1],["b"]]`:            {Sequence: [][]any{{int64(1)}, {"b"}}},
		`"2026-01-02T00:00:00Z"`: {Value: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
	} {
		got, err := json.Marshal(View(m).Body)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	b := &Batch{limit: 1000}
	m := NewMessage([]byte(strings.Repeat("x", 100)))
	var err error
	for err == nil {
		err = b.Add(m)
	}
	if !errors.Is(err, ErrBatchFull) || b.Len() < 4 {
		t.Fatalf("%d messages, then %v", b.Len(), err)
	}
	encoded, err := b.Message().MarshalBinary()
	if err != nil || len(encoded) > b.limit || b.Message().Format != batchFormat {
		t.Fatalf("%d bytes, format %x, %v", len(encoded), b.Message().Format, err)
	}
	var envelope, inner amqp.Message
	if err := envelope.UnmarshalBinary(encoded); err != nil {
		t.Fatal(err)
	}
	if len(envelope.Data) != b.Len() || envelope.Properties.MessageID != m.Properties.MessageID {
		t.Errorf("%d sections, id %v", len(envelope.Data), envelope.Properties.MessageID)
	}
	if err := inner.UnmarshalBinary(envelope.Data[1]); err != nil || string(inner.GetData()) != string(m.GetData()) {
		t.Errorf("%q, %v; want string(inner.GetData()) == string(m.GetData())", inner.GetData(), err)
	}
	if m.Format != 0 || len(m.Data) != 1 {
		t.Error("the message itself was changed")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err             error
		text, condition string
	}{
		{&amqp.Error{Condition: "com.microsoft:message-lock-lost", Description: "gone"}, "op: gone (com.microsoft:message-lock-lost)", "com.microsoft:message-lock-lost"},
		{&amqp.LinkError{RemoteErr: &amqp.Error{Condition: "amqp:not-found", Description: "no such"}}, "op: no such (amqp:not-found)", "amqp:not-found"},
		{context.DeadlineExceeded, "op: no answer in time", ""},
		{errors.New("x"), "op: x", ""},
		{&Error{Op: "inner", Status: 404, Condition: "c", Text: "t"}, "inner: t (c, status 404)", "c"},
	} {
		err := wrap("op", c.err)
		if err.Error() != c.text || Condition(err) != c.condition || !errors.Is(err, c.err) {
			t.Errorf("got %q, %q", err, Condition(err))
		}
	}
	if wrap("op", nil) != nil {
		t.Error("nil became an error")
	}
}

func TestStatusOfAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		properties map[string]any
		want       string
	}{
		{map[string]any{"statusCode": int32(200)}, ""},
		{map[string]any{"status-code": int64(202), "status-description": "Accepted"}, ""},
		{map[string]any{"statusCode": int32(204)}, ""},
		{map[string]any{}, "op: the answer has no status"},
		{map[string]any{"statusCode": int32(410), "statusDescription": "lost", "errorCondition": amqp.Symbol("a:b")}, "op: lost (a:b, status 410)"},
		{map[string]any{"status-code": int32(401)}, "op: refused (status 401)"},
	} {
		err := statusError("op", &amqp.Message{ApplicationProperties: c.properties})
		if (err == nil) != (c.want == "") || (err != nil && err.Error() != c.want) {
			t.Errorf("%v: %v; want %q", c.properties, err, c.want)
		}
	}
}
