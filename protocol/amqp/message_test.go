package amqp

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type sampleMessage struct {
	name  string
	bytes []byte
	kind  BodyKind
	count int
}

var sampleProperties = Properties{
	MessageID: "id", UserID: []byte("user"), To: Some("to"), Subject: Some("subject"), ReplyTo: Some("reply"),
	CorrelationID: uint64(1 << 40), ContentType: Some(Symbol("text/plain")), ContentEncoding: Some(Symbol("gzip")),
	AbsoluteExpiryTime: Some(Timestamp(253402300800000)), CreationTime: Some(Timestamp(1)), GroupID: Some(""),
	GroupSequence: Some(uint32(7)), ReplyToGroupID: Some("back"),
}

var sampleHeader = Header{
	Durable: Some(true), Priority: Some(uint8(4)), TTL: Some(uint32(60000)), FirstAcquirer: Some(false),
	DeliveryCount: Some(uint32(3)),
}

// Messages with the bodies of wire-protocol 5.1 (WP-080).
func sampleMessages() []sampleMessage {
	head := AppendHeader(nil, &sampleHeader)
	head = AppendSection(head, SectionDeliveryAnnotations, Map{{Symbol("x-opt-lock-token"), sampleUUID}})
	head = AppendSection(head, SectionMessageAnnotations, Map{
		{Symbol("x-opt-enqueued-time"), Timestamp(1700000000000)}, {Symbol("x-opt-sequence-number"), int64(1)},
		{uint64(9), "reserved"}, {"own", nil},
	})
	head = AppendProperties(head, &sampleProperties)
	head = AppendSection(head, SectionApplicationProperties, Map{ // WP-081
		{"ubyte", uint8(1)}, {"byte", int8(-1)}, {"ushort", uint16(1)}, {"short", int16(-1)}, {"uint", uint32(1)},
		{"int", int32(-1)}, {"ulong", uint64(1)}, {"long", int64(-1)}, {"float", float32(1)}, {"double", 1.0}, {"bool", true},
		{"string", "s"}, {"timestamp", Timestamp(1)}, {"uuid", sampleUUID}, {"binary", []byte{1}}, {"symbol", Symbol("s")},
		{"uri", Described{Symbol("com.microsoft:uri"), "http://x"}}, {"null", nil},
	})
	data, three := AppendData(nil, []byte("body")), AppendData(AppendData(AppendData(nil, []byte("a")), nil), []byte("c"))
	inner := AppendData(AppendProperties(nil, &Properties{MessageID: "1"}), []byte("x"))
	foot := AppendSection(nil, SectionFooter, Map{{Symbol("f"), 1.5}})
	return []sampleMessage{
		{"nothing", nil, BodyNone, 0},
		{"properties alone", AppendProperties(nil, &Properties{}), BodyNone, 0},
		{"data", slices.Concat(head, data), BodyData, 1},
		{"data and footer", slices.Concat(head, data, foot), BodyData, 1},
		{"three data", slices.Concat(head, three, foot), BodyData, 3},
		{"batch", slices.Concat(head, AppendData(AppendData(nil, inner), inner)), BodyData, 2},
		{"value", slices.Concat(head, AppendSection(nil, SectionValue, Map{{"k", List{nil}}})), BodyValue, 1},
		{"value null", slices.Concat(head, AppendSection(nil, SectionValue, nil)), BodyValue, 1},
		{"sequences", slices.Concat(head, AppendSection(nil, SectionSequence, List{"a"}),
			append(AppendDescriptor(nil, SectionSequence), CodeList0)), BodySequence, 2},
		{"no body", slices.Concat(head, foot), BodyNone, 0},
	}
}

