package servicebus

import (
	"bytes"
	"reflect"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// stagingMemory is memory for the sends of one transaction. It outlives the frames that the sends
// came in, until the transaction ends. Most messages are small and numerous, so they share blocks,
// which one transaction after another uses.
type stagingMemory struct {
	blocks []*stagingBlock // the last one has room
	unpaid int             // bytes of blocks that are not counted yet
}

// stagingBlock has space for a few small messages and their commands.
type stagingBlock struct {
	bytes [blockBytes]byte
	used  int // of bytes
	sends [blockSends]stagedSend
	sent  int // of sends
}

// stagedSend is a send in a transaction.
type stagedSend struct {
	singleSend
	stage engine.Stage
}

const (
	blockBytes = 4 << 10
	blockSends = 4
	// maxInBlock bounds the bytes of a message that is put into a block: larger ones could leave
	// too much of a block unused.
	maxInBlock = blockBytes / 3
)

// blockCost is the bytes of memory of a block.
var blockCost = int(reflect.TypeFor[stagingBlock]().Size())

var blocks = sync.Pool{New: func() any { return new(stagingBlock) }}

// stagingBlock returns the block with space for that many bytes, and for a send if send is set.
func (g *stagingMemory) stagingBlock(size int, send bool) *stagingBlock {
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

// newSend returns an empty command, which lives as long as the transaction.
func (g *stagingMemory) newSend() *stagedSend {
	p := g.stagingBlock(0, true)
	s := &p.sends[p.sent]
	p.sent++
	return s
}

// carve returns an empty slice with that capacity, which lives as long as the transaction.
func (g *stagingMemory) carve(size int) []byte {
	if size > maxInBlock {
		g.unpaid += size
		return make([]byte, 0, size)
	}
	p := g.stagingBlock(size, false)
	from := p.used
	p.used += size
	return p.bytes[from:from:p.used]
}

// keptSend is a send that will be part of a transaction.
type keptSend struct {
	*stagedSend
	body []byte         // a copy of the message
	room *stagingMemory // for more data; nil: it has its own memory
}

// keep begins a send. A large send has its own memory. So has a batch, which may be refused as a
// whole, and a send after a refusal in the transaction: the bytes of such sends are not counted, so
// they must not be in a block.
func (x *transaction) keep(body []byte, format uint32) keptSend {
	if x.failed || format != amqp.MessageFormatPlain || len(body) > maxInBlock {
		return keptSend{new(stagedSend), bytes.Clone(body), nil}
	}
	room := &x.memory
	return keptSend{room.newSend(), append(room.carve(len(body)), body...), room}
}

// memory returns the bytes of the send; size bytes were counted as if it had its own memory.
func (k *keptSend) memory(size int) int {
	if k.room == nil {
		return size
	}
	return size - len(k.body) + k.room.pay()
}

// pay returns the bytes that were taken since the last call.
func (g *stagingMemory) pay() int {
	n := g.unpaid
	g.unpaid = 0
	return n
}

// free makes the memory available to other transactions. There may be no references to it any more.
func (g *stagingMemory) free() {
	for _, p := range g.blocks {
		clear(p.sends[:p.sent])
		p.used, p.sent = 0, 0
		blocks.Put(p)
	}
	*g = stagingMemory{}
}
