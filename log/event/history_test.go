package event

import (
	"strings"
	"testing"
	"time"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Retention{
		"none": KeepNone, "unlimited": KeepForever, "7d": 7 * 86_400_000, "24h": 86_400_000, "36h": 36 * 3_600_000, "90m": 5_400_000,
		"1h0m1s": 3_601_000, "1ms": 1, "36500d": maxRetention, "1500us": 1,
	} {
		got, err := ParseRetention(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want got == want", text, got, err)
		}
		again, err := ParseRetention(got.String())
		if err != nil || again != got {
			t.Errorf("%q is shown as %q: %d, %v", text, got, again, err)
		}
		if back, ok := retentionOf(got.stored()); !ok || back != got {
			t.Errorf("%q is stored as %d and read as %d", text, got.stored(), back)
		}
	}
	for r, want := range map[Retention]string{0: "", KeepNone: "none", KeepForever: "unlimited", 604_800_000: "7d", 5_400_000: "1h30m", 36 * 3_600_000: "1d12h", 61_000: "1m1s", 600_000: "10m"} {
		if r.String() != want {
			t.Errorf("%d is %q, not %q", r, r, want)
		}
	}
	for _, text := range []string{"", "0", "0s", "0d", "-1h", "-1d", "+7d", "7 d", "d", "1.5d", "36501d", "999999999999d", "forever", "None", "1ns", "P7D", "5"} {
		if r, err := ParseRetention(text); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
}

func TestRetentionOver(t *testing.T) {
	t.Parallel()
	const since = Time(1_000_000)
	for _, c := range []struct {
		r    Retention
		now  Time
		want bool
	}{
		{KeepNone, since, true}, {KeepNone, since - 1, true}, {KeepForever, EndOfTime, false}, {0, EndOfTime, false},
		{KeepFor(time.Second), since + 999, false}, {KeepFor(time.Second), since + 1000, true}, {KeepFor(time.Second), since - 5000, false},
	} {
		if got := c.r.Over(since, c.now); got != c.want {
			t.Errorf("%v at %d: %v", c.r, c.now-since, got)
		}
	}
	if a := KeepNone.Longer(5); a != 5 {
		t.Errorf("%v, want %v", a, 5)
	}
	if a := Retention(5).Longer(KeepForever); a != KeepForever {
		t.Errorf("%v, want %v", a, KeepForever)
	}
}

// What a policy says counts, and the rest is taken from another one.
func TestHistoryPolicyOr(t *testing.T) {
	t.Parallel()
	p := HistoryPolicy{Bodies: KeepNone}.Or(HistoryPolicy{Events: 5, Bodies: 6})
	if p != (HistoryPolicy{Events: 5, Bodies: KeepNone}) || p.IsZero() || !(HistoryPolicy{}).IsZero() {
		t.Errorf("%+v; want p == (HistoryPolicy{Events: 5, Bodies: KeepNone}) && !p.IsZero() && (HistoryPolicy{}).IsZero()", p)
	}
}
