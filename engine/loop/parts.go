package loop

import (
	"iter"
	"math/bits"
)

// parts is a set of partitions of an entity, a bit for each.
type parts uint16

// after returns the next partition of the set after a given one; the first comes after the last.
// false: the set is empty.
func (p parts) after(partition uint8) (next uint8, ok bool) {
	if p == 0 {
		return 0, false
	}
	if behind := p >> partition >> 1; behind != 0 {
		return partition + 1 + uint8(bits.TrailingZeros16(uint16(behind))), true
	}
	return uint8(bits.TrailingZeros16(uint16(p))), true
}

func (p parts) has(partition uint8) bool { return p>>partition&1 != 0 }

// all yields the partitions in order.
func (p parts) all() iter.Seq[uint8] {
	return func(yield func(uint8) bool) {
		for ; p != 0; p &= p - 1 {
			if !yield(uint8(bits.TrailingZeros16(uint16(p)))) {
				return
			}
		}
	}
}
