package filter

import (
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The oracle evaluates the tree as it was parsed, in the plainest way, with values of Go: nil is
// unknown, and a bool, int64, float64, *big.Rat (decimal), string, [16]byte (uuid), moment or lapse
// are the others. An error is a panic with failure.
type (
	oracle struct {
		m      *Message
		params []event.Property
		newID  func() [16]byte
	}
	moment  int64
	lapse   int64
	failure string
)

// verdict evaluates a filter: T, F, U or error.
func (o *oracle) verdict(e *expr) (verdict string) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(failure); !ours {
				panic(r)
			}
			verdict = "error"
		}
	}()
	switch o.boolean(e) {
	case true:
		return "T"
	case false:
		return "F"
	}
	return "U"
}

// value evaluates an expression of an action; false: an error.
func (o *oracle) value(e *expr) (v any, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(failure); !ours {
				panic(r)
			}
			v, ok = nil, false
		}
	}()
	return o.eval(e), true
}

func native(v event.Value) any {
	switch v.Type {
	case event.Bool:
		return v.Bits == 1
	case event.Int, event.Long:
		return int64(v.Bits)
	case event.Double:
		return math.Float64frombits(v.Bits)
	case event.Decimal:
		r, _ := new(big.Rat).SetString(v.Text)
		return r
	case event.String:
		return v.Text
	case event.UUID:
		return [16]byte([]byte(v.Text))
	case event.Instant:
		return moment(v.Bits)
	case event.Span:
		return lapse(v.Bits)
	}
	return nil
}

func (o *oracle) lookup(name string) (event.Value, bool) {
	for _, p := range o.m.User {
		if strings.EqualFold(p.Name, name) {
			return p.Value, true
		}
	}
	return event.Value{}, false
}

func (o *oracle) system(name string) any {
	if strings.EqualFold(name, "subject") {
		name = "label"
	}
	for p := range SystemCount {
		if strings.EqualFold(p.String(), name) {
			return native(o.m.System[p])
		}
	}
	panic(failure("no such system property"))
}

// boolean is true, false or nil.
func (o *oracle) boolean(e *expr) any {
	switch v := o.eval(e).(type) {
	case nil, bool:
		return v
	}
	panic(failure("no boolean"))
}

func (o *oracle) eval(e *expr) any {
	switch e.op {
	case opConst:
		return native(e.value)
	case opParam:
		for _, p := range o.params {
			if strings.EqualFold(strings.TrimPrefix(p.Name, "@"), e.name) {
				return native(p.Value)
			}
		}
		panic("a parameter without value")
	case opUser:
		v, _ := o.lookup(e.name)
		return native(v)
	case opSystem:
		return o.system(e.name)
	case opNewID:
		return o.newID()
	case opNamed:
		switch name := o.eval(e.kids[0]).(type) {
		case nil:
			return nil
		case string:
			v, _ := o.lookup(name)
			return native(v)
		}
		panic(failure("no name"))
	case opExists:
		if e.kids[0].op == opSystem {
			return o.system(e.kids[0].name) != nil
		}
		_, there := o.lookup(e.kids[0].name)
		return there
	case opIsNull:
		return (o.eval(e.kids[0]) == nil) != e.not
	case opNot:
		if b := o.boolean(e.kids[0]); b != nil {
			return !b.(bool)
		}
		return nil
	case opAnd, opOr:
		return o.logic(e)
	case opIn:
		return o.in(e)
	case opLike:
		return o.like(e)
	case opPlus, opMinus:
		return sign(e.op, o.eval(e.kids[0]))
	}
	a, b := o.eval(e.kids[0]), o.eval(e.kids[1])
	if a == nil || b == nil {
		return nil
	}
	if e.op >= opEq {
		return compared(e.op, a, b)
	}
	return calculated(e.op, a, b)
}

func (o *oracle) logic(e *expr) any {
	decides := e.op == opOr
	a := o.boolean(e.kids[0])
	if a == decides {
		return decides
	}
	b := o.boolean(e.kids[1])
	switch {
	case b == decides:
		return decides
	case a == nil || b == nil:
		return nil
	}
	return !decides
}

func (o *oracle) in(e *expr) any {
	left := o.eval(e.kids[0])
	if left == nil {
		return nil
	}
	for _, k := range e.kids[1:] {
		if v := o.eval(k); v != nil && compared(opEq, left, v) == true {
			return !e.not
		}
	}
	return e.not
}

func (o *oracle) like(e *expr) any {
	args := []string{"", "", ""}
	wrong := false
	for i, k := range e.kids {
		switch v := o.eval(k).(type) {
		case nil:
			args = nil
		case string:
			if args != nil {
				args[i] = v
			}
		default:
			wrong = true
		}
	}
	switch {
	case args == nil:
		return nil
	case wrong, len(e.kids) == 3 && len([]rune(args[2])) != 1:
		panic(failure("bad LIKE"))
	}
	escape := rune(-1)
	if len(e.kids) == 3 {
		escape = []rune(args[2])[0]
	}
	return naiveLike([]rune(args[0]), []rune(args[1]), escape) != e.not
}

// naiveLike is LIKE by its definition, with a table instead of recursion for the sake of time:
// fits[i][j] says that the rest of the text from i fits the rest of the pattern from j.
func naiveLike(text, pat []rune, escape rune) bool {
	fits := make([][]bool, len(text)+1)
	for i := len(text); i >= 0; i-- {
		fits[i] = make([]bool, len(pat)+1)
		fits[i][len(pat)] = i == len(text)
		for j := len(pat) - 1; j >= 0; j-- {
			more := i < len(text)
			switch {
			case pat[j] == escape && j+1 < len(pat) && strings.ContainsRune("%_"+string(escape), pat[j+1]):
				fits[i][j] = more && text[i] == pat[j+1] && fits[i+1][j+2]
			case pat[j] == '%':
				fits[i][j] = fits[i][j+1] || more && fits[i+1][j]
			case pat[j] == '_':
				fits[i][j] = more && fits[i+1][j+1]
			default:
				fits[i][j] = more && text[i] == pat[j] && fits[i+1][j+1]
			}
		}
	}
	return fits[0][0]
}

