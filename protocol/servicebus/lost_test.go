package servicebus

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-007: the refusal to settle a delivery again names the delivery's entity, whichever of several
// links it came on; for a delivery that never was it names the only entity there is.
func TestLostNamesEntity(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		names := func(id uint32, entity string) {
			t.Helper()
			p.settle(id, amqp.StateAccepted, false)
			d := expect[*amqp.Disposition](p)
			if r, ok := d.State.(amqp.Rejected); !ok || d.First != id || d.Last.Or(id) != id || !strings.Contains(r.Error.Description, ", SystemTracker:ns"+entity+", ") {
				t.Errorf(`%+v; want ok && d.First == id && d.Last.Or(id) == id && strings.Contains(r.Error.Description, ", SystemTracker:ns"+entity+", ")`, d)
			}
		}
		b.put("q", newMessage("1", "x"), newMessage("2", "x"), newMessage("3", "x"))
		b.put("q2", newMessage("1", "x"), newMessage("2", "x"))
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		names(99, ":q")
		p.attachReceiver(3, "q2", amqp.SenderUnsettled)
		names(99, "")
		var ids []uint32
		var tokens []amqp.UUID
		for i, handle := range []uint32{2, 3, 2, 3, 2} {
			p.credit(handle, uint32(i)/2, 1, false)
			m := p.receive()
			ids, tokens = append(ids, m.id), append(tokens, uuidOf(m.tag))
		}
		for _, i := range []int{0, 1, 4, 3} {
			p.settle(ids[i], amqp.StateAccepted, false)
			p.outcome(ids[i], amqp.StateAccepted)
		}
		p.attachManagement("q")
		p.disposed(200, "", "completed", tokens[2:3])
		for i, entity := range []string{":q", ":q2", ":q", ":q2", ":q"} {
			names(ids[i], entity)
		}
		p.detach(3)
		names(ids[3], ":q2")
	})
}

// A table of entities of deliveries forgets the oldest, and finds numbers that wrap around.
func TestIDOwners(t *testing.T) {
	var o idOwners
	for i := range uint32(3 * maxRanges) {
		o.note(10*i, "q")
	}
	o.note(1<<32-1, "q2")
	o.note(0, "q2")
	of := func(id uint32) string {
		path, _ := o.run(id, 1)
		return path
	}
	if n := len(o); n > maxRanges || of(0) != "q2" || of(10) != "" || of(1<<32-1) != "q2" || of(10*(3*maxRanges-1)) != "q" || of(5) != "" {
		t.Errorf("%d ranges: %q %q", n, of(0), of(10))
	}
}

// The result for a run is the same as the results for each of its ids, including numbers that wrap
// around.
func TestIDRangesRun(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var set idRanges
		in := map[uint32]bool{}
		base := uint32(1<<32 - 100)
		for id := base; id != base+200; id++ {
			if rng.IntN(3) > 0 {
				set.note(id)
				in[id] = true
			}
		}
		for id := base - 20; id != base+220; {
			has, run := set.run(id, base+220-id)
			if run == 0 {
				t.Fatalf("an empty run at %d", id)
			}
			for range run {
				if in[id] != has {
					t.Fatalf("%d: %v; want in[id] == has", id, has)
				}
				id++
			}
		}
	}
}
