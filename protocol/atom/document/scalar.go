package document

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// unlimited is the number of ticks from which a duration counts as unlimited (management-api.md
// 3.1).
const unlimited = 10675199 * 86400 * event.TicksPerSecond

// ParseDuration parses an ISO 8601 duration without years and months: weeks, days, hours, minutes,
// and seconds. The last of them may have a fraction, which is cut to ticks of 100 ns. A duration
// too long for a [time.Duration] (292 years) is [event.Forever]. False: s is not a duration.
func ParseDuration(s string) (time.Duration, bool) {
	ticks, ok := parseTicks(s)
	if !ok {
		return 0, false
	}
	if ticks >= math.MaxInt64/int64(event.Tick) {
		return event.Forever, true
	}
	if ticks <= math.MinInt64/int64(event.Tick) {
		return math.MinInt64, true
	}
	return time.Duration(ticks) * event.Tick, true
}

// parseTicks parses a duration; an infinite one is the largest number.
func parseTicks(s string) (int64, bool) {
	ticks, err := event.ParseTicks(s)
	date, _, _ := strings.Cut(s, "T")
	switch {
	case errors.Is(err, event.ErrNotDuration), strings.ContainsAny(date, "YM"), len(strings.TrimPrefix(s, "-")) > 65:
		return 0, false
	case ticks >= unlimited:
		return math.MaxInt64, true
	case ticks <= -unlimited:
		return -math.MaxInt64, true
	}
	return ticks, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// appendTime writes broker time; 0 is the beginning of year 1.
func appendTime(b []byte, t event.Time) []byte {
	if t == 0 {
		return append(b, "0001-01-01T00:00:00Z"...)
	}
	return event.AppendInstant(b, event.InstantOf(t))
}

// parseTime parses broker time; a time before 1970 is 0.
func parseTime(s string) (event.Time, bool) {
	v, ok := event.ParseInstant(s)
	return max(0, event.FromTicks(int64(v.Bits))), ok
}

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}
