package model

import (
	"slices"
	"unicode/utf8"
)

// MaxHeader is what a message may have beside its body, all changes of its properties included,
// bytes (16.3).
const MaxHeader = 64 << 10

// Change is what a settlement does to the properties of a message.
type Change struct {
	Bytes []byte   // as they are stored; none: nothing
	Words []string // names and values in turn, where all of them are strings: these can be cut
	Value []byte   // of the property [ValueName], encoded, where there is no other
}

// ValueName is the property that has a value of any kind.
const ValueName = "v"

// Words is the change of a client that sets properties to strings: names and values in turn.
func Words(words ...string) Change { return Change{Bytes: properties(words...), Words: words} }

// Value is the change of a client that sets a property to an encoded value.
func Value(b []byte) Change {
	return Change{Bytes: stored(0, nil, 1, entry(ValueName, encodedValue(b)), 0, nil), Value: b}
}

// ValueOf is the length of an encoded value whose change takes that many bytes, or as close to that
// as there is.
func ValueOf(size int) int {
	n := size - len(Value(nil).Bytes)
	return max(n+1-len(number(uint64(max(n, 0)))), 1)
}

// changed is how many bytes the changes of a message have so far.
func (m *Message) changed() (n int) {
	for _, c := range m.Changes {
		n += len(c)
	}
	return n
}

// room is how many bytes changes may take, beside that many of the message as sent.
func (m *Message) room(header int) int { return MaxHeader - header - m.changed() }

// cut shortens what a dead letter is told to what there is room for: the description, then the
// reason (9.2). Nil: that is not enough.
func (p *Partition) cut(c Change, room int) []byte {
	if len(c.Bytes) <= room {
		return c.Bytes
	}
	words := slices.Clone(c.Words)
	for _, name := range [...]string{"DeadLetterErrorDescription", "DeadLetterReason"} {
		for i := 0; i < len(words); i += 2 {
			for words[i] == name && words[i+1] != "" && len(properties(words...)) > room {
				_, n := utf8.DecodeLastRuneInString(words[i+1])
				words[i+1] = words[i+1][:len(words[i+1])-n]
			}
		}
	}
	if c.Words == nil || len(properties(words...)) > room {
		p.TooLarge++
		return nil
	}
	p.Cut++
	return properties(words...)
}

// told is what the broker tells a dead letter, with the reason it has.
func (p *Partition) told(room int, reason, description string) []byte {
	words := []string{"DeadLetterReason", reason, "DeadLetterErrorDescription", description}
	if c := p.cut(Change{Bytes: properties(words...), Words: words}, room); c != nil {
		return c
	}
	return headerTooLarge
}

var headerTooLarge = properties("DeadLetterReason", "HeaderSizeExceeded",
	"DeadLetterErrorDescription", "The size quota for this stream has been exceeded.")
