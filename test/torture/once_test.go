package torture

import (
	"testing"
)

// once is what the client in receive-and-delete mode saw. There is one at a time, and messages come
// in the order of their numbers, so what was on its way when it lost its connection is a gap in the
// numbers behind its last message, and no other gap is allowed.
type once struct {
	numbers []int64 // of the messages, as they came
	some    bool    // this client got any
	kills   int     // since the last client ended
	// by the highest number so far: how often a client lost its connection there
	ends map[int64]int
}

// onTheWay is how many messages may be lost with a client: those it asked for, and as many that
// wait in the SDK.
const onTheWay = 2 * credit

// killed writes down that the broker is about to be killed.
func (l *ledger) killed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once.kills++
}

// tookLast writes down that a client in receive-and-delete mode ended, of its own accord or not.
func (l *ledger) tookLast(left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.once
	// kills while no client got anything: one of them may have met a client that had asked already
	times := o.kills
	if o.some || left {
		times = max(times, 1)
	}
	if n := len(o.numbers); n > 0 {
		o.ends[o.numbers[n-1]] += times
	} else {
		o.ends[0] += times
	}
	o.some, o.kills = false, 0
}

// gaps compares the numbers received in receive-and-delete mode with where clients lost their
// connections. It returns how many messages went away so, in all and at most at once.
func (l *ledger) gaps() (all, most int) {
	last := int64(0)
	for _, n := range l.once.numbers {
		switch missing := int(n - last - 1); {
		case n <= last:
			l.broken("I12 numbers", "number %d of %s came after %d", n, onceQueue, last)
		case missing > onTheWay*l.once.ends[last]:
			l.broken("I1 no loss", "%d messages of %s are missing behind number %d, where %d clients lost their connections", missing, onceQueue, last, l.once.ends[last])
			fallthrough
		default:
			all, most = all+missing, max(most, missing)
		}
		last = max(last, n)
	}
	return all, most
}

// The ledger finds a lost message of receive-and-delete mode among those that were on their way
// when the broker was killed.
func TestLedgerOfOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		killedAt int64   // after this number was received
		took     []int64 // of 60 messages sent with ok
		broken   string
	}{
		"all came":                    {0, span(1, 60), ""},
		"some on their way":           {10, append(span(1, 10), span(31, 60)...), ""},
		"too many":                    {10, append(span(1, 10), span(60, 60)...), "I1 no loss"},
		"one that was not on its way": {10, append(span(1, 20), span(22, 60)...), "I1 no loss"},
		"its number was given again":  {10, span(1, 59), "I1 no loss"},
		"out of order":                {10, append(span(1, 20), span(15, 60)...), "I12 numbers"},
	} {
		l := newLedger()
		ids := l.sending(onceQueue, 0, 0, 60, "")
		l.sentAs(ids, nil)
		for _, n := range c.took {
			l.messages[ids[n-1]].taken++
			l.once.numbers, l.once.some = append(l.once.numbers, n), true
			if n == c.killedAt {
				l.killed()
				l.tookLast(false)
			}
		}
		l.close()
		if (len(l.faults) > 0) != (c.broken != "") || c.broken != "" && l.faults[c.broken] == nil {
			t.Errorf("%s: %v, want %q", name, l.faults, c.broken)
		}
	}
}

func span(from, to int64) (list []int64) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}
