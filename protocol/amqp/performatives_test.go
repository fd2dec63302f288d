package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleError = &Error{Condition: CondNotFound, Description: "gone", Info: Map{{Symbol("k"), "v"}}}

// sample is a composite with every field set, its row of 9.1, and the number of leading fields that
// it requires.
type sample struct {
	value    Composite
	fields   int // wire-protocol 9.1
	required int // the place after the last required field
}

func samples() []sample {
	capabilities := []Symbol{"cap", "other"}
	properties := Map{{Symbol("com.microsoft:timeout"), uint32(60000)}, {Symbol("list"), List{nil, "x"}}}
	source := &Source{
		Address: "amqps://ns/queue", Durable: Some(uint32(2)), ExpiryPolicy: "session-end", Timeout: Some(uint32(7)),
		Dynamic: true, DynamicNodeProperties: properties, DistributionMode: "move",
		Filter:         Map{{Symbol("com.microsoft:session-filter"), Described{uint64(0x137000000c), "s1"}}},
		DefaultOutcome: Modified{DeliveryFailed: true}, Outcomes: []Symbol{"amqp:accepted:list"}, Capabilities: capabilities,
	}
	target := &Target{
		Address: "queue", Durable: Some(uint32(0)), ExpiryPolicy: "never", Timeout: Some(uint32(0)), Dynamic: true,
		DynamicNodeProperties: properties, Capabilities: capabilities,
	}
	txn := TransactionalState{TxnID: []byte("0123456789abcdef"), Outcome: Rejected{sampleError}}
	return []sample{
		{&Open{
			ContainerID: "c", Hostname: "h", MaxFrameSize: Some(uint32(65536)), ChannelMax: Some(uint16(4999)),
			IdleTimeout: Some(uint32(240000)), OutgoingLocales: capabilities, IncomingLocales: capabilities,
			OfferedCapabilities: capabilities, DesiredCapabilities: capabilities, Properties: properties,
		}, 10, 1},
		{&Begin{
			RemoteChannel: Some(uint16(1)), NextOutgoingID: 1, IncomingWindow: 5000, OutgoingWindow: 5000,
			HandleMax: Some(uint32(262143)), OfferedCapabilities: capabilities, DesiredCapabilities: capabilities,
			Properties: properties,
		}, 8, 4},
		{&Attach{
			Name: "link", Handle: 1, Role: RoleReceiver, SenderSettleMode: Some(SenderMixed),
			ReceiverSettleMode: Some(ReceiverSecond), Source: source, Target: target,
			Unsettled: Map{{[]byte("tag"), nil}}, IncompleteUnsettled: true, InitialDeliveryCount: Some(uint32(9)),
			MaxMessageSize: Some(uint64(262144)), OfferedCapabilities: capabilities, DesiredCapabilities: capabilities,
			Properties: properties,
		}, 14, 3},
		{&Attach{
			Name: "control", Handle: 300, InitialDeliveryCount: Some(uint32(0)), Source: &Source{},
			Target: &Coordinator{Capabilities: []Symbol{"amqp:local-transactions"}},
		}, 14, 3},
		{&Flow{
			NextIncomingID: Some(uint32(0)), IncomingWindow: 5000, NextOutgoingID: 1, OutgoingWindow: 4294967295,
			Handle: Some(uint32(0)), DeliveryCount: Some(uint32(3)), LinkCredit: Some(uint32(0)), Available: Some(uint32(4)),
			Drain: true, Echo: true, Properties: properties,
		}, 11, 4},
		{&Transfer{
			Handle: 1, DeliveryID: Some(uint32(2)), DeliveryTag: []byte("tag"), MessageFormat: Some(MessageFormatBatch),
			Settled: Some(false), More: true, ReceiverSettleMode: Some(ReceiverFirst), State: txn, Resume: true,
			Aborted: true, Batchable: true,
		}, 11, 1},
		{&Disposition{
			Role: RoleReceiver, First: 1, Last: Some(uint32(3)), Settled: true, State: StateAccepted, Batchable: true,
		}, 6, 2},
		{&Detach{Handle: 1, Closed: true, Error: sampleError}, 3, 1},
		{&End{sampleError}, 1, 0},
		{&Close{sampleError}, 1, 0},
		{sampleError, 3, 1},
		{source, 11, 0},
		{target, 7, 0},
		{&Coordinator{Capabilities: capabilities}, 1, 0},
		{Rejected{sampleError}, 1, 0},
		{Modified{DeliveryFailed: true, UndeliverableHere: true, MessageAnnotations: properties}, 3, 0},
		{Received{SectionNumber: 1, SectionOffset: 1 << 40}, 2, 2},
		{txn, 2, 1},
		{Declared{TxnID: []byte{1, 2}}, 1, 1},
		{&SASLMechanisms{Mechanisms: []Symbol{"PLAIN", "ANONYMOUS"}}, 1, 0},
		{&SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00u\x00p"), Hostname: "h"}, 3, 1},
		{&SASLChallenge{Challenge: []byte("c")}, 1, 0},
		{&SASLResponse{Response: []byte("r")}, 1, 0},
		{&SASLOutcome{Code: SASLAuth, AdditionalData: []byte("Welcome!")}, 2, 1},
	}
}

func (s sample) name() string { return fmt.Sprintf("%T", s.value) }

// fieldsOf decodes a composite as a plain value and returns its fields.
func fieldsOf(t *testing.T, b []byte) List {
	t.Helper()
	v, rest, err := DecodeValue(b, DefaultLimits)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%x: rest %x, err %v", b, rest, err)
	}
	return v.(Described).Value.(List)
}

