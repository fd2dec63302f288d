package engine

import (
	"encoding/binary"
	"unicode/utf8"
)

// Stored property changes are an encoded AMQP map of application properties (docs/log-format.md): bytes as clients send
// them. The broker itself changes properties only when it dead-letters, so this is all the engine knows of that encoding; it
// imports no protocol, and so does not ask package amqp where a value ends.

const (
	amqpDescribed = 0x00
	amqpMap8      = 0xc1
	amqpMap32     = 0xd1
	amqpString8   = 0xa1
	amqpString32  = 0xb1
)

// mapHeader is how many bytes a wide map has before its first key.
const mapHeader = 9

// The properties that say why a message is in a dead-letter queue (semantics.md 9.2).
const (
	reasonKey      = "DeadLetterReason"
	descriptionKey = "DeadLetterErrorDescription"
)

// deadLetterChanges encodes the two properties of a message the broker dead-letters.
func deadLetterChanges(reason, description string) []byte {
	dst := make([]byte, mapHeader, mapHeader+64+len(reason)+len(description))
	for _, s := range []string{reasonKey, reason, descriptionKey, description} {
		dst = appendText(dst, s)
	}
	return closeMap(dst, 4)
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	if len(s) < 256 {
		dst = append(dst, amqpString8, byte(len(s)))
	} else {
		dst = append(dst, amqpString32)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	}
	return append(dst, s...)
}

// closeMap fills in the header of a map of so many keys and values.
func closeMap(dst []byte, elements int) []byte {
	dst[0] = amqpMap32
	binary.BigEndian.PutUint32(dst[1:], uint32(len(dst)-5))
	binary.BigEndian.PutUint32(dst[5:], uint32(elements))
	return dst
}

// shortened cuts the description in property changes, then the reason, so that they take no more bytes than there is room for
// (semantics.md 9.2). ok is false when that is not enough. The bytes given stay as they are.
func shortened(changes []byte, room int) (_ []byte, ok bool) {
	all, ok := elements(changes)
	if !ok {
		return nil, false
	}
	size := mapHeader
	for _, e := range all {
		size += len(e)
	}
	for _, key := range []string{descriptionKey, reasonKey} {
		for i := 0; i+1 < len(all) && size > room; i += 2 {
			name, _ := textOf(all[i])
			if value, ok := textOf(all[i+1]); ok && string(name) == key {
				size -= len(all[i+1])
				keep := room - size - 2
				if keep > 255 { // a long one takes three bytes more
					keep = max(255, keep-3)
				}
				all[i+1] = appendText(nil, clipTo(value, keep))
				size += len(all[i+1])
			}
		}
	}
	if size > room {
		return nil, false
	}
	dst := make([]byte, mapHeader, size)
	for _, e := range all {
		dst = append(dst, e...)
	}
	return closeMap(dst, len(all)), true
}

// clipTo cuts a text to at most n bytes, at a character.
func clipTo[T string | []byte](s T, n int) T {
	if n >= len(s) {
		return s
	}
	n = max(0, n)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// elements splits an encoded map into its encoded keys and values.
func elements(b []byte) (all [][]byte, ok bool) {
	switch {
	case len(b) != 0 && valueSize(b) != len(b):
		return nil, false
	case len(b) >= 3 && b[0] == amqpMap8:
		b = b[3:]
	case len(b) >= mapHeader && b[0] == amqpMap32:
		b = b[mapHeader:]
	default:
		return nil, false
	}
	for len(b) > 0 {
		n := valueSize(b)
		if n == 0 {
			return nil, false
		}
		all, b = append(all, b[:n]), b[n:]
	}
	return all, true
}

// textOf is the text of an encoded string.
func textOf(e []byte) (_ []byte, ok bool) {
	switch e[0] {
	case amqpString8:
		return e[2:], true
	case amqpString32:
		return e[5:], true
	}
	return nil, false
}

// valueSize is how many bytes the value at the head of b takes; 0 when it is not there as a whole. The upper half of a
// constructor says how wide the value is, or its length (AMQP 1.0 part 1.2.2).
func valueSize(b []byte) (n int) {
	switch {
	case len(b) == 0 || b[0] != amqpDescribed && b[0] < 0x40:
		return 0
	case b[0] == amqpDescribed:
		descriptor := valueSize(b[1:])
		if descriptor == 0 {
			return 0
		}
		value := valueSize(b[1+descriptor:])
		if value == 0 {
			return 0
		}
		n = 1 + descriptor + value
	case b[0] < 0x50:
		n = 1
	case b[0] < 0xa0:
		n = 1 + 1<<(b[0]>>4-5)
	case b[0]>>4&1 == 0 && len(b) >= 2:
		n = 2 + int(b[1])
	case b[0]>>4&1 == 1 && len(b) >= 5:
		n = 5 + int(binary.BigEndian.Uint32(b[1:]))
	}
	if n > len(b) {
		return 0
	}
	return n
}
