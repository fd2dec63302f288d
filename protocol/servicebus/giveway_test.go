package servicebus

import (
	"testing"
	"testing/synctest"
	"time"
)

// P23: a connection that works for long lets others run, once for each piece of work, and one with
// little to do does not.
func TestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own turns
		began := time.Now()
		for _, step := range []struct {
			work time.Duration
			want bool
		}{{0, false}, {fairTurn, false}, {time.Microsecond, true}, {fairTurn / 2, false}, {fairTurn, true}} {
			before := own.last
			time.Sleep(step.work)
			own.giveWay(began)
			if gave := !own.last.Equal(before); gave != step.want {
				t.Errorf("after %v more it gives way: %v", step.work, gave)
			}
		}
		time.Sleep(time.Hour)
		began = time.Now() // a new turn
		before := own.last
		if own.giveWay(began); !own.last.Equal(before) {
			t.Error("it gives way for the time in which it had nothing to do")
		}
	})
}
