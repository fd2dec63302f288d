package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/test/harness"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// everyKind are messages in JSON with every type of value, kind of body and field that a sender can
// set. The AMQP library of the command line can receive the first ones; all can be peeked at.
const everyKind = `{"messageId":"plain","subject":"s","contentType":"text/plain","contentEncoding":"gzip","correlationId":"c","to":"t","replyTo":"r","replyToSessionId":"g","userId":"Af8=","groupSequence":9,"durable":true,"priority":7,"creationTime":"2026-01-02T03:04:05.678Z","absoluteExpiryTime":"2026-01-02T03:04:06Z","partitionKey":"k","viaPartitionKey":"v","annotations":{"x-opt-own":{"type":"int","value":5}},"deliveryAnnotations":{"x-opt-d":"d"},"footer":{"f":[1,2]},"body":"text"}
{"messageId":"7","messageIdType":"ulong","correlationId":"/wA=","correlationIdType":"binary","body":{"base64":"/wAB"}}
{"messageId":"0a000000-0000-0000-0000-000000000000","messageIdType":"uuid","body":""}
{"messageId":"time","timeToLive":"PT1H0.5S","body":"\u0000\u001b[31m\ud83d\ude00 <&>"}
{"messageId":"long","timeToLive":"P365D","body":"x"}
{"messageId":"types","properties":{"bool":true,"byte":-1,"binary":"AP8=","double":3,"float":1.1,"huge":1e300,"int":3,"long":9223372036854775807,"nan":"NaN","null":null,"short":-3,"string":"5","time":"2026-01-02T03:04:05.678Z","ubyte":1,"uint":2,"ulong":18446744073709551615,"ushort":3,"uuid":"0a000000-0000-0000-0000-000000000000"},"propertyTypes":{"byte":"byte","binary":"binary","double":"double","float":"float","int":"int","nan":"double","short":"short","time":"time","ubyte":"ubyte","uint":"uint","ulong":"ulong","ushort":"ushort","uuid":"uuid"},"body":"x"}
{"messageId":"null","body":"","bodyType":"value","typedBody":null}
{"messageId":"value","body":"text","bodyType":"value"}
{"messageId":"map","body":{"1":"a","b":[1,null,true]},"bodyType":"value","typedBody":{"type":"map","value":[[{"type":"int","value":1},"a"],["b",[{"type":"ubyte","value":1},null,true]]]}}
{"messageId":"sequence","body":[[1,"a"],[]],"bodyType":"sequence"}
{"messageId":"later","scheduledEnqueueTime":"2100-01-02T03:04:05Z","body":"x"}
{"messageId":"nothing","body":"","bodyType":"none"}
{"messageId":"strange","properties":{"char":"5","decimal":"0x30400000000000000000000000000007","half":55296,"span":{"Descriptor":"com.microsoft:timespan","Value":600000000},"symbol":"s","uri":{"Descriptor":"com.microsoft:uri","Value":"http://a/"}},"propertyTypes":{"char":"char","decimal":"decimal128","half":"char","symbol":"symbol"},"body":"x"}
{"messageId":"array","body":[1,2],"bodyType":"value","typedBody":{"of":"int","type":"array","value":[{"type":"int","value":1},{"type":"int","value":2}]}}
`

// libraryKinds is the number of messages in everyKind that the library receives unchanged and
// without delay.
const libraryKinds = 10

// withoutBroker returns printed messages without the values that the broker sets.
func withoutBroker(t *testing.T, r result) (list []map[string]any) {
	t.Helper()
	for _, m := range messages(t, r) {
		for _, name := range []string{"sequenceNumber", "state", "enqueuedTime", "expiresAt", "deliveryCount", "lockToken", "lockedUntil", "enqueuedSequenceNumber"} {
			delete(m, name)
		}
		list = append(list, m)
	}
	return list
}

