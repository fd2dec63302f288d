package document

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// infinite is the longest duration, 2^63-1 ticks; from so many days on there is no limit (management-api.md 3.1).
const (
	infinite     = "P10675199DT2H48M5.4775807S"
	infiniteDays = 10675199
)

// units are the designators of a duration in the order in which they stand.
var units = []struct {
	designator byte
	inTime     bool
	ticks      int64
}{
	{'W', false, 7 * 86400 * event.TicksPerSecond}, {'D', false, 86400 * event.TicksPerSecond},
	{'H', true, 3600 * event.TicksPerSecond}, {'M', true, 60 * event.TicksPerSecond}, {'S', true, event.TicksPerSecond},
}

// ParseDuration reads an ISO 8601 duration without years and months: weeks, days, hours, minutes, seconds, a fraction
// allowed in the last of them, cut to ticks of 100 ns. What is too long for a [time.Duration] (292 years) is [event.Forever].
// False: it is not a duration.
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

// parseTicks reads a duration; what is infinite is the largest number.
func parseTicks(s string) (int64, bool) {
	rest, negative := strings.CutPrefix(s, "-")
	rest, ok := strings.CutPrefix(rest, "P")
	if !ok || len(rest) > 64 {
		return 0, false
	}
	sum := 0.0 // of whole seconds, to see what no integer can hold
	ticks, inTime, unit, parts := int64(0), false, 0, 0
	for rest != "" {
		if rest[0] == 'T' && !inTime {
			inTime, parts, rest = true, 0, rest[1:]
			continue
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, false
		}
		for unit < len(units) && (units[unit].designator != rest[end] || units[unit].inTime != inTime) {
			unit++
		}
		if unit == len(units) {
			return 0, false
		}
		whole, fraction, fractional := strings.Cut(rest[:end], ".")
		if !digits(whole) || fractional && (!digits(fraction) || end+1 != len(rest) || unit == 0) {
			return 0, false
		}
		n, err := strconv.ParseFloat(whole, 64)
		if err != nil {
			return 0, false
		}
		sum += n * float64(units[unit].ticks/event.TicksPerSecond)
		if sum < infiniteDays*86400 {
			k, _ := strconv.ParseInt(whole, 10, 64)                      // small, as sum tells
			f, _ := strconv.ParseInt((fraction + "0000000")[:7], 10, 64) // seven digits
			ticks += k*units[unit].ticks + f*(units[unit].ticks/event.TicksPerSecond)
		}
		rest, parts, unit = rest[end+1:], parts+1, unit+1
	}
	if parts == 0 { // "P", "PT" or a T with nothing behind it
		return 0, false
	}
	if sum >= infiniteDays*86400 {
		ticks = math.MaxInt64
	}
	if negative {
		ticks = -ticks
	}
	return ticks, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// AppendDuration writes a duration as the service does: days, hours, minutes, seconds, none of them zero.
func AppendDuration(b []byte, d time.Duration) []byte {
	if d == event.Forever {
		return append(b, infinite...)
	}
	return appendTicks(b, int64(d/event.Tick))
}

func appendTicks(b []byte, ticks int64) []byte {
	switch {
	case ticks == 0:
		return append(b, "PT0S"...)
	case ticks == math.MinInt64:
		return append(b, "-P10675199DT2H48M5.4775808S"...)
	case ticks < 0:
		b, ticks = append(b, '-'), -ticks
	}
	b = append(b, 'P')
	if days := ticks / units[1].ticks; days > 0 {
		b = append(strconv.AppendInt(b, days, 10), 'D')
		ticks -= days * units[1].ticks
	}
	if ticks == 0 {
		return b
	}
	b = append(b, 'T')
	for _, u := range units[2:4] {
		if n := ticks / u.ticks; n > 0 {
			b = append(strconv.AppendInt(b, n, 10), u.designator)
			ticks -= n * u.ticks
		}
	}
	if ticks > 0 {
		b = strconv.AppendInt(b, ticks/event.TicksPerSecond, 10)
		b = append(appendFraction(b, ticks%event.TicksPerSecond), 'S')
	}
	return b
}

// appendFraction writes ticks below a second behind a point, without the zeros at the end.
func appendFraction(b []byte, ticks int64) []byte {
	if ticks == 0 {
		return b
	}
	f := strconv.AppendInt(nil, ticks+event.TicksPerSecond, 10) // with a leading 1, so that no zero is lost
	return append(append(b, '.'), strings.TrimRight(string(f[1:]), "0")...)
}

// appendTime writes broker time; 0 is the beginning of year 1.
func appendTime(b []byte, t event.Time) []byte {
	if t == 0 {
		return append(b, "0001-01-01T00:00:00Z"...)
	}
	return event.AppendInstant(b, event.InstantOf(t))
}

// parseTime reads broker time; what lies before 1970 is 0.
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
