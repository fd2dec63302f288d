// Package jsontext writes JSON in ASCII, so that printing it to a terminal cannot control the
// terminal. Most strings need no escape, and are copied.
//
// Values are written by encoding/json, which has no ASCII mode. This package writes names and
// strings in order: a row (package print), an event as it is read (its sink, for speed: decision
// 75), and the line around fields that are JSON already (package wire, once for each event of a
// mirror). All of them escape with AppendString.
package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

const digits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, as in
// encoding/json.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0 // everything before it has been appended
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		dst = append(dst, s[from:i]...)
		r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		dst = appendEscaped(dst, r)
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// plain returns the place of the first byte from i on that is escaped, len(s) if there is none. It
// checks eight bytes at a time.
func plain[T string | []byte](s T, i int) int {
	const (
		ones  = 0x0101010101010101 // in each byte
		highs = 0x80 * ones
	)
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// the high bit of a byte below a space is set; if one is, others may be set as well
		control := (x - ' '*ones) &^ x
		quote, slash, last := x^'"'*ones, x^'\\'*ones, x^0x7f*ones
		zero := (quote-ones)&^quote | (slash-ones)&^slash | (last-ones)&^last
		if (control|zero|x)&highs != 0 {
			break
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
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

// AppendValue appends a value as encoding/json writes it, but in ASCII and with unescaped < and >,
// which are common in filters.
func AppendValue(dst []byte, v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, err
	}
	return appendASCII(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// appendASCII appends JSON in ASCII: other characters occur only in strings, and are escaped there.
func appendASCII(dst, text []byte) []byte {
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
