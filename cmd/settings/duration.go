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

var errDuration = errors.New(`is not an ISO 8601 duration such as "PT30S", "PT1M" or "P7D"`)

// durationUnits are the designators in the order in which they may appear, with their seconds. A year counts 365 days
// and a month 30, as the .NET services that defined the format count.
var durationUnits = []struct {
	designator byte
	inTime     bool
	seconds    int64
}{
	{'Y', false, 365 * 86400}, {'M', false, 30 * 86400}, {'W', false, 7 * 86400}, {'D', false, 86400},
	{'H', true, 3600}, {'M', true, 60}, {'S', true, 1},
}

// ParseDuration reads an ISO 8601 duration: P[nY][nM][nW][nD][T[nH][nM][nS]], a fraction allowed in the seconds. The
// result is cut to whole milliseconds, the broker's unit of time. The cloud's longest duration,
// P10675199DT2H48M5.4775807S, and everything too long for a [time.Duration] (292 years) is [event.Forever]; anything
// longer than the cloud's is an error, as are negative ones.
func ParseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "-P") {
		return 0, fmt.Errorf("%q is negative", s)
	}
	ticks, err := parseTicks(s)
	if err != nil {
		return 0, err
	}
	if ticks/event.TicksPerSecond >= math.MaxInt64/int64(time.Second) {
		return event.Forever, nil
	}
	return time.Duration(ticks) * event.Tick / time.Millisecond * time.Millisecond, nil
}

// parseTicks reads a duration without cutting it; a minus before the P makes it negative.
func parseTicks(s string) (int64, error) {
	text, negative := strings.CutPrefix(s, "-")
	rest, ok := strings.CutPrefix(text, "P")
	if !ok {
		return 0, fmt.Errorf("%q %w", s, errDuration)
	}
	var ticks int64
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
		size := durationUnits[unit].seconds * event.TicksPerSecond
		if err != nil || n > (math.MaxInt64-ticks)/size {
			return 0, fmt.Errorf("%q is longer than %s", s, maxDuration)
		}
		ticks += n * size
		if hasFraction {
			part, _ := strconv.ParseInt((fraction + "0000000")[:7], 10, 64) // digits only, so it parses
			if part > math.MaxInt64-ticks || ticks+part == math.MaxInt64 && strings.Trim(fraction[7:], "0") != "" {
				return 0, fmt.Errorf("%q is longer than %s", s, maxDuration)
			}
			ticks += part
		}
		rest, next, parts = rest[end+1:], unit+1, parts+1
	}
	if parts == 0 { // "P", "PT" or a T with nothing behind it
		return 0, fmt.Errorf("%q %w", s, errDuration)
	}
	if negative {
		ticks = -ticks
	}
	return ticks, nil
}

// FormatDuration is d as Service Bus writes it: days, hours, minutes, seconds.
func FormatDuration(d time.Duration) string {
	if d == event.Forever {
		return maxDuration
	}
	return formatTicks(int64(max(d, 0) / event.Tick))
}

// formatTicks writes what parseTicks reads.
func formatTicks(ticks int64) string {
	if ticks == 0 {
		return "PT0S"
	}
	b, left := []byte("P"), uint64(ticks)
	if ticks < 0 {
		b, left = []byte("-P"), -uint64(ticks)
	}
	part := func(size uint64, designator byte) {
		if n := left / size; n > 0 {
			b = append(strconv.AppendUint(b, n, 10), designator)
			left -= n * size
		}
	}
	second := uint64(event.TicksPerSecond)
	part(86400*second, 'D')
	if left == 0 {
		return string(b)
	}
	b = append(b, 'T')
	part(3600*second, 'H')
	part(60*second, 'M')
	if left > 0 {
		b = strconv.AppendUint(b, left/second, 10)
		if fraction := left % second; fraction > 0 {
			b = append(b, strings.TrimRight(fmt.Sprintf(".%07d", fraction), "0")...)
		}
		b = append(b, 'S')
	}
	return string(b)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
