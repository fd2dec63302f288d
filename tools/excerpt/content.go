package excerpt

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A role is the meaning of a blob's bytes.
type role uint8

const (
	isBody    role = iota // a message as sent
	isChanges             // changes of a message's properties
	isState               // state of a session
)

// roleOf returns the role of a blob of an event.
func roleOf(ev event.Event, b event.Blob) role {
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		return isBody
	case *event.MessageScheduled:
		return isBody
	case *event.MessageHandedOver:
		return isBody
	case *event.MessagePublished:
		if ev.Body.Size != 0 && ev.Body.Position == b.Position {
			return isBody
		}
	case *event.SessionStateSet:
		return isState
	}
	return isChanges
}

// substitute returns the replacement of bytes that are not kept: the same number of bytes, readable
// in the same role.
func substitute(of role, size int, text string) []byte {
	switch of {
	case isChanges:
		return noChanges(size)
	case isState:
		return padded(text, size)
	}
	return body(text, size)
}

func padded(text string, size int) []byte {
	p := bytes.Repeat([]byte{' '}, size)
	copy(p, text)
	return p
}

// body returns a message of a size: one data section with as much of a text as fits.
func body(text string, size int) []byte {
	switch {
	case size >= 8:
		p := padded("", size)
		copy(p, "\x00\x53\x75\xb0")
		binary.BigEndian.PutUint32(p[4:], uint32(size-8))
		copy(p[8:], text)
		return p
	case size >= 5:
		p := padded("", size)
		copy(p, []byte{0, 0x53, 0x75, 0xa0, byte(size - 5)})
		return p
	case size == 4: // an amqp-value, null
		return []byte{0, 0x53, 0x77, 0x40}
	}
	return make([]byte, size) // too short for a message
}

// noChanges returns property changes of a size, at least four bytes, that change nothing: they
// remove properties that no message has.
func noChanges(size int) []byte {
	const longest = 128 // bytes of a name and its length
	for width := 1; size >= 3+width; width++ {
		// the rest is: bytes of names; the rest is the form, their number, and the end
		all := size - 3 - width
		n := max((all+longest-1)/longest, 1<<(7*(width-1)))
		if width == 1 && all == 0 {
			n = 0
		}
		if uvarintSize(n) != width {
			continue
		}
		c := event.RuleChanges{Removed: make([]string, n)}
		for i := range n {
			c.Removed[i] = string(padded("", all*(i+1)/n-all*i/n-1))
		}
		return c.Append(nil)
	}
	return make([]byte, size) // too short for changes
}

func uvarintSize(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// digest returns a text that identifies a body: the SHA-256 of its payload.
func digest(stored []byte) string {
	sum := sha256.Sum256(payload(stored))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// payload returns the body that a program has sent: the contents of a message's data sections, or
// other body sections unchanged. If the bytes are not a message, it returns all of them.
func payload(stored []byte) (data []byte) {
	for p := stored; len(p) > 0; {
		code, rest, ok := section(p)
		size, head, whole := value(rest)
		if !ok || !whole {
			return stored
		}
		switch code {
		case 0x75:
			data = append(data, rest[head:size]...)
		case 0x76, 0x77:
			data = append(data, p[:len(p)-len(rest)+size]...)
		}
		p = rest[size:]
	}
	return data
}

// section reads the descriptor of a section of a message.
func section(p []byte) (code byte, rest []byte, ok bool) {
	switch {
	case len(p) >= 3 && p[0] == 0 && p[1] == 0x53:
		return p[2], p[3:], true
	case len(p) >= 10 && p[0] == 0 && p[1] == 0x80:
		return p[9], p[10:], true
	}
	return 0, nil, false
}

// value returns the length of an AMQP value with its constructor, and the start of its contents.
func value(p []byte) (size, head int, ok bool) {
	if len(p) == 0 {
		return 0, 0, false
	}
	fixed := map[byte]int{4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
	switch class := p[0] >> 4; class {
	case 0xa, 0xc, 0xe:
		if len(p) < 2 {
			return 0, 0, false
		}
		size, head = 2+int(p[1]), 2
	case 0xb, 0xd, 0xf:
		if len(p) < 5 {
			return 0, 0, false
		}
		size, head = 5+int(binary.BigEndian.Uint32(p[1:])), 5
	default:
		n, known := fixed[class]
		if !known {
			return 0, 0, false
		}
		size, head = 1+n, 1
	}
	return size, head, size <= len(p)
}

// masks replaces the keys of access rules with unknown keys, equal keys with equal ones.
type masks [32]byte

func (m *masks) of(key string) string {
	p := make([]byte, 0, len(key)+64)
	for i := byte(0); len(p) < len(key); i++ {
		h := hmac.New(sha256.New, m[:])
		h.Write([]byte{i})
		h.Write([]byte(key))
		p = base64.StdEncoding.AppendEncode(p, h.Sum(nil))
	}
	return string(p[:len(key)])
}

// rules returns access rules with replaced keys.
func (m *masks) rules(list []event.AccessRule) []event.AccessRule {
	masked := make([]event.AccessRule, len(list))
	for i, r := range list {
		r.Primary, r.Secondary = event.Secret(m.of(r.Primary.Reveal())), event.Secret(m.of(r.Secondary.Reveal()))
		masked[i] = r
	}
	return masked
}

// inPlace replaces the keys of rules in the bytes of an event.
func (m *masks) inPlace(p []byte, lists ...[]event.AccessRule) {
	for _, list := range lists {
		for _, r := range list {
			for _, key := range []string{r.Primary.Reveal(), r.Secondary.Reveal()} {
				if len(key) == 0 {
					continue
				}
				mask := m.of(key)
				for at := 0; ; at += len(key) {
					i := bytes.Index(p[at:], []byte(key))
					if i < 0 {
						break
					}
					at += i
					copy(p[at:], mask)
				}
			}
		}
	}
}
