package filter

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// semantics.md 15.4: decimals are exact up to 34 digits, half to even above.
func TestDecimalArithmetic(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 34)
	for _, c := range []struct {
		a    string
		op   op
		b    string
		want string
	}{
		{"0.1", opAdd, "0.2", "0.3"},
		{"19.99", opSub, "20", "-0.01"},
		{"1.10", opMul, "1.10", "1.2100"},
		{"1", opDiv, "8", "0.125"},
		{"10", opDiv, "5", "2"},
		{"100", opDiv, "1", "100"},
		{"1", opDiv, "3", "0.3333333333333333333333333333333333"},
		{"2", opDiv, "3", "0.6666666666666666666666666666666667"},
		{"-2", opDiv, "3", "-0.6666666666666666666666666666666667"},
		{"1", opDiv, "0", ""},
		{"1", opMod, "0.0", ""},
		{"7.5", opMod, "2", "1.5"},
		{"-7.5", opMod, "2", "-1.5"},
		{nines, opAdd, "1", "1" + strings.Repeat("0", 34)},
		{nines, opAdd, "0.5", "1" + strings.Repeat("0", 34)},         // the half goes to even
		{nines[:33] + "8", opAdd, "0.5", nines[:33] + "8"},           // so does this one
		{nines[:33] + "8", opAdd, "0.51", nines},                     //
		{"1E128", opMul, "1E128", ""},                                // too large
		{"1E-128", opMul, "1E-128", "0." + strings.Repeat("0", 128)}, // too small becomes 0
		{"1E-100", opAdd, "1", "1." + strings.Repeat("0", 33)},       //
		{"1E128", opSub, "1E128", "0"},                               //
		{"5E-1", opAdd, "1.5", "2.0"},                                //
		// more than a double holds
		{"9007199254740993", opSub, "0.5", "9007199254740992.5"},
		{"123456789012345678", opMul, "10", "1234567890123456780"},       //
		{"+.5", opAdd, "1.", "1.5"},                                      //
		{"1234567890", opDiv, "-1E10", "-0.123456789"},                   //
		{"1E30", opDiv, "1E-30", "1" + strings.Repeat("0", 60)},          //
		{"1E34", opMod, "7", "4"},                                        //
		{"-0", opAdd, "0", "0"},                                          //
		{"0.00", opMul, "5", "0.00"},                                     //
		{"12345678901234567890123456789012345", opAdd, "1", "not exact"}, // 35 digits
	} {
		a, ok1 := parseDecimal(c.a)
		b, ok2 := parseDecimal(c.b)
		if !ok1 || !ok2 {
			if c.want != "not exact" {
				t.Errorf("%s or %s is not read", c.a, c.b)
			}
			continue
		}
		got := ""
		if d, ok := a.calculate(c.op, b); ok {
			got = d.String()
			if back, ok := parseDecimal(d.value().Text); !ok || back.compare(d) != 0 {
				t.Errorf("%s is kept as %s", got, d.value().Text)
			}
		}
		if got != c.want {
			t.Errorf("%s %s %s = %s, want %s", c.a, symbolOf[c.op], c.b, got, c.want)
		}
	}
}

// A text that is not a decimal, or too long for one, is a double or unknown to filters.
func TestDecimalTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]event.ValueType{
		"1": event.Decimal, "-1.5E+3": event.Decimal, "1E128": event.Decimal, "1E129": event.Double, "1E400": event.Null,
		strings.Repeat("1", 34): event.Decimal, strings.Repeat("1", 35): event.Double, "Infinity": event.Double, "NaN": event.Double,
		"": event.Null, ".": event.Null, "x": event.Null, "1-1": event.Null, "+-1": event.Null, "1.-1": event.Null, "1E": event.Null, "--1": event.Null,
	} {
		if got := known(decimals(text)).Type; got != want {
			t.Errorf("%q is of type %d, want %d", text, got, want)
		}
	}
}

// Against exact fractions: + - * of few digits are exact, and the order is that of the numbers.
func TestDecimalAgainstFractions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		a := decimal{big.NewInt(w.Int64N(1e12) - 5e11), w.IntN(20) - 10}
		b := decimal{big.NewInt(w.Int64N(1e6) - 5e5), w.IntN(10) - 5}
		x, _ := new(big.Rat).SetString(a.String())
		y, _ := new(big.Rat).SetString(b.String())
		if a.compare(b) != x.Cmp(y) {
			t.Fatalf("seed %d: %s compared with %s", seed, a, b)
		}
		for o, want := range map[op]*big.Rat{opAdd: new(big.Rat).Add(x, y), opSub: new(big.Rat).Sub(x, y), opMul: new(big.Rat).Mul(x, y)} {
			d, ok := a.calculate(o, b)
			got, _ := new(big.Rat).SetString(d.String())
			if !ok || got.Cmp(want) != 0 {
				t.Fatalf("seed %d: %s %s %s = %s", seed, a, symbolOf[o], b, d)
			}
		}
	}
}
