package servicebus

import (
	"bytes"
	"reflect"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// staging is memory for what is sent in one transaction: it outlives the frames that it came in,
// for as long as the peer takes over the rest of the transaction. Most messages are small, and
// there are many of them: they share blocks, which go from one transaction to the next.
type staging struct {
	blocks []*stagingBlock // the last one has room
	unpaid int             // bytes of those that are not counted yet
}

// stagingBlock is room for a few small messages and what the engine is asked with them.
type stagingBlock struct {
	bytes [blockBytes]byte
	used  int // of bytes
	sends [blockSends]stagedSend
	sent  int // of sends
}

// stagedSend is a send that becomes part of a transaction.
type stagedSend struct {
	singleSend
	stage engine.Stage
}

const (
	blockBytes = 4 << 10
	blockSends = 4
	// maxInBlock is the most bytes of a message that is put into a block: larger ones could leave
	// too much of a block unused.
	maxInBlock = blockBytes / 3
)

// blockCost is how many bytes of memory a block takes.
var blockCost = int(reflect.TypeFor[stagingBlock]().Size())

var blocks = sync.Pool{New: func() any { return new(stagingBlock) }}

// stagingBlock is the one with room for that many bytes, and for a send with send.
func (g *staging) stagingBlock(size int, send bool) *stagingBlock {
	if n := len(g.blocks); n > 0 {
		if p := g.blocks[n-1]; p.used+size <= blockBytes && (!send || p.sent < blockSends) {
			return p
		}
	}
	p := blocks.Get().(*stagingBlock)
	g.blocks = append(g.blocks, p)
	g.unpaid += blockCost
	return p
}

// newSend returns an empty command. It lives as long as the transaction.
func (g *staging) newSend() *stagedSend {
	p := g.stagingBlock(0, true)
	s := &p.sends[p.sent]
	p.sent++
	return s
}

// carve returns an empty slice of that capacity, which lives as long as the transaction.
func (g *staging) carve(size int) []byte {
	if size > maxInBlock {
		g.unpaid += size
		return make([]byte, 0, size)
	}
	p := g.stagingBlock(size, false)
	from := p.used
	p.used += size
	return p.bytes[from:from:p.used]
}

// keptSend is a send that is to be part of a transaction.
type keptSend struct {
	*stagedSend
	body []byte   // a copy of what was sent
	room *staging // for more; nil: it has memory of its own
}

// keep begins a send. A large one has memory of its own; so has a batch, which may be refused as a
// whole, and what follows a refusal in the transaction: the bytes of such sends are not counted, so
// they must not be in a block.
func (x *transaction) keep(body []byte, format uint32) keptSend {
	if x.failed || format != amqp.MessageFormatPlain || len(body) > maxInBlock {
		return keptSend{new(stagedSend), bytes.Clone(body), nil}
	}
	room := &x.memory
	return keptSend{room.newSend(), append(room.carve(len(body)), body...), room}
}

// memory is how many bytes the send takes, of which size were counted as if it had memory of its
// own.
func (k *keptSend) memory(size int) int {
	if k.room == nil {
		return size
	}
	return size - len(k.body) + k.room.pay()
}

// pay is how many bytes were taken since the last call.
func (g *staging) pay() int {
	n := g.unpaid
	g.unpaid = 0
	return n
}

// free gives the memory to other transactions. Nothing may refer to it any more.
func (g *staging) free() {
	for _, p := range g.blocks {
		clear(p.sends[:p.sent])
		p.used, p.sent = 0, 0
		blocks.Put(p)
	}
	*g = staging{}
}
