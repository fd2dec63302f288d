package servicebus

import (
	"sync"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// chunk is memory for received frames. Message bodies stay in it until the engine has copied them.
// Each user of its bytes holds a reference.
type chunk struct {
	buf  []byte
	refs atomic.Int32
	pool *sync.Pool // nil: left to the garbage collector
	// the share that its memory was taken from; nil: part of the basic memory of each connection
	paid *budget.Share

	// allocated by the goroutine that handles its frames, while it has a reference
	space []*chunk     // released together with this chunk; the last one has room
	used  int          // bytes in use of the last one
	sends []singleSend // reusable commands whose bytes are in the chunk
	sent  int          // number of sends in use
}

// singleSend is a send with space for one message, which is enough for most sends.
type singleSend struct {
	send    engine.Send
	message [1]engine.Message
}

// perSingle is the number of bytes of a chunk for which there is space for one singleSend. If
// messages are smaller, the other sends are allocated elsewhere.
const perSingle = 1 << 10

const (
	smallChunk = 4 << 10
	largeChunk = 128 << 10 // holds at least one frame of the default size after a partial one
)

var (
	smallChunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, smallChunk)} }}
	largeChunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, largeChunk)} }}
)

// newChunk returns a chunk of at least size bytes with one reference.
func newChunk(size int) *chunk {
	var c *chunk
	switch {
	case size <= smallChunk:
		c = smallChunks.Get().(*chunk)
		c.pool = &smallChunks
	case size <= largeChunk:
		c = largeChunks.Get().(*chunk)
		c.pool = &largeChunks
	default:
		c = &chunk{buf: make([]byte, size)}
	}
	c.refs.Store(1)
	return c
}

// paidChunk is newChunk with memory from a share. It returns nil if the share has too little.
func paidChunk(size int, share *budget.Share) *chunk {
	if !share.Take(chunkCost(size)) {
		return nil
	}
	c := newChunk(size)
	c.paid = share
	return c
}

// exactChunk is paidChunk with no more memory than needed.
func exactChunk(size int, share *budget.Share) *chunk {
	if !share.Take(size) {
		return nil
	}
	return ownChunk(size, share)
}

// ownChunk is exactChunk for memory that has been taken from the share already.
func ownChunk(size int, share *budget.Share) *chunk {
	c := &chunk{buf: make([]byte, size), paid: share}
	c.refs.Store(1)
	return c
}

// chunkCost returns the bytes of memory that a chunk of a size takes.
func chunkCost(size int) int {
	switch {
	case size <= smallChunk:
		return smallChunk
	case size <= largeChunk:
		return largeChunk
	}
	return size
}

func (c *chunk) retain() *chunk {
	c.refs.Add(1)
	return c
}

// Release implements engine.Buffer.
func (c *chunk) Release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.recycle()
		if c.paid != nil {
			c.paid.Give(len(c.buf))
			c.paid = nil
		}
		if c.pool != nil {
			c.pool.Put(c)
		}
	case n < 0:
		panic("servicebus: chunk released twice")
	}
}

// alone reports whether the caller has the only reference, so that the bytes may be overwritten.
func (c *chunk) alone() bool { return c.refs.Load() == 1 }

// carve returns an empty slice with that capacity, which lives as long as the chunk.
func (c *chunk) carve(size int) []byte {
	n := len(c.space)
	if n == 0 || c.used+size > len(c.space[n-1].buf) {
		c.space = append(c.space, newChunk(max(size, smallChunk)))
		n, c.used = n+1, 0
	}
	from := c.used
	c.used += size
	return c.space[n-1].buf[from:from:c.used]
}

// newSend returns an empty command that lives as long as the chunk, or nil if there is no room for
// another one.
func (c *chunk) newSend() *singleSend {
	switch {
	case c.sends != nil:
	case c.pool != nil:
		c.sends = make([]singleSend, len(c.buf)/perSingle)
	default: // a command elsewhere would keep the bytes until all commands next to it are released
		c.sends = make([]singleSend, 1)
	}
	if c.sent == len(c.sends) {
		return nil
	}
	s := &c.sends[c.sent]
	c.sent++
	*s = singleSend{}
	return s
}

// recycle releases the carved memory.
func (c *chunk) recycle() {
	c.sent = 0
	for i, s := range c.space {
		s.Release()
		c.space[i] = nil
	}
	c.space = c.space[:0]
}
