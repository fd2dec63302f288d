package client

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"

	wire "github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// values are values of every type of AMQP, including those that are difficult in JSON.
var values = []any{
	nil, true, false, uint8(0), uint8(255), uint16(65535), uint32(0), uint32(math.MaxUint32), uint64(0), uint64(math.MaxUint64),
	int8(-128), int16(-32768), int32(math.MinInt32), int64(0), int64(math.MinInt64), int64(math.MaxInt64),
	float32(0), float32(1.1), float32(math.MaxFloat32), float32(math.SmallestNonzeroFloat32), float32(math.Inf(1)),
	0.0, math.Copysign(0, -1), 1.5, 3.0, 1e21, -1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(-1), math.NaN(),
	wire.Char('x'), wire.Char('5'), wire.Char(0), wire.Char('é'), wire.Char(0x10ffff), wire.Char(0xd800),
	wire.Timestamp(0), wire.Timestamp(1700000000123), wire.Timestamp(-1), wire.Timestamp(253402300800000), wire.Timestamp(math.MinInt64 / 2),
	wire.UUID{}, wire.UUID{1, 2, 3, 15: 255}, []byte{}, []byte{0, 255}, "", "text", "12", "true", "\x00\u2028<&>\U0001f600", "�", `{"type":"int"}`,
	wire.Symbol(""), wire.Symbol("a:b"),
	wire.Opaque{Code: wire.CodeDecimal32, Bytes: []byte{1, 2, 3, 4}}, wire.Opaque{Code: wire.CodeDecimal64, Bytes: make([]byte, 8)},
	wire.Opaque{Code: wire.CodeDecimal128, Bytes: []byte{0x30, 0x40, 15: 7}},
	wire.Described{Descriptor: wire.Symbol("com.microsoft:timespan"), Value: int64(600000000)},
	wire.Described{Descriptor: wire.Symbol("com.microsoft:uri"), Value: "http://localhost/"},
	wire.Described{Descriptor: wire.Symbol("com.microsoft:datetime-offset"), Value: int64(638000000000000000)},
	wire.Described{Descriptor: uint64(0x13700000001), Value: int32(7)},
}

// compounds are values that only bodies and annotations can have.
var compounds = []any{
	wire.List{}, wire.List{nil, int32(1), "a", wire.List{wire.Symbol("s")}}, wire.Map{}, wire.Map{{Key: "a", Value: int64(1)}, {Key: "b", Value: "x"}},
	wire.Map{{Key: "type", Value: "int"}}, wire.Map{{Key: "Descriptor", Value: "d"}, {Key: "Value", Value: int64(1)}}, wire.Map{{Key: "base64", Value: "AA=="}},
	wire.Map{{Key: int32(1), Value: "1"}, {Key: "1", Value: int8(2)}, {Key: wire.Symbol("1"), Value: nil}},
	wire.Array{Elem: wire.CodeInt, Values: []any{int32(1), int32(-70000)}}, wire.Array{Elem: wire.CodeUbyte, Values: []any{uint8(1)}},
	wire.Array{Elem: wire.CodeStr8, Values: []any{"a", strings.Repeat("b", 300)}}, wire.Array{Elem: wire.CodeSym8}, wire.Array{Elem: wire.CodeBool, Values: []any{true, false}},
	wire.Array{Elem: wire.CodeList32, Values: []any{wire.List{}, wire.List{int64(1)}}}, wire.Array{Elem: wire.CodeUUID, Values: []any{wire.UUID{1}}},
	wire.Array{Elem: wire.CodeLong, Descriptors: []any{wire.Symbol("d"), uint64(9)}, Values: []any{int64(5)}},
}

// again returns a message's encoding after it was printed as JSON and read back, and that JSON.
func again(t *testing.T, encoded []byte) (back []byte, line string) {
	t.Helper()
	m, err := decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := json.Marshal(View(m))
	if err != nil {
		t.Fatal(err)
	}
	sent, err := ParseMessage(printed)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if sent.Format == batchFormat {
		return sent.Data[0], string(printed)
	}
	back, err = sent.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return back, string(printed)
}

// sections returns a message in a comparable form: each section with its value, in AMQP's types.
func sections(t *testing.T, encoded []byte) (list []any) {
	t.Helper()
	for len(encoded) > 0 {
		n := wire.RawSize(encoded)
		if n < 0 {
			t.Fatal("not a whole section")
		}
		code, content, _ := wire.SectionContent(encoded[:n])
		v, _, err := wire.DecodeValue(content, decodeLimits)
		if err != nil {
			t.Fatal(err)
		}
		for fields, ok := v.(wire.List); ok && code == wire.SectionProperties && len(fields) > 0 && fields[len(fields)-1] == nil; fields, ok = v.(wire.List) {
			v = fields[:len(fields)-1] // those behind the last may be left out
		}
		list = append(list, fmt.Sprintf("%x %x", code, wire.AppendValue(nil, widened(sortMaps(v)))))
		encoded = encoded[n:]
	}
	return list
}