// Messages printed by peek and receive can be sent again: every field that a sender can set is
// unchanged.
func TestPrintedMessagesAreSentAgain(t *testing.T) {
	b := harness.Start(t, harness.Queue("a"), harness.Queue("b"), harness.Queue("c"))
	broker := b.ConnectionString()
	well := func(stdin string, args ...string) result {
		t.Helper()
		r := execute(t, broker, stdin, args...)
		if r.code != 0 {
			t.Fatalf("%q: %+v; want exit code 0", args, r)
		}
		return r
	}
	want := withoutBroker(t, result{out: everyKind})
	file := filepath.Join(t.TempDir(), "messages.json")
	if err := os.WriteFile(file, []byte(everyKind), 0o600); err != nil {
		t.Fatal(err)
	}
	well("", "send", "a", "--message", file)
	first := well("", "peek", "a", "--count", "0", "-o", "json")
	if diff := cmp.Diff(want, withoutBroker(t, first)); diff != "" {
		t.Errorf("peeked, not as sent:\n%s", diff)
	}
	well(first.out, "send", "b", "--message", "-", "--batch", "4")
	if diff := cmp.Diff(want, withoutBroker(t, well("", "peek", "b", "--count", "0", "-o", "json"))); diff != "" {
		t.Errorf("peeked and sent in batches, not as before:\n%s", diff)
	}

	received := well("", "receive", "a", "--count", "10", "--complete", "-o", "json")
	if diff := cmp.Diff(want[:libraryKinds], withoutBroker(t, received)); diff != "" {
		t.Errorf("received, not as peeked:\n%s", diff)
	}
	well(received.out, "send", "c", "--message", "-")
	if diff := cmp.Diff(want[:libraryKinds], withoutBroker(t, well("", "peek", "c", "--count", "0", "-o", "json"))); diff != "" {
		t.Errorf("received and sent, not as before:\n%s", diff)
	}

	if rest := withoutBroker(t, well("", "receive", "a", "--complete", "-o", "json")); len(rest) != 1 || rest[0]["messageId"] != "nothing" || rest[0]["bodyType"] != "value" {
		t.Errorf("%v; want the message without a body, with null for one", rest)
	}
	if r := execute(t, broker, "", "receive", "a", "--complete"); r.code != 1 || !strings.Contains(r.errOut, "a message contains a value of a type that this program can only peek at") {
		t.Errorf("%+v; want exit code 1 for a char", r)
	}

	// another client gets the given types
	m := receiveOne(t, broker, "c", "types")
	wantTypes := map[string]any{"bool": true, "byte": int8(-1), "binary": []byte{0, 255}, "double": 3.0, "float": float32(1.1), "huge": 1e300, "int": int32(3),
		"long": int64(9223372036854775807), "null": nil, "short": int16(-3), "string": "5", "time": time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), "ubyte": uint8(1),
		"uint": uint32(2), "ulong": uint64(18446744073709551615), "ushort": uint16(3), "uuid": amqp.UUID{10}}
	delete(m.ApplicationProperties, "nan")
	if diff := cmp.Diff(wantTypes, m.ApplicationProperties); diff != "" {
		t.Error(diff)
	}
}

// receiveOne completes the messages of a queue up to the one with an id, and returns it.
func receiveOne(t *testing.T, connection, queue, id string) *amqp.Message {
	t.Helper()
	cs, err := client.ParseConnectionString(connection)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), cs, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.NewReceiver(t.Context(), queue, client.ReceiveAndDelete)
	if err == nil {
		err = r.Credit(libraryKinds)
	}
	for err == nil {
		var m *amqp.Message
		if m, err = r.Receive(t.Context()); err == nil && m.Properties.MessageID == id {
			return m
		}
	}
	t.Fatal(err)
	return nil
}

// A message in JSON on a pipe is not sent as the body of another message. Another object is.
func TestPlainSendRefusesPrintedMessages(t *testing.T) {
	broker := startBroker(t)
	if r := execute(t, broker, "{\"id\":7}\n{\"body\":\"x\",\"sequenceNumber\":1}\n", "send", "orders"); r.code != 0 {
		t.Fatalf("%+v; want exit code 0", r)
	}
	received := execute(t, broker, "", "receive", "orders", "--count", "2", "--complete", "-o", "json")
	if list := messages(t, received); len(list) != 2 || list[0]["body"] != `{"id":7}` {
		t.Fatalf("%v; want the objects as bodies", list)
	}
	r := execute(t, broker, "first\n"+received.out, "send", "orders")
	if r.code != 2 || !strings.Contains(r.errOut, "standard input, line 2: ") || !strings.Contains(r.errOut, "--message") {
		t.Errorf("%+v; want exit code 2, line 2, and --message", r)
	}
	if list := messages(t, execute(t, broker, "", "peek", "orders", "-o", "json")); len(list) != 1 || list[0]["body"] != "first" {
		t.Errorf("%v; want the first line alone", list)
	}
	if r := execute(t, broker, "", "send", "orders", "--body", received.out); r.code != 0 {
		t.Errorf("%+v; want exit code 0: --body is sent as it is", r)
	}
}

