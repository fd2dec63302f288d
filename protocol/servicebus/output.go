package servicebus

import (
	"encoding/binary"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// output is the output of a connection: frames are appended to a buffer, which the writer gets as a
// whole whenever it has none. Nothing follows a close frame.
type output struct {
	writer   *writer
	maxFrame uint32 // bytes of the largest frame that the peer accepts
	buf      []byte // frames not yet handed to the writer
	spare    []byte // the writer's last buffer
	writing  int    // bytes the writer has
	closed   bool   // a close frame was appended
}

const (
	// smallWrite is the number of bytes that the owner writes itself if the socket accepts them at
	// once.
	smallWrite = 4 << 10
	// highWater is the number of bytes prepared ahead of the writer above which deliveries wait, so
	// that bodies are read late.
	highWater = 256 << 10
)

// backlog returns the number of unwritten bytes.
func (o *output) backlog() int { return len(o.buf) + o.writing }

// memory returns the bytes of memory of the buffers.
func (o *output) memory() int { return cap(o.buf) + cap(o.spare) }

// shrink frees unused memory.
func (o *output) shrink() {
	if o.writing == 0 {
		o.spare = nil
	}
	if len(o.buf) == 0 {
		o.buf = nil
	}
}

// prepared returns the number of bytes that the writer does not have yet.
func (o *output) prepared() int { return len(o.buf) }

// full reports whether deliveries have to wait for the writer.
func (o *output) full() bool { return o.prepared() >= highWater }

// fits reports whether the peer accepts a frame of the size of p. It must be called for frames that
// repeat the peer's texts.
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

// shut prevents further output.
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

// transfer appends a transfer with as much of a payload as fits into its frame, and returns the
// number of payload bytes. The frame says whether there are more.
func (o *output) transfer(channel uint16, t *amqp.Transfer, payload []byte) int {
	t.More = true
	n := min(int(o.maxFrame)-amqp.TransferHeaderSize(t), len(payload))
	t.More = n < len(payload)
	o.buf = amqp.AppendTransferHeader(o.buf, channel, t, n)
	o.buf = append(o.buf, payload[:n]...)
	return n
}

// beginTransfer appends the head of a transfer. The caller appends the payload to the returned
// bytes, and then calls endTransfer or cancelTransfer.
func (o *output) beginTransfer(channel uint16, t *amqp.Transfer) (frame transferFrame, head []byte) {
	frame.start = len(o.buf)
	o.buf = amqp.AppendTransferHeader(o.buf, channel, t, 0)
	frame.payload = len(o.buf)
	return frame, o.buf
}

// transferFrame is the position of a transfer in the buffer.
type transferFrame struct{ start, payload int }

// endTransfer takes the bytes with the payload. This completes a frame that is small enough for the
// peer. The payload of a larger one is returned, and has to be written in several frames.
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

// heartbeat appends an empty frame unless other output is waiting anyway.
func (o *output) heartbeat() {
	if o.backlog() == 0 {
		o.buf = amqp.AppendEmptyFrame(o.buf)
	}
}

// flush hands buffered output to the writer if it is idle, and reports whether it did.
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

// written takes the buffer back from the writer, and keeps it for the next output if it has at most
// keep bytes.
func (o *output) written(keep int) {
	o.writing = 0
	if cap(o.spare) > keep {
		o.spare = nil
	}
}
