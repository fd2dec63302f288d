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

// readResult is the result of a read: whole frames and protocol headers in a row. The receiver owns
// one reference of the chunk. err ends the stream; there may be frames before it.
type readResult struct {
	chunk *chunk
	data  []byte
	// there is one frame, and only its beginning: there was no memory for the rest
	cut   bool
	short bool // the read was so short that the peer may hold back more; see shortRead
	err   error
}

// reader cuts the byte stream into whole frames. It knows only their sizes; the connection reads
// their content. It is not in package amqp because it shares several things with its connection:
// chunks that bodies stay in, limits that change with the login, and the size of reads.
type reader struct {
	source   io.Reader
	out      chan readResult
	quit     <-chan struct{} // closed when the connection no longer takes from out
	maxFrame atomic.Uint32   // bytes; set by the connection
	// the peer has presented a valid token: reads may return more than one frame
	generous atomic.Bool
	// handles the result of the read with this number; false: not now. nil: out takes all
	handle func(in readResult, number uint64) bool
	offset int64 // in the stream, of the first byte not handed on

	// owned by run
	chunk      *chunk
	start, end int    // bytes read and not handed on
	quiet      int    // reads in a row that a small chunk would have held
	handed     uint64 // reads whose frames the owner has
	discard    int    // bytes still to come of a frame that was cut

	share *budget.Share // pays for chunks; set before run

	// no chunk is larger than necessary; set by the connection while memory is short
	modest atomic.Bool
	large  atomic.Bool // the chunk is larger than a small one

	ack   acknowledger // nil: not supported
	waker waker        // nil: a waiting read cannot be woken
}

// waker is a connection whose waiting read can be ended and begun again.
type waker interface {
	WakeReader() error // may be called by any goroutine
	Awake() error      // called by the reader when its read has ended with os.ErrDeadlineExceeded
}

func newReader(source net.Conn, quit <-chan struct{}, maxFrame uint32) *reader {
	r := &reader{source: source, out: make(chan readResult, 1), quit: quit, chunk: newChunk(smallChunk)}
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

// makeRoom makes room for a read, and for the whole of a frame whose size is known. A frame for
// which there is no memory is cut. It returns false if frames are no longer taken.
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
	if next == nil { // the beginning of the frame has to be read first
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

// modestChunk returns a chunk of at most size bytes. It never fails if the current chunk takes more
// memory, which is exchanged for it.
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

// save starts or ends the use of minimal memory by the reader, even while it waits.
func (r *reader) save(modest bool) {
	r.modest.Store(modest)
	if modest && r.large.Load() && r.waker != nil {
		_ = r.waker.WakeReader() // a closed connection need not be woken
	}
}

// chunkOf returns a chunk of the wanted size or, if there is no memory for that, of the needed
// size; nil: there is no memory for that either.
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

// cutSize is the number of bytes that are handed on of a frame for which there is no memory: enough
// to see which delivery a transfer belongs to.
const cutSize = 1 << 10

// cut hands on the beginning of a frame and skips the rest of it.
func (r *reader) cut(size int) bool {
	binary.BigEndian.PutUint32(r.chunk.buf[r.start:], cutSize)
	in := readResult{chunk: r.chunk.retain(), data: r.chunk.buf[r.start : r.start+cutSize : r.start+cutSize], cut: true}
	r.offset += int64(size)
	r.discard = size - cutSize
	r.start += cutSize
	r.skip()
	return r.send(in) && r.makeRoom()
}

// skip skips the received bytes of a frame that was cut.
func (r *reader) skip() {
	n := min(r.discard, r.end-r.start)
	r.discard -= n
	r.start += n
}

const quietReads = 32

// tune decides from the last reads whether the next chunk is a large one.
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

// hand hands the owner the whole frames.
func (r *reader) hand(whole int, err error, short bool) bool {
	if whole == r.start && err == nil {
		return true
	}
	in := readResult{chunk: r.chunk.retain(), data: r.chunk.buf[r.start:whole:whole], short: short, err: err}
	r.offset += int64(whole - r.start)
	r.start = whole
	return r.send(in)
}

// send hands the owner the result of a read.
func (r *reader) send(in readResult) bool {
	if r.handed++; r.handle != nil && r.handle(in, r.handed) {
		return true
	}
	select {
	case r.out <- in:
		// the owner runs first; meanwhile more arrives, and the next read returns it all at once
		runtime.Gosched()
		return true
	case <-r.quit:
		in.chunk.Release()
		return false
	}
}

// frameSize returns the size of the frame or protocol header at the start of b, which has at least
// four bytes. A protocol header begins with "AMQP", which would be the size of a frame of more than
// a gigabyte.
func frameSize(b []byte) uint32 {
	if isProtocolHeader(b) {
		return uint32(len(amqp.ProtocolHeader{}))
	}
	return binary.BigEndian.Uint32(b)
}

func isProtocolHeader(b []byte) bool { return len(b) >= 4 && string(b[:4]) == "AMQP" }
