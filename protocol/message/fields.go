package message

import (
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Text returns the value of a string or symbol.
func Text(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case amqp.Symbol:
		return string(v), true
	}
	return "", false
}

// TextOf returns the entry of a map if it is a string or symbol, else "".
func TextOf(m amqp.Map, key string) string {
	v, _ := m.Get(key)
	text, _ := Text(v)
	return text
}

// sessionIDOf returns the id of a message session: a string or symbol, or a binary that is UTF-8,
// as for the keys of a message (5.2).
func sessionIDOf(v any) (string, bool) {
	if b, ok := v.([]byte); ok {
		return string(b), utf8.Valid(b)
	}
	return Text(v)
}

// Integer reads an entry of a map that is a number of any integer type (6.2). A ulong above the
// largest long becomes the largest long.
func Integer(m amqp.Map, key string) (n int64, ok bool) {
	v, _ := m.Get(key)
	return integerOf(v)
}

func integerOf(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(min(v, 1<<63-1)), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Elements reads an entry that is an array or a list; nil: it is neither.
func Elements(body amqp.Map, key string) []any {
	v, _ := body.Get(key)
	switch v := v.(type) {
	case amqp.Array:
		return v.Values
	case amqp.List:
		return v
	}
	return nil
}

// LockTokens reads the lock tokens of a request (6.3): an array or list of uuid with at least one
// element.
func LockTokens(body amqp.Map) (tokens []event.LockToken, ok bool) {
	values := Elements(body, "lock-tokens")
	tokens = make([]event.LockToken, 0, len(values))
	for _, v := range values {
		u, ok := v.(amqp.UUID)
		if !ok {
			return nil, false
		}
		tokens = append(tokens, event.LockToken(u))
	}
	return tokens, len(tokens) > 0
}

// SequenceNumbers reads the sequence numbers of a request (6.3): an array or list of numbers with
// at least one element.
func SequenceNumbers(body amqp.Map) (numbers []event.SequenceNumber, ok bool) {
	values := Elements(body, "sequence-numbers")
	numbers = make([]event.SequenceNumber, 0, len(values))
	for _, v := range values {
		n, ok := integerOf(v)
		if !ok {
			return nil, false
		}
		numbers = append(numbers, event.SequenceNumber(max(n, 0))) // no message has number 0
	}
	return numbers, len(numbers) > 0
}

// SessionID reads the message session of a request (6.3). "" is a valid id. given is false if it is
// null or absent, which is valid as well.
func SessionID(body amqp.Map) (id string, given, ok bool) {
	v, _ := body.Get("session-id")
	if v == nil {
		return "", false, true
	}
	id, ok = sessionIDOf(v)
	return id, ok, ok
}

// Short returns the beginning of a peer's text, at most n bytes of it, cut at a character boundary.
func Short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
