package log

import (
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/sealed"
	"github.com/ledgerbus/ledgerbus/test/fixed"
)

// blockOf is a block with one stretch of that many bytes, decompressed.
func blockOf(t *testing.T, bytes int) *sealed.Data {
	t.Helper()
	raw := append(binary.AppendUvarint([]byte{1, 0}, uint64(bytes)), make([]byte, bytes)...)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := z.EncodeAll(raw, nil)
	b := sealed.Block{First: 8, Stored: uint32(len(stored)), Raw: uint32(len(raw)), Sum: event.Sum(stored)}
	d, err := b.Decode(stored, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Decision 41: blocks beyond the least are taken from memory before they are decompressed; without
// memory a new one takes the place of another, and when there is less memory than was taken blocks
// are dropped.
func TestF22BlockCacheTakesMemory(t *testing.T) {
	t.Parallel()
	data := blockOf(t, 60<<10)
	block := data.Size()
	budget := &fixed.Memory{T: t, All: 16 * block}
	c := newBlockCache(sealedCacheBytes, budget)
	reads := 0
	load := func(n int) {
		t.Helper()
		_, err := c.load(blockKey{block: n}, block, func() (*sealed.Data, error) {
			reads++
			if len(c.blocks)*block+block != c.size || c.size-leastCacheBytes > budget.Taken {
				t.Fatalf("block %d is read when %d bytes are counted and %d taken", n, c.size, budget.Taken)
			}
			return data, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, blocks, taken int) {
		t.Helper()
		if len(c.blocks) != blocks || c.size != blocks*block || budget.Taken != taken {
			t.Fatalf("%s: %d blocks of %d bytes are kept, want %d; %d bytes are taken, want %d", when, len(c.blocks), c.size, blocks, budget.Taken, taken)
		}
	}
	for n := range leastCacheBytes / block {
		load(n)
	}
	expect("the least needs no memory", leastCacheBytes/block, 0)
	for n := range 100 {
		load(n)
	}
	expect("there is room for 16 more", leastCacheBytes/block+16, (leastCacheBytes/block+16)*block-leastCacheBytes)
	load(99)
	if reads != 100 {
		t.Errorf("%d blocks were read, want 100", reads)
	}
	budget.All = 8 * block
	c.spare()
	expect("there is half of it", leastCacheBytes/block+8, (leastCacheBytes/block+8)*block-leastCacheBytes)
	budget.All = 0
	c.spare()
	expect("there is none", leastCacheBytes/block, 0)
	load(100)
	expect("there is none, and one is read", leastCacheBytes/block, 0)
	c.clear()
	expect("it is closed", 0, 0)
	budget.All = 1 << 30
	for n := range 200 {
		load(n)
	}
	expect("there is plenty", sealedCacheBytes/block, sealedCacheBytes/block*block-leastCacheBytes)
}
