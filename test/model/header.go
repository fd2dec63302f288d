package model

import (
	"slices"
	"unicode/utf8"
)

// MaxHeader is what a message may have beside its body, all changes of its properties included, bytes (16.3).
const MaxHeader = 64 << 10

// Change is what a settlement does to the properties of a message.
type Change struct {
	Bytes []byte   // as they are stored; none: nothing
	Words []string // names and values in turn, where all of them are strings: these can be cut
}

// Words is the change that sets properties to strings: names and values in turn.
func Words(words ...string) Change { return Change{properties(words...), words} }

// changed is how many bytes the changes of a message have so far.
func (m *Message) changed() (n int) {
	for _, c := range m.Changes {
		n += len(c)
	}
	return n
}

// room is what changes may have, beside so many bytes of the message as sent.
func (m *Message) room(header int) int { return MaxHeader - header - m.changed() }

// cut shortens what a dead letter is told to what there is room for: the description, then the reason (9.2). Nil: that is not enough.
func (p *Partition) cut(c Change, room int) []byte {
	if len(c.Bytes) <= room {
		return c.Bytes
	}
	words := slices.Clone(c.Words)
	for _, name := range [...]string{"DeadLetterErrorDescription", "DeadLetterReason"} {
		for i := 0; i < len(words); i += 2 {
			for words[i] == name && words[i+1] != "" && size(words) > room {
				_, n := utf8.DecodeLastRuneInString(words[i+1])
				words[i+1] = words[i+1][:len(words[i+1])-n]
			}
		}
	}
	if c.Words == nil || size(words) > room {
		p.TooLarge++
		return nil
	}
	p.Cut++
	return properties(words...)
}

// told is what the broker tells a dead letter, with the reason it has.
func (p *Partition) told(room int, reason, description string) []byte {
	if c := p.cut(Words("DeadLetterReason", reason, "DeadLetterErrorDescription", description), room); c != nil {
		return c
	}
	return headerTooLarge
}

var headerTooLarge = properties("DeadLetterReason", "HeaderSizeExceeded",
	"DeadLetterErrorDescription", "The size quota for this stream has been exceeded.")

// size is that of properties.
func size(words []string) (n int) {
	for _, w := range words {
		n += len(w) + 2
		if len(w) > 255 {
			n += 3
		}
	}
	return n + 9
}
