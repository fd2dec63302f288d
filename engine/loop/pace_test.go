package loop

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
)

// docs/decisions/0003: a small frame after a large one waits at most half as long as the large one
// took; equal frames and lone ones do not wait.
func TestPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pacer{on: true}
		p.seal(500)
		time.Sleep(time.Millisecond)
		p.land(0, false)
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
		p.land(0, false)
		if p.wait(1, true) != 0 {
			t.Error("a lone record waits")
		}
		p.seal(100)
		time.Sleep(time.Second)
		p.land(0, false)
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

// docs/decisions/0066: while other logs are busy, a large group waits until as many records have
// come as the one before had, for at most twice the syncs of the others; small groups, and a log
// that is busy alone, do not wait.
func TestPacerBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logs BusyLogs
		p, other, third := pacer{on: true, logs: &logs}, pacer{on: true, logs: &logs}, pacer{on: true, logs: &logs}
		lands := func(records, meanwhile int) {
			p.seal(records)
			time.Sleep(500 * time.Microsecond)
			p.land(meanwhile, meanwhile > 0)
		}
		waits := func(what string, records int, want time.Duration) {
			t.Helper()
			if got := p.wait(records, true); got != want {
				t.Errorf("%s: %d records wait %v, not %v", what, records, got, want)
			}
		}
		lands(100, 60)
		waits("alone", 60, 0)
		other.seal(5)
		waits("beside one", 60, time.Millisecond)
		waits("beside one", 159, time.Millisecond)
		waits("as many have come", 160, 0)
		if got := p.missingRecords(110); got != 50 {
			t.Errorf("110 records, of which 60 came during the sync of 100, lack %d", got)
		}
		third.seal(5)
		waits("beside two", 60, 2*time.Millisecond)
		time.Sleep(1500 * time.Microsecond)
		waits("beside two, later", 60, 500*time.Microsecond)
		third.end()
		waits("one of them has ended", 60, 0)
		lands(largeGroup-1, 4)
		waits("behind a small group", 4, 0)
		lands(100, 60)
		if got := p.missingRecords(20); got != 80 {
			t.Errorf("20 records, when those that came during the sync of 100 needed none, lack %d", got)
		}
		other.land(0, false)
		waits("the other has nothing more", 60, 0)
		if n := logs.n.Load(); n != 1 {
			t.Errorf("%d logs are busy, not 1", n)
		}
		if p.end(); logs.n.Load() != 0 || p.wait(1, true) != 0 {
			t.Error("a pacer that has ended is counted, or waits")
		}
	})
}

// Sends that a group waits for do not wake its loop until there are enough of them; any other
// request does, and so does a send when the loop waits for nothing.
func TestMailboxGathers(t *testing.T) {
	t.Parallel()
	m := newMailbox()
	woken := func() bool {
		select {
		case <-m.wake:
			return true
		default:
			return false
		}
	}
	send, other := []engine.Request{{Command: &engine.Send{}}}, []engine.Request{{Command: &pingCommand{}}}
	if m.put(send); !woken() {
		t.Error("a send does not wake a loop that waits for nothing")
	}
	if m.put(send); woken() {
		t.Error("a loop that was woken is woken again")
	}
	m.take(nil)
	m.gather(3)
	if m.put(send); woken() {
		t.Error("one send of three wakes the loop")
	}
	if m.put(send); woken() {
		t.Error("two sends of three wake the loop")
	}
	if m.put(send); !woken() {
		t.Error("the third send does not wake the loop")
	}
	if got := m.take(nil); len(got) != 3 {
		t.Errorf("%d sends were there, not 3", len(got))
	}
	m.gather(3)
	m.put(send)
	if took, _ := m.offer(other); !took || !woken() {
		t.Error("another request does not wake the loop")
	}
	m.take(nil)
	if m.put(send); !woken() {
		t.Error("gathering lasts longer than to the next take")
	}
}
