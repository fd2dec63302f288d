package servicebus

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// inbound is what a read brought: whole frames and protocol headers, one behind the other. The
// receiver owns one reference of the chunk. err ends the stream; there may be frames before it.
type inbound struct {
	chunk *chunk
	data  []byte
	// it is one frame, of which only the beginning is here: there was no memory for the rest
	cut   bool
	short bool // the read brought so little that the peer may hold some back; see shortRead
	err   error
}

// reader cuts the byte stream into whole frames. It knows sizes only; what is in a frame is the
// connection's business. It is not in package amqp because of what it shares with its connection:
// chunks that bodies stay in, limits that change with the login, and the size of reads.
type reader struct {
	source   io.Reader
	out      chan inbound
	quit     <-chan struct{} // closed when nobody takes from out any more
	maxFrame atomic.Uint32   // bytes; set by the connection
	// the peer has shown a token: reads may bring more than one frame
	generous atomic.Bool
	// handles what the reads brought, of which this is the one with the number; false: not now.
	// nil: out takes all
	handle func(in inbound, number uint64) bool
	offset int64 // in the stream, of the first byte not handed on

	// owned by run
	chunk      *chunk
	start, end int    // bytes read and not handed on
	quiet      int    // reads in a row that a small chunk would have held
	handed     uint64 // reads of which the owner has the frames
	discard    int    // bytes to come of a frame that was cut

	share *budget.Share // what chunks are paid from; set before run

	// no chunk is larger than it has to be; set by the connection while memory is short
	modest atomic.Bool
	large  atomic.Bool // the chunk is not a small one

	ack   acknowledger // nil: there is none
	waker waker        // nil: a read that waits cannot be woken
}

// waker is a connection of which a read can be ended that waits, and begun again.
type waker interface {
	WakeReader() error // may be called by any goroutine
	Awake() error      // called by the reader when its read has ended with os.ErrDeadlineExceeded
}

func newReader(source net.Conn, quit <-chan struct{}, maxFrame uint32) *reader {
	r := &reader{source: source, out: make(chan inbound, 1), quit: quit, chunk: newChunk(smallChunk)}
	r.maxFrame.Store(maxFrame)
	r.ack, _ = source.(acknowledger)
	r.waker, _ = source.(waker)
	return r
}

func (r *reader) run() {
	defer func() { r.chunk.Release() }()
	for {
		if !r.makeRoom() {
			return
		}
		space := len(r.chunk.buf) - r.end
		n, err := r.source.Read(r.chunk.buf[r.end:])
		if r.waker != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			err = r.waker.Awake()
		} else {
			r.tune(n, space)
		}
		r.end += n
		r.skip()
		whole, bad := r.whole()
		if bad != nil {
			err = bad
		}
		short := n < space && n <= shortRead
		if !r.hand(whole, err, short) || err != nil {
			return
		}
		if r.ack != nil && short && r.end > r.start {
			r.ack.Acknowledge()
		}
	}
}

// makeRoom makes room for a read, and for all of a frame whose size is known. A frame for which
// there is no memory is cut. It reports false when nobody takes frames any more.
func (r *reader) makeRoom() bool {
	if r.start == r.end && r.chunk.alone() {
		r.start, r.end = 0, 0
		r.chunk.recycle()
	}
	pending := r.end - r.start
	need := pending + 1
	if pending >= 4 {
		need = max(need, int(frameSize(r.chunk.buf[r.start:])))
	}
	want, modest := smallChunk, r.modest.Load()
	if !modest && r.generous.Load() && (r.quiet < quietReads && r.offset > 0 || need > smallChunk) {
		want = largeChunk
	}
	want = max(want, need)
	roomy := r.start+need <= len(r.chunk.buf) && len(r.chunk.buf)-r.end >= 512
	tooLarge := len(r.chunk.buf) > smallChunk && want <= smallChunk && pending == 0 || modest && len(r.chunk.buf) >= want+unit
	if roomy && !tooLarge {
		return true
	}
	var next *chunk
	if modest {
		next = r.modestChunk(want)
	} else {
		next = r.chunkOf(want, need)
	}
	if next == nil && pending >= cutSize {
		return r.cut(need)
	}
	if next == nil { // the beginning of the frame has to come first
		if r.start+cutSize <= len(r.chunk.buf) {
			return true
		}
		next = newChunk(smallChunk)
	}
	r.end = copy(next.buf, r.chunk.buf[r.start:r.end])
	r.start = 0
	r.chunk.Release()
	r.chunk = next
	r.large.Store(len(next.buf) > smallChunk)
	return true
}

