package event

import (
	"math/big"
	"strconv"
	"strings"
)

// Limits of a decimal: as many digits as an AMQP decimal128 has, and an exponent with which
// arithmetic stays small.
const (
	maxDigits   = 34
	maxExponent = 128
)

// Decimal returns a decimal as coef * 10^exp: digits with an optional sign, point and exponent. ok
// is false for a value with too many digits or too large an exponent, which filters treat as a
// double.
func (v Value) Decimal() (coef *big.Int, exp int, ok bool) {
	mantissa := v.Text
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		n, err := strconv.Atoi(mantissa[i+1:])
		if err != nil || n < -maxExponent || n > maxExponent {
			return nil, 0, false
		}
		mantissa, exp = mantissa[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	if len(all) > 64 || strings.TrimLeft(all, "+-") == "" || strings.LastIndexAny(all, "+-_") > 0 {
		return nil, 0, false
	}
	coef, ok = new(big.Int).SetString(all, 10)
	if !ok {
		return nil, 0, false
	}
	exp -= len(fraction)
	if len(new(big.Int).Abs(coef).String()) > maxDigits || exp < -maxExponent {
		return nil, 0, false
	}
	return coef, exp, true
}
