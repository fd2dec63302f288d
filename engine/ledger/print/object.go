package print

import (
	"fmt"
	"strconv"

	"github.com/ledgerbus/ledgerbus/internal/jsontext"
)

// Object is a list of named values in the order in which they are printed. A value is a string,
// bool or number, something that prints as ASCII, an object or an array.
type Object []Field

// Field is a named value.
type Field struct {
	Name   string
	text   string // of a text field
	number uint64 // of a number field
	other  any    // of any other form
	form   form
}

// Named returns a field.
func Named(name string, value any) Field {
	switch v := value.(type) {
	case string:
		return String(name, v)
	case uint64:
		return Uint64(name, v)
	}
	return Field{Name: name, other: value}
}

// String returns a text field, as [Named] does, but without an allocation.
func String(name, value string) Field { return Field{Name: name, text: value, form: texts} }

// Uint64 returns a number field, as [Named] does, but without an allocation.
func Uint64(name string, value uint64) Field { return Field{Name: name, number: value, form: number} }

// Value returns the value.
func (f *Field) Value() any {
	switch f.form {
	case texts:
		return f.text
	case number:
		return f.number
	}
	return f.other
}

// array is a list of values.
type array []any

// AppendText appends the fields as name=value, with a space before each.
func (o Object) AppendText(dst []byte) []byte { return o.text(dst, " ", "") }

// text appends the fields as name=value, with sep before each. The name of an object precedes the
// names of its fields.
func (o Object) text(dst []byte, sep, prefix string) []byte {
	for i := range o {
		f := &o[i]
		if inner, ok := f.other.(Object); ok {
			dst = inner.text(dst, sep, prefix+f.Name+".")
			continue
		}
		dst = append(append(append(append(dst, sep...), prefix...), f.Name...), '=')
		switch f.form {
		case texts:
			dst = strconv.AppendQuoteToASCII(dst, f.text)
		case number:
			dst = strconv.AppendUint(dst, f.number, 10)
		default:
			dst = appendText(dst, f.other)
		}
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
func (o Object) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = o[i].appendJSON(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendJSON appends a member of an object.
func (f *Field) appendJSON(dst []byte) ([]byte, error) {
	dst = append(jsontext.AppendString(dst, f.Name), ':')
	switch f.form {
	case texts:
		return jsontext.AppendString(dst, f.text), nil
	case number:
		return strconv.AppendUint(dst, f.number, 10), nil
	}
	return appendJSON(dst, f.other)
}

func appendJSON(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case Object:
		return v.AppendJSON(dst)
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
	return jsontext.AppendValue(dst, v)
}
