package event

import (
	"math"
	"testing"
	"time"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	year1 := TimeOf(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		ticks int64
		want  Time
		exact bool // the ticks are those of the millisecond
	}{
		{0, year1, true},
		{1, year1, false},
		{epochTicks - TicksPerMillisecond - 1, -2, false},
		{epochTicks - TicksPerMillisecond, -1, true},
		{epochTicks - 1, -1, false},
		{epochTicks, 0, true},
		{epochTicks + TicksPerMillisecond - 1, 0, false},
		{638505760890100000, TimeOf(time.Date(2024, 5, 6, 7, 8, 9, 10e6, time.UTC)), true},
		{MaxTicks, EndOfTime, false},
		{EndOfTime.Ticks(), EndOfTime, true},
	} {
		if got := FromTicks(c.ticks); got != c.want {
			t.Errorf("%d ticks are %d, want %d", c.ticks, got, c.want)
		}
		if got := c.want.Ticks(); (got == c.ticks) != c.exact {
			t.Errorf("%d has %d ticks, exactly %d: %t", c.want, got, c.ticks, c.exact)
		}
		std := StdFromTicks(c.ticks)
		if got := std.Sub(c.want.Std()); got != time.Duration(c.ticks-c.want.Ticks())*Tick || std.Location() != time.UTC {
			t.Errorf("%d ticks are %v", c.ticks, std)
		}
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC); !StdFromTicks(MaxTicks).Equal(last) {
		t.Errorf("%v, want %v", StdFromTicks(MaxTicks), last)
	}
}

func TestInstantOf(t *testing.T) {
	t.Parallel()
	for at, want := range map[Time]int64{
		math.MinInt64: 0, -62_135_596_800_001: 0, -62_135_596_800_000: 0, -62_135_596_799_999: TicksPerMillisecond,
		0: epochTicks, EndOfTime: MaxTicks - 9_999, EndOfTime + 1: MaxTicks - 9_999, math.MaxInt64: MaxTicks - 9_999,
	} {
		if got := InstantOf(at); got != (Value{Type: Instant, Bits: uint64(want)}) {
			t.Errorf("%d is %+v, want %d", at, got, want)
		}
	}
}