// checkSections checks the properties of the sections of any message.
func checkSections(t *testing.T, b []byte, s Sections) {
	t.Helper()
	spans := []Span{
		s.Header, s.DeliveryAnnotations, s.MessageAnnotations, s.Properties, s.ApplicationProperties, s.Body, s.Footer,
	}
	as := slices.Clone(spans) // as they were sent
	slices.SortStableFunc(as, func(p, q Span) int { return int(p.Start) - int(q.Start) })
	var all []byte
	for _, p := range as {
		all = append(all, p.Of(b)...)
	}
	if !bytes.Equal(all, b) {
		t.Fatalf("sections %+v are not the whole message", s)
	}
	if h := s.Header.Of(b); h != nil {
		if header, err := DecodeHeader(h); err != nil || header.TTL.Or(0) != s.TTL {
			t.Fatalf("time to live %d, header %+v, %v", s.TTL, header, err)
		}
	}
	if (s.BodyCount == 0) != s.Body.Empty() || (s.BodyKind == BodyNone) != s.Body.Empty() {
		t.Fatalf("body %+v", s)
	}
	checkHeaderAndProperties(t, s.Header.Of(b), s.Properties.Of(b))
	for _, p := range []Span{s.DeliveryAnnotations, s.MessageAnnotations, s.ApplicationProperties, s.Footer} {
		if !p.Empty() {
			checkMapSection(t, p.Of(b))
		}
	}
	checkNormalized(t, b, s)
	if s.BodyKind == BodyData {
		n := 0
		for range DataSections(s.Body.Of(b)) {
			n++
		}
		if n != s.BodyCount {
			t.Fatalf("%d data sections, want %d", n, s.BodyCount)
		}
	}
}

func checkHeaderAndProperties(t *testing.T, header, properties []byte) {
	t.Helper()
	if header != nil {
		h, err := DecodeHeader(header)
		if err != nil {
			t.Fatalf("header: %v", err)
		}
		if again, err := DecodeHeader(AppendHeader(nil, &h)); err != nil || again != h {
			t.Fatalf("header %+v became %+v, %v", h, again, err)
		}
	}
	if properties == nil {
		return
	}
	p, err := DecodeProperties(properties)
	if err != nil {
		t.Fatalf("properties: %v", err)
	}
	encoded := AppendProperties(nil, &p)
	again, err := DecodeProperties(encoded)
	if err != nil || !cmp.Equal(again, p) {
		t.Fatalf("properties encoded and decoded again: %v\n%s", err, cmp.Diff(p, again))
	}
	for i := range 13 {
		raw, ok := PropertiesField(properties, i)
		other, otherOK := PropertiesField(encoded, i)
		if ok != otherOK {
			t.Fatalf("field %d: %x and %x", i, raw, other)
		}
	}
}

func checkMapSection(t *testing.T, section []byte) {
	t.Helper()
	value, _, err := DecodeValue(withoutDescriptor(section), DefaultLimits)
	if err != nil {
		t.Fatalf("map section: %v", err)
	}
	m := value.(Map)
	i := 0
	for key, raw := range MapEntries(section) {
		for _, isNumber := m[i].Key.(uint64); isNumber; _, isNumber = m[i].Key.(uint64) {
			i++
		}
		v, rest, err := DecodeValue(raw, Limits{Depth: 32, Described: 10, Elements: 1 << 16, ZeroWidth: 1 << 16})
		if err != nil || len(rest) > 0 || !bytes.Equal(AppendValue(nil, v), AppendValue(nil, m[i].Value)) {
			t.Fatalf("entry %d: key %q, value %v, err %v; want %v", i, key, v, err, m[i])
		}
		if _, ok := m[i : i+1].Get(string(key)); !ok {
			t.Fatalf("entry %d: key %q, want %q", i, key, m[i].Key)
		}
		i++
	}
}

func checkNormalized(t *testing.T, b []byte, s Sections) {
	t.Helper()
	n := AppendNormalized(nil, b, &s)
	if s.Regular() {
		if !bytes.Equal(n, b) {
			t.Fatalf("normalized %x became %x", b, n)
		}
		return
	}
	again, err := ScanMessage(n, DefaultLimits)
	if err != nil || !again.Regular() || again.BodyCount != s.BodyCount || again.BodyKind != s.BodyKind {
		t.Fatalf("normalized %x: %+v, %v", n, again, err)
	}
}

