package servicebus

import (
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// integer reads a number of any integer type (6.2).
func integer(m amqp.Map, key string) (int64, bool) {
	v, _ := m.Get(key)
	return integerValue(v)
}

func integerValue(v any) (int64, bool) {
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

// elements reads an array or a list alike.
func elements(body amqp.Map, key string) []any {
	v, _ := body.Get(key)
	switch v := v.(type) {
	case amqp.Array:
		return v.Values
	case amqp.List:
		return v
	}
	return nil
}

// lockTokens reads an array or list of uuid with at least one element.
func lockTokens(body amqp.Map) ([]event.LockToken, bool) {
	values := elements(body, "lock-tokens")
	tokens := make([]event.LockToken, 0, len(values))
	for _, v := range values {
		u, ok := v.(amqp.UUID)
		if !ok {
			return nil, false
		}
		tokens = append(tokens, event.LockToken(u))
	}
	return tokens, len(tokens) > 0
}

// sequenceNumbers reads an array or list of numbers with at least one element.
func sequenceNumbers(body amqp.Map) ([]event.SequenceNumber, bool) {
	values := elements(body, "sequence-numbers")
	numbers := make([]event.SequenceNumber, 0, len(values))
	for _, v := range values {
		n, ok := integerValue(v)
		if !ok {
			return nil, false
		}
		numbers = append(numbers, event.SequenceNumber(max(n, 0))) // 0 is nobody's
	}
	return numbers, len(numbers) > 0
}

// sessionID reads the session a request is about. "" is one, null and absent are none.
func sessionID(body amqp.Map) (id string, given, ok bool) {
	v, _ := body.Get("session-id")
	if v == nil {
		return "", false, true
	}
	id, ok = messageSessionOf(v)
	return id, ok, ok
}
