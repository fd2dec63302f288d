package host

import (
	"testing"
	"testing/synctest"
	"time"
)

// docs/decisions/0003: a small frame behind a large one waits at most half as long as the large one took; equal frames and lone ones go at
// once.
func TestPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pacer{on: true}
		p.seal(500)
		time.Sleep(time.Millisecond)
		p.land()
		if got := p.wait(4, true); got != 500*time.Microsecond {
			t.Errorf("4 records behind 500 wait %v", got)
		}
		if got := p.wait(250, true); got != 0 {
			t.Errorf("250 records behind 500 wait %v", got)
		}
		time.Sleep(300 * time.Microsecond)
		if got := p.wait(4, true); got != 200*time.Microsecond {
			t.Errorf("later they wait %v", got)
		}
		p.seal(1)
		time.Sleep(time.Second) // a slow disk
		p.land()
		if p.wait(1, true) != 0 {
			t.Error("a lone record waits")
		}
		p.seal(100)
		time.Sleep(time.Second)
		p.land()
		if got := p.wait(1, true); got != maxPatience {
			t.Errorf("behind a slow frame it waits %v", got)
		}
		if got := p.wait(500, false); got != maxPatience {
			t.Errorf("what nobody waits for waits %v", got)
		}
		time.Sleep(maxPatience)
		if got := p.wait(1, false); got != 0 {
			t.Errorf("what nobody waits for waits %v after %v", got, maxPatience)
		}
	})
	if off := (&pacer{last: 500}); off.wait(1, false) != 0 {
		t.Error("a pacer that is off waits")
	}
}
