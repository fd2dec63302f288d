package amqp

import (
	"bytes"
	"errors"
	"testing"
)

// checkPerformative decodes b in both ways. An accepted frame must be the same in both, must be
// encodable, and must be accepted again with the same encoding.
func checkPerformative(t *testing.T, b []byte) {
	t.Helper()
	p, payload, err := DecodePerformative(b, DefaultLimits)
	hot, hotPayload, hotErr := new(Decoder).Decode(b)
	if (err == nil) != (hotErr == nil) || !bytes.Equal(payload, hotPayload) {
		t.Fatalf("%x: decoded %v with %v, by a Decoder %v with %v", b, p, err, hot, hotErr)
	}
	if err != nil {
		var d *DecodeError
		if !errors.As(err, &d) || d.Offset < 0 || d.Offset > len(b) {
			t.Fatalf("%x: error %v", b, err)
		}
		return
	}
	checkAgain(t, b, p, payload)
	once := AppendFrame(nil, 0, p, payload)
	if other := AppendFrame(nil, 0, hot, hotPayload); !bytes.Equal(once, other) {
		t.Fatalf("%x: encoded %x and %x", b, once, other)
	}
	p, payload, err = DecodePerformative(once[FrameHeaderSize:], DefaultLimits)
	if err != nil {
		t.Fatalf("%x: encoded %x, then %v", b, once, err)
	}
	if twice := AppendFrame(nil, 0, p, payload); !bytes.Equal(once, twice) {
		t.Fatalf("%x: encoded %x, then %x", b, once, twice)
	}
}

// checkAgain makes a Decoder that has decoded b, and a transfer in a transaction, decode it again:
// the remembered state changes nothing.
func checkAgain(t *testing.T, b []byte, p Performative, payload []byte) {
	t.Helper()
	in := benchTransfer()
	in.State = TransactionalState{TxnID: []byte("txn")}
	busy := new(Decoder)
	for _, body := range [][]byte{b, b, AppendFrame(nil, 0, in, nil)[FrameHeaderSize:], b} {
		again, rest, err := busy.Decode(body)
		if err != nil {
			t.Fatalf("%x: decoded before, and then %v", body, err)
		}
		if &body[0] != &b[0] { // the other one
			continue
		}
		if !bytes.Equal(AppendFrame(nil, 0, again, rest), AppendFrame(nil, 0, p, payload)) {
			t.Fatalf("%x: decoded %v %x, and then %v %x", b, p, payload, again, rest)
		}
	}
}

func FuzzPerformative(f *testing.F) {
	for _, s := range samples() {
		if p, ok := s.value.(Performative); ok {
			f.Add(AppendFrame(nil, 0, p, nil)[FrameHeaderSize:])
			for _, b := range encodings(p.descriptor(), descriptorNames[p.descriptor()], nil) {
				f.Add(b)
			}
		}
	}
	f.Add(append(AppendFrame(nil, 0, benchTransfer(), nil)[FrameHeaderSize:], benchMessage()...))
	f.Fuzz(checkPerformative)
}

func FuzzValue(f *testing.F) {
	for _, c := range sampleValues {
		f.Add(unhex(f, c.bytes))
	}
	for _, s := range samples() {
		f.Add(appendComposite(nil, s.value))
	}
	for _, code := range []byte{CodeList8, CodeMap8, CodeArray32} {
		f.Add(nested(DefaultLimits.Depth, code))
	}
	f.Add(nested(DefaultLimits.Described, CodeDescribed))
	f.Add(mapOf(20))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, rest, err := DecodeValue(b, DefaultLimits)
		skipped, skipErr := SkipValue(b, DefaultLimits)
		if (err == nil) != (skipErr == nil) || !bytes.Equal(rest, skipped) {
			t.Fatalf("decode: rest %x, err %v; skip: rest %x, err %v", rest, err, skipped, skipErr)
		}
		n := RawSize(b) // must not panic, whatever b is
		if err != nil {
			return
		}
		if n != len(b)-len(rest) {
			t.Fatalf("RawSize %d, want %d", n, len(b)-len(rest))
		}
		once := AppendValue(nil, v)
		v, rest, err = DecodeValue(once, DefaultLimits)
		if err != nil || len(rest) > 0 {
			t.Fatalf("encoded %x: rest %x, err %v", once, rest, err)
		}
		if twice := AppendValue(nil, v); !bytes.Equal(once, twice) {
			t.Fatalf("encoded %x, then %x", once, twice)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add(benchMessage())
	for _, m := range sampleMessages() {
		f.Add(m.bytes)
		f.Add(longDescriptors(f, m.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := bytes.Clone(b)
		s, err := ScanMessage(b, DefaultLimits)
		// On bytes that are not a message, or a wrong section, nothing may panic.
		for range MapEntries(b) {
		}
		for range DataSections(b) {
		}
		for i := range 14 {
			PropertiesField(b, i)
		}
		if err != nil {
			return
		}
		checkSections(t, b, s)
		if !bytes.Equal(b, whole) {
			t.Fatal("scanning changed the message")
		}
	})
}
