package servicebus

import (
	"testing"
	"time"
)

// A request with a deadline is found once it has passed, in whatever order they come and go, and not after it was answered.
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
