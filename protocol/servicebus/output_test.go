package servicebus

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A transfer whose payload is appended afterwards is written like one whose payload is known
// before. The part that its frame has no room for is returned, and a cancelled transfer leaves
// nothing.
func TestOutputTransfer(t *testing.T) {
	t.Parallel()
	transfer := &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(2)), DeliveryTag: []byte{3}}
	o := output{maxFrame: 512}
	for _, size := range []int{0, 100, 1000} {
		payload := bytes.Repeat([]byte{7}, size)
		o.buf = nil
		o.frame(0, &amqp.Flow{})
		before := len(o.buf)
		frame, head := o.beginTransfer(4, transfer)
		tooLarge := o.endTransfer(frame, append(head, payload...))
		want := amqp.AppendFrame(nil, 4, transfer, payload)
		switch {
		case size < 512:
			if got := o.buf[before:]; tooLarge != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes are written as %x, not %x", size, got, want)
			}
		case !bytes.Equal(tooLarge, payload) || len(o.buf) != before:
			t.Errorf("of %d bytes %d are handed back, and %d written", size, len(tooLarge), len(o.buf)-before)
		}
	}
	before := len(o.buf)
	frame, _ := o.beginTransfer(4, transfer)
	if o.cancelTransfer(frame); len(o.buf) != before {
		t.Errorf("%d bytes of a transfer are left", len(o.buf)-before)
	}
}

// A payload in several frames leaves whole, no frame is larger than the peer takes, and all but the
// last say that there are more.
func TestOutputTransferInParts(t *testing.T) {
	t.Parallel()
	o := output{maxFrame: 512}
	for rest := make([]byte, 2000); len(rest) > 0; {
		before := len(o.buf)
		transfer := &amqp.Transfer{Handle: 1}
		rest = rest[o.transfer(4, transfer, rest):]
		size := len(o.buf) - before
		if size > 512 || size != int(binary.BigEndian.Uint32(o.buf[before:])) || transfer.More != (len(rest) > 0) {
			t.Errorf("a frame has %d bytes and says that there are more: %v; %d are to come", size, transfer.More, len(rest))
		}
	}
}

// Nothing follows a close.
func TestOutputClose(t *testing.T) {
	t.Parallel()
	var o output
	o.close(&amqp.Close{})
	size := len(o.buf)
	o.close(&amqp.Close{})
	o.frame(0, &amqp.End{})
	o.flow(0, &amqp.Flow{})
	o.disposition(0, &amqp.Disposition{})
	if size == 0 || len(o.buf) != size {
		t.Errorf("%d bytes follow a close of %d", len(o.buf)-size, size)
	}
}