func TestMessageLinesThatAreRefused(t *testing.T) {
	broker := startBroker(t)
	for _, c := range []struct {
		stdin string
		args  []string
		text  string
		sent  int
	}{
		{"{\"body\":\"a\"}\n\n{\"bodi\":1}\n{\"body\":\"c\"}\n", []string{"--message", "-"}, `after 1 message acknowledged: standard input, line 3: not a message in JSON: json: unknown field "bodi"`, 1},
		{"text\n", []string{"--message", "-"}, "standard input, line 1: not a message in JSON", 0},
		{"", []string{"--message", "/nonexistent"}, "--message: open /nonexistent", 0},
		{"", []string{"--message", "-", "--body", "x"}, "--body and --message cannot be used together", 0},
		{"", []string{"--message", "-", "--message-id", "x"}, "--message-id and --message cannot be used together", 0},
		{"", []string{"--message", "-", "--schedule-in", "1m"}, "--schedule-in and --message cannot be used together", 0},
	} {
		r := execute(t, broker, c.stdin, append([]string{"send", "orders"}, c.args...)...)
		if r.code != 2 || !strings.Contains(r.errOut, c.text) {
			t.Errorf("%q: %+v; want exit code 2 and %q", c.args, r, c.text)
		}
		if list := messages(t, execute(t, broker, "", "receive", "orders", "--count", "0", "--wait", "100ms", "--complete", "-o", "json")); len(list) != c.sent {
			t.Errorf("%q: %d messages were sent, want %d", c.args, len(list), c.sent)
		}
	}
}

// Lines are limited in length, and an error names the line.
func TestLines(t *testing.T) {
	printed, err := json.Marshal(map[string]any{"sequenceNumber": 1, "deliveryCount": 0, "body": "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{"a\n\nb", "a,,b"},
		{"a\n" + strings.Repeat("x", 100), "a,f, line 2: longer than 100 bytes"},
		{"a\n" + string(printed) + "\n", "a,f, line 2: this line is a message as printed by peek and receive: use --message - to send that message, or --body to send the text as it is"},
		// not JSON
		{"{\"sequenceNumber\":1,\"deliveryCount\":0,\"body\":}", "{\"sequenceNumber\":1,\"deliveryCount\":0,\"body\":}"},
	} {
		l := newLineReader("f", strings.NewReader(c.in), 100)
		var got []string
		for {
			b, err := l.body()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if !is[usageError](err) {
					t.Errorf("%v is no usage error", err)
				}
				got = append(got, err.Error())
				break
			}
			got = append(got, string(b))
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

// Messages of a dead-letter queue are sent again without the broker's dead-letter properties, and
// with their sessions.
func TestDeadLettersAreSentAgain(t *testing.T) {
	broker := startBroker(t)
	for _, args := range [][]string{
		{"send", "orders", "--body", "x", "--message-id", "m", "--property", "n:int=3", "--session-id", "s"},
		{"receive", "orders", "--dead-letter", "--reason", "R", "--description", "D"},
	} {
		if r := execute(t, broker, "", args...); r.code != 0 {
			t.Fatalf("%q: %+v; want exit code 0", args, r)
		}
	}
	dead := execute(t, broker, "", "receive", "orders/$dlq", "--complete", "-o", "json")
	if r := execute(t, broker, dead.out, "send", "orders", "--message", "-"); r.code != 0 {
		t.Fatalf("%+v; want exit code 0", r)
	}
	list := messages(t, execute(t, broker, "", "peek", "orders", "-o", "json"))
	if len(list) != 1 || list[0]["messageId"] != "m" || list[0]["sessionId"] != "s" || list[0]["deadLetterReason"] != nil || list[0]["deliveryCount"] != 0.0 ||
		!cmp.Equal(list[0]["properties"], map[string]any{"n": 3.0}) {
		t.Errorf("%v; want the message as it was before it was a dead letter", list)
	}
}

// send and trace know every member that peek and receive print.
func TestPrintedMembersAreKnown(t *testing.T) {
	members := map[string]any{}
	for f := range reflect.TypeFor[client.Message]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = nil
	}
	delete(members, "typedBody") // null is a body
	members["body"] = ""
	line, err := json.Marshal(members)
	if err != nil || len(members) < 30 {
		t.Fatalf("%s, %v; want all members", line, err)
	}
	if _, err := client.ParseMessage(line); err != nil {
		t.Errorf("send: %v", err)
	}
	members["typedBody"] = nil
	if line, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.ParseSketch(line); err != nil {
		t.Errorf("trace: %v", err)
	}
}
