package amqp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func header(size uint32, doff, frameType uint8, channel uint16) []byte {
	b := binary.BigEndian.AppendUint32(nil, size)
	return binary.BigEndian.AppendUint16(append(b, doff, frameType), channel)
}

// S18: 8 <= size, doff >= 2, 4·doff <= size, known type.
func TestParseFrameHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"smallest", header(8, 2, 0, 65535), true},
		{"SASL", header(8, 2, 1, 0), true},
		{"largest doff", header(1020, 255, 0, 0), true},
		{"largest size", header(1<<32-1, 2, 0, 0), true},
		{"size 7", header(7, 2, 0, 0), false},
		{"size 0", header(0, 0, 0, 0), false},
		{"doff 1", header(8, 1, 0, 0), false},
		{"doff 0", header(8, 0, 0, 0), false},
		{"doff behind the frame", header(11, 3, 0, 0), false},
		{"doff behind the frame, 255", header(1019, 255, 0, 0), false},
		{"type 2", header(8, 2, 2, 0), false},
		{"cut", header(8, 2, 0, 0)[:7], false},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), false},
	} {
		h, err := ParseFrameHeader(c.b)
		var f *FramingError
		switch {
		case c.ok && (err != nil || !bytes.Equal(header(h.Size, h.DOFF, h.Type, h.Channel), c.b)):
			t.Errorf("%s: %+v, %v", c.name, h, err)
		case !c.ok && !errors.As(err, &f):
			t.Errorf("%s: %+v, %v", c.name, h, err)
		}
	}
}

// WP-011: TransferHeaderSize is the size of the header, so that frame and payload fit exactly.
func TestTransferHeaderSize(t *testing.T) {
	for _, tr := range []*Transfer{
		{}, benchTransfer(), {DeliveryTag: []byte{}}, {DeliveryTag: make([]byte, 300)}, {DeliveryTag: make([]byte, 242)},
		{DeliveryTag: make([]byte, 241)}, {DeliveryTag: make([]byte, 240)}, {DeliveryTag: make([]byte, 256)},
		{ReceiverSettleMode: Some(ReceiverSecond), MessageFormat: Some(MessageFormatBatch), DeliveryID: Some(uint32(255))},
		{Handle: 1 << 20, DeliveryTag: make([]byte, 32), State: StateAccepted},
		{State: TransactionalState{TxnID: make([]byte, 32)}},
		{State: Rejected{&Error{Condition: CondTimeout, Description: string(make([]byte, 1000))}}},
	} {
		n := TransferHeaderSize(tr)
		b := AppendTransferHeader([]byte("before"), 5, tr, 512-n)
		if len(b) != 6+n {
			t.Errorf("%v: header of %d bytes, said %d", tr, len(b)-6, n)
		}
		if h, err := ParseFrameHeader(b[6:]); err != nil || h.Size != 512 || h.Channel != 5 {
			if len(b) < 512 {
				t.Errorf("%v: %+v %v; want len(b) >= 512", tr, h, err)
			}
		}
	}
}

func TestAppendedFramesAreTheSame(t *testing.T) {
	d, f, tr := benchDisposition(), benchFlow(), benchTransfer()
	for name, c := range map[string][2][]byte{
		"disposition": {AppendDisposition(nil, 3, d), AppendFrame(nil, 3, d, nil)},
		"flow":        {AppendFlow(nil, 3, f), AppendFrame(nil, 3, f, nil)},
		"transfer":    {append(AppendTransferHeader(nil, 3, tr, 2), "pp"...), AppendFrame(nil, 3, tr, []byte("pp"))},
	} {
		if !bytes.Equal(c[0], c[1]) {
			t.Errorf("%s: %x and %x", name, c[0], c[1])
		}
	}
}

// A Decoder's results alias the input where it says so, and only there.
func TestDecoderAliasing(t *testing.T) {
	tr := benchTransfer()
	tr.State = TransactionalState{TxnID: []byte("txn")}
	body := AppendFrame(nil, 0, tr, []byte("payload"))[FrameHeaderSize:]
	d := &Decoder{}
	p, payload, err := d.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	copied, _, err := DecodePerformative(body, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	got := p.(*Transfer)
	clear(body)
	if !bytes.Equal(got.DeliveryTag, make([]byte, 16)) || !bytes.Equal(payload, make([]byte, 7)) {
		t.Errorf("tag %x, payload %x", got.DeliveryTag, payload)
	}
	if txn := got.State.(TransactionalState).TxnID; string(txn) != "txn" {
		t.Errorf("transaction id %q", txn)
	}
	if !cmp.Equal(copied, tr) {
		t.Errorf("%v (-want +got):\n%s", copied, cmp.Diff(tr, copied))
	}
	// The struct is used again and keeps nothing of the previous call.
	q, _, err := d.Decode(AppendFrame(nil, 0, &Transfer{Handle: 9}, nil)[FrameHeaderSize:])
	if err != nil || q != p || !cmp.Equal(q, &Transfer{Handle: 9}) {
		t.Errorf("%v %v (-want +got):\n%s", q, err, cmp.Diff(&Transfer{Handle: 9}, q))
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	tr, di, fl := benchTransfer(), benchDisposition(), benchFlow()
	transfer := append(AppendTransferHeader(nil, 0, tr, 4), "body"...)[FrameHeaderSize:]
	tr.State = TransactionalState{TxnID: []byte("a transaction"), Outcome: StateAccepted}
	staged := append(AppendTransferHeader(nil, 0, tr, 4), "body"...)[FrameHeaderSize:]
	tr.State = nil
	disposition, flow := AppendDisposition(nil, 0, di)[FrameHeaderSize:], AppendFlow(nil, 0, fl)[FrameHeaderSize:]
	d := &Decoder{}
	decode := func(b []byte) func() {
		return func() {
			if _, _, err := d.Decode(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, f := range map[string]func(){
		"AppendTransferHeader": func() { buf = AppendTransferHeader(buf[:0], 1, tr, 4) },
		"TransferHeaderSize":   func() { TransferHeaderSize(tr) },
		"AppendDisposition":    func() { buf = AppendDisposition(buf[:0], 1, di) },
		"AppendFlow":           func() { buf = AppendFlow(buf[:0], 1, fl) },
		"AppendHeader":         func() { buf = AppendHeader(buf[:0], &sampleHeader) },
		"AppendProperties":     func() { buf = AppendProperties(buf[:0], &sampleProperties) },
		"new disposition": func() {
			buf = AppendDisposition(buf[:0], 1, &Disposition{First: 1, Settled: true, State: Accepted{}})
		},
		"transfer":                  decode(transfer),
		"transfer in a transaction": decode(staged), // behind another one in it
		"disposition":               decode(disposition),
		"flow":                      decode(flow),
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
