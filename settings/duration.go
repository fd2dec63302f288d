package settings

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxDuration is the cloud's longest duration, 2^63-1 ticks of 100 ns. It stands for "without limit".
const maxDuration = "P10675199DT2H48M5.4775807S"

const maxDurationSeconds = 922337203685 // whole seconds of maxDuration

var errDuration = errors.New(`is not an ISO 8601 duration such as "PT30S", "PT1M" or "P7D"`)

// durationUnits are the designators in the order in which they may appear, with their seconds. A year counts 365 days
// and a month 30, as the .NET services that defined the format count.
var durationUnits = []struct {
	designator byte
	inTime     bool
	seconds    float64
}{
	{'Y', false, 365 * 86400}, {'M', false, 30 * 86400}, {'W', false, 7 * 86400}, {'D', false, 86400},
	{'H', true, 3600}, {'M', true, 60}, {'S', true, 1},
}

// ParseDuration reads an ISO 8601 duration: P[nY][nM][nW][nD][T[nH][nM][nS]], a fraction allowed in the seconds. The
// result is cut to whole milliseconds, the broker's unit of time. The cloud's longest duration,
// P10675199DT2H48M5.4775807S, and everything too long for a [time.Duration] (292 years) is [event.Forever]; anything
// longer than the cloud's is an error, as are negative ones.
func ParseDuration(s string) (time.Duration, error) {
	rest, ok := strings.CutPrefix(s, "P")
	if !ok {
		if strings.HasPrefix(s, "-P") {
			return 0, fmt.Errorf("%q is negative", s)
		}
		return 0, fmt.Errorf("%q %w", s, errDuration)
	}
	var seconds, millis int64
	inTime, next, parts := false, 0, 0
	for rest != "" {
		if rest[0] == 'T' && !inTime {
			inTime, rest, parts = true, rest[1:], 0
			continue
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, fmt.Errorf("%q %w", s, errDuration)
		}
		whole, fraction, hasFraction := strings.Cut(rest[:end], ".")
		unit := next
		for unit < len(durationUnits) && (durationUnits[unit].designator != rest[end] || durationUnits[unit].inTime != inTime) {
			unit++
		}
		if unit == len(durationUnits) || whole == "" || (hasFraction && (rest[end] != 'S' || !digits(fraction))) {
			return 0, fmt.Errorf("%q %w", s, errDuration)
		}
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || float64(seconds)+float64(n)*durationUnits[unit].seconds > maxDurationSeconds {
			return 0, fmt.Errorf("%q is longer than %s", s, maxDuration)
		}
		seconds += n * int64(durationUnits[unit].seconds)
		if hasFraction {
			if seconds == maxDurationSeconds && fraction > "4775807" {
				return 0, fmt.Errorf("%q is longer than %s", s, maxDuration)
			}
			millis, _ = strconv.ParseInt((fraction + "000")[:3], 10, 64) // digits only, so it parses
		}
		rest, next, parts = rest[end+1:], unit+1, parts+1
	}
	if parts == 0 { // "P", "PT" or a T with nothing behind it
		return 0, fmt.Errorf("%q %w", s, errDuration)
	}
	if seconds >= math.MaxInt64/int64(time.Second) {
		return event.Forever, nil
	}
	return time.Duration(seconds)*time.Second + time.Duration(millis)*time.Millisecond, nil
}

// FormatDuration is d as Service Bus writes it: days, hours, minutes, seconds.
func FormatDuration(d time.Duration) string {
	if d == event.Forever {
		return maxDuration
	}
	if d <= 0 {
		return "PT0S"
	}
	var b strings.Builder
	b.WriteByte('P')
	if days := d / (24 * time.Hour); days > 0 {
		fmt.Fprintf(&b, "%dD", days)
		d -= days * 24 * time.Hour
	}
	if d == 0 {
		return b.String()
	}
	b.WriteByte('T')
	if hours := d / time.Hour; hours > 0 {
		fmt.Fprintf(&b, "%dH", hours)
		d -= hours * time.Hour
	}
	if minutes := d / time.Minute; minutes > 0 {
		fmt.Fprintf(&b, "%dM", minutes)
		d -= minutes * time.Minute
	}
	if d > 0 {
		b.WriteString(strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
		b.WriteByte('S')
	}
	return b.String()
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