// widened gives arrays the constructor that the encoder prefers, because a type can have several.
func widened(v any) any {
	switch v := v.(type) {
	case wire.Array:
		if wide, ok := shortConstructors[v.Elem]; ok {
			v.Elem = wide
		}
		return v
	case wire.List:
		for i := range v {
			v[i] = widened(v[i])
		}
	case wire.Map:
		for i := range v {
			v[i].Value = widened(v[i].Value)
		}
	}
	return v
}

// A message that was printed and is sent again is the same, whatever its properties, annotations
// and body.
func TestPrintedMessageIsSentAsItWas(t *testing.T) {
	t.Parallel()
	head := func() []byte {
		return wire.AppendProperties(nil, &wire.Properties{MessageID: "m"})
	}
	check := func(what string, encoded []byte) {
		t.Helper()
		back, line := again(t, encoded)
		if diff := cmp.Diff(sections(t, encoded), sections(t, back)); diff != "" {
			t.Errorf("%s: %s\n%s", what, line, diff)
		}
	}
	for _, v := range values {
		check(fmt.Sprintf("property %T %v", v, v), append(wire.AppendSection(head(), wire.SectionApplicationProperties, wire.Map{{Key: "p", Value: v}}), wire.AppendData(nil, nil)...))
	}
	for _, v := range slices.Concat(values, compounds) {
		check(fmt.Sprintf("body %T %v", v, v), wire.AppendSection(head(), wire.SectionValue, v))
		check(fmt.Sprintf("sequence of %T %v", v, v), wire.AppendSection(wire.AppendSection(head(), wire.SectionSequence, wire.List{v, v}), wire.SectionSequence, wire.List{}))
		noted := wire.AppendSection(nil, wire.SectionDeliveryAnnotations, wire.Map{{Key: wire.Symbol("d"), Value: v}})
		noted = wire.AppendSection(noted, wire.SectionMessageAnnotations, wire.Map{{Key: wire.Symbol("x-opt-own"), Value: v}})
		noted = append(append(noted, head()...), wire.AppendData(nil, []byte("x"))...)
		check(fmt.Sprintf("annotations %T %v", v, v), wire.AppendSection(noted, wire.SectionFooter, wire.Map{{Key: wire.Symbol("f"), Value: v}}))
	}
	for _, data := range []string{"", "text", "\x00\x01", "\xff\xfe", "{\"base64\":\"AA==\"}", "a\nb\r\n", strings.Repeat("é", 5000)} {
		check(fmt.Sprintf("data %.10q", data), append(head(), wire.AppendData(nil, []byte(data))...))
	}
	check("no body", head())
	for _, id := range []any{"", "a", uint64(7), wire.UUID{1}, []byte{1, 255}} {
		check(fmt.Sprintf("id %T %v", id, id), append(wire.AppendProperties(nil, &wire.Properties{MessageID: id, CorrelationID: id}), wire.AppendData(nil, nil)...))
	}
}

// Each field that a sender can set is printed and read back; unset fields are not.
func TestFieldsOfASenderSurvive(t *testing.T) {
	t.Parallel()
	full := wire.AppendHeader(nil, &wire.Header{Durable: wire.Some(true), Priority: wire.Some(uint8(7)), TTL: wire.Some(uint32(90_001))})
	full = wire.AppendSection(full, wire.SectionMessageAnnotations, wire.Map{{Key: wire.Symbol("x-opt-partition-key"), Value: "s"},
		{Key: wire.Symbol("x-opt-scheduled-enqueue-time"), Value: wire.Timestamp(1700000000123)}, {Key: wire.Symbol("x-opt-via-partition-key"), Value: "v"}})
	full = wire.AppendProperties(full, &wire.Properties{MessageID: "m", UserID: []byte{1, 255}, To: wire.Some("t"), Subject: wire.Some("s"), ReplyTo: wire.Some("r"),
		CorrelationID: "c", ContentType: wire.Some(wire.Symbol("text/plain")), ContentEncoding: wire.Some(wire.Symbol("gzip")), CreationTime: wire.Some(wire.Timestamp(5)),
		GroupID: wire.Some("s"), GroupSequence: wire.Some(uint32(9)), ReplyToGroupID: wire.Some("g")})
	full = wire.AppendData(full, []byte("b"))
	empty := wire.AppendProperties(nil, &wire.Properties{To: wire.Some(""), Subject: wire.Some(""), ReplyTo: wire.Some(""), ContentType: wire.Some(wire.Symbol("")),
		ContentEncoding: wire.Some(wire.Symbol("")), GroupID: wire.Some(""), GroupSequence: wire.Some(uint32(0)), ReplyToGroupID: wire.Some("")})
	empty = wire.AppendData(empty, nil)
	times := wire.AppendProperties(nil, &wire.Properties{MessageID: "m", CreationTime: wire.Some(wire.Timestamp(1700000000123)), AbsoluteExpiryTime: wire.Some(wire.Timestamp(1700000060123))})
	times = wire.AppendData(times, []byte("b"))
	for name, encoded := range map[string][]byte{"full": full, "empty texts": empty, "times alone": times, "nothing": wire.AppendData(wire.AppendProperties(nil, &wire.Properties{}), nil)} {
		back, line := again(t, encoded)
		got, err := decode(back)
		want, _ := decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
			return strings.HasPrefix(p.Last().String(), ".delivery") || p.Last().String() == ".settled" || p.Last().String() == ".rcv"
		}, cmp.Ignore())); diff != "" {
			t.Errorf("%s: %s\n%s", name, line, diff)
		}
	}
}

