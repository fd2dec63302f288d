package servicebus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// While the session takes no transfers no message is locked for it, a drain is answered, and
// earlier locks are released with the credit.
func TestClosedWindow(t *testing.T) {
	window := func(p *peerConn, size, count, credit uint32, drain bool) {
		p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(count + 1), IncomingWindow: size, OutgoingWindow: 5000,
			Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(count), LinkCredit: amqp.Some(credit), Drain: drain}, nil)
	}
	t.Run("never open", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(3)
			window(p, 0, 0, 100, false)
			p.quiet(3 * time.Minute) // three times the lock duration
			p.attachReceiver(3, "q", amqp.SenderSettled)
			window(p, 100, 0, 100, false)
			for range 3 {
				if m := p.receive(); m.header.DeliveryCount.Value != 0 {
					t.Errorf("%+v; want m.header.DeliveryCount.Value == 0", m.header)
				}
			}
		})
	})
	t.Run("drain", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(0)
			window(p, 0, 0, 7, true)
			if f := expect[*amqp.Flow](p); f.DeliveryCount != amqp.Some(uint32(7)) || !f.Drain {
				t.Errorf("%+v; want f.DeliveryCount == amqp.Some(uint32(7)) && f.Drain", f)
			}
		})
	})
	t.Run("closes", func(t *testing.T) {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(5)
			window(p, 2, 0, 5, false)
			p.receive()
			p.receive()
			window(p, 0, 2, 0, false) // the other three come back
			synctest.Wait()
			p.attachReceiver(3, "q", amqp.SenderSettled)
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(3)), IncomingWindow: 10, OutgoingWindow: 5000,
				Handle: amqp.Some(uint32(3)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(3))}, nil)
			for range 3 {
				p.receive()
			}
		})
	})
}

// Credit is a number of deliveries, and counts are serial numbers: the largest of them are no less
// than nothing.
func TestLargeCredit(t *testing.T) {
	for _, credit := range []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(3)
			p.credit(2, 0, credit, false)
			for range 3 {
				p.receive()
			}
			p.credit(2, 0, 2, false) // less than has arrived
			p.send(1, 100, newMessage("x", "x"))
			p.quiet(time.Second)
		})
	}
}

// Credit beyond the limit of unsettled deliveries of a connection gets as many as there is room
// for, and more once deliveries are settled, on this link or on another one.
func TestCreditOverTheLimit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Locked = 2 }, func(b *bench) {
		p := b.loaded(5)
		p.attachReceiver(3, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 100, false)
		p.receive()
		p.receive()
		p.credit(3, 0, 100, false)
		p.quiet(time.Second)
		taken := map[uint32]int{}
		for id := range uint32(3) {
			p.settle(id, amqp.Accepted{}, true)
			transfer, _ := expectFrame[*amqp.Transfer](p)
			taken[transfer.Handle]++
		}
		if taken[2]+taken[3] != 3 || taken[3] == 0 {
			t.Errorf("of three deliveries %d went over the link that had two, and %d over the one that had none; want both to get some", taken[2], taken[3])
		}
	})
}

// Drains before the answer to the first one are one drain: otherwise each would cause the next,
// without end.
func TestDrainTwice(t *testing.T) {
	for _, credits := range [][]uint32{{10, 10}, {10, 12}, {12, 10}, {10, 10, 11, 10, 10}} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(0)
			var frames []byte
			for _, credit := range credits {
				frames = amqp.AppendFrame(frames, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000,
					Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(credit), Drain: true}, nil)
			}
			p.net.Write(frames)
			if f := expect[*amqp.Flow](p); f.DeliveryCount.Value != credits[len(credits)-1] || f.LinkCredit != amqp.Some(uint32(0)) || !f.Drain {
				t.Errorf("%v: %+v; want f.DeliveryCount.Value == credits[len(credits)-1] && f.LinkCredit == amqp.Some(uint32(0)) && f.Drain", credits, f)
			}
			p.quiet(time.Second)
		})
	}
}

// WP-123, WP-124, SM-044: drain.
func TestDrain(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.loaded(3)
		start := time.Now()
		p.credit(2, 0, 10, true)
		for range 3 {
			p.receive()
		}
		drained := func(count uint32) {
			t.Helper()
			f := expect[*amqp.Flow](p)
			if f.Handle != amqp.Some(uint32(2)) || f.LinkCredit != amqp.Some(uint32(0)) || !f.Drain || f.Echo || f.DeliveryCount != amqp.Some(count) {
				t.Errorf("%+v; want f.Handle == amqp.Some(uint32(2)) && f.LinkCredit == amqp.Some(uint32(0)) && f.Drain && !f.Echo && f.DeliveryCount == amqp.Some(count)", f)
			}
		}
		drained(10)
		p.credit(2, 10, 5, true) // nothing is there any more
		drained(15)
		if d := time.Since(start); d > 200*time.Millisecond {
			t.Errorf("%+v, want at most %+v", d, 200*time.Millisecond)
		}
		p.attachReceiver(3, "q", amqp.SenderUnsettled)
		p.send(1, 100, newMessage("x", "x"))
		p.quiet(time.Second) // the credit is gone
		p.credit(2, 15, 1, false)
		p.receive()
		p.credit(2, 16, 3, false) // credit after drains is not counted double
		for i := range uint32(5) {
			p.transfer(1, 200+i, newMessage("x", "x"))
		}
		n := 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			select {
			case r := <-p.in:
				if _, ok := r.p.(*amqp.Transfer); ok {
					n++
				}
			case <-time.After(100 * time.Millisecond):
			}
		}
		if n != 3 {
			t.Errorf("%d deliveries for a credit of 3", n)
		}
	})
}