// TestScanUnordered: sections in any order are found, and put in order before they are stored.
func TestScanUnordered(t *testing.T) {
	t.Parallel()
	section := func(code byte, v any) []byte { return AppendSection(nil, code, v) }
	sections := [][]byte{section(SectionHeader, List{}), section(SectionDeliveryAnnotations, Map{{Key: Symbol("d"), Value: int32(1)}}),
		section(SectionProperties, make(List, 13)), section(SectionApplicationProperties, Map{{Key: "a", Value: "b"}}),
		slices.Concat(AppendData(nil, []byte("one")), AppendData(nil, []byte("two"))), section(SectionFooter, Map{{Key: Symbol("f"), Value: true}})}
	want := slices.Concat(sections...)
	for first := range sections {
		for second := range sections {
			order := slices.Clone(sections)
			order[first], order[second] = order[second], order[first]
			b := slices.Concat(order...)
			s, err := ScanMessage(b, DefaultLimits)
			if err != nil || s.Unordered != (first != second) || s.BodyCount != 2 {
				t.Fatalf("%d and %d changed places: %+v, %v", first, second, s, err)
			}
			if got := AppendNormalized(nil, b, &s); !bytes.Equal(got, want) {
				t.Errorf("%d and %d changed places: %x, want %x", first, second, got, want)
			}
		}
	}
}

// longDescriptors returns the message b with its sections' descriptors as ulongs and symbols in
// turn.
func longDescriptors(t testing.TB, b []byte) []byte {
	t.Helper()
	symbols := map[byte]Symbol{
		SectionHeader: "amqp:header:list", SectionDeliveryAnnotations: "amqp:delivery-annotations:map",
		SectionMessageAnnotations: "amqp:message-annotations:map", SectionProperties: "amqp:properties:list",
		SectionApplicationProperties: "amqp:application-properties:map", SectionData: "amqp:data:binary",
		SectionSequence: "amqp:amqp-sequence:list", SectionValue: "amqp:amqp-value:*", SectionFooter: "amqp:footer:map",
	}
	var out []byte
	for i := 0; len(b) > 0; i++ {
		code, value, ok := SectionContent(b)
		if !ok {
			t.Fatalf("no section: %x", b)
		}
		if i%2 == 0 {
			out = AppendSymbol(append(out, 0), symbols[code])
		} else {
			out = append(out, 0, CodeUlong, 0, 0, 0, 0, 0, 0, 0, code)
		}
		n := RawSize(value)
		out = append(out, value[:n]...)
		b = value[n:]
	}
	return out
}

