package servicebus

import (
	"sync"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/budget"
)

// chunk is memory that frames are read into and message bodies stay in until the engine has copied
// them. Who keeps bytes of it holds a reference.
type chunk struct {
	buf  []byte
	refs atomic.Int32
	pool *sync.Pool // nil: left to the garbage collector
	// what its memory was taken from; nil: it is part of what every connection has
	paid *budget.Share

	// carved by the goroutine that handles its frames, while that has a reference
	space []*chunk     // released together with this chunk; the last one has room
	used  int          // bytes of the last one
	sends []singleSend // commands with its bytes: kept for those who use it next
	sent  int          // of sends in use
}

// singleSend is a send, with room for the one message that most have.
type singleSend struct {
	send    engine.Send
	message [1]engine.Message
}

// perSingle is the number of bytes of a chunk for each of which it has room for one singleSend;
// where messages are smaller, the others are allocated elsewhere.
const perSingle = 1 << 10

const (
	smallChunk = 4 << 10
	largeChunk = 128 << 10 // holds at least one frame of the default size behind a partial one
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

// paidChunk is newChunk for memory that is taken from a share; nil: the share has not as much.
func paidChunk(size int, share *budget.Share) *chunk {
	if !share.Take(chunkCost(size)) {
		return nil
	}
	c := newChunk(size)
	c.paid = share
	return c
}

// exactChunk is a paid one with no more memory than it needs.
func exactChunk(size int, share *budget.Share) *chunk {
	if !share.Take(size) {
		return nil
	}
	return ownChunk(size, share)
}

// ownChunk is exactChunk for memory that has been taken.
func ownChunk(size int, share *budget.Share) *chunk {
	c := &chunk{buf: make([]byte, size), paid: share}
	c.refs.Store(1)
	return c
}

// chunkCost is how many bytes of memory a chunk of a size takes.
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

// alone reports that nobody but the caller has a reference, so its bytes may be written over.
func (c *chunk) alone() bool { return c.refs.Load() == 1 }

// carve returns an empty slice of that capacity which lives as long as the chunk.
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

// newSend returns an empty command that lives as long as the chunk, or nil when there is no room
// for more of them.
func (c *chunk) newSend() *singleSend {
	switch {
	case c.sends != nil:
	case c.pool != nil:
		c.sends = make([]singleSend, len(c.buf)/perSingle)
	default: // a command elsewhere would keep the bytes until all commands beside it are gone
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

// recycle lets go of what was carved.
func (c *chunk) recycle() {
	c.sent = 0
	for i, s := range c.space {
		s.Release()
		c.space[i] = nil
	}
	c.space = c.space[:0]
}