// zeroOf returns an empty composite of the type of c.
func zeroOf(c Composite) Composite {
	t := reflect.TypeOf(c)
	if t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface().(Composite)
	}
	return reflect.Zero(t).Interface().(Composite)
}

// WP-210, WP-009, WP-017, WP-021, WP-070, WP-100, WP-104: every composite has exactly the fields of
// wire-protocol 9.1, whether they are set or not, as list8 or list32, after a smallulong
// descriptor.
func TestFieldCountsWP210(t *testing.T) {
	for _, s := range samples() {
		for state, c := range map[string]Composite{"full": s.value, "empty": zeroOf(s.value)} {
			t.Run(s.name()+"/"+state, func(t *testing.T) {
				b := appendComposite(nil, c)
				if want := []byte{0x00, 0x53, c.descriptor()}; !bytes.Equal(b[:3], want) {
					t.Fatalf("descriptor %x, want %x", b[:3], want)
				}
				if b[3] != CodeList8 && b[3] != CodeList32 {
					t.Fatalf("constructor %#02x", b[3])
				}
				if n := len(fieldsOf(t, b)); n != s.fields {
					t.Fatalf("%d fields, want %d", n, s.fields)
				}
			})
		}
	}
	for _, s := range []DeliveryState{StateAccepted, StateReleased} {
		if b := appendComposite(nil, s); len(b) != 4 || b[3] != CodeList0 {
			t.Errorf("%v: %x; want len(b) == 4 && b[3] == CodeList0", s, b)
		}
	}
}

// The last column of wire-protocol 9.1, as far as it does not depend on the situation.
func TestNeverNull(t *testing.T) {
	for _, c := range []struct {
		value  Composite
		fields []int
	}{
		{&Open{}, []int{0, 2}},                         // WP-009
		{&Begin{}, []int{1, 2, 3, 4}},                  // WP-017
		{&Attach{Role: RoleSender}, []int{0, 1, 2, 9}}, // WP-100
		{&Attach{Role: RoleReceiver}, []int{0, 1, 2}},
		{&Flow{}, []int{1, 2, 3, 8, 9}}, // WP-123 wants echo false, not null
		{&Transfer{}, []int{0, 5}},
		{&Disposition{}, []int{0, 1, 3}},
		{&Detach{}, []int{0, 1}},
		{&Error{}, []int{0, 1}}, // WP-021, WP-089
		{&SASLOutcome{}, []int{0}},
	} {
		fields := fieldsOf(t, appendComposite(nil, c.value))
		for _, i := range c.fields {
			if fields[i] == nil {
				t.Errorf("%T: field %d is null", c.value, i)
			}
		}
	}
	if got := fieldsOf(t, appendComposite(nil, &Open{}))[2]; got != NoLimit {
		t.Errorf("max-frame-size %v", got)
	}
	if got := fieldsOf(t, appendComposite(nil, &Begin{}))[4]; got != NoLimit {
		t.Errorf("handle-max %v", got)
	}
}

// Wire-protocol 0.13: empty values are null.
func TestEmptyIsNull(t *testing.T) {
	for i, f := range fieldsOf(t, appendComposite(nil, &Open{
		OutgoingLocales: []Symbol{}, IncomingLocales: []Symbol{}, OfferedCapabilities: []Symbol{},
		DesiredCapabilities: []Symbol{}, Properties: Map{},
	}))[3:] {
		if f != nil {
			t.Errorf("field %d: %v", i+3, f)
		}
	}
	// Typed nil pointers are null as well, as in a refused attach (WP-129).
	for _, target := range []Terminus{nil, (*Target)(nil), (*Coordinator)(nil)} {
		f := fieldsOf(t, appendComposite(nil, &Attach{Target: target}))
		if f[5] != nil || f[6] != nil {
			t.Errorf("source %v, target %v", f[5], f[6])
		}
	}
}

