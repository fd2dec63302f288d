package servicebus

import (
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// output is what goes out on a connection: frames are appended to a buffer, which the writer gets
// as a whole whenever it has none. Nothing follows a close frame.
type output struct {
	writer   *writer
	maxFrame uint32 // bytes of a frame that the peer takes
	buf      []byte // frames not yet handed to the writer
	spare    []byte // the writer's last buffer
	writing  int    // bytes the writer has
	closed   bool   // there is a close frame
}

const (
	// smallWrite is how many bytes the owner writes by itself when the socket takes them at once.
	smallWrite = 4 << 10
	// highWater is how many bytes are prepared ahead of the writer before deliveries wait, so that
	// bodies are read late.
	highWater = 256 << 10
)

// backlog is how many bytes have not been written.
func (o *output) backlog() int { return len(o.buf) + o.writing }

// memory is how many bytes of memory the buffers have.
func (o *output) memory() int { return cap(o.buf) + cap(o.spare) }

// shrink lets go of memory that nothing is in.
func (o *output) shrink() {
	if o.writing == 0 {
		o.spare = nil
	}
	if len(o.buf) == 0 {
		o.buf = nil
	}
}

// prepared is how many bytes the writer does not have yet.
func (o *output) prepared() int { return len(o.buf) }

// full reports whether deliveries have to wait for the writer.
func (o *output) full() bool { return o.prepared() >= highWater }

// fits reports whether the peer takes a frame of the size of p. It has to be asked for frames that
// repeat what the peer said.
func (o *output) fits(p amqp.Performative) bool {
	start := len(o.buf)
	o.buf = amqp.AppendFrame(o.buf, 0, p, nil)
	size := len(o.buf) - start
	o.buf = o.buf[:start]
	return size <= int(o.maxFrame)
}

// frame appends a frame without a payload.
func (o *output) frame(channel uint16, p amqp.Performative) {
	if !o.closed {
		o.buf = amqp.AppendFrame(o.buf, channel, p, nil)
	}
}

// close appends the last frame.
func (o *output) close(p *amqp.Close) {
	o.frame(0, p)
	o.shut()
}

// shut lets nothing be appended any more.
func (o *output) shut() { o.closed = true }

func (o *output) flow(channel uint16, f *amqp.Flow) {
	if !o.closed {
		o.buf = amqp.AppendFlow(o.buf, channel, f)
	}
}

func (o *output) disposition(channel uint16, d *amqp.Disposition) {
	if !o.closed {
		o.buf = amqp.AppendDisposition(o.buf, channel, d)
	}
}

// transfer appends a transfer with as much of a payload as its frame has room for, and returns how
// many bytes that is. The frame says whether there are more.
func (o *output) transfer(channel uint16, t *amqp.Transfer, payload []byte) int {
	t.More = true
	n := min(int(o.maxFrame)-amqp.TransferHeaderSize(t), len(payload))
	t.More = n < len(payload)
	o.buf = amqp.AppendTransferHeader(o.buf, channel, t, n)
	o.buf = append(o.buf, payload[:n]...)
	return n
}

// beginTransfer appends the head of a transfer. The caller appends the payload to the bytes
// returned, and then calls endTransfer or cancelTransfer.
func (o *output) beginTransfer(channel uint16, t *amqp.Transfer) (frame transferFrame, head []byte) {
	frame.start = len(o.buf)
	o.buf = amqp.AppendTransferHeader(o.buf, channel, t, 0)
	frame.payload = len(o.buf)
	return frame, o.buf
}

// transferFrame is where a transfer stands in the buffer.
type transferFrame struct{ start, payload int }

// endTransfer takes the bytes with the payload. A frame that is not too large for the peer is
// complete with that. The payload of a larger one is returned, and has to be written in several
// frames.
func (o *output) endTransfer(f transferFrame, buf []byte) (tooLarge []byte) {
	if size := len(buf) - f.start; size <= int(o.maxFrame) {
		binary.BigEndian.PutUint32(buf[f.start:], uint32(size))
		o.buf = buf
		return nil
	}
	o.buf = buf[:f.start]
	return append([]byte(nil), buf[f.payload:]...)
}

// cancelTransfer removes the head again.
func (o *output) cancelTransfer(f transferFrame) { o.buf = o.buf[:f.start] }

func (o *output) header(h amqp.ProtocolHeader) { o.buf = append(o.buf, h[:]...) }

func (o *output) sasl(p amqp.Performative) { o.buf = amqp.AppendSASLFrame(o.buf, p) }

// heartbeat appends an empty frame unless something is on its way anyway.
func (o *output) heartbeat() {
	if o.backlog() == 0 {
		o.buf = amqp.AppendEmptyFrame(o.buf)
	}
}

// flush hands what is buffered to the writer if it is idle, and reports whether anything left.
func (o *output) flush() bool {
	if len(o.buf) == 0 || o.writing > 0 {
		return false
	}
	if len(o.buf) <= smallWrite {
		n := o.writer.try(o.buf)
		if o.buf = o.buf[:copy(o.buf, o.buf[n:])]; len(o.buf) == 0 {
			return true
		}
	}
	o.writing = len(o.buf)
	o.writer.in <- o.buf
	o.buf, o.spare = o.spare[:0], o.buf
	return true
}

// written takes the buffer back from the writer, and keeps it for the next bytes if it has no more
// than keep.
func (o *output) written(keep int) {
	o.writing = 0
	if cap(o.spare) > keep {
		o.spare = nil
	}
}
