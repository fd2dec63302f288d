package log

import (
	"container/list"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// sealedCacheBytes limits the decompressed blocks that all readers of a store share, bytes.
const sealedCacheBytes = 8 << 20

// walkCacheBytes is the same limit for a walk, which reads each block once.
const walkCacheBytes = 256 << 10

// leastCacheBytes is how much a store's cache may take even when memory is short, bytes.
const leastCacheBytes = 256 << 10

// blockKey names a block of a sealed file.
type blockKey struct {
	partition         PartitionID
	chapter, revision uint32
	part              sealed.Part
	block             int
}

// blockCache keeps decompressed blocks and evicts the least recently used ones first. Bytes beyond
// leastCacheBytes are taken from [Memory] before a block is decompressed. If there are none, the
// block replaces the least recently used ones, or is not kept.
type blockCache struct {
	limit  int // bytes
	memory Memory

	mu     sync.Mutex // guards the fields below
	size   int        // bytes of the blocks, and bytes reserved for blocks that are being read
	blocks map[blockKey]*list.Element
	recent list.List // of cachedBlock, newest first
}

type cachedBlock struct {
	key  blockKey
	data *sealed.Data
}

func newBlockCache(limit int, memory Memory) *blockCache {
	return &blockCache{limit: limit, memory: memory, blocks: make(map[blockKey]*list.Element)}
}

// walkCache returns the cache of one walk, small enough not to count against memory.
func walkCache() *blockCache { return newBlockCache(walkCacheBytes, Unbounded{}) }

// get returns a block that is in the cache, else nil.
func (c *blockCache) get(k blockKey) *sealed.Data {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.blocks[k]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(cachedBlock).data
}

// load returns a block that is in the cache, else the one that read decompresses. size is about how
// much memory the block takes, bytes.
func (c *blockCache) load(k blockKey, size int, read func() (*sealed.Data, error)) (*sealed.Data, error) {
	if d := c.get(k); d != nil {
		return d, nil
	}
	keep := c.reserve(size)
	d, err := read()
	if keep {
		c.put(k, d, size)
	}
	return d, err
}

// reserve makes room for a block before it is read, and reports whether there is any.
func (c *blockCache) reserve(size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grow(size)
}

// grow makes room for more bytes, and reports whether there is any. The caller holds mu.
func (c *blockCache) grow(size int) bool {
	for c.size+size > c.limit && c.evict() {
	}
	for !c.take(size) {
		if !c.evict() {
			return false
		}
	}
	return true
}

// take counts bytes, and takes from [Memory] what exceeds leastCacheBytes. The caller holds mu.
func (c *blockCache) take(size int) bool {
	more := max(0, c.size+size-leastCacheBytes) - max(0, c.size-leastCacheBytes)
	if more > 0 && !c.memory.Take(more) {
		return false
	}
	c.size += size
	return true
}

// give counts bytes that are no longer held. The caller holds mu.
func (c *blockCache) give(size int) {
	less := max(0, c.size-leastCacheBytes) - max(0, c.size-size-leastCacheBytes)
	c.size -= size
	if less > 0 {
		c.memory.Give(less)
	}
}

// evict drops the block that was used least recently, and reports whether there was one. The caller
// holds mu.
func (c *blockCache) evict() bool {
	if c.recent.Len() == 0 {
		return false
	}
	old := c.recent.Remove(c.recent.Back()).(cachedBlock)
	delete(c.blocks, old.key)
	c.give(old.data.Size())
	return true
}

// put adds a block for which taken bytes were reserved. It does not add a nil block, a block that
// another reader has added meanwhile, or one that needs more memory than there is.
func (c *blockCache) put(k blockKey, d *sealed.Data, taken int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(taken)
	if _, ok := c.blocks[k]; d != nil && !ok && c.grow(d.Size()) {
		c.blocks[k] = c.recent.PushFront(cachedBlock{k, d})
	}
}

// spare drops blocks as long as memory is short and they take more than leastCacheBytes.
func (c *blockCache) spare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.size > leastCacheBytes && c.memory.Exceeds(0) && c.evict() {
	}
}

// clear drops all blocks.
func (c *blockCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.evict() {
	}
}
