package event

import "testing"

func TestInstant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		ticks uint64
		zone  string
		shown string // "": as it was written
	}{
		"2026-01-02T03:04:05Z":              {639029198450000000, "", ""},
		"2026-01-02T03:04:05":               {639029198450000000, NoZone, ""},
		"2026-01-02T05:04:05+02:00":         {639029198450000000, "+02:00", ""},
		"2026-01-01T21:34:05.5-05:30":       {639029198455000000, "-05:30", ""},
		"2026-01-02T03:04:05+00:00":         {639029198450000000, "+00:00", ""},
		"2026-01-02T03:04:05.12345678":      {639029198451234567, NoZone, "2026-01-02T03:04:05.1234567"},
		"2026-01-02T03:04:05.100Z":          {639029198451000000, "", "2026-01-02T03:04:05.1Z"},
		"0001-01-01T00:00:00":               {0, NoZone, ""},
		"0001-01-01T01:00:00+01:00":         {0, "+01:00", ""},
		"9999-12-31T23:59:59.9999999-00:00": {MaxTicks, "-00:00", ""},
	} {
		v, ok := ParseInstant(text)
		if v != (Value{Type: Instant, Bits: want.ticks, Text: want.zone}) || !ok {
			t.Errorf("%s: %+v %t; want v == (Value{Type: Instant, Bits: want.ticks, Text: want.zone}) && ok", text, v, ok)
		}
		if want.shown == "" {
			want.shown = text
		}
		if got := string(AppendInstant(nil, v)); got != want.shown {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	for _, text := range []string{
		"", "today", "2026-01-02", "2026-02-30T00:00:00", "2026-01-02T03:04:05+2", "2026-01-02T03:04:05 ", "2026-01-02T03:04:05.",
		"0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
	} {
		if v, ok := ParseInstant(text); ok {
			t.Errorf("%q is %+v", text, v)
		}
	}
	for _, zone := range []string{"?", "+2", "none "} { // none of our writers writes these
		if got := string(AppendInstant(nil, Value{Type: Instant, Bits: 1<<64 - 1, Text: zone})); got != "9999-12-31T23:59:59.9999999Z" {
			t.Errorf(`%q: %s, want "9999-12-31T23:59:59.9999999Z"`, zone, got)
		}
	}
}
