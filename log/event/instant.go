package event

import (
	"strings"
	"time"
)

// NoZone is the Text of an Instant that was written without a zone and is shown in the same way. It
// counts as UTC.
const NoZone = "none"

// zoneless is RFC 3339 without the zone.
const zoneless = "2006-01-02T15:04:05.9999999"

// ParseInstant reads a time in the form of RFC 3339, with or without a zone and with any number of
// fraction digits, of which seven count. false: it is no such time, or outside the years 1 to 9999.
func ParseInstant(text string) (Value, bool) {
	v := Value{Type: Instant}
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		if t, err = time.Parse(zoneless, text); err != nil {
			return Value{}, false
		}
		v.Text = NoZone
	case !strings.HasSuffix(text, "Z"):
		v.Text = text[len(text)-len("+00:00"):]
	}
	ticks := t.Unix()*TicksPerSecond + int64(t.Nanosecond())/int64(Tick) + epochTicks
	v.Bits = uint64(ticks)
	return v, ticks >= 0 && ticks <= MaxTicks
}

// AppendInstant appends an Instant in the zone in which it was written: see [ParseInstant].
func AppendInstant(b []byte, v Value) []byte {
	t, zone := StdFromTicks(int64(min(v.Bits, MaxTicks))), "Z"
	if v.Text == NoZone {
		zone = ""
	} else if offset, err := time.Parse("-07:00", v.Text); err == nil {
		_, seconds := offset.Zone()
		t, zone = t.In(time.FixedZone("", seconds)), v.Text
	}
	return append(t.AppendFormat(b, zoneless), zone...)
}
