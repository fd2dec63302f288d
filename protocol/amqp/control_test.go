package amqp

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// WP-191, WP-216: requests to a coordinator can be spelled in many ways, and may end after the last
// field that is set.
func TestDecodeControl(t *testing.T) {
	t.Parallel()
	id := []byte{1, 2, 3}
	for name, c := range map[string]struct {
		code   byte
		fields List
		want   Control
	}{
		"declare":       {descDeclare, List{nil}, &Declare{}},
		"declare, cut":  {descDeclare, nil, &Declare{}},
		"distributed":   {descDeclare, List{[]byte("x")}, &Declare{GlobalID: []byte("x")}},
		"commit":        {descDischarge, List{id, false}, &Discharge{TxnID: id}},
		"commit, cut":   {descDischarge, List{id}, &Discharge{TxnID: id}},
		"commit, null":  {descDischarge, List{id, nil}, &Discharge{TxnID: id}},
		"roll back":     {descDischarge, List{id, true}, &Discharge{TxnID: id, Fail: true}},
		"unknown field": {descDischarge, List{id, true, "x"}, &Discharge{TxnID: id, Fail: true}},
	} {
		spelled := map[byte]string{descDeclare: "declare", descDischarge: "discharge"}[c.code]
		for how, b := range encodings(c.code, spelled, c.fields) {
			if got, err := DecodeControl(b, DefaultLimits); err != nil || !cmp.Equal(got, c.want) {
				t.Errorf("%s as %s: %#v, %v (-want +got):\n%s", name, how, got, err, cmp.Diff(c.want, got))
			}
		}
	}
	for name, b := range map[string][]byte{
		"nothing":            {},
		"a string":           AppendString(nil, "declare"),
		"an outcome":         appendComposite(nil, StateAccepted),
		"no transaction id":  append(AppendDescriptor(nil, descDischarge), CodeList0),
		"an id of text":      append(AppendDescriptor(nil, descDischarge), appendList(nil, List{"x"})...),
		"a flag of text":     append(AppendDescriptor(nil, descDischarge), appendList(nil, List{id, "true"})...),
		"not a list":         append(AppendDescriptor(nil, descDeclare), AppendString(nil, "x")...),
		"an unknown name":    append(AppendSymbol([]byte{0}, "amqp:promote:list"), CodeList0),
		"cut in the id":      AppendControl(nil, &Discharge{TxnID: id})[:8],
		"deep in the global": append(AppendDescriptor(nil, descDeclare), appendList(nil, List{Described{Descriptor: uint64(1)}})[:4]...),
	} {
		var bad *DecodeError
		if got, err := DecodeControl(b, DefaultLimits); !errors.As(err, &bad) || got != nil {
			t.Errorf("%s: %#v, %v; want errors.As(err, &bad) && got == nil", name, got, err)
		}
	}
}

func FuzzControl(f *testing.F) {
	for _, c := range []Control{&Declare{}, &Declare{GlobalID: "x"}, &Discharge{TxnID: []byte{1}}, &Discharge{TxnID: []byte{}, Fail: true}} {
		f.Add(AppendControl(nil, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeControl(b, DefaultLimits)
		if err != nil {
			var bad *DecodeError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(b) {
				t.Fatalf("%x: error %v", b, err)
			}
			return
		}
		again, err := DecodeControl(AppendControl(nil, c), DefaultLimits)
		// of the bytes: NaN is not equal to itself
		if err != nil || string(AppendControl(nil, again)) != string(AppendControl(nil, c)) {
			t.Fatalf("%x: %#v, then %#v, %v", b, c, again, err)
		}
	})
}
