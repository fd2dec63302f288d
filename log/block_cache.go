package log

import (
	"container/list"
	"sync"

	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// sealedCacheBytes is how much memory decompressed blocks take that all readers of a store share.
const sealedCacheBytes = 8 << 20

// walkCacheBytes is what a walk has for it, which comes to each block once.
const walkCacheBytes = 256 << 10

// blockKey names a block of a sealed file.
type blockKey struct {
	partition         PartitionID
	chapter, revision uint32
	part              sealed.Part
	block             int
}

// blockCache keeps decompressed blocks, the least recently used ones going first.
type blockCache struct {
	limit int // bytes

	mu     sync.Mutex // guards what follows
	size   int
	blocks map[blockKey]*list.Element
	recent list.List // of cachedBlock, newest first
}

type cachedBlock struct {
	key  blockKey
	data *sealed.Data
}

func newBlockCache(limit int) *blockCache {
	return &blockCache{limit: limit, blocks: make(map[blockKey]*list.Element)}
}

// get returns a block that is there, else nil.
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

// put adds a block, unless somebody else was faster.
func (c *blockCache) put(k blockKey, d *sealed.Data) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.blocks[k]; ok {
		return
	}
	c.blocks[k] = c.recent.PushFront(cachedBlock{k, d})
	for c.size += d.Size(); c.size > c.limit && c.recent.Len() > 1; {
		old := c.recent.Remove(c.recent.Back()).(cachedBlock)
		delete(c.blocks, old.key)
		c.size -= old.data.Size()
	}
}
