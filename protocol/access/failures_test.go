package access

import (
	"fmt"
	"testing"
	"time"
)

// S13: some failures are free, each further one costs a second, and too many cost a minute.
func TestFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	f := NewFailures(2, 4)
	for i, want := range []time.Duration{0, 0, time.Second, time.Second} {
		if f.Refused("a", now) {
			t.Fatalf("refused after %d", i)
		}
		if wait, refused := f.Failed("a", now); wait != want || refused != (i == 3) {
			t.Errorf("failure %d: %v %t", i+1, wait, refused)
		}
		now = now.Add(time.Second)
	}
	if !f.Refused("a", now) || f.Refused("b", now) {
		t.Error("a is not refused, or b is")
	}
	// a minute after the last failure
	if now = now.Add(time.Minute - time.Second); f.Refused("a", now) {
		t.Error("refused for more than a minute")
	}
	if wait, _ := f.Failed("a", now); wait != 0 {
		t.Errorf("the count goes on: %v", wait)
	}
	for i := range manyAddresses + 2 {
		f.Failed(fmt.Sprint(i), now)
	}
	f.Failed("last", now.Add(failureWindow))
	if n := len(f.byHost); n > 2 {
		t.Errorf("%d addresses remembered", n)
	}
}