func TestScanMessage(t *testing.T) {
	for _, m := range sampleMessages() {
		t.Run(m.name, func(t *testing.T) {
			s, err := ScanMessage(m.bytes, DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			if s.BodyKind != m.kind || s.BodyCount != m.count || s.LongDescriptors {
				t.Errorf("%+v; want s.BodyKind == m.kind && s.BodyCount == m.count && !s.LongDescriptors", s)
			}
			checkSections(t, m.bytes, s)
			long := longDescriptors(t, m.bytes) // WP-216
			s, err = ScanMessage(long, DefaultLimits)
			if err != nil || s.LongDescriptors != (len(long) > 0) {
				t.Fatalf("long descriptors: %+v, %v", s, err)
			}
			checkSections(t, long, s)
			if n := AppendNormalized(nil, long, &s); !bytes.Equal(n, m.bytes) {
				t.Errorf("normalized %x", n)
			}
			for i := range m.bytes { // cut anywhere: a shorter message or an error, and no panic
				if s, err := ScanMessage(m.bytes[:i], DefaultLimits); err == nil {
					checkSections(t, m.bytes[:i], s)
				}
			}
		})
	}
}

// S15-S17, F20: input that ScanMessage refuses.
func TestScanMessageRefuses(t *testing.T) {
	section := func(code byte, v any) []byte { return AppendSection(nil, code, v) }
	properties := func(i int, v any) []byte {
		fields := make(List, 13)
		fields[i] = v
		return section(SectionProperties, fields)
	}
	data, value := AppendData(nil, nil), section(SectionValue, nil)
	many := AppendData(nil, nil)
	many = bytes.Repeat(many, DefaultLimits.Elements+1)
	for _, c := range []struct {
		name   string
		bytes  []byte
		reason string
	}{
		{"no descriptor", []byte{CodeNull}, "descriptor missing"},
		{"a performative", appendComposite(nil, &End{}), "not a message section"},
		{"unknown section", section(0x79, List{}), "not a message section"},
		{"header twice", slices.Concat(section(SectionHeader, List{}), section(SectionHeader, List{})), "message section comes twice"},
		{"value twice", slices.Concat(value, value), "message section comes twice"},
		{"data after value", slices.Concat(value, data), "body of more than one kind"},
		{"body in two places", slices.Concat(data, section(SectionFooter, Map{}), data), "message section comes twice"},
		{"value after data", slices.Concat(data, value), "body of more than one kind"},
		{"sequence after data", slices.Concat(data, section(SectionSequence, List{})), "body of more than one kind"},
		{"too many data sections", many, "too many body sections"},
		{"header is a map", section(SectionHeader, Map{}), "composite is not a list"},
		{"header is null", section(SectionHeader, nil), "composite is not a list"},
		{"durable is a number", section(SectionHeader, List{uint32(1)}), "not a boolean"},
		{"priority is too large", section(SectionHeader, List{nil, uint32(256)}), "number too large for its field"},
		{"ttl is signed", section(SectionHeader, List{nil, nil, int32(1)}), "not an unsigned integer"},
		{"message-id is an int", properties(FieldMessageID, int32(1)), "id is not a string, ulong, uuid or binary"},
		{"message-id is a list", properties(FieldMessageID, List{}), "id is not a string, ulong, uuid or binary"},
		{"correlation-id is a symbol", properties(FieldCorrelationID, Symbol("x")), "id is not a string, ulong, uuid or binary"},
		{"user-id is a string", properties(FieldUserID, "x"), "not binary"},
		{"subject is binary", properties(FieldSubject, []byte{1}), "neither string nor symbol"},
		{"subject is not UTF-8", properties(FieldSubject, "\xff"), "string is not UTF-8"},
		{"content-type is not ASCII", properties(FieldContentType, "ö"), "symbol is not ASCII"},
		{"creation-time is a long", properties(FieldCreationTime, int64(1)), "not a timestamp"},
		{"annotations are a list", section(SectionMessageAnnotations, List{}), "section is not a map"},
		{"annotations are null", section(SectionMessageAnnotations, nil), "section is not a map"},
		{"annotation key is an int", section(SectionMessageAnnotations, Map{{int32(1), nil}}), "key of a map section is neither text nor ulong"},
		{"annotation key twice", section(SectionMessageAnnotations, Map{{Symbol("a"), 1.0}, {Symbol("a"), 2.0}}), "map with a key twice"},
		{"property key is a ulong", section(SectionApplicationProperties, Map{{uint64(1), nil}}), "key of application-properties is not a string"},
		{"data is a string", section(SectionData, "x"), "not binary"},
		{"sequence is a map", section(SectionSequence, Map{}), "amqp-sequence is not a list"},
		{"value missing", AppendDescriptor(nil, SectionValue), "value missing"},
		{"data missing", AppendDescriptor(nil, SectionData), "not binary"},
		{"sequence missing", AppendDescriptor(nil, SectionSequence), "value missing"},
		{"too deep", append(AppendDescriptor(nil, SectionValue), nested(DefaultLimits.Depth+1, CodeList8)...), "nested too deep"},
		{"too many zero-width elements, in total", bytes.Repeat(section(SectionSequence,
			List{Array{Elem: CodeNull, Values: make([]any, DefaultLimits.ZeroWidth/2+1)}}), 2), "too many elements without bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ScanMessage(c.bytes, DefaultLimits)
			var d *DecodeError
			if !errors.As(err, &d) || d.Reason != c.reason && !(c.reason == "not binary" && d.Reason == "value missing") {
				t.Fatalf("%+v, %v; want %q", s, err, c.reason)
			}
			if s != (Sections{}) {
				t.Errorf("sections %+v with an error", s)
			}
		})
	}
}

// A body section count one below, at and one above the limit.
func TestBodySectionLimit(t *testing.T) {
	lim := DefaultLimits
	lim.Elements = 8
	for n, ok := range map[int]bool{7: true, 8: true, 9: false} {
		if _, err := ScanMessage(bytes.Repeat(AppendData(nil, nil), n), lim); (err == nil) != ok {
			t.Errorf("%d data sections: %v", n, err)
		}
	}
}