// Values that the broker sets are printed and not sent again.
func TestFieldsOfTheBrokerAreIgnored(t *testing.T) {
	t.Parallel()
	m, err := ParseMessage([]byte(`{"sequenceNumber":9,"messageId":"m","state":"deferred","enqueuedSequenceNumber":4,"enqueuedTime":"2026-01-02T03:04:05Z","expiresAt":"2026-01-02T03:04:05Z",` +
		`"deliveryCount":3,"lockToken":"02000000-0000-0000-0000-000000000000","lockedUntil":"2026-01-02T03:04:05Z","deadLetterReason":"R","deadLetterErrorDescription":"D","deadLetterSource":"orders","body":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header != nil || m.Annotations != nil || m.ApplicationProperties != nil || m.Properties.MessageID != "m" || m.Properties.AbsoluteExpiryTime != nil || string(m.GetData()) != "x" {
		t.Errorf("%+v %+v; want the id and the body alone", m, m.Properties)
	}
	// too long for the header
	m, err = ParseMessage([]byte(`{"timeToLive":"P365D","creationTime":"2026-01-01T00:00:00Z","body":""}`))
	if err != nil || m.Header.TTL.Milliseconds() != math.MaxUint32 || m.Properties.AbsoluteExpiryTime.Format("2006-01-02") != "2027-01-01" {
		t.Errorf("%+v %+v, %v; want a time to live between two times", m.Header, m.Properties, err)
	}
}

// A message written by hand may omit fields.
func TestMessagesWrittenByHand(t *testing.T) {
	t.Parallel()
	m, err := ParseMessage([]byte(`{"properties":{"region":"eu","n":3,"f":1.5,"id":{"type":"uuid","value":"02000000-0000-0000-0000-000000000000"}},"body":{"a":[1,"x"]},"bodyType":"value"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"region": "eu", "n": int64(3), "f": 1.5, "id": amqp.UUID{2}}, m.ApplicationProperties); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"a": []any{int64(1), "x"}}, m.Value); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct{ line, want string }{
		{`{`, "not a message in JSON"},
		{`[]`, "not a message in JSON"},
		{`"x"`, "not a message in JSON"},
		{`{} {}`, "more than one JSON value"},
		{`{"bodi":"x"}`, `unknown field "bodi"`},
		{`{"priority":300}`, "priority"},
		{`{"body":{"a":1}}`, `body: must be a text, or {"base64": "…"}`},
		{`{"body":null}`, "body: must be a text"},
		{`{"body":{"base64":"%"}}`, "body: illegal base64"},
		{`{"body":"x","bodyType":"none"}`, "body: not allowed if bodyType is none"},
		{`{"body":"x","bodyType":"xml"}`, `bodyType: "xml" is not one of data, value, sequence, none`},
		{`{"body":"x","typedBody":"x"}`, "typedBody: "},
		{`{"bodyType":"value"}`, "body: missing"},
		{`{"body":3,"bodyType":"value","typedBody":{"type":"int","value":4}}`, "body: differs from typedBody"},
		{`{"body":"x","bodyType":"sequence"}`, "body: a sequence must be a list of lists"},
		{`{"body":[1],"bodyType":"sequence"}`, "body: a sequence must be a list of lists"},
		{`{"body":` + deep + `,"bodyType":"value"}`, "body: values are nested more than 30 deep"},
		{`{"body":9223372036854775808,"bodyType":"value"}`, `body: "9223372036854775808" is not a valid long`},
		{`{"body":{"type":"money","value":1},"bodyType":"value"}`, `body: unknown type "money"`},
		{`{"body":{"type":"int"},"bodyType":"value"}`, `body: "int" has no value`},
		{`{"body":{"type":"int","value":1,"x":1},"bodyType":"value"}`, `has no such member`},
		{`{"body":{"type":"map","value":[[1]]},"bodyType":"value"}`, "body: an entry of a map must be a list of a key and a value"},
		{`{"body":{"type":"map","value":[[1,2],[1,3]]},"bodyType":"value"}`, "body: the map has the key 1 twice"},
		{`{"body":{"type":"map","value":[[[],2]]},"bodyType":"value"}`, "body: the key of a map must be a simple value"},
		{`{"body":{"type":"array","of":"int","value":[1]},"bodyType":"value"}`, `body: array of "int" with an element of type "long"`},
		{`{"body":{"type":"array","of":"x","value":[]},"bodyType":"value"}`, `body: array of "x": unknown type`},
		{`{"body":{"Descriptor":"é","Value":1},"bodyType":"value"}`, `"é" is not a valid symbol`},
		{`{"properties":{"a":"x"},"propertyTypes":{"a":"int"}}`, `properties: "a": "x" is not a valid int`},
		{`{"properties":{"a":"x"},"propertyTypes":{"b":"int"}}`, `propertyTypes: "b" is not among the properties`},
		{`{"properties":{"a":"0x1"},"propertyTypes":{"a":"decimal128"}}`, "is not a valid decimal128"},
		{`{"properties":{"a":"xy"},"propertyTypes":{"a":"char"}}`, "is not a valid char"},
		{`{"properties":{"a":[]},"propertyTypes":{"a":"int"}}`, "a list or an object is not a valid int"},
		{`{"messageId":"x","messageIdType":"uuid"}`, `messageId: "x" is not a valid uuid`},
		{`{"messageId":"1","messageIdType":"int"}`, `messageId: an id cannot be of the type "int"`},
		{`{"contentType":"é"}`, "contentType: "},
		{`{"timeToLive":"1h"}`, "timeToLive: "},
		{`{"timeToLive":"PT0S"}`, "timeToLive: "},
		{`{"scheduledEnqueueTime":"noon"}`, `scheduledEnqueueTime: "noon" is not a valid time`},
		{`{"annotations":{"x-opt-sequence-number":1}}`, "annotations: x-opt-sequence-number is a separate field or set by the broker"},
		{`{"annotations":{"é":1}}`, "annotations: "},
	} {
		if m, err := ParseMessage([]byte(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", c.line, m, err, c.want)
		}
	}
}

