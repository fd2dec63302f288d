package client

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"

	wire "github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A value of AMQP has two forms in JSON. The plain form is for people: times and ids are texts. The
// typed form can be read back as the same value. It is the plain form if that determines the type
// (a text, true, false, null, a whole number, which is a long, any other number, which is a double,
// a list). Otherwise it is an object with the type, such as {"type": "uuid", "value": "…"}.

// decodeLimits are the limits for values that the AMQP library has already decoded.
var decodeLimits = wire.Limits{Depth: 100, Described: 10, Elements: 1 << 24, ZeroWidth: 1 << 20}

// maxDepth is the maximum nesting of lists, maps and described values in JSON.
const maxDepth = 30

// arrayCodes are the possible types of array elements, with the constructors to write.
var arrayCodes = map[string]byte{
	"null": wire.CodeNull, "bool": wire.CodeBool, "ubyte": wire.CodeUbyte, "ushort": wire.CodeUshort, "uint": wire.CodeUint,
	"ulong": wire.CodeUlong, "byte": wire.CodeByte, "short": wire.CodeShort, "int": wire.CodeInt, "long": wire.CodeLong,
	"float": wire.CodeFloat, "double": wire.CodeDouble, "char": wire.CodeChar, "time": wire.CodeTimestamp, "uuid": wire.CodeUUID,
	"binary": wire.CodeBin8, "string": wire.CodeStr8, "symbol": wire.CodeSym8, "decimal32": wire.CodeDecimal32,
	"decimal64": wire.CodeDecimal64, "decimal128": wire.CodeDecimal128, "list": wire.CodeList32, "map": wire.CodeMap32,
	"array": wire.CodeArray32,
}

// shortConstructors are the constructors that encode a type in fewer bytes.
var shortConstructors = map[byte]byte{
	wire.CodeTrue: wire.CodeBool, wire.CodeFalse: wire.CodeBool, wire.CodeUint0: wire.CodeUint, wire.CodeSmallUint: wire.CodeUint,
	wire.CodeUlong0: wire.CodeUlong, wire.CodeSmallUlong: wire.CodeUlong, wire.CodeSmallInt: wire.CodeInt, wire.CodeSmallLong: wire.CodeLong,
	wire.CodeBin32: wire.CodeBin8, wire.CodeStr32: wire.CodeStr8, wire.CodeSym32: wire.CodeSym8, wire.CodeList0: wire.CodeList32,
	wire.CodeList8: wire.CodeList32, wire.CodeMap8: wire.CodeMap32, wire.CodeArray8: wire.CodeArray32,
}

// opaqueTypes are the names and lengths of the types that are passed through without
// interpretation.
var opaqueTypes = map[byte]struct {
	name  string
	bytes int
}{wire.CodeDecimal32: {"decimal32", 4}, wire.CodeDecimal64: {"decimal64", 8}, wire.CodeDecimal128: {"decimal128", 16}}

// typeName returns the type of a value as the typed form names it.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case uint8:
		return "ubyte"
	case uint16:
		return "ushort"
	case uint32:
		return "uint"
	case uint64:
		return "ulong"
	case int8:
		return "byte"
	case int16:
		return "short"
	case int32:
		return "int"
	case int64:
		return "long"
	case float32:
		return "float"
	case float64:
		return "double"
	case wire.Char:
		return "char"
	case wire.Timestamp:
		return "time"
	case wire.UUID:
		return "uuid"
	case []byte:
		return "binary"
	case wire.Symbol:
		return "symbol"
	case wire.Opaque:
		return opaqueTypes[v.Code].name
	case wire.List:
		return "list"
	case wire.Map:
		return "map"
	case wire.Array:
		return "array"
	}
	return fmt.Sprintf("%T", v) // bool, string
}

