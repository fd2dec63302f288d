package settings

import (
	"math"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const bad = -1
	for s, want := range map[string]time.Duration{
		"PT30S": 30 * time.Second, "PT1M": time.Minute, "PT1H": time.Hour, "P1D": 24 * time.Hour, "P7D": 7 * 24 * time.Hour,
		"P1W": 7 * 24 * time.Hour, "P1M": 30 * 24 * time.Hour, "P1Y": 365 * 24 * time.Hour, "PT0S": 0,
		"P1Y2M3DT4H5M6S": (365+60+3)*24*time.Hour + 4*time.Hour + 5*time.Minute + 6*time.Second,
		"PT0.5S":         500 * time.Millisecond, "PT1.0019S": 1001 * time.Millisecond, "PT0.0005S": 0, "PT90M": 90 * time.Minute,
		"P10675199DT2H48M5.4775807S": event.Forever, "P10675199DT2H48M5.477S": event.Forever, "P200000D": event.Forever,
		"P106751D":                   106751 * 24 * time.Hour,
		"P10675199DT2H48M5.4775808S": bad, "P10675199DT2H48M6S": bad, "P99999999999999999999D": bad, "P9000000000000000000Y": bad,
		"": bad, "P": bad, "PT": bad, "P1DT": bad, "1D": bad, "PT1": bad, "P1S": bad, "PT1D": bad, "PT1M1H": bad, "PT1H1H": bad,
		"-PT1S": bad, "PT-1S": bad, "PT.5S": bad, "PT1.S": bad, "PT1.5M": bad, "PT1.5.5S": bad, "pt1m": bad, " PT1M": bad,
		"PT1M ": bad, "PTT1M": bad, "P1H": bad, "01:00:00": bad, "PT1é": bad,
	} {
		got, err := ParseDuration(s)
		if (err != nil) != (want == bad) || (err == nil && got != want) {
			t.Errorf("%q: got %v, %v, want %v", s, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"PT0S": 0, "PT30S": 30 * time.Second, "PT1M": time.Minute, "P1D": 24 * time.Hour, "P1DT1H": 25 * time.Hour,
		"PT0.5S": 500 * time.Millisecond, "PT1H1M1.001S": time.Hour + time.Minute + time.Second + time.Millisecond,
		event.LongestDuration: event.Forever,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"PT0S": 0, "PT0.0000001S": 1, "-PT0.0000001S": -1, "-P1DT1S": -864010000000, "PT1M30.5S": 905000000, event.LongestDuration: math.MaxInt64,
	} {
		got, err := parseTicks(s)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
		if again := string(event.AppendTicks(nil, want)); again != s {
			t.Errorf("%d is printed %q, want %q", want, again, s)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"PT1M", "P10675199DT2H48M5.4775807S", "P1Y2M3W4DT5H6M7.89S", "PT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 || (d != event.Forever && d%time.Millisecond != 0) {
			t.Fatalf("%q: %d; want d >= 0 && (d == event.Forever || d%%time.Millisecond == 0)", s, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Fatalf("%q: %v printed and read again is %v, %v", s, d, again, err)
		}
	})
}
