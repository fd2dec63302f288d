package message

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// testLimits are the limits of a broker without settings.
var testLimits = Limits{Decode: amqp.DefaultLimits, IDLength: 128, PropertySize: 32 << 10, HeaderSize: 64 << 10}

func TestSplice(t *testing.T) {
	t.Parallel()
	for name, m := range map[string][]byte{
		"nothing":    {},
		"body":       amqp.AppendData(nil, []byte("x")),
		"list0":      append([]byte{0, 0x53, 0x73, 0x45}, amqp.AppendData(nil, []byte("x"))...),
		"empty":      {0, 0x53, 0x73, 0xC0, 1, 0},
		"null":       {0, 0x53, 0x73, 0xC0, 2, 1, 0x40},
		"all":        amqp.AppendProperties(amqp.AppendHeader(nil, &amqp.Header{}), &amqp.Properties{Subject: amqp.Some(strings.Repeat("x", 300))}),
		"short":      amqp.AppendData(amqp.AppendProperties(nil, &amqp.Properties{Subject: amqp.Some("x")}), []byte("y")),
		"wide list":  {0, 0x53, 0x73, 0xD0, 0, 0, 0, 8, 0, 0, 0, 4, 0x40, 0x40, 0x40, 0x40},
		"before":     amqp.AppendSection(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol("a"), Value: "b"}}), amqp.SectionApplicationProperties, amqp.Map{{Key: "a", Value: "b"}}),
		"wide items": amqp.AppendProperties(nil, &amqp.Properties{UserID: []byte(strings.Repeat("u", 200))}),
	} {
		in, e := Inspect(m, &testLimits)
		if e != nil || in.HasID() {
			t.Fatalf("%+v %+v; want e == nil && !in.HasID()", name, e)
		}
		in.Splice(make([]byte, 0, in.SpliceSize()), [16]byte{0xAB})
		stored := slices.Concat(in.Message.Body, in.Message.Tail)
		got, e := Inspect(stored, &testLimits)
		if e != nil || !got.HasID() || string(got.Message.ID) != "ab000000-0000-0000-0000-000000000000" || string(in.Message.ID) != string(got.Message.ID) {
			t.Errorf(`%s: %v % x; want e == nil && got.HasID() && string(got.Message.ID) == "ab000000-0000-0000-0000-000000000000" && string(in.Message.ID) == string(got.Message.ID)`, name, e, stored)
			continue
		}
		if len(stored) > len(m)+idRoom {
			t.Errorf("%s: grew from %d to %d", name, len(m), len(stored))
		}
		before, _ := amqp.ScanMessage(m, amqp.DefaultLimits)
		after, _ := amqp.ScanMessage(stored, amqp.DefaultLimits)
		if n := len(stored) - after.Body.Len() - after.Footer.Len(); in.Message.Header != n {
			t.Errorf("%s: header of %d bytes, not %d", name, in.Message.Header, n)
		}
		for _, part := range []struct{ was, is amqp.Span }{
			{before.ApplicationProperties, after.ApplicationProperties}, {before.Body, after.Body}, {before.Footer, after.Footer},
		} {
			if string(part.was.Of(m)) != string(part.is.Of(stored)) {
				t.Errorf("%s: changed from % x to % x", name, part.was.Of(m), part.is.Of(stored))
			}
		}
		if !before.Properties.Empty() {
			old, _ := amqp.DecodeProperties(before.Properties.Of(m))
			now, _ := amqp.DecodeProperties(after.Properties.Of(stored))
			now.MessageID = nil
			if !cmp.Equal(old, now) {
				t.Errorf("%s: %+v became %+v (-want +got):\n%s", name, old, now, cmp.Diff(now, old))
			}
		}
	}
}

// For any input of a peer, a message that passes the checks can be given an id, passes them again
// with it, and keeps its body.
func FuzzInspect(f *testing.F) {
	f.Add(fullMessage())
	f.Add(message(nil, "x"))
	f.Add(detailed())
	f.Add(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyPartitionKey), Value: []byte("k")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		sent := slices.Clone(b)
		in, e := Inspect(b, &testLimits)
		if e != nil {
			return
		}
		checkDetails(t, sent, &in.Message.Details)
		if in.HasID() {
			return
		}
		body := string(in.sections.Body.Of(in.Message.Body))
		room := in.SpliceSize()
		in.Splice(make([]byte, 0, room), [16]byte{1})
		if len(in.Message.Body) > room {
			t.Fatalf("%d bytes spliced in room for %d", len(in.Message.Body), room)
		}
		stored := slices.Concat(in.Message.Body, in.Message.Tail)
		wide := testLimits
		wide.HeaderSize += idRoom
		got, e := Inspect(stored, &wide)
		if e != nil || string(got.Message.ID) != string(in.Message.ID) || string(got.sections.Body.Of(stored)) != body {
			t.Errorf("%v: % x became % x", e, b, stored)
		}
	})
}

// BenchmarkInspect measures the check of a message of 1 KiB as SDKs send it: with little besides
// its body, and with the fields that traces and conversations need.
func BenchmarkInspect(b *testing.B) {
	plain := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "0123456789abcdef0123456789abcdef"})
	for _, m := range []struct {
		name  string
		bytes []byte
	}{{"plain", amqp.AppendData(plain, make([]byte, 1024))}, {"detailed", detailed()}} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, e := Inspect(m.bytes, &testLimits); e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}