// withType converts a value of the AMQP library to a value with its AMQP type, with maps in the
// order of their keys. Values that already have a type stay.
func withType(v any) any {
	switch v := v.(type) {
	case amqp.Null:
		return nil
	case amqp.UUID:
		return wire.UUID(v)
	case amqp.Symbol:
		return wire.Symbol(v)
	case time.Time:
		return wire.Timestamp(v.UnixMilli())
	case nil, bool, string, []byte, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float32, float64,
		wire.Symbol, wire.UUID, wire.Timestamp, wire.Char, wire.Opaque:
		return v
	case wire.List, wire.Map, wire.Array, wire.Described:
		return sortMaps(v)
	case []any: // elements of either form
		return wire.List(each(v, withType))
	}
	encoded, err := (&amqp.Message{Value: v}).MarshalBinary()
	if err != nil {
		return fmt.Sprint(v) // not a value of AMQP
	}
	_, content, _ := wire.SectionContent(encoded)
	decoded, _, err := wire.DecodeValue(content, decodeLimits)
	if err != nil {
		return fmt.Sprint(v)
	}
	return sortMaps(decoded)
}

// sortMaps sorts the entries of all maps in a value by their keys. The library keeps no order,
// and the order has no meaning.
func sortMaps(v any) any {
	switch v := v.(type) {
	case wire.List:
		for i := range v {
			v[i] = sortMaps(v[i])
		}
	case wire.Array:
		for i := range v.Values {
			v.Values[i] = sortMaps(v.Values[i])
		}
	case wire.Map:
		for i := range v {
			v[i].Value = sortMaps(v[i].Value)
		}
		slices.SortFunc(v, func(a, b wire.Pair) int {
			return bytes.Compare(wire.AppendValue(nil, a.Key), wire.AppendValue(nil, b.Key))
		})
	case wire.Described:
		v.Value = sortMaps(v.Value)
		return v
	}
	return v
}

// plainForm returns a value in the plain form of JSON.
func plainForm(v any) any {
	switch v := v.(type) {
	case float32, float64: // JSON has no NaN and no infinities
		if _, err := json.Marshal(v); err != nil {
			return fmt.Sprint(v)
		}
	case wire.Char:
		if !utf8.ValidRune(rune(v)) {
			return int64(v)
		}
		return string(rune(v))
	case wire.Timestamp:
		at := time.UnixMilli(int64(v)).UTC()
		if at.Year() < 0 || at.Year() > 9999 {
			return int64(v)
		}
		return at.Format(time.RFC3339Nano)
	case wire.UUID:
		return v.String()
	case wire.Opaque:
		return "0x" + hex.EncodeToString(v.Bytes)
	case wire.List:
		return each(v, plainForm)
	case wire.Array:
		return each(v.Values, plainForm)
	case wire.Map:
		m := make(map[string]any, len(v))
		for _, p := range v {
			m[text(p.Key)] = plainForm(p.Value)
		}
		return m
	case wire.Described:
		return map[string]any{"Descriptor": v.Descriptor, "Value": typedForm(v.Value)}
	}
	return v
}

func each(list []any, form func(any) any) []any {
	items := make([]any, len(list))
	for i := range list {
		items[i] = form(list[i])
	}
	return items
}

// typedForm returns a value in the typed form, which can be read back as the same value.
func typedForm(v any) any {
	switch v := v.(type) {
	case wire.List:
		return each(v, typedForm)
	case wire.Described:
		return plainForm(v)
	case wire.Map:
		entries := make([]any, len(v))
		for i, p := range v {
			entries[i] = []any{typedForm(p.Key), typedForm(p.Value)}
		}
		return map[string]any{"type": "map", "value": entries}
	case wire.Array:
		m := map[string]any{"type": "array", "of": elementType(v.Elem), "value": each(v.Values, typedForm)}
		if len(v.Descriptors) > 0 {
			m["descriptors"] = each(v.Descriptors, typedForm)
		}
		return m
	}
	if isPlainEnough(v) {
		return plainForm(v)
	}
	return map[string]any{"type": typeName(v), "value": plainForm(v)}
}

func elementType(code byte) string {
	if wide, ok := shortConstructors[code]; ok {
		code = wide
	}
	for name, c := range arrayCodes {
		if c == code {
			return name
		}
	}
	return ""
}