// modestChunk is a chunk of at most size bytes. In exchange for one that takes more memory it is
// never refused.
func (r *reader) modestChunk(size int) *chunk {
	switch {
	case size <= smallChunk:
		return newChunk(smallChunk)
	case r.chunk.paid == nil || !r.chunk.alone() || len(r.chunk.buf) < size:
		return exactChunk(size, r.share)
	}
	r.share.Owe(size)
	return ownChunk(size, r.share)
}

// save makes the reader take no more memory than it has to, or ends that; also while the reader
// waits.
func (r *reader) save(modest bool) {
	r.modest.Store(modest)
	if modest && r.large.Load() && r.waker != nil {
		_ = r.waker.WakeReader() // a connection that is gone needs none
	}
}

// chunkOf is a chunk of the size that is wanted, or, where there is no memory for that, of the size
// that is needed; nil: there is no memory for that either.
func (r *reader) chunkOf(want, need int) *chunk {
	if want > smallChunk {
		if c := paidChunk(want, r.share); c != nil {
			return c
		}
	}
	if need > smallChunk {
		return exactChunk(need, r.share)
	}
	return newChunk(smallChunk)
}

// cutSize is how many bytes are handed on of a frame for which there is no memory: enough to see
// which delivery a transfer belongs to.
const cutSize = 1 << 10

// cut hands on the beginning of a frame and lets the rest of it go by.
func (r *reader) cut(size int) bool {
	binary.BigEndian.PutUint32(r.chunk.buf[r.start:], cutSize)
	in := inbound{chunk: r.chunk.retain(), data: r.chunk.buf[r.start : r.start+cutSize : r.start+cutSize], cut: true}
	r.offset += int64(size)
	r.discard = size - cutSize
	r.start += cutSize
	r.skip()
	return r.send(in) && r.makeRoom()
}

// skip passes over what has come of the rest of a frame that was cut.
func (r *reader) skip() {
	n := min(r.discard, r.end-r.start)
	r.discard -= n
	r.start += n
}

const quietReads = 32

// tune decides by the last reads whether the next chunk is a large one.
func (r *reader) tune(n, space int) {
	switch {
	case n == space:
		r.quiet = 0
	case n < smallChunk/2 && r.quiet < quietReads:
		r.quiet++
	}
}

// whole finds the end of the last complete frame.
func (r *reader) whole() (end int, err error) {
	end = r.start
	if r.offset == 0 && r.end-end >= 4 && !isProtocolHeader(r.chunk.buf[end:]) {
		return end, &amqp.FramingError{Reason: "no protocol header"}
	}
	for r.end-end >= 4 {
		size := frameSize(r.chunk.buf[end:])
		if size < amqp.FrameHeaderSize {
			return end, &amqp.FramingError{Offset: r.offset + int64(end-r.start), Reason: "frame smaller than its header"}
		}
		if size > r.maxFrame.Load() {
			return end, &amqp.FramingError{Offset: r.offset + int64(end-r.start), Reason: "frame larger than max-frame-size"}
		}
		if r.end-end < int(size) {
			break
		}
		end += int(size)
	}
	return end, nil
}

// hand gives the owner what is whole.
func (r *reader) hand(whole int, err error, short bool) bool {
	if whole == r.start && err == nil {
		return true
	}
	in := inbound{chunk: r.chunk.retain(), data: r.chunk.buf[r.start:whole:whole], short: short, err: err}
	r.offset += int64(whole - r.start)
	r.start = whole
	return r.send(in)
}

// send gives the owner what was read.
func (r *reader) send(in inbound) bool {
	if r.handed++; r.handle != nil && r.handle(in, r.handed) {
		return true
	}
	select {
	case r.out <- in:
		// the owner runs first; more arrives meanwhile, and the next read brings it all at once
		runtime.Gosched()
		return true
	case <-r.quit:
		in.chunk.Release()
		return false
	}
}

// frameSize is the size of the frame or protocol header at the start of b, of which there are four
// bytes. A protocol header begins with "AMQP", which would be a frame of a gigabyte.
func frameSize(b []byte) uint32 {
	if isProtocolHeader(b) {
		return uint32(len(amqp.ProtocolHeader{}))
	}
	return binary.BigEndian.Uint32(b)
}

func isProtocolHeader(b []byte) bool { return len(b) >= 4 && string(b[:4]) == "AMQP" }
