package servicebus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-161, 6.2: a request that takes longer than the client waits is answered 408, and not again;
// locks it took meanwhile are released.
func TestServerTimeout(t *testing.T) {
	for _, test := range []struct {
		timeout amqp.Pair
		after   time.Duration
	}{
		{amqp.Pair{Key: "server-timeout", Value: uint64(5000)}, 5 * time.Second},
		{amqp.Pair{Key: "com.microsoft:server-timeout", Value: uint32(7000)}, 7 * time.Second},
		{amqp.Pair{Key: "com.microsoft:server-timeout", Value: int64(500)}, 500 * time.Millisecond},
	} {
		bubble(t, nil, func(b *bench) {
			p := b.loaded(1)
			p.deferAll(1)
			p.attachManagement("q")
			body := byNumber(uint32(1), int64(1))
			b.broker.hold(func() {
				start := time.Now()
				p.request("late", "com.microsoft:receive-by-sequence-number", body, test.timeout)
				status, properties, _ := p.managed("late")
				if c, _ := properties.Get("errorCondition"); status != 408 || c != amqp.CondTimeout || time.Since(start) != test.after {
					t.Errorf("%+v after %v", properties, time.Since(start))
				}
			})
			synctest.Wait()
			p.quiet(time.Second)
			// it is not locked
			p.managedWith(200, "", "receive-by-sequence-number", body, test.timeout)
			p.quiet(10 * time.Second)
		})
	}
}

// Requests that say nothing of a time, or none that is one, wait.
func TestNoServerTimeout(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("a", "x"))
		p := b.root()
		p.attachManagement("q")
		for _, more := range [][]amqp.Pair{nil, {{Key: "server-timeout", Value: uint32(0)}}, {{Key: "server-timeout", Value: int32(-1)}}, {{Key: "server-timeout", Value: "5"}}} {
			b.broker.hold(func() {
				p.request("m", "com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}}, more...)
				p.quiet(70 * time.Second)
			})
			if status, _, _ := p.managed("m"); status != 200 {
				t.Errorf("%+v, want 200", status)
			}
		}
	})
}

// WP-184: two requests under way on one pair are both answered, each when it is done.
func TestTwoRequests(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("a", "x"))
		p := b.root()
		p.attachManagement("q")
		b.broker.hold(func() {
			p.request("slow", "com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}})
			p.request("fast", "com.microsoft:what", nil)
			if status, _, _ := p.managed("fast"); status != 501 {
				t.Errorf("%+v, want 501", status)
			}
		})
		if status, _, _ := p.managed("slow"); status != 200 {
			t.Errorf("%+v, want 200", status)
		}
	})
}

// A request with a deadline is found once it has passed, in whatever order they come and go, and
// not after it was answered.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	var d deadlines
	start := time.Unix(1000, 0)
	requests := make([]*request, 6)
	for i, seconds := range []int{3, 1, 5, 2, 4, 6} {
		requests[i] = &request{}
		d.add(requests[i], start.Add(time.Duration(seconds)*time.Second))
	}
	d.remove(requests[1])
	d.remove(requests[1]) // it has none any more
	if next := d.next(); !next.Equal(start.Add(2 * time.Second)) {
		t.Errorf("the next deadline is %v", next)
	}
	passed := map[*request]bool{}
	for _, req := range d.passed(start.Add(4 * time.Second)) {
		passed[req] = true
	}
	for i, want := range []bool{true, false, false, true, true, false} {
		if passed[requests[i]] != want {
			t.Errorf("the deadline of request %d has passed: %v, not %v", i, passed[requests[i]], want)
		}
	}
	d.remove(requests[2])
	d.remove(requests[5])
	if next := d.next(); !next.IsZero() || len(d.requests) > 0 {
		t.Errorf("the next deadline is %v, of %d requests", next, len(d.requests))
	}
}
