package servicebus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A disposition in the state received is not an outcome, whatever the number of its deliveries:
// they stay with the receiver, and can be settled after it, in any order. Settled ones are answered
// as lost.
func TestReceivedState(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(5)
		p.credit(2, 0, 5, false)
		var ids []uint32
		for range 5 {
			ids = append(ids, p.receive().id)
		}
		for _, last := range []uint32{ids[0], ids[4], ids[0] + 1<<19} {
			for _, state := range []amqp.DeliveryState{amqp.Received{}, nil} {
				p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: ids[0], Last: amqp.Some(last), State: state}, nil)
			}
		}
		p.quiet(time.Second)
		p.settle(ids[2], amqp.StateAccepted, false)
		p.outcome(ids[2], amqp.StateAccepted)
		p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: ids[0], Last: amqp.Some(ids[4]), Settled: true, State: amqp.StateAccepted}, nil)
		p.settle(ids[3], amqp.StateAccepted, false)
		if d := expect[*amqp.Disposition](p); d.First != ids[3] || d.State.(amqp.Rejected).Error.Condition != amqp.CondMessageLockLost {
			t.Errorf("%+v; want d.First == ids[3] && d.State.(amqp.Rejected).Error.Condition == amqp.CondMessageLockLost", d)
		}
	})
}

// Deliveries are found by ranges as they are by looking at each, whatever has been settled and
// where the numbers wrap around, and a range over gaps is gone over in single steps once.
func TestUnsettledIn(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	c := &conn{}
	s := &session{c: c}
	l := &link{c: c, s: s, receiver: &receiver{}}
	next := uint32(1<<32 - 3000)
	waiting := map[uint32]bool{}
	naive := func(first, n uint32) (ids []uint32) {
		for i := range n + 1 {
			if waiting[first+i] {
				ids = append(ids, first+i)
			}
		}
		return ids
	}
	for range 20_000 {
		if rng.IntN(3) > 0 {
			if rng.IntN(4) > 0 { // else it was sent settled
				s.waits(next, unsettledDelivery{link: l})
				waiting[next] = true
			}
			next++
			continue
		}
		first, n := next-uint32(rng.IntN(4000)), uint32(rng.IntN(2000))
		got := s.unsettled.in(nil, first, n)
		for range 10 {
			if id := next - uint32(rng.IntN(4000)); (s.unsettled.find(id) != nil) != waiting[id] {
				t.Fatalf("%d is found: %v; it waits: %v", id, !waiting[id], waiting[id])
			}
		}
		if want := naive(first, n); !slices.Equal(got, want) {
			t.Fatalf("%d from %d on: %v, not %v", n+1, first, got, want)
		}
		for _, id := range got {
			if d := s.unsettled.find(id); rng.IntN(3) > 0 {
				s.forget(d)
				delete(waiting, id)
			}
		}
	}
	if n := len(s.unsettled.list); n > 64+4*len(waiting) || c.outstanding.count != len(waiting) || l.receiver.unsettled != c.outstanding.count || s.unsettled.count != c.outstanding.count {
		t.Errorf("%d entries for %d deliveries; %d, %d and %d are counted", n, len(waiting), c.outstanding.count, l.receiver.unsettled, s.unsettled.count)
	}
	s.forgetAll()
	for range 50_000 {
		s.waits(next, unsettledDelivery{link: l})
		next++
	}
	received := &amqp.Disposition{Role: amqp.RoleReceiver, First: next - 50_000, Last: amqp.Some(next - 1), State: amqp.Received{}}
	if n := testing.AllocsPerRun(5, func() { s.disposition(received) }); n != 0 || s.unsettled.count != 50_000 {
		// it looks at none of them
		t.Errorf("a disposition that settles nothing makes %v allocations", n)
	}
	for d := range s.unsettled.all() {
		if d.id != next-50_000 && d.id != next-1 {
			s.forget(d)
		}
	}
	if got := s.unsettled.in(nil, next-49_999, 49_997); len(got) != 0 || s.unsettled.list[1].gap != 49_998 {
		t.Errorf("%d are found; the gap is %d", len(got), s.unsettled.list[1].gap)
	}
	s.forgetAll()
	if c.outstanding.count != 0 || s.unsettled.list != nil {
		t.Errorf("%d are left, with room for %d", c.outstanding.count, cap(s.unsettled.list))
	}
}