func TestCompositeRoundTrip(t *testing.T) {
	all := samples()
	for _, s := range []DeliveryState{StateAccepted, StateReleased, Rejected{}} {
		all = append(all, sample{value: s})
	}
	for _, s := range all {
		t.Run(s.name(), func(t *testing.T) {
			got, rest, err := decodeComposite(append(appendComposite(nil, s.value), 0xEE), DefaultLimits)
			if err != nil || !bytes.Equal(rest, []byte{0xEE}) {
				t.Fatalf("rest %x, err %v", rest, err)
			}
			if !cmp.Equal(got, s.value) {
				t.Fatalf("got %#v\nwant %#v (-want +got):\n%s", got, s.value, cmp.Diff(s.value, got))
			}
			p, ok := s.value.(Performative)
			if !ok {
				return
			}
			var payload []byte
			if _, ok := p.(*Transfer); ok {
				payload = []byte("payload")
			}
			frame := AppendFrame(nil, 3, p, payload)
			h, err := ParseFrameHeader(frame)
			if err != nil || int(h.Size) != len(frame) || h.Channel != 3 {
				t.Fatalf("header %+v, err %v", h, err)
			}
			decoded, rest, err := DecodePerformative(frame[FrameHeaderSize:], DefaultLimits)
			if err != nil || !bytes.Equal(rest, payload) || !cmp.Equal(decoded, p) {
				t.Fatalf("performative %v, payload %q, err %v (-want +got):\n%s", decoded, rest, err, cmp.Diff(p, decoded))
			}
			decoded, rest, err = new(Decoder).Decode(frame[FrameHeaderSize:])
			if err != nil || !bytes.Equal(rest, payload) || !cmp.Equal(decoded, p) {
				t.Fatalf("decoder: performative %v, payload %q, err %v (-want +got):\n%s", decoded, rest, err, cmp.Diff(p, decoded))
			}
		})
	}
}

// descriptorNames are the specification's names of the composites, by the codes of their
// descriptors.
var descriptorNames = map[byte]string{
	descOpen: "open", descBegin: "begin", descAttach: "attach", descFlow: "flow", descTransfer: "transfer",
	descDisposition: "disposition", descDetach: "detach", descEnd: "end", descClose: "close", descError: "error",
	descReceived: "received", descAccepted: "accepted", descRejected: "rejected", descReleased: "released",
	descModified: "modified", descSource: "source", descTarget: "target", descCoordinator: "coordinator",
	descDeclared:           "declared",
	descTransactionalState: "transactional-state", descSASLMechanisms: "sasl-mechanisms", descSASLInit: "sasl-init",
	descSASLChallenge: "sasl-challenge", descSASLResponse: "sasl-response", descSASLOutcome: "sasl-outcome",
}

// encodings returns the composite with the given fields in every form that a peer may write.
func encodings(code byte, name string, fields List) map[string][]byte {
	narrow := appendList(nil, fields)
	wide, mark := BeginList(nil)
	for _, f := range fields {
		wide = AppendValue(wide, f)
	}
	wide = EndList(append(wide, make([]byte, 300)...), mark, len(fields)) // too large for a list8 …
	wide = wide[:len(wide)-300]
	size := len(wide) - 5
	// … and small again
	wide[1], wide[2], wide[3], wide[4] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	lists := map[string][]byte{"list": narrow, "list32": wide}
	if len(fields) == 0 {
		lists["list0"] = []byte{CodeList0}
	}
	all := make(map[string][]byte)
	for list, b := range lists {
		all[list+" smallulong"] = append(AppendDescriptor(nil, code), b...)
		all[list+" ulong"] = append([]byte{0, CodeUlong, 0, 0, 0, 0, 0, 0, 0, code}, b...)
		all[list+" symbol"] = append(AppendSymbol([]byte{0}, Symbol("amqp:"+name+":list")), b...)
		all[list+" sym32"] = append(append([]byte{0, CodeSym32, 0, 0, 0, byte(len(name) + 10)}, "amqp:"+name+":list"...), b...)
	}
	return all
}

