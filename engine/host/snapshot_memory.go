package host

import (
	"io"
	"runtime"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
)

const (
	// checkpointMemory is what is taken to encode and compress a checkpoint, bytes: two windows of the compression, and a piece of the state.
	checkpointMemory = 10 << 20
	// liveBodiesMemory is what is taken to find out which bodies are needed, bytes: [maxLiveSpans] spans and a sample of [maxSample] bodies.
	liveBodiesMemory = 16*maxLiveSpans + 8<<20
)

// snapshotMemory is what was taken of the process's memory for a snapshot (docs/decisions/0041): for what is made of it, and for what the owner of
// the state has changed since, which is there twice until the snapshot is closed. It belongs to one goroutine at a time.
type snapshotMemory struct {
	from  log.Memory // nil: there is enough
	fixed int        // for what is made of it
	taken int
}

// take takes memory before a snapshot is taken, copies of it for changes that are expected. Where there is none it reports false, unless it must.
func (m *snapshotMemory) take(fixed, copies int, must bool) bool {
	n := fixed + copies
	if m.from == nil {
		m.from = log.Unbounded{}
	}
	if !m.from.Take(n) {
		if !must {
			return false
		}
		m.from.Owe(n)
	}
	m.fixed, m.taken = fixed, n
	return true
}

// follow takes what the snapshot costs by now where that is more than was expected, and returns it.
func (m *snapshotMemory) follow(s *index.Snapshot) (copies int) {
	copies = int(s.Copied())
	if more := m.fixed + copies - m.taken; more > 0 {
		m.from.Owe(more)
		m.taken += more
	}
	return copies
}

// give gives all of it back.
func (m *snapshotMemory) give() {
	if m.taken > 0 {
		m.from.Give(m.taken)
	}
	m.fixed, m.taken = 0, 0
}

// considerate lets other goroutines run after each write: what comes in one write takes half a millisecond to make and to take in, and the
// scheduler would let the loop wait for 10 ms. It also looks what the snapshot costs by then.
type considerate struct {
	io.Writer
	state  *index.Snapshot
	memory *snapshotMemory
}

func (c considerate) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.memory.follow(c.state)
	runtime.Gosched()
	return n, err
}