func sign(o op, v any) any {
	factor := int64(1)
	if o == opMinus {
		factor = -1
	}
	switch v := v.(type) {
	case nil:
		return nil
	case int64:
		return v * factor
	case lapse:
		return v * lapse(factor)
	case float64:
		return v * float64(factor)
	case *big.Rat:
		return new(big.Rat).Mul(v, big.NewRat(factor, 1))
	}
	panic(failure("no sign"))
}

// rat is a finite number, exactly; number reports whether v is a number at all.
func rat(v any) (r *big.Rat, number bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case *big.Rat:
		return v, true
	case float64:
		return new(big.Rat).SetFloat64(v), true // nil: infinite or not a number
	}
	return nil, false
}

func float(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	r, _ := rat(v)
	f, _ := r.Float64()
	return f
}

func compared(o op, a, b any) any {
	x, n1 := rat(a)
	y, n2 := rat(b)
	if n1 && n2 {
		_, d1 := a.(*big.Rat)
		_, d2 := b.(*big.Rat)
		// a decimal and a double are compared as doubles
		if x == nil || y == nil || d1 != d2 && (isFloat(a) || isFloat(b)) {
			return holds(o, float(a) < float(b), float(a) == float(b), float(a) > float(b))
		}
		c := x.Cmp(y)
		return holds(o, c < 0, c == 0, c > 0)
	}
	if o == opEq || o == opNe {
		return (a == b) == (o == opEq)
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return holds(o, a < b, a == b, a > b)
		}
	case moment:
		if b, ok := b.(moment); ok {
			return holds(o, a < b, a == b, a > b)
		}
	case lapse:
		if b, ok := b.(lapse); ok {
			return holds(o, a < b, a == b, a > b)
		}
	}
	panic(failure("no order"))
}

func isFloat(v any) bool { _, ok := v.(float64); return ok }

func holds(o op, less, same, more bool) bool {
	return map[op]bool{opEq: same, opNe: !same, opLt: less, opLe: less || same, opGt: more, opGe: more || same}[o]
}

func calculated(o op, a, b any) any {
	if o == opAdd && (joins(a) || joins(b)) {
		s := written(a) + written(b)
		if len(s) > maxText {
			panic(failure("too long"))
		}
		return s
	}
	i, int1 := a.(int64)
	j, int2 := b.(int64)
	x, n1 := rat(a)
	y, n2 := rat(b)
	switch {
	case int1 && int2:
		return integerOf(o, i, j)
	case n1 && n2 && (isFloat(a) || isFloat(b)):
		f, g := float(a), float(b)
		return map[op]float64{opAdd: f + g, opSub: f - g, opMul: f * g, opDiv: f / g, opMod: math.Mod(f, g)}[o]
	case n1 && n2:
		return ratOf(o, x, y)
	}
	return timeOf(o, a, b)
}

func integerOf(o op, i, j int64) any {
	if (o == opDiv || o == opMod) && j == 0 {
		panic(failure("division by zero"))
	}
	switch o {
	case opAdd:
		return i + j
	case opSub:
		return i - j
	case opMul:
		return i * j
	case opDiv:
		return i / j
	}
	return i % j
}

func ratOf(o op, x, y *big.Rat) any {
	r := new(big.Rat)
	switch o {
	case opAdd:
		return r.Add(x, y)
	case opSub:
		return r.Sub(x, y)
	case opMul:
		return r.Mul(x, y)
	}
	if y.Sign() == 0 {
		panic(failure("division by zero"))
	}
	r.Quo(x, y)
	if o == opDiv {
		return r
	}
	whole := new(big.Rat).SetInt(new(big.Int).Quo(r.Num(), r.Denom()))
	return r.Sub(x, whole.Mul(whole, y))
}

func timeOf(o op, a, b any) any {
	within := func(m moment) moment {
		if m < 0 || m > event.MaxTicks {
			panic(failure("out of range"))
		}
		return m
	}
	switch a := a.(type) {
	case moment:
		switch b := b.(type) {
		case moment:
			if o == opSub {
				return lapse(a - b)
			}
		case lapse:
			if o == opAdd {
				return within(a + moment(b))
			} else if o == opSub {
				return within(a - moment(b))
			}
		}
	case lapse:
		switch b := b.(type) {
		case moment:
			if o == opAdd {
				return within(moment(a) + b)
			}
		case lapse:
			if o == opAdd {
				return a + b
			} else if o == opSub {
				return a - b
			}
		}
	}
	panic(failure("no arithmetic"))
}

func joins(v any) bool {
	switch v.(type) {
	case string, [16]byte:
		return true
	}
	return false
}

// written is a value as text.
func written(v any) string {
	switch v := v.(type) {
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		return v
	case float64:
		return string(appendDouble(nil, v))
	case *big.Rat:
		return "" // trailing zeros are not known here
	case [16]byte:
		h := hex.EncodeToString(v[:])
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case moment:
		days := int64(v) / event.TicksPerSecond / 86400
		at := time.Date(1, 1, 1+int(days), 0, 0, int(int64(v)/event.TicksPerSecond%86400), int(int64(v)%event.TicksPerSecond)*100, time.UTC)
		return at.Format("2006-01-02T15:04:05.0000000Z")
	case lapse:
		return string(appendSpan(nil, int64(v)))
	}
	panic("no value")
}