// WP-216: truncated composites, list0, list32, ulong and symbol descriptors are accepted; and only
// a missing required field is refused (S17).
func TestLenientWP216(t *testing.T) {
	for _, s := range samples() {
		full := fieldsOf(t, appendComposite(nil, s.value))
		for n := 0; n <= len(full); n++ {
			// A composite cut to n fields equals one whose other fields are null.
			cut := make(List, len(full))
			copy(cut, full[:n])
			want, _, wantErr := decodeComposite(append(AppendDescriptor(nil, s.value.descriptor()), appendList(nil, cut)...), DefaultLimits)
			if (wantErr == nil) != (n >= s.required) {
				t.Fatalf("%s with %d fields: %v", s.name(), n, wantErr)
			}
			for encoding, b := range encodings(s.value.descriptor(), descriptorNames[s.value.descriptor()], full[:n]) {
				got, rest, err := decodeComposite(b, DefaultLimits)
				if (err == nil) != (n >= s.required) || len(rest) > 0 {
					t.Errorf("%s with %d fields as %s: rest %x, err %v", s.name(), n, encoding, rest, err)
				}
				if err == nil && !cmp.Equal(got, want) {
					t.Errorf("%s with %d fields as %s: %v, want %v (-want +got):\n%s", s.name(), n, encoding, got, want, cmp.Diff(want, got))
				}
			}
		}
	}
}

// Fields after the last known one are checked and ignored.
func TestUnknownFields(t *testing.T) {
	for _, s := range samples() {
		fields := append(fieldsOf(t, appendComposite(nil, s.value)), "more", List{nil})
		b := append(AppendDescriptor(nil, s.value.descriptor()), appendList(nil, fields)...)
		if got, _, err := decodeComposite(b, DefaultLimits); err != nil || !cmp.Equal(got, s.value) {
			t.Errorf("%s: %v, %v (-want +got):\n%s", s.name(), got, err, cmp.Diff(s.value, got))
		}
		b = append(AppendDescriptor(nil, s.value.descriptor()), appendList(nil, append(fields, Symbol("\xff")))...)
		if _, _, err := decodeComposite(b, DefaultLimits); err == nil {
			t.Errorf("%s: bad unknown field accepted", s.name())
		}
	}
}

