package quantity

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"none": None, "unlimited": Unlimited, "0": 0, "0s": 0, "0d": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "7d": 7 * day,
		"1h30m": 90 * time.Minute, "1d12h": 36 * time.Hour, "9600h": 400 * day, "500ms": 500 * time.Millisecond, "1.5h": 90 * time.Minute,
		".5s": 500 * time.Millisecond, "1d0h0m1s": day + time.Second, "1500us": 1500 * time.Microsecond, "2µs": 2 * time.Microsecond,
		"2μs": 2 * time.Microsecond, "1ns": 1, "106751d": 106751 * day, "9223372036854775806ns": math.MaxInt64 - 1,
	} {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseDuration(FormatDuration(got)); err != nil || again != got {
			t.Errorf("%q is printed as %q and read again as %d, %v", text, FormatDuration(got), again, err)
		}
	}
	for text, want := range map[string]string{
		"": "it is empty", "-1s": "it is negative", "-1": "it is negative", "10": "10 has no unit; write 10s, 10m, 10h or 10d", "s": "does not begin with a number",
		"soon": "does not begin with a number", "NaN": "does not begin with a number", "+1s": "does not begin with a number", " 1s": "does not begin with a number",
		"1w": `"w" is not a unit; the units are d, h, m, s and ms`, "1H": `"H" is not a unit`, "1 d": `" d" is not a unit`, "1s ": `"s " is not a unit`, "1h-5m": `"h-" is not a unit`,
		"64MiB": "it is a size", "64MB": "it is a size", "1.5d": "1.5 is not a whole number of days", "1..5s": `"1..5" is not a number`, ".s": `"." is not a number`,
		"30m1h": "h comes after m", "1h1h": "h comes after h", "1h30": "30 has no unit", "106752d": "longer than 292 years", "99999999999999999999d": "longer than 292 years",
		"99999999999h": "longer than 292 years", "106751d48h": "longer than 292 years", "9223372036854775807ns": "longer than 292 years", "PT90S": "does not begin with a number",
		"None": "does not begin with a number", "never": "does not begin with a number",
	} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		None: "none", Unlimited: "unlimited", 0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h",
		100 * time.Minute: "1h40m", day: "1d", 36*time.Hour + time.Second: "1d12h0m1s", 400 * day: "400d", 1500 * time.Millisecond: "1.5s", -time.Second: "-1s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	hours := Durations{Least: time.Hour, Most: 365 * day, Unlimited: true}
	for _, c := range []struct {
		takes     Durations
		text      string
		want      time.Duration
		complaint string
	}{
		{hours, "1h", time.Hour, ""}, {hours, "365d", 365 * day, ""}, {hours, "unlimited", Unlimited, ""},
		{hours, "none", 0, `"none" is not a duration from 1h to 365d, or unlimited`},
		{hours, "59m", 0, `"59m" is not a duration from 1h to 365d, or unlimited`},
		{hours, "366d", 0, `"366d" is not a duration from 1h to 365d, or unlimited`},
		{hours, "7", 0, `"7" is not a duration from 1h to 365d, or unlimited: 7 has no unit; write 7s, 7m, 7h or 7d`},
		{Durations{None: true, Unlimited: true}, "none", None, ""},
		{Durations{None: true, Unlimited: true}, "x", 0, `"x" is not a duration such as 90s or 7d, none or unlimited: it does not begin with a number`},
		{Durations{Least: 1, None: true}, "0s", 0, `"0s" is not a duration of at least 1ns, or none`},
		{Durations{}, "unlimited", 0, `"unlimited" is not a duration such as 90s or 7d`},
		{Durations{}, "0s", 0, ""},
	} {
		got, err := c.takes.Parse(c.text)
		if got != c.want || (err == nil) != (c.complaint == "") || err != nil && err.Error() != c.complaint {
			t.Errorf("%q: %d, %v; want %d, %s", c.text, got, err, c.want, c.complaint)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "67108864": 64 << 20, "64MiB": 64 << 20, "512KiB": 512 << 10, "1GiB": 1 << 30, "2TiB": 2 << 40, "0KiB": 0,
		"9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseSize(FormatSize(got)); err != nil || again != got {
			t.Errorf("%q is printed as %q and read again as %d, %v", text, FormatSize(got), again, err)
		}
	}
	for text, want := range map[string]string{
		"": "it is empty", "-1": "it is negative", "-64MiB": "it is negative", "MiB": "does not begin with a number", "NaN": "does not begin with a number",
		"64MB": "units are binary; write 64MiB", "64Mi": "write 64MiB", "64m": "write 64MiB", "1g": "write 1GiB", "1gib": "write 1GiB", "5kB": "write 5KiB", "7B": "write 7",
		"1EiB": `"EiB" is not a unit; the units are KiB, MiB, GiB and TiB`, "90s": `"s" is not a unit`, "64 MiB": `" MiB" is not a unit`,
		"1.5GiB": "1.5 is not a whole number", "1GiB512MiB": `"512MiB" follows the unit`, "9223372036854775808": "more than 63 bits", "8388608TiB": "more than 63 bits",
		"none": "does not begin with a number", "0x10": `"x10" is not a unit`, "1e6": `"e6" is not a unit`,
	} {
		if got, err := parseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 1536 << 10: "1536KiB", 64 << 20: "64MiB", 1 << 30: "1GiB", 1 << 50: "1024TiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes     Sizes
		text      string
		want      int64
		complaint string
	}{
		{Sizes{Most: 1 << 40, None: true}, "none", 0, ""},
		{Sizes{Least: 512, Most: 1 << 30}, "1GiB", 1 << 30, ""},
		{Sizes{Least: 512, Most: 1 << 30}, "511", 0, `"511" is not a size from 512 to 1GiB`},
		{Sizes{Least: 512, Most: 1 << 30}, "none", 0, `"none" is not a size from 512 to 1GiB: it does not begin with a number`},
		{Sizes{Least: 1}, "0", 0, `"0" is not a size of at least 1`},
		{Sizes{None: true}, "7d", 0, `"7d" is not a size such as 64MiB, or none: "d" is not a unit; the units are KiB, MiB, GiB and TiB`},
	} {
		got, err := c.takes.Parse(c.text)
		if got != c.want || (err == nil) != (c.complaint == "") || err != nil && err.Error() != c.complaint {
			t.Errorf("%q: %d, %v; want %d, %s", c.text, got, err, c.want, c.complaint)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	d := DurationFlag{Value: time.Minute, Takes: Durations{Least: 1}}
	if d.Set("0s") == nil || d.String() != "1m" || d.Set("90s") != nil || d.Value != 90*time.Second || d.String() != "1m30s" {
		t.Errorf("%+v", d)
	}
	s := SizeFlag{Value: 1024}
	if s.Set("1.5") == nil || s.String() != "1KiB" || s.Set("64MiB") != nil || s.Value != 64<<20 {
		t.Errorf("%+v", s)
	}
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"90s", "1d12h", "1.5h", "none", "unlimited", "64MiB", "1000", "9223372036854775807", "106751d23h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil {
			if again, err := parseDuration(FormatDuration(d)); err != nil || again != d || d < None {
				t.Fatalf("%q: %d is printed as %q and read again as %d, %v", text, d, FormatDuration(d), again, err)
			}
		}
		if n, err := parseSize(text); err == nil {
			if again, err := parseSize(FormatSize(n)); err != nil || again != n || n < 0 {
				t.Fatalf("%q: %d is printed as %q and read again as %d, %v", text, n, FormatSize(n), again, err)
			}
		}
	})
}
