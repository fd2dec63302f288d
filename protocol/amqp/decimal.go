package amqp

import (
	"math/big"
	"strconv"
	"strings"
)

// decimalFormat is a decimal of IEEE 754-2008 in the encoding with a binary coefficient (BID),
// which AMQP requires (1.6.13 to 1.6.15). The bits of the exponent and those of the coefficient
// follow the sign.
type decimalFormat struct {
	exponentBits, coefficientBits uint
	bias                          int
	digits                        int64 // at most, of the coefficient
}

var decimalFormats = map[byte]decimalFormat{
	CodeDecimal32:  {8, 23, 101, 7},
	CodeDecimal64:  {10, 53, 398, 16},
	CodeDecimal128: {14, 113, 6176, 34},
}

// RawDecimal returns the text of an encoded decimal, of any width: digits with a sign, a point or
// an exponent, or "Infinity" or "NaN". Trailing zeros and the sign of a zero are kept. Unlike the
// other functions for single values it allocates.
//
// A decimal128 in the layout of .NET (Microsoft.Azure.Amqp) is read as .NET means it: 12.34 and not
// 1234E-4610.
func RawDecimal(raw []byte) (text string, ok bool) {
	if plainLen(raw) < 0 {
		return "", false
	}
	format, ok := decimalFormats[raw[0]]
	if !ok {
		return "", false
	}
	b := raw[1:plainLen(raw)]
	sign := ""
	if b[0]&0x80 != 0 {
		sign = "-"
	}
	if scale, ok := netScale(b); ok {
		return sign + decimalText(new(big.Int).SetBytes(b[4:]), -scale), true
	}
	exponentAt, leading := format.coefficientBits, int64(0)
	switch {
	case b[0]&0x7c == 0x78:
		return sign + "Infinity", true
	case b[0]&0x7c == 0x7c:
		return "NaN", true
	case b[0]&0x60 == 0x60:
		// the exponent is two bits later, and the coefficient begins with 100
		exponentAt, leading = exponentAt-2, 4
	}
	bits := new(big.Int).SetBytes(b)
	coefficient := lowBits(bits, exponentAt)
	coefficient.Or(coefficient, new(big.Int).Lsh(big.NewInt(leading), exponentAt))
	if coefficient.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(format.digits), nil)) >= 0 {
		coefficient.SetInt64(0) // not canonical
	}
	exponent := lowBits(bits.Rsh(bits, exponentAt), format.exponentBits)
	return sign + decimalText(coefficient, int(exponent.Int64())-format.bias), true
}

// netScale returns the scale of a decimal128 in the layout of .NET: 0x0c40 minus two for each digit
// after the point, with the sign in the highest bit; two zeros; twelve bytes of coefficient. In the
// standard form that is a number around 1E-4600, which is of no use.
func netScale(b []byte) (scale int, ok bool) {
	if len(b) != 16 || b[0]&0x7f != 0x0c || b[1]&1 != 0 || b[1] > 0x40 || b[2]|b[3] != 0 {
		return 0, false
	}
	scale = int(0x40-b[1]) / 2
	return scale, scale <= 28
}

func lowBits(x *big.Int, n uint) *big.Int {
	mask := new(big.Int).Lsh(big.NewInt(1), n)
	return mask.And(mask.Sub(mask, big.NewInt(1)), x)
}

// mostPlaces is the number of digits after the point that are written out. Numbers with more have
// an exponent.
const mostPlaces = 34

// decimalText returns coefficient * 10^exponent. The coefficient is not negative.
func decimalText(coefficient *big.Int, exponent int) string {
	digits := coefficient.String()
	switch {
	case exponent == 0:
		return digits
	case exponent > 0 || exponent < -mostPlaces:
		return digits + "E" + strconv.Itoa(exponent)
	}
	if missing := 1 - exponent - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return digits[:len(digits)+exponent] + "." + digits[len(digits)+exponent:]
}
