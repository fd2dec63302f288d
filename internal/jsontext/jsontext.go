// Package jsontext writes JSON in ASCII: whoever prints it to a terminal prints nothing that the terminal acts on. Most strings need no escape, and are copied.
package jsontext

import (
	"unicode/utf16"
	"unicode/utf8"
)

const digits = "0123456789abcdef"

// AppendString appends s as a JSON string. What is not UTF-8 becomes U+FFFD, as encoding/json has it.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0 // what stands before it has been appended
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		r, n := utf8.DecodeRuneInString(s[i:])
		dst = appendEscaped(dst, r)
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return appendRune(dst, r)
}

// AppendASCII appends JSON in ASCII: what is not stands in strings, and is escaped there.
func AppendASCII(dst, text []byte) []byte {
	for _, r := range string(text) {
		if r < 0x7f {
			dst = append(dst, byte(r))
		} else {
			dst = appendRune(dst, r)
		}
	}
	return dst
}

func appendRune(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return appendUnit(appendUnit(dst, high), low)
	}
	return appendUnit(dst, r)
}

// appendUnit appends a code unit of UTF-16.
func appendUnit(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