// Wire-protocol 9.1 on sections: shortened lists are read, full ones written.
func TestHeaderAndProperties(t *testing.T) {
	if n := len(fieldsOf(t, AppendHeader(nil, &Header{}))); n != 5 {
		t.Errorf("header has %d fields", n)
	}
	if n := len(fieldsOf(t, AppendProperties(nil, &Properties{}))); n != 13 {
		t.Errorf("properties have %d fields", n)
	}
	h, err := DecodeHeader(AppendHeader(nil, &sampleHeader))
	if err != nil || h != sampleHeader {
		t.Errorf("%+v, %v; want h == sampleHeader", h, err)
	}
	p, err := DecodeProperties(AppendProperties(nil, &sampleProperties))
	if err != nil || !cmp.Equal(p, sampleProperties) {
		t.Errorf("properties encoded and decoded again: %v\n%s", err, cmp.Diff(sampleProperties, p))
	}
	for _, id := range []any{"x", "", uint64(0), uint64(math.MaxUint64), sampleUUID, []byte{}, []byte("b"), nil} {
		p, err := DecodeProperties(AppendProperties(nil, &Properties{MessageID: id, CorrelationID: id}))
		if err != nil || !cmp.Equal(p.MessageID, id) || !cmp.Equal(p.CorrelationID, id) {
			t.Errorf("%T: %+v, %v; want %v as message-id and correlation-id", id, p, err, id)
		}
	}
	all := fieldsOf(t, AppendProperties(nil, &sampleProperties))
	for n := range 14 {
		cut := append(AppendDescriptor(nil, SectionProperties), appendList(nil, all[:n])...)
		if n == 0 {
			cut = append(AppendDescriptor(nil, SectionProperties), CodeList0)
		}
		p, err := DecodeProperties(cut)
		if err != nil || (p.GroupID.Set) != (n > FieldGroupID) || (p.MessageID != nil) != (n > 0) {
			t.Errorf("%d fields: %+v, %v", n, p, err)
		}
		for i := range 15 {
			raw, ok := PropertiesField(cut, i)
			if ok != (i < n) || ok && !bytes.Equal(raw, AppendValue(nil, all[i])) {
				t.Errorf("%d fields, field %d: %x %v", n, i, raw, ok)
			}
		}
	}
	for _, b := range [][]byte{nil, AppendHeader(nil, &Header{}), AppendDescriptor(nil, SectionProperties)} {
		if _, err := DecodeProperties(b); err == nil {
			t.Errorf("%x: no error", b)
		}
	}
	for _, b := range [][]byte{nil, AppendProperties(nil, &Properties{}), AppendDescriptor(nil, SectionHeader)} {
		if _, err := DecodeHeader(b); err == nil {
			t.Errorf("%x: no error", b)
		}
	}
}

func TestMapEntries(t *testing.T) {
	m := Map{{Symbol("a"), int64(7)}, {uint64(1), "x"}, {"b", Described{uint64(1), List{"y"}}}, {Symbol("c"), nil}}
	for name, b := range map[string][]byte{
		"section": AppendSection(nil, SectionMessageAnnotations, m),
		"map":     AppendValue(nil, m),
		"map32":   slices.Concat([]byte{CodeMap32, 0, 0, 0, 0, 0, 0, 0, 8}, AppendValue(nil, m)[3:]),
	} {
		if name == "map32" {
			b[4] = byte(len(b) - 5)
		}
		var keys []string
		for k, raw := range MapEntries(b) {
			keys = append(keys, string(k))
			v, _, err := DecodeValue(raw, DefaultLimits)
			want, _ := m.Get(string(k))
			if err != nil || !cmp.Equal(v, want) {
				t.Errorf("%s: %s: %v, %v; want %v", name, k, v, err, want)
			}
		}
		if got := strings.Join(keys, ""); got != "abc" {
			t.Errorf("%s: keys %s", name, got)
		}
	}
	for _, b := range [][]byte{nil, {CodeNull}, {CodeMap8}, {CodeMap8, 9, 2}, {CodeMap8, 0, 0}, {CodeMap8, 3, 2, CodeStr8, 9}} {
		for k := range MapEntries(b) {
			t.Errorf("%x: key %q", b, k)
		}
	}
}

