package document

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// MA-048, MA-049: durations as clients write them, and as the service does.
func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		text  string
		want  time.Duration
		shown string
	}{
		{"PT60S", time.Minute, "PT1M"},
		{"PT1M", time.Minute, "PT1M"},
		{"PT24H", day, "P1D"},
		{"P1D", day, "P1D"},
		{"P2W", 14 * day, "P14D"},
		{"P1DT2H3M4S", day + 2*time.Hour + 3*time.Minute + 4*time.Second, "P1DT2H3M4S"},
		{"P1DT0H0M0S", day, "P1D"},
		{"PT0S", 0, "PT0S"},
		{"P0D", 0, "PT0S"},
		{"PT1.5S", 1500 * time.Millisecond, "PT1.5S"},
		{"PT0.0000001S", 100, "PT0.0000001S"},
		{"PT1.123456789S", 1123456700, "PT1.1234567S"},
		{"PT1.5M", 90 * time.Second, "PT1M30S"},
		{"PT0.5H", 30 * time.Minute, "PT30M"},
		{"PT300S", 5 * time.Minute, "PT5M"},
		{"P007D", 7 * day, "P7D"},
		{"-PT5S", -5 * time.Second, "-PT5S"},
		{"P10675199DT2H48M5.4775807S", event.Forever, event.LongestDuration},
		{"P10675199DT2H48M5.477539S", event.Forever, event.LongestDuration},
		{"PT256204778H48M5.4775807S", event.Forever, event.LongestDuration},
		{"P10675199D", event.Forever, event.LongestDuration},
		{"P99999999999D", event.Forever, event.LongestDuration},
		{"P200000D", event.Forever, event.LongestDuration}, // longer than a time.Duration
		{"P106751D", 106751 * day, "P106751D"},
	} {
		d, ok := ParseDuration(c.text)
		if !ok || d != c.want {
			t.Errorf("%s: %d %t, not %d", c.text, d, ok, c.want)
		}
		if shown := string(event.AppendDuration(nil, d)); shown != c.shown {
			t.Errorf("%s: shown as %s, not %s", c.text, shown, c.shown)
		}
	}
	for _, bad := range []string{
		"", "P", "PT", "P1", "1D", "P1DT", "P1Y", "P1M", "P1Y2M", "PT1D", "P1H", "PT1M1H", "PT1S1S", "PT1.S", "PT.5S", "PT1.5M3S", "P1.5W",
		"PT1,5S", "PT-5S", "+PT5S", "pt5s", "PTS", "PT1.2.3S", "P T1S", "00:01:00", "P1TT1S", "--PT1S", "PT１S",
	} {
		if d, ok := ParseDuration(bad); ok {
			t.Errorf("%q is %v", bad, d)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	if s := string(appendTime(nil, 0)); s != "0001-01-01T00:00:00Z" {
		t.Errorf(`%+v, want "0001-01-01T00:00:00Z"`, s)
	}
	if s := string(appendTime(nil, 1767225600123)); s != "2026-01-01T00:00:00.123Z" {
		t.Errorf(`%+v, want "2026-01-01T00:00:00.123Z"`, s)
	}
	if at, ok := parseTime("2026-01-01T00:00:00.123Z"); !ok || at != 1767225600123 {
		t.Errorf("%+v %+v; want ok && at == 1767225600123", at, ok)
	}
	if at, ok := parseTime("0001-01-01T00:00:00"); !ok || at != 0 {
		t.Errorf("%+v %+v; want ok && at == 0", at, ok)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Version{
		"2013-07": V2017, "2017-04": V2017, "2021-04": V2017, "2021-05": V2021, "2022-12": V2021, "2024-04": V2021, "2024-05": V2024, "2031-01": V2024,
	} {
		if v, ok := ParseVersion(s); !ok || v != want {
			t.Errorf("%s: %d %t; want ok && v == want", s, v, ok)
		}
	}
	for _, s := range []string{"", "2013-06", "2021-5", "2021-13", "2021-00", "latest", "2021-05-01", "2o21-05", "202105", "-021-05"} {
		if v, ok := ParseVersion(s); ok {
			t.Errorf("%q: %d; want !ok", s, v)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"PT1M", "P10675199DT2H48M5.4775807S", "PT256204778H48M5.477S", "-P1DT1.5S", "P2W", "PT0.0000001S"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ParseDuration(s)
		if !ok {
			return
		}
		shown := event.AppendDuration(nil, d)
		again, ok := ParseDuration(string(shown))
		if !ok || again != d {
			t.Fatalf("%q is %d, shown as %s, which is %d %t", s, d, shown, again, ok)
		}
	})
}
