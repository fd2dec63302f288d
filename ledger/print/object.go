package print

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/ledgerbus/ledgerbus/internal/jsontext"
)

// Object is named values in the order in which they are printed. A value is a string, bool or number, something that prints as
// ASCII, an object or an array.
type Object []Field

// Field is a named value.
type Field struct {
	Name  string
	Value any
}

// Named returns a field.
func Named(name string, value any) Field { return Field{name, value} }

// array is values one after the other.
type array []any

// AppendText appends the fields as name=value, with a space before each.
func (o Object) AppendText(dst []byte) []byte { return o.text(dst, " ", "") }

// text appends the fields as name=value, with sep before each. The fields of an object have its name before theirs.
func (o Object) text(dst []byte, sep, prefix string) []byte {
	for _, f := range o {
		if inner, ok := f.Value.(Object); ok {
			dst = inner.text(dst, sep, prefix+f.Name+".")
			continue
		}
		dst = append(append(append(append(dst, sep...), prefix...), f.Name...), '=')
		dst = appendText(dst, f.Value)
	}
	return dst
}

// appendText appends a value in ASCII: terminals act on more than control characters.
func appendText(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return strconv.AppendQuoteToASCII(dst, v)
	case Object:
		dst = append(dst, '{')
		for i := range v {
			sep := " "
			if i == 0 {
				sep = ""
			}
			dst = v[i:i+1].text(dst, sep, "")
		}
		return append(dst, '}')
	case array:
		dst = append(dst, '[')
		for i := range v {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = appendText(dst, v[i])
		}
		return append(dst, ']')
	}
	return fmt.Append(dst, v)
}

// AppendJSON appends the fields as one object in ASCII.
func (o Object) AppendJSON(dst []byte) ([]byte, error) { return appendJSON(dst, o) }

func appendJSON(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case Object:
		dst = append(dst, '{')
		for i, f := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsontext.AppendString(dst, f.Name), ':')
			if dst, err = appendJSON(dst, f.Value); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case array:
		dst = append(dst, '[')
		for i := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, v[i]); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case string:
		return jsontext.AppendString(dst, v), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	}
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false) // filters are full of < and >
	if err := out.Encode(v); err != nil {
		return nil, err
	}
	return jsontext.AppendASCII(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
