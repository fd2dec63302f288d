package quantity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The durations that are words.
const (
	None      time.Duration = -1            // has passed at once
	Unlimited time.Duration = math.MaxInt64 // never passes
)

const (
	none      = "none"
	unlimited = "unlimited"
)

const day = 24 * time.Hour

// durationUnits are in the order in which a duration has them; µs is what Go prints.
var durationUnits = []string{"d", "h", "m", "s", "ms", "us", "ns"}

var errTooLong = errors.New("it is longer than 292 years")

// Durations says which durations a setting takes. The zero value takes all but the words.
type Durations struct {
	Least, Most time.Duration // Most 0: no bound
	// whether the setting takes the word
	None, Unlimited bool
}

// Parse reads a duration that the setting takes.
func (t Durations) Parse(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a %s: %w", text, t, err)
	case d == None && t.None, d == Unlimited && t.Unlimited:
		return d, nil
	case d == None, d == Unlimited, d < t.Least, t.Most != 0 && d > t.Most:
		return 0, fmt.Errorf("%q is not a %s", text, t)
	}
	return d, nil
}

// String names the durations that the setting takes: "duration from 1h to 365d, or unlimited".
func (t Durations) String() string {
	text := "duration such as 90s or 7d"
	switch {
	case t.Most != 0:
		text = "duration from " + FormatDuration(t.Least) + " to " + FormatDuration(t.Most)
	case t.Least != 0:
		text = "duration of at least " + FormatDuration(t.Least)
	}
	switch {
	case t.None && t.Unlimited:
		return text + ", none or unlimited"
	case t.None:
		return text + ", or none"
	case t.Unlimited:
		return text + ", or unlimited"
	}
	return text
}

// parseDuration reads a duration of any setting: the words are [None] and [Unlimited].
func parseDuration(text string) (time.Duration, error) {
	switch text {
	case none:
		return None, nil
	case unlimited:
		return Unlimited, nil
	case "0":
		return 0, nil
	case "":
		return 0, errEmpty
	}
	if text[0] == '-' {
		return 0, errNegative
	}
	var sum time.Duration
	last := -1
	for rest := text; rest != ""; {
		var number, unit string
		number, unit, rest = cutQuantity(rest)
		d, at, err := parseDurationPart(number, unit)
		switch {
		case err != nil:
			return 0, err
		case at <= last:
			return 0, fmt.Errorf("%s comes after %s; the units are d, h, m, s and ms, in this order", unit, durationUnits[last])
		case d >= Unlimited-sum:
			return 0, errTooLong
		}
		sum, last = sum+d, at
	}
	return sum, nil
}

// cutQuantity splits a text after its first number and unit.
func cutQuantity(text string) (number, unit, rest string) {
	const digits = "0123456789."
	unit = strings.TrimLeft(text, digits)
	number = text[:len(text)-len(unit)]
	if i := strings.IndexAny(unit, digits); i >= 0 {
		unit, rest = unit[:i], unit[i:]
	}
	return number, unit, rest
}

// parseDurationPart reads one number with its unit, and returns the unit's place in durationUnits.
func parseDurationPart(number, unit string) (d time.Duration, at int, err error) {
	if unit == "µs" || unit == "μs" { // micro sign, as Go prints it, and the Greek letter
		unit = "us"
	}
	at = slices.Index(durationUnits, unit)
	switch {
	case number == "":
		return 0, 0, errNoNumber
	case unit == "":
		return 0, 0, fmt.Errorf("%s has no unit; write %ss, %sm, %sh or %sd", number, number, number, number, number)
	case at < 0 && sizeUnit(unit) >= 0:
		return 0, 0, errors.New("it is a size")
	case at < 0:
		return 0, 0, fmt.Errorf("%q is not a unit; the units are d, h, m, s and ms", unit)
	case strings.Count(number, ".") > 1 || number == ".":
		return 0, 0, fmt.Errorf("%q is not a number", number)
	case unit == "d":
		n, err := strconv.ParseUint(number, 10, 63)
		if strings.Contains(number, ".") {
			return 0, 0, fmt.Errorf("%s is not a whole number of days", number)
		}
		if err != nil || n > uint64(Unlimited/day) {
			return 0, 0, errTooLong
		}
		return time.Duration(n) * day, at, nil
	}
	if d, err = time.ParseDuration(number + unit); err != nil {
		return 0, 0, errTooLong
	}
	return d, at, nil
}

// FormatDuration prints a duration as [Durations.Parse] reads it, days first: 7d, 1d12h, 1h30m, 0s.
func FormatDuration(d time.Duration) string {
	switch {
	case d == None:
		return none
	case d == Unlimited:
		return unlimited
	case d < 0:
		return d.String()
	case d == 0:
		return "0s"
	}
	text := ""
	if d >= day {
		text = strconv.FormatInt(int64(d/day), 10) + "d"
	}
	if d %= day; d == 0 {
		return text
	}
	rest := d.String()
	if short, ok := strings.CutSuffix(rest, "m0s"); ok {
		rest = short + "m"
	}
	if short, ok := strings.CutSuffix(rest, "h0m"); ok {
		rest = short + "h"
	}
	return text + rest
}