// The engine gets the peer's credit in steps, and no more than there is room for. Its count stays
// ahead of the peer's by the deliveries that never reached the wire.
func TestCreditGrant(t *testing.T) {
	t.Parallel()
	var c credit
	grant := func(room int64, unsent int, want uint32, wanted bool) {
		t.Helper()
		if limit, drain, ok := c.grant(10, room, unsent); ok != wanted || limit != want || drain {
			t.Errorf("the engine is granted up to %d: %v, not %d: %v; drain: %v", limit, ok, want, wanted, drain)
		}
	}
	c.take(&amqp.Flow{LinkCredit: amqp.Some(uint32(30))})
	grant(10, 0, 10, true)
	for range 4 {
		c.assign()
		c.begin()
	}
	grant(10, 0, 0, false) // four more are less than half of ten
	c.assign()
	c.begin()
	grant(10, 0, 15, true)
	grant(0, 0, 5, true) // no flow: the credit is withdrawn
	c.assign()           // was on its way, and is released
	grant(10, 0, 16, true)
	c.take(&amqp.Flow{DeliveryCount: amqp.Some(uint32(5)), LinkCredit: amqp.Some(uint32(0))})
	if grant(10, 0, 6, true); c.left() != 0 {
		t.Errorf("the peer takes %d", c.left())
	}
}

// A step that nothing will make larger is sent, however small it is. When all deliveries were
// written and the engine has no credit left, a receiver that wants more than there is room for
// would otherwise get nothing.
func TestCreditOfLittleRoom(t *testing.T) {
	t.Parallel()
	var c credit
	c.take(&amqp.Flow{LinkCredit: amqp.Some(uint32(100))})
	if limit, _, ok := c.grant(10, 2, 0); limit != 2 || !ok {
		t.Fatalf("with room for two deliveries the engine is granted up to %d: %v; want 2", limit, ok)
	}
	for range 2 {
		c.assign()
	}
	if limit, _, ok := c.grant(10, 1, 2); ok {
		t.Errorf("while two deliveries are to be written the engine is granted up to %d; want nothing, for more room comes with each", limit)
	}
	c.begin()
	c.begin()
	if limit, _, ok := c.grant(10, 1, 0); limit != 3 || !ok {
		t.Errorf("one of the two was settled, and the engine is granted up to %d: %v; want 3", limit, ok)
	}
}

// A drain uses up the peer's credit once the engine has nothing more, unless the peer has changed
// its mind by then.
func TestCreditDrain(t *testing.T) {
	t.Parallel()
	var c credit
	drain := &amqp.Flow{LinkCredit: amqp.Some(uint32(5)), Drain: true}
	c.take(drain)
	if limit, drain, ok := c.grant(10, 10, 0); limit != 5 || !drain || !ok {
		t.Errorf("the engine gets %d, %v, %v, not a drain up to 5", limit, drain, ok)
	}
	if _, _, ok := c.grant(10, 10, 0); ok || c.finish() {
		t.Error("a drain is asked for again, or over, before it is answered")
	}
	c.assign()
	c.begin()
	c.take(&amqp.Flow{DeliveryCount: amqp.Some(uint32(1)), LinkCredit: amqp.Some(uint32(9)), Drain: true})
	if c.drained(0) || c.finish() {
		t.Error("the answer to a drain of less credit ends one of more")
	}
	if limit, drain, ok := c.grant(10, 10, 0); limit != 14 || !drain || !ok {
		t.Errorf("the engine gets %d, %v, %v, not a drain up to 14: it has used up 4 of which the peer does not know", limit, drain, ok)
	}
	if !c.drained(0) || !c.finish() || c.left() != 0 || c.count != 10 || c.finish() {
		t.Errorf("after a drain the delivery-count is %d and %d are left, not 10 and 0", c.count, c.left())
	}
}

// Credit that the peer gives during a drain is passed on after the drain's answer: the engine does
// not answer a drain that another flow has overtaken, and the next one would wait for that without
// end.
func TestCreditBehindDrain(t *testing.T) {
	t.Parallel()
	var c credit
	c.take(&amqp.Flow{LinkCredit: amqp.Some(uint32(5)), Drain: true})
	c.grant(10, 10, 0)
	for _, credit := range []uint32{9, 2} {
		c.take(&amqp.Flow{LinkCredit: amqp.Some(credit)})
		if limit, drain, ok := c.grant(10, 10, 0); ok {
			t.Errorf("while a drain goes on the engine gets %d, %v", limit, drain)
		}
	}
	if c.drained(0) || c.finish() {
		t.Error("the end of a drain that the peer does not want any more is told")
	}
	if limit, drain, ok := c.grant(10, 10, 0); limit != 7 || drain || !ok {
		t.Errorf("the engine gets %d, %v, %v, not 7: the drain used up 5 of which the peer does not know", limit, drain, ok)
	}
	c.take(&amqp.Flow{LinkCredit: amqp.Some(uint32(2)), Drain: true})
	if limit, drain, ok := c.grant(10, 10, 0); limit != 7 || !drain || !ok {
		t.Errorf("the engine gets %d, %v, %v, not the next drain, up to 7", limit, drain, ok)
	}
}
