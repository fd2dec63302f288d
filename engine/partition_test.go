package engine

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
)

// The numbers of origins are a cache, bounded by the bytes it takes: texts of peers do not stay for ever.
func TestOriginsAreBounded(t *testing.T) {
	t.Parallel()
	p := NewPartition(1, 1, index.New())
	for n := range 3000 {
		o := &Origin{Connection: uint64(n), Link: strings.Repeat("l", 60_000)}
		p.Decide(1, &Tick{})
		id := p.origin(o)
		for _, ev := range p.out {
			p.Apply(1, ev)
		}
		if again := p.origin(o); again != id {
			t.Fatalf("origin %d is %d and %d", n, id, again)
		}
		total := 0
		for o := range p.origins {
			total += bytesOf(o)
		}
		if total != p.originBytes || total > maxOriginBytes {
			t.Fatalf("after %d: %d bytes, counted as %d", n, total, p.originBytes)
		}
	}
}
