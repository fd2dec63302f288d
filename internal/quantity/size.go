package quantity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Reasons to refuse a quantity.
var (
	errEmpty    = errors.New("it is empty")
	errNegative = errors.New("it is negative")
	errNoNumber = errors.New("it does not begin with a number")
	errTooLarge = errors.New("it has more than 63 bits")
)

// sizeUnits are the units by their power of 1024.
var sizeUnits = []string{"", "KiB", "MiB", "GiB", "TiB"}

// Sizes says which sizes a setting takes.
type Sizes struct {
	Least, Most int64 // Most 0: no bound
	None        bool  // whether the setting takes the word none, which is 0 bytes
}

// Parse reads a size that the setting takes.
func (t Sizes) Parse(text string) (int64, error) {
	if t.None && text == none {
		return 0, nil
	}
	n, err := parseSize(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a %s: %w", text, t, err)
	case n < t.Least, t.Most != 0 && n > t.Most:
		return 0, fmt.Errorf("%q is not a %s", text, t)
	}
	return n, nil
}

// String names the sizes that the setting takes: "size from 64KiB to 1GiB".
func (t Sizes) String() string {
	text := "size such as 64MiB"
	switch {
	case t.Most != 0:
		text = "size from " + FormatSize(t.Least) + " to " + FormatSize(t.Most)
	case t.Least != 0:
		text = "size of at least " + FormatSize(t.Least)
	}
	if t.None {
		text += ", or none"
	}
	return text
}

// parseSize reads a size in bytes.
func parseSize(text string) (int64, error) {
	if text == "" {
		return 0, errEmpty
	}
	if text[0] == '-' {
		return 0, errNegative
	}
	number, unit, rest := cutQuantity(text)
	power := sizeUnit(unit)
	switch {
	case number == "":
		return 0, errNoNumber
	case power < 0:
		return 0, fmt.Errorf("%q is not a unit; the units are KiB, MiB, GiB and TiB", unit+rest)
	case rest != "":
		return 0, fmt.Errorf("%q follows the unit", rest)
	case sizeUnits[power] != unit:
		return 0, fmt.Errorf("units are binary; write %s%s", number, sizeUnits[power])
	}
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case strings.Contains(number, "."):
		return 0, fmt.Errorf("%s is not a whole number", number)
	case err != nil || n > math.MaxInt64>>(10*power):
		return 0, errTooLarge
	}
	return int64(n) << (10 * power), nil
}

// sizeUnit returns the power of 1024 that a unit has, -1 for one that is unknown. It knows other
// spellings as well, such as B, MB, Mi and m, so that an error can name the right one.
func sizeUnit(unit string) int {
	letter := strings.ToUpper(unit)
	if letter == "B" {
		return 0
	}
	letter = strings.TrimSuffix(strings.TrimSuffix(letter, "B"), "I")
	for power, known := range sizeUnits {
		if letter == strings.TrimSuffix(known, "iB") {
			return power
		}
	}
	return -1
}

// FormatSize prints a size as [Sizes.Parse] reads it, in the largest unit that divides it: 64MiB,
// 1536KiB, 1000.
func FormatSize(n int64) string {
	power := 0
	for n != 0 && n%1024 == 0 && power < len(sizeUnits)-1 {
		n, power = n/1024, power+1
	}
	return strconv.FormatInt(n, 10) + sizeUnits[power]
}