// WP-216: null, list0 and all-null sources and targets; WP-070: they are echoed with all fields.
func TestEmptyTerminusWP216(t *testing.T) {
	decode := func(source, target string) *Attach {
		t.Helper()
		b, mark := BeginList(AppendDescriptor(nil, descAttach))
		b = append(appendBool(appendUint(AppendString(b, "l"), 0), true), CodeNull, CodeNull)
		b = append(append(b, unhex(t, source)...), unhex(t, target)...)
		p, _, err := DecodePerformative(EndList(b, mark, 7), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		return p.(*Attach)
	}
	a := decode("40", "40")
	if a.Source != nil || a.Target != nil {
		t.Errorf("null: %v", a)
	}
	for _, c := range []struct{ source, target string }{
		{"00532845", "00532945"},
		{"005328c00100", "005329c00100"},
		{"005328c00c0b" + strings.Repeat("40", 11), "005329c00807" + strings.Repeat("40", 7)},
	} {
		a := decode(c.source, c.target)
		if a.Source == nil || a.Target == nil {
			t.Fatalf("%s: %v; want a.Source != nil && a.Target != nil", c.source, a)
		}
		f := fieldsOf(t, appendComposite(nil, a))
		source, target := f[5].(Described).Value.(List), f[6].(Described).Value.(List)
		if !cmp.Equal(source, make(List, 11)) || !cmp.Equal(target, make(List, 7)) {
			t.Errorf("echoed %v and %v (-want +got):\n%s", source, target, cmp.Diff(make(List, 11), source))
		}
	}
}

// A single symbol means an array of one.
func TestMultipleSymbols(t *testing.T) {
	for name, value := range map[string]any{
		"one":    Symbol("a"),
		"sym8":   Array{Elem: CodeSym8, Values: []any{Symbol("a")}},
		"sym32":  symbolArray("a"),
		"null":   nil,
		"empty":  Array{Elem: CodeSym8},
		"string": "a",
		"ulongs": Array{Elem: CodeUlong, Values: []any{uint64(1)}},
	} {
		b := append(AppendDescriptor(nil, descCoordinator), appendList(nil, List{value})...)
		c, _, err := decodeComposite(b, DefaultLimits)
		switch name {
		case "string", "ulongs":
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		case "null", "empty":
			if err != nil || c.(*Coordinator).Capabilities != nil {
				t.Errorf("%s: %v %v; want c.(*Coordinator).Capabilities == nil", name, c, err)
			}
		default:
			if err != nil || !cmp.Equal(c, &Coordinator{Capabilities: []Symbol{"a"}}) {
				t.Errorf("%s: %v %v (-want +got):\n%s", name, c, err, cmp.Diff(&Coordinator{Capabilities: []Symbol{"a"}}, c))
			}
		}
	}
}

// Unsigned fields take any unsigned width that fits; texts may be strings or symbols.
func TestFieldTypes(t *testing.T) {
	open := func(fields ...any) error {
		_, _, err := DecodePerformative(append(AppendDescriptor(nil, descOpen), appendList(nil, fields)...), DefaultLimits)
		return err
	}
	for _, ok := range [][]any{
		{Symbol("id")},
		{"id", nil, uint8(200)}, {"id", nil, uint16(512)}, {"id", nil, uint64(512)},
		{"id", nil, nil, uint32(65535)},
	} {
		if err := open(ok...); err != nil {
			t.Errorf("%v: %v", ok, err)
		}
	}
	for _, bad := range [][]any{
		{}, {nil}, {[]byte("id")}, {uint32(1)},
		{"id", uint32(1)},
		{"id", nil, int32(512)}, {"id", nil, "512"}, {"id", nil, uint64(1 << 32)},
		{"id", nil, nil, uint32(65536)},
		{"id", nil, nil, nil, nil, nil, nil, nil, nil, List{}},
		{"id", nil, nil, nil, nil, uint32(1)},
	} {
		if err := open(bad...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	for _, bad := range []Composite{
		&Transfer{ReceiverSettleMode: Some(ReceiverSettleMode(2))},
		&Attach{SenderSettleMode: Some(SenderSettleMode(3))},
		&SASLOutcome{Code: 5},
		&Disposition{State: TransactionalState{TxnID: []byte{1}, Outcome: Declared{TxnID: []byte{1}}}},
	} {
		if _, _, err := decodeComposite(appendComposite(nil, bad), DefaultLimits); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestNotAPerformative(t *testing.T) {
	for name, b := range map[string]string{
		"empty":                        "",
		"no descriptor":                "c00100",
		"unknown code":                 "00531945",
		"huge code":                    "0080000000000000011045",
		"unknown symbol":               "00a30161 45",
		"descriptor is a string":       "00a1016145",
		"a source":                     "00532845",
		"a message section":            "00537045",
		"not a list":                   "005310c10100",
		"a map":                        "005314 d10000000400000000",
		"count beyond size":            "005318c0024040",
		"bytes after the performative": "00531845 40",
	} {
		if p, _, err := DecodePerformative(unhex(t, b), DefaultLimits); err == nil {
			t.Errorf("%s: %v", name, p)
		}
		if p, _, err := new(Decoder).Decode(unhex(t, b)); err == nil {
			t.Errorf("%s: decoder: %v", name, p)
		}
	}
}

// Every performative cut at every byte is an error and never a panic. (A transfer's payload may be
// cut.)
func TestCutPerformatives(t *testing.T) {
	for _, s := range samples() {
		p, ok := s.value.(Performative)
		if !ok {
			continue
		}
		b := AppendFrame(nil, 0, p, nil)[FrameHeaderSize:]
		for i := range b {
			var d *DecodeError
			if _, _, err := DecodePerformative(b[:i], DefaultLimits); !errors.As(err, &d) || d.Offset > i {
				t.Errorf("%s cut to %d bytes: %v", s.name(), i, err)
			}
		}
	}
}

// Every byte of every performative changed in the relevant ways: no panic, and accepted frames are
// encoded and accepted again.
func TestDamagedPerformatives(t *testing.T) {
	for _, s := range samples() {
		p, ok := s.value.(Performative)
		if !ok {
			continue
		}
		b := AppendFrame(nil, 0, p, nil)[FrameHeaderSize:]
		for i := range b {
			was := b[i]
			for _, v := range []byte{
				was + 1, was - 1, was ^ 0x10, was ^ 0x80, 0, 1, 0xFF, CodeNull, CodeTrue, CodeUint0, CodeList0, CodeSmallUlong,
				CodeUint, CodeStr8, CodeSym32, CodeList8, CodeMap32, CodeArray8,
			} {
				b[i] = v
				checkPerformative(t, b)
			}
			b[i] = was
		}
	}
}

func TestErrorIsAGoError(t *testing.T) {
	if got := sampleError.Error(); got != "amqp:not-found: gone" {
		t.Errorf(`%+v, want "amqp:not-found: gone"`, got)
	}
	if got := (&Error{Condition: CondTimeout}).Error(); got != "com.microsoft:timeout" {
		t.Errorf(`%+v, want "com.microsoft:timeout"`, got)
	}
}
