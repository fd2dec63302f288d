package format

import "testing"

// TestPrefix: every length has exactly one prefix, which is the one that tidwall/wal reads.
func TestPrefix(t *testing.T) {
	t.Parallel()
	check := func(length uint32) {
		var p [PrefixSize]byte
		u := putPrefix(p[:], length)
		fits := 0
		for n := 1; n < PrefixSize; n++ {
			v := uint64(length) + uint64(PrefixSize-n)
			if size := len(le.AppendUint64(nil, v)); size == 8 && uvarintLen(v) == n {
				fits++
			}
		}
		if fits != 1 || u != uvarintLen(uint64(length)+uint64(PrefixSize-u)) || !prefixOK(p[:], length) {
			t.Fatalf("length %d: %d bytes, %d fit", length, u, fits)
		}
	}
	for length := uint32(headerSize); length < 1<<22; length += 8 {
		check(length)
	}
	for length := uint32(1<<28 - 1<<12); length < 1<<28+1<<12; length += 8 {
		check(length)
	}
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
