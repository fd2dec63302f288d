package floor

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const (
	bufferSize   = 128 << 10 // fits a frame of the maximum size after a partial one
	buffers      = 4         // per connection: the reader is at most three ahead of the owner
	maxFrameSize = 64 << 10
)

var pool = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// A block is a sequence of whole frames and protocol headers.
type block struct {
	buf *[]byte
	n   int
}

// A reader moves bytes from the socket to the owner. The owner returns each processed block through
// free.
type reader struct {
	source net.Conn
	full   chan block
	free   chan *[]byte
}

func newReader(source net.Conn) *reader {
	r := &reader{source: source, full: make(chan block, buffers), free: make(chan *[]byte, buffers)}
	for range buffers {
		r.free <- pool.Get().(*[]byte)
	}
	return r
}

// run reads until the stream ends or is invalid, and then closes full.
func (r *reader) run() {
	defer close(r.full)
	buf, have := <-r.free, 0
	for {
		n, err := r.source.Read((*buf)[have:])
		have += n
		whole, ok := wholeFrames((*buf)[:have])
		if whole > 0 {
			next := <-r.free
			rest := copy(*next, (*buf)[whole:have])
			r.full <- block{buf, whole}
			buf, have = next, rest
		}
		if err != nil || !ok {
			r.free <- buf
			return
		}
	}
}

// release frees the buffers after run and the owner have ended.
func (r *reader) release() {
	for b := range r.full {
		r.free <- b.buf
	}
	for range buffers {
		pool.Put(<-r.free)
	}
}

// wholeFrames returns the end of the last whole frame of b; ok is false if b is not a sequence of
// frames. The broker's reader also applies limits that depend on the login, and reports the
// position of a wrong frame. The floor measures the cost without that, so it does not share the
// code.
func wholeFrames(b []byte) (end int, ok bool) {
	for len(b)-end >= amqp.FrameHeaderSize {
		size := frameSize(b[end:])
		if size < amqp.FrameHeaderSize || size > maxFrameSize {
			return end, false
		}
		if size > len(b)-end {
			break
		}
		end += size
	}
	return end, true
}

// frameSize returns the size of the frame or protocol header at the start of b. A protocol header
// begins with "AMQP", which would be a frame of a gigabyte.
func frameSize(b []byte) int {
	if isProtocolHeader(b) {
		return len(amqp.ProtocolHeader{})
	}
	return int(binary.BigEndian.Uint32(b))
}

func isProtocolHeader(b []byte) bool { return string(b[:4]) == "AMQP" }