// A message of a kind that the library cannot write fits into batches with others.
func TestBatchOfParsedMessages(t *testing.T) {
	t.Parallel()
	b := &Batch{limit: 1000}
	for _, line := range []string{`{"messageId":"1","body":"a"}`, `{"messageId":"2","properties":{"c":"x"},"propertyTypes":{"c":"char"},"body":"b"}`} {
		m, err := ParseMessage([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	inner, err := decode(b.Message().Data[1])
	if err != nil || b.Len() != 2 || inner.ApplicationProperties["c"] != wire.Char('x') || string(inner.GetData()) != "b" {
		t.Errorf("%d messages, %+v, %v; want two, the second with a char", b.Len(), inner, err)
	}
}

// Every accepted message is printed in a form that is accepted again as the same message.
func FuzzParseMessage(f *testing.F) {
	for _, line := range []string{
		`{"messageId":"7","messageIdType":"ulong","properties":{"a":1.5,"b":"x"},"propertyTypes":{"b":"char"},"body":{"base64":"/wA="}}`,
		`{"body":{"type":"map","value":[[1,{"type":"array","of":"array","value":[{"type":"array","of":"int","value":[]}]}]]},"bodyType":"value"}`,
		`{"body":[[{"type":"array","of":"null","value":[null]},{"type":"array","of":"map","value":[{},{"a":1}]}]],"bodyType":"sequence"}`,
		`{"body":{"type":"array","of":"decimal32","value":[{"type":"decimal32","value":"0x01020304"}],"descriptors":[{"type":"ulong","value":9}]},"bodyType":"value"}`,
		`{"annotations":{"x":{"Descriptor":"d","Value":{"a":[]}}},"timeToLive":"P365D","priority":0,"scheduledEnqueueTime":-5,"body":"","bodyType":"none"}`,
		`{"properties":{"n":{"type":"float","value":"NaN"},"t":"9999999999999"},"propertyTypes":{"t":"time"}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseMessage(line)
		if err != nil {
			return
		}
		encoded, err := m.MarshalBinary()
		if m.Format == batchFormat {
			encoded = m.Data[0]
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Properties.AbsoluteExpiryTime != nil { // its times are of now
			return
		}
		want := sections(t, encoded)
		back, printed := again(t, encoded)
		if diff := cmp.Diff(want, sections(t, back)); diff != "" {
			t.Errorf("%s\n%s\n%s", line, printed, diff)
		}
	})
}
