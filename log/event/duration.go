package event

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LongestDuration is the cloud's longest duration, 2^63-1 ticks. It means "without limit".
const LongestDuration = "P10675199DT2H48M5.4775807S"

// The errors of [ParseTicks].
var (
	ErrNotDuration  = errors.New(`is not an ISO 8601 duration such as "PT30S", "PT1M" or "P7D"`)
	ErrLongDuration = errors.New("is longer than " + LongestDuration)
)

// durationUnit is a designator of ISO 8601.
type durationUnit struct {
	designator byte
	ticks      int64
}

const ticksPerDay = 86400 * TicksPerSecond

// The units of a duration's two parts, in their only order. A year has 365 days and a month 30, as
// in the .NET services that defined the format.
var (
	dateUnits = []durationUnit{{'Y', 365 * ticksPerDay}, {'M', 30 * ticksPerDay}, {'W', 7 * ticksPerDay}, {'D', ticksPerDay}}
	timeUnits = []durationUnit{{'H', 3600 * TicksPerSecond}, {'M', 60 * TicksPerSecond}, {'S', TicksPerSecond}}
)

// ParseTicks reads an ISO 8601 duration, [-]P[nY][nM][nW][nD][T[nH][nM][nS]], in ticks. The last
// number may have a fraction if it counts days or less; seven of its digits count. The error is
// [ErrNotDuration] or [ErrLongDuration]; with the latter the result is the largest number of ticks.
func ParseTicks(s string) (int64, error) {
	text, negative := strings.CutPrefix(s, "-")
	text, found := strings.CutPrefix(text, "P")
	date, clock, timed := strings.Cut(text, "T")
	var sum durationSum
	if !found || text == "" || timed && (clock == "" || strings.Contains(date, ".")) || !sum.add(date, dateUnits) || !sum.add(clock, timeUnits) {
		return 0, ErrNotDuration
	}
	var err error
	if sum.tooLong {
		sum.ticks, err = math.MaxInt64, ErrLongDuration
	}
	if negative {
		sum.ticks = -sum.ticks
	}
	return sum.ticks, err
}

type durationSum struct {
	ticks   int64
	tooLong bool
}

// add adds numbers, each with one of the units that are left; false: the text is no such list.
func (s *durationSum) add(text string, units []durationUnit) bool {
	for text != "" {
		rest := strings.TrimLeft(text, "0123456789.")
		whole, fraction, fractional := strings.Cut(text[:len(text)-len(rest)], ".")
		unit := slices.IndexFunc(units, func(u durationUnit) bool { return rest != "" && u.designator == rest[0] })
		if whole == "" || unit < 0 || fractional && (len(rest) > 1 || fraction == "" || strings.Contains(fraction, ".") || units[unit].ticks > ticksPerDay) {
			return false
		}
		s.addNumber(whole, fraction, units[unit].ticks)
		text, units = rest[1:], units[unit+1:]
	}
	return true
}

// addNumber adds a number of units, given as digits.
func (s *durationSum) addNumber(whole, fraction string, unit int64) {
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > (math.MaxInt64-s.ticks)/unit {
		s.tooLong = true
		return
	}
	s.ticks += n * unit
	f, _ := strconv.ParseInt((fraction + "0000000")[:7], 10, 64) // digits only, so it parses
	f *= unit / TicksPerSecond
	if f > math.MaxInt64-s.ticks || s.ticks+f == math.MaxInt64 && strings.Trim(fraction[7:], "0") != "" {
		s.tooLong = true
		return
	}
	s.ticks += f
}

// AppendDuration appends d as Service Bus writes it: see [AppendTicks]. [Forever] is written as
// [LongestDuration].
func AppendDuration(b []byte, d time.Duration) []byte {
	if d == Forever {
		return append(b, LongestDuration...)
	}
	return AppendTicks(b, int64(d/Tick))
}

// AppendTicks appends an ISO 8601 duration of days, hours, minutes and seconds, none of them zero.
// [ParseTicks] reads it, except for the smallest of int64.
func AppendTicks(b []byte, ticks int64) []byte {
	if ticks == 0 {
		return append(b, "PT0S"...)
	}
	left := uint64(ticks)
	if ticks < 0 {
		b, left = append(b, '-'), -left
	}
	b = append(b, 'P')
	part := func(u durationUnit) {
		if n := left / uint64(u.ticks); n > 0 {
			b = append(strconv.AppendUint(b, n, 10), u.designator)
			left %= uint64(u.ticks)
		}
	}
	part(dateUnits[3])
	if left == 0 {
		return b
	}
	b = append(b, 'T')
	part(timeUnits[0])
	part(timeUnits[1])
	if left == 0 {
		return b
	}
	b = strconv.AppendUint(b, left/TicksPerSecond, 10)
	if fraction := left % TicksPerSecond; fraction > 0 {
		b = append(b, strings.TrimRight(fmt.Sprintf(".%07d", fraction), "0")...)
	}
	return append(b, 'S')
}
