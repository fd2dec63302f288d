package event

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestParseTicks(t *testing.T) {
	t.Parallel()
	const day = 86400 * TicksPerSecond
	for s, want := range map[string]int64{
		"PT0S": 0, "P0D": 0, "PT0.0000001S": 1, "-PT0.0000001S": -1, "PT0.00000009S": 0, "PT1.123456789S": 11234567, "P007D": 7 * day,
		"P1Y2M3W4DT5H6M7.5S": (365+60+21+4)*day + (5*3600+6*60+7)*TicksPerSecond + 5_000_000, "-P1DT1S": -day - TicksPerSecond,
		"P1.5D": 36 * 3600 * TicksPerSecond, "PT0.5H": 1800 * TicksPerSecond, "P1DT1.5M": day + 90*TicksPerSecond,
		LongestDuration: math.MaxInt64, LongestDuration[:len(LongestDuration)-1] + "00S": math.MaxInt64, "-" + LongestDuration: -math.MaxInt64,
		"P10675199DT2H48M5.4775806S": math.MaxInt64 - 1,
	} {
		if got, err := ParseTicks(s); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]int64{
		"P10675199DT2H48M5.4775808S": math.MaxInt64, "P10675199DT2H48M5.47758071S": math.MaxInt64, "P10675199DT2H48M6S": math.MaxInt64,
		"P99999999999999999999D": math.MaxInt64, "-P9000000000000000000YT1S": -math.MaxInt64,
	} {
		if got, err := ParseTicks(s); got != want || !errors.Is(err, ErrLongDuration) {
			t.Errorf("%q: %d, %v, want %d: %v", s, got, err, want, ErrLongDuration)
		}
	}
	for _, s := range []string{
		"", "-", "P", "PT", "P1", "PT1", "P1DT", "P1.5DT1S", "P1.5W", "P1.5M", "P1S", "P1H", "PT1D", "PT1M1H", "PT1S1S", "P1TT1S", "PT1.S",
		"PT.5S", "PT1.5M3S", "PT1.2.3S", "PT1..2S", "PTS", "PT-5S", "+PT5S", "--PT1S", "pt5s", "P T1S", "PT1M ", "00:01:00", "PT１S", "PT1é",
	} {
		if got, err := ParseTicks(s); got != 0 || !errors.Is(err, ErrNotDuration) {
			t.Errorf("%q: %d, %v, want %v", s, got, err, ErrNotDuration)
		}
	}
}

func TestAppendDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"PT0S": 0, "P1D": 24 * time.Hour, "P1DT1H": 25 * time.Hour, "PT1H": time.Hour, "P1DT1S": 24*time.Hour + time.Second, "PT1H0.5S": time.Hour + 500*time.Millisecond,
		"-PT5S": -5 * time.Second, "PT0.0000001S": 199, LongestDuration: Forever,
	} {
		if got := string(AppendDuration(nil, d)); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	if got := string(AppendTicks(nil, math.MinInt64)); got != "-P10675199DT2H48M5.4775808S" {
		t.Errorf(`%+v, want "-P10675199DT2H48M5.4775808S"`, got)
	}
}
