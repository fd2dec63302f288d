package excerpt

import (
	"bytes"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The replacement of a blob has its size, and can be read in the same role.
func TestSubstitute(t *testing.T) {
	t.Parallel()
	sizes := []int{131, 132, 133, 134, 255, 256, 300, 16_260, 16_261, 16_262, 16_263, 16_390, 100_000, 3 << 20}
	for n := range 300 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for _, of := range []role{isBody, isChanges, isState} {
			p := substitute(of, n, droppedNote)
			if len(p) != n {
				t.Fatalf("%d bytes for %d of %d", len(p), n, of)
			}
			if of == isChanges && n >= 4 {
				if c, err := event.ReadChanges(p); err != nil || c.Set != nil || c.System != nil {
					t.Fatalf("changes of %d bytes: %v", n, err)
				}
			}
			if of == isBody && n >= 5 {
				if data := payload(p); len(data) >= n || n > 60 && !bytes.HasPrefix(data, []byte(droppedNote)) {
					t.Fatalf("a body of %d bytes: %q", n, data)
				}
			}
		}
	}
}

// FuzzPayload: any stored bytes have a payload that is not longer.
func FuzzPayload(f *testing.F) {
	f.Add(body("x", 100))
	f.Add([]byte{0, 0x53, 0x73, 0xc0, 2, 1, 0x40, 0, 0x53, 0x77, 0xa1, 1, 'x'})
	f.Add([]byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x75, 0xb0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stored []byte) {
		if p := payload(stored); len(p) > len(stored) {
			t.Fatalf("%d bytes of %d", len(p), len(stored))
		}
		digest(stored)
	})
}