// isPlainEnough reports whether the plain form of a value determines it completely.
func isPlainEnough(v any) bool {
	switch v.(type) {
	case nil, bool, string, int64:
		return true
	}
	encoded, err := json.Marshal(plainForm(v))
	if err != nil {
		return false
	}
	back, err := readJSON(encoded)
	if err == nil {
		back, err = parseValue(back, 0)
	}
	return err == nil && sameEncoding(back, v)
}

// sameEncoding reports whether two values have the same encoding.
func sameEncoding(a, b any) bool {
	return bytes.Equal(wire.AppendValue(nil, sortMaps(a)), wire.AppendValue(nil, sortMaps(b)))
}

// readJSON reads one value and keeps its numbers as written.
func readJSON(encoded []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// parseValue reads the typed form. An object without a type is a map with text keys.
func parseValue(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return parseAs("double", v)
		}
		return parseAs("long", v)
	case []any:
		return parseList(v, depth)
	case map[string]any:
		kind, isTyped := v["type"].(string)
		_, hasDescriptor := v["Descriptor"]
		inner, hasValue := v["Value"]
		switch {
		case isTyped:
			return parseTyped(kind, v, depth)
		case len(v) == 2 && hasDescriptor && hasValue:
			return parseDescribed(v["Descriptor"], inner, depth)
		}
		m := make(wire.Map, 0, len(v))
		for key, value := range v {
			value, err := parseValue(value, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", key, err)
			}
			m = append(m, wire.Pair{Key: key, Value: value})
		}
		return sortMaps(m), nil
	}
	return v, nil
}