func TestBatchIteration(t *testing.T) {
	inner := [][]byte{[]byte("one"), {}, []byte("three")}
	var body []byte
	for _, m := range inner {
		body = AppendData(body, m)
	}
	var got [][]byte
	for m := range DataSections(body) {
		got = append(got, m)
	}
	if !cmp.Equal(got, inner) {
		t.Errorf("data sections %q; want %q", got, inner)
	}
	for range DataSections(AppendSection(nil, SectionValue, "x")) {
		t.Error("a value is no data")
	}
}

func TestRaw(t *testing.T) {
	ints := map[int64][]any{
		0:    {uint32(0), uint64(0), uint8(0), int8(0), uint16(0), int16(0), int32(0), int64(0)},
		200:  {uint32(200), uint64(200), uint8(200), uint16(200), int16(200), int32(200), int64(200)},
		-1:   {int8(-1), int16(-1), int32(-1), int64(-1)},
		-300: {int16(-300), int32(-300), int64(-300)},
	}
	for want, values := range ints {
		for _, v := range values {
			if got, ok := RawInt(AppendValue(nil, v)); !ok || got != want {
				t.Errorf("%T %v: %d %v; want ok && got == want", v, v, got, ok)
			}
		}
	}
	text := AppendValue(nil, "text")
	if _, ok := RawInt(appendUlong(nil, math.MaxUint64)); ok {
		t.Error("ulong above the largest long")
	}
	if _, ok := RawInt(text); ok {
		t.Error("text is no integer")
	}
	if v, ok := RawTimestamp(AppendTimestamp(nil, -5)); !ok || v != -5 {
		t.Error("timestamp")
	}
	if v, ok := RawUUID(AppendUUID(nil, sampleUUID)); !ok || v != sampleUUID {
		t.Error("uuid")
	}
	for _, b := range [][]byte{{CodeTrue}, {CodeBool, 1}} {
		if v, ok := RawBool(b); !ok || !v {
			t.Errorf("%x; want ok && v", b)
		}
	}
	if v, ok := RawBool([]byte{CodeFalse}); !ok || v {
		t.Error("false")
	}
	for _, s := range []string{"", "short", strings.Repeat("x", 300)} {
		for _, v := range []any{s, Symbol(s)} {
			if got, ok := RawText(AppendValue(nil, v)); !ok || string(got) != s {
				t.Errorf("%T %q: %q %v; want ok && string(got) == s", v, s, got, ok)
			}
		}
		if got, ok := RawBinary(AppendValue(nil, []byte(s))); !ok || string(got) != s {
			t.Errorf("%q: %q %v; want ok && string(got) == s", s, got, ok)
		}
	}
	// Missing values, and values of other types or cut short, are not ok and do not panic.
	for _, b := range [][]byte{nil, {CodeNull}, {CodeStr8}, {CodeStr8, 3, 'a'}, {CodeStr32, 0}, {CodeBin8}, {CodeBin32, 0, 0, 0, 9},
		{CodeLong, 1}, {CodeUUID, 1}, {CodeTimestamp}, {CodeBool}, {0x99}} {
		_, a := RawInt(b)
		_, c := RawText(b)
		_, d := RawBinary(b)
		_, e := RawUUID(b)
		_, f := RawTimestamp(b)
		_, g := RawBool(b)
		if a || c || d || e || f || g {
			t.Errorf("%x is something", b)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	m := sampleMessages()[4].bytes
	s, err := ScanMessage(m, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	annotations, properties, header := s.MessageAnnotations.Of(m), s.Properties.Of(m), s.Header.Of(m)
	for name, f := range map[string]func(){
		"ScanMessage": func() {
			if _, err := ScanMessage(m, DefaultLimits); err != nil {
				t.Fatal(err)
			}
		},
		"MapEntries": func() {
			n := 0
			for key, raw := range MapEntries(annotations) {
				n += len(key) + len(raw)
			}
			if n == 0 {
				t.Fatal("empty")
			}
		},
		"PropertiesField": func() {
			if _, ok := PropertiesField(properties, FieldGroupID); !ok {
				t.Fatal("missing")
			}
		},
		"DecodeHeader": func() {
			if _, err := DecodeHeader(header); err != nil {
				t.Fatal(err)
			}
		},
		"DataSections": func() {
			for d := range DataSections(s.Body.Of(m)) {
				_ = d
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
