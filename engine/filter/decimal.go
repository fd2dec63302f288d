package filter

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// decimal is coef * 10^exp. Results have at most maxDigits digits, those of an AMQP decimal128, and
// exponents within maxExponent, so that arithmetic has bounded size.
type decimal struct {
	coef *big.Int
	exp  int
}

const (
	maxDigits   = 34
	maxExponent = 128
)

// digits returns how many digits a number has, without its sign.
func digits(x *big.Int) int { return len(new(big.Int).Abs(x).String()) }

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// parseDecimal parses the text of a decimal. It fails for texts that [event.Value.Decimal] does not
// accept.
func parseDecimal(s string) (decimal, bool) {
	coef, exp, ok := event.Value{Type: event.Decimal, Text: s}.Decimal()
	return decimal{coef, exp}, ok
}

// decimalOf returns an integer or a decimal as a decimal.
func decimalOf(v event.Value) decimal {
	if v.Type == event.Decimal {
		if d, ok := parseDecimal(v.Text); ok {
			return d
		}
	}
	return decimal{big.NewInt(int64(v.Bits)), 0}
}

// align gives two decimals the same exponent.
func align(a, b decimal) (x, y *big.Int, exp int) {
	exp = min(a.exp, b.exp)
	x = new(big.Int).Mul(a.coef, pow10(a.exp-exp))
	y = new(big.Int).Mul(b.coef, pow10(b.exp-exp))
	return x, y, exp
}

func (d decimal) compare(e decimal) int {
	x, y, _ := align(d, e)
	return x.Cmp(y)
}

// round cuts d to maxDigits, half to even. It returns false if the number is then too large.
func (d decimal) round() (decimal, bool) {
	cut := max(digits(d.coef)-maxDigits, -maxExponent-d.exp)
	if cut > 0 {
		return d.without(cut).round() // rounding up may have added a digit
	}
	return d, d.exp <= maxExponent
}

// without drops the last n digits of d, rounding half to even.
func (d decimal) without(n int) decimal {
	quotient, rest := new(big.Int).QuoRem(d.coef, pow10(n), new(big.Int))
	half := new(big.Int).Abs(rest)
	switch c := half.Lsh(half, 1).Cmp(pow10(n)); {
	case c > 0, c == 0 && quotient.Bit(0) == 1:
		quotient.Add(quotient, big.NewInt(int64(d.coef.Sign())))
	}
	return decimal{quotient, d.exp + n}
}

// The decimal type of .NET has a coefficient of 96 bits, and 0 to 28 digits after the point.
const (
	netBits  = 96
	netScale = 28
)

// forNet returns the number nearest to d that .NET's decimal type can hold. It returns false if the
// number is too large.
func (d decimal) forNet() (decimal, bool) {
	if d.exp > 0 {
		d = decimal{new(big.Int).Mul(d.coef, pow10(d.exp)), 0}
	}
	for cut := max(0, -netScale-d.exp); cut <= -d.exp; cut++ {
		if e := d.without(cut); e.coef.BitLen() <= netBits {
			return e, true
		}
	}
	return d, false
}

// calculate returns d op e, with one of + - * / %; false: division by zero or a result that is too
// large.
func (d decimal) calculate(o op, e decimal) (decimal, bool) {
	if (o == opDiv || o == opMod) && e.coef.Sign() == 0 {
		return decimal{}, false
	}
	x, y, exp := align(d, e)
	switch o {
	case opAdd:
		return decimal{x.Add(x, y), exp}.round()
	case opSub:
		return decimal{x.Sub(x, y), exp}.round()
	case opMul:
		return decimal{new(big.Int).Mul(d.coef, e.coef), d.exp + e.exp}.round()
	case opMod:
		return decimal{x.Rem(x, y), exp}.round()
	}
	return divide(x, y)
}

// divide returns x / y to maxDigits digits; an exact quotient gets no trailing zeros.
func divide(x, y *big.Int) (decimal, bool) {
	scale := max(0, maxDigits+1+digits(y)-digits(x))
	quotient, rest := new(big.Int).QuoRem(new(big.Int).Mul(x, pow10(scale)), y, new(big.Int))
	// a further digit, so that an apparent half is known to be more than one
	if rest.Sign() != 0 {
		sign := int64(x.Sign() * y.Sign())
		quotient.Add(quotient.Mul(quotient, big.NewInt(10)), big.NewInt(sign))
		scale++
	}
	d, ok := decimal{quotient, -scale}.round()
	for ten := big.NewInt(10); ok && d.exp < 0; {
		shorter, rest := new(big.Int).QuoRem(d.coef, ten, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		d = decimal{shorter, d.exp + 1}
	}
	return d, ok
}

// String returns the decimal in digits, without an exponent.
func (d decimal) String() string {
	s := new(big.Int).Abs(d.coef).String()
	if d.exp >= 0 {
		if d.coef.Sign() != 0 {
			s += strings.Repeat("0", d.exp)
		}
	} else {
		if pad := 1 - d.exp - len(s); pad > 0 {
			s = strings.Repeat("0", pad) + s
		}
		s = s[:len(s)+d.exp] + "." + s[len(s)+d.exp:]
	}
	if d.coef.Sign() < 0 {
		return "-" + s
	}
	return s
}

// value returns the decimal as an exact text that parseDecimal reads.
func (d decimal) value() event.Value {
	text := d.String()
	if d.exp > 0 || d.exp < -maxDigits {
		text = d.coef.String() + "E" + strconv.Itoa(d.exp)
	}
	return event.Value{Type: event.Decimal, Text: text}
}
