package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
)

// As long as its link lives, an origin is defined in the log only once, with the first command that
// comes from it.
func TestOriginIsDefinedOnce(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	x := h.loop.part.Index()
	before := x.NextOrigin()
	one, other := &engine.Origin{Link: "one"}, &engine.Origin{Link: "other"}
	for _, from := range []*engine.Origin{one, one, other, one, other} {
		if r := h.ask(&engine.Send{Slice: handEntity, Origin: from, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := x.NextOrigin() - before; n != 2 {
		t.Errorf("two links have %d origins", n)
	}
}