func parseList(v []any, depth int) (list wire.List, err error) {
	list = make(wire.List, len(v))
	for i := range v {
		if list[i], err = parseValue(v[i], depth+1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseDescribed(descriptor, value any, depth int) (any, error) {
	d := wire.Described{}
	var err error
	switch descriptor.(type) {
	case string:
		d.Descriptor, err = parseAs("symbol", descriptor)
	default:
		d.Descriptor, err = parseAs("ulong", descriptor)
	}
	if err == nil {
		d.Value, err = parseValue(value, depth+1)
	}
	return d, err
}

// parseTyped reads an object with a type.
func parseTyped(kind string, v map[string]any, depth int) (any, error) {
	for name := range v {
		if name != "type" && name != "value" && (kind != "array" || name != "of" && name != "descriptors") {
			return nil, fmt.Errorf("%q: a value of the type %q has no such member", name, kind)
		}
	}
	if _, ok := v["value"]; !ok && kind != "null" {
		return nil, fmt.Errorf("%q has no value", kind)
	}
	items, isList := v["value"].([]any)
	switch {
	case kind == "list" && isList:
		return parseList(items, depth)
	case kind == "map" && isList:
		return parseMap(items, depth)
	case kind == "array" && isList:
		return parseArray(v, items, depth)
	}
	return parseAs(kind, v["value"])
}

func parseMap(items []any, depth int) (any, error) {
	m := make(wire.Map, 0, len(items))
	keys := make(map[string]bool, len(items))
	for _, item := range items {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			return nil, errors.New("an entry of a map must be a list of a key and a value")
		}
		list, err := parseList(pair, depth)
		if err != nil {
			return nil, err
		}
		switch list[0].(type) {
		case wire.List, wire.Map, wire.Array, wire.Described:
			return nil, errors.New("the key of a map must be a simple value")
		}
		key := string(wire.AppendValue(nil, list[0]))
		if keys[key] {
			return nil, fmt.Errorf("the map has the key %s twice", text(list[0]))
		}
		keys[key] = true
		m = append(m, wire.Pair{Key: list[0], Value: list[1]})
	}
	return sortMaps(m), nil
}

func parseArray(v map[string]any, items []any, depth int) (any, error) {
	of, _ := v["of"].(string)
	code, ok := arrayCodes[of]
	if !ok {
		return nil, fmt.Errorf("array of %q: unknown type", of)
	}
	list, err := parseList(items, depth)
	if err != nil {
		return nil, err
	}
	for _, item := range list {
		if typeName(item) != of {
			return nil, fmt.Errorf("array of %q with an element of type %q", of, typeName(item))
		}
	}
	a := wire.Array{Elem: code, Values: list}
	descriptors, _ := v["descriptors"].([]any)
	for _, d := range descriptors {
		d, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		switch d.(type) {
		case wire.Symbol, uint64:
			a.Descriptors = append(a.Descriptors, d)
		default:
			return nil, errors.New("a descriptor must be a symbol or a ulong")
		}
	}
	return a, nil
}

// parseAs reads the plain form of a value of a known type. It is a text, a number or a boolean.
func parseAs(kind string, v any) (value any, err error) {
	s := ""
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		if s = v.String(); kind == "char" {
			return parseChar(s)
		}
	case bool:
		s = strconv.FormatBool(v)
	case nil:
		if kind == "null" {
			return nil, nil
		}
		return nil, fmt.Errorf("null is not a valid %s", kind)
	default:
		return nil, fmt.Errorf("a list or an object is not a valid %s", kind)
	}
	value, err = parseText(kind, s)
	if errors.Is(err, errType) {
		return nil, fmt.Errorf("unknown type %q", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%.80q is not a valid %s", s, kind)
	}
	return value, nil
}

// errType reports an unknown type.
var errType = errors.New("no such type")

// parseText reads a simple value by its type.
func parseText(kind, s string) (any, error) {
	for code, d := range opaqueTypes {
		if d.name == kind {
			digits, ok := strings.CutPrefix(s, "0x")
			b, err := hex.DecodeString(digits)
			if !ok || err != nil || len(b) != d.bytes {
				return nil, strconv.ErrSyntax
			}
			return wire.Opaque{Code: code, Bytes: b}, nil
		}
	}
	switch kind {
	case "bool":
		if s != "true" && s != "false" {
			return nil, strconv.ErrSyntax
		}
		return s == "true", nil
	case "ubyte", "ushort", "uint", "ulong":
		return parseUnsigned(kind, s)
	case "byte", "short", "int", "long":
		return parseSigned(kind, s)
	case "float":
		f, err := strconv.ParseFloat(s, 32)
		return float32(f), err
	case "double":
		return strconv.ParseFloat(s, 64)
	case "string":
		return s, nil
	case "symbol":
		return asciiSymbol(s)
	case "binary":
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		return b, err
	case "uuid":
		id, err := uuid.Parse(s)
		return wire.UUID(id), err
	case "char":
		r, n := utf8.DecodeRuneInString(s)
		if n == 0 || n < len(s) || r == utf8.RuneError && n == 1 {
			return nil, strconv.ErrSyntax
		}
		return wire.Char(r), nil
	case "time":
		if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
			return wire.Timestamp(ms), nil
		}
		at, err := time.Parse(time.RFC3339Nano, s)
		return wire.Timestamp(at.UnixMilli()), err
	}
	return nil, errType
}

func parseUnsigned(kind, s string) (any, error) {
	n, err := strconv.ParseUint(s, 10, map[string]int{"ubyte": 8, "ushort": 16, "uint": 32, "ulong": 64}[kind])
	switch kind {
	case "ubyte":
		return uint8(n), err
	case "ushort":
		return uint16(n), err
	case "uint":
		return uint32(n), err
	}
	return n, err
}

func parseSigned(kind, s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, map[string]int{"byte": 8, "short": 16, "int": 32, "long": 64}[kind])
	switch kind {
	case "byte":
		return int8(n), err
	case "short":
		return int16(n), err
	case "int":
		return int32(n), err
	}
	return n, err
}

// parseChar reads a code point. Half of a 16-bit surrogate pair has no text.
func parseChar(s string) (any, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > utf8.MaxRune {
		return nil, fmt.Errorf("%s is not a code point", s)
	}
	return wire.Char(n), nil
}

// asciiSymbol returns a symbol, which has only ASCII characters.
func asciiSymbol(s string) (any, error) {
	for i := range len(s) {
		if s[i] > 0x7f {
			return nil, strconv.ErrSyntax
		}
	}
	return wire.Symbol(s), nil
}
