package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// narrow is a map of encoded keys and values with a short header.
func narrow(elements ...[]byte) []byte {
	p := bytes.Join(elements, nil)
	return append([]byte{amqpMap8, byte(len(p) + 1), byte(len(elements))}, p...)
}

func encoded(s string) []byte { return appendText(nil, s) }

// told reads the two properties of dead-lettering in changes; a value that is no text is "?".
func told(t *testing.T, changes []byte) (reason, description string) {
	t.Helper()
	all, ok := elements(changes)
	if !ok || changes[0] == amqpMap32 && int(binary.BigEndian.Uint32(changes[5:])) != len(all) {
		t.Fatalf("no map: %x", changes)
	}
	for i := 0; i < len(all); i += 2 {
		key, _ := textOf(all[i])
		value, ok := textOf(all[i+1])
		if !ok {
			value = []byte("?")
		}
		switch string(key) {
		case reasonKey:
			reason = string(value)
		case descriptionKey:
			description = string(value)
		}
	}
	return reason, description
}

// 9.2: the description is cut first, then the reason, at characters; nothing else is.
func TestShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4096)
	whole := deadLetterChanges("reason", long)
	empty := len(deadLetterChanges("", ""))
	number := []byte{0x80, 1, 2, 3, 4, 5, 6, 7, 8}
	special := append([]byte{amqpDescribed, 0xa3, 3, 'a', ':', 'b'}, number...)
	mixed := narrow(encoded("k"), special, encoded(reasonKey), []byte{0x54, 7}, encoded("none"), []byte{0x40}, encoded(descriptionKey), encoded("abc"))
	for _, c := range []struct {
		name                string
		changes             []byte
		room                int
		reason, description string
		not                 bool
	}{
		{"nothing to cut", whole, len(whole), "reason", long, false},
		{"one byte", whole, len(whole) - 1, "reason", long[1:], false},
		{"the description", whole, empty + len("reason") + 9, "reason", long[:9], false},
		{"still a long one", whole, empty + len("reason") + 3 + 256, "reason", long[:256], false},
		{"not a long one any more", whole, empty + len("reason") + 3 + 255, "reason", long[:255], false},
		{"all of it", whole, empty + len("reason"), "reason", "", false},
		{"the reason", whole, empty + 4, "reas", "", false},
		{"both", whole, empty, "", "", false},
		{"more than there is", whole, empty - 1, "", "", true},
		{"no room at all", whole, -5, "", "", true},
		{"within a character", deadLetterChanges("r", "aä€"), empty + 1 + len("aä€") - 1, "r", "aä", false},
		{"within two", deadLetterChanges("r", "ä€"), empty + 1 + 1, "r", "", false},
		{"a reason that is no text", mixed, mapHeader + len(mixed) - 3 - 2, "?", "a", false},
		{"a reason that is no text, and too long", mixed, mapHeader + len(mixed) - 3 - 4, "", "", true},
		{"no reason", narrow(encoded(descriptionKey), encoded("abc")), mapHeader + 2 + len(descriptionKey) + 3, "", "a", false},
		{"no map", make([]byte, 100), 50, "", "", true},
		{"none", nil, 0, "", "", true},
	} {
		before := bytes.Clone(c.changes)
		got, ok := shortened(c.changes, c.room)
		if ok == c.not || !bytes.Equal(before, c.changes) {
			t.Errorf("%s: %t", c.name, ok)
			continue
		}
		if !ok {
			continue
		}
		if reason, description := told(t, got); reason != c.reason || description != c.description || len(got) > c.room {
			t.Errorf("%s: %q and %q in %d bytes of %d", c.name, reason, description, len(got), c.room)
		}
	}
	if got, _ := shortened(mixed, mapHeader+len(mixed)-3-2); !bytes.Contains(got, append(encoded("k"), special...)) || !bytes.Contains(got, append(encoded("none"), 0x40)) {
		t.Errorf("other properties are not what they were: %x", got)
	}
}

// FuzzShortened: whatever the bytes are, nothing panics; what comes back fits, is a map, and differs in the two texts alone.
func FuzzShortened(f *testing.F) {
	f.Add(deadLetterChanges("reason", strings.Repeat("x", 300)), 100)
	f.Add(narrow(encoded(descriptionKey), encoded("abc"), encoded("n"), []byte{amqpDescribed, 0x44, 0x43}), 40)
	f.Add([]byte{amqpMap32, 0, 0, 0, 4, 0, 0, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, changes []byte, room int) {
		got, ok := shortened(changes, room)
		if !ok {
			return
		}
		old, _ := elements(changes)
		all, is := elements(got)
		if len(got) > room || !is || len(all) != len(old) {
			t.Fatalf("%x in %d: %x", changes, room, got)
		}
		for i := range all {
			if bytes.Equal(all[i], old[i]) {
				continue
			}
			was, wasText := textOf(old[i])
			now, isText := textOf(all[i])
			key, _ := textOf(all[i-i%2])
			if i%2 == 0 || !wasText || !isText || !bytes.HasPrefix(was, now) || string(key) != reasonKey && string(key) != descriptionKey {
				t.Fatalf("%x became %x", old[i], all[i])
			}
			if utf8.Valid(was) && !utf8.Valid(now) {
				t.Fatalf("%q became %q", was, now)
			}
		}
	})
}

// 9.2: why the broker dead-letters a message is cut like everything else; where there is no room for any of it the reason is that.
func TestExplained(t *testing.T) {
	t.Parallel()
	const reason, text = "MaxDeliveryCountExceeded", "Message could not be consumed after 10 delivery attempts."
	whole := len(deadLetterChanges(reason, text))
	for _, c := range []struct {
		room   int
		cause  event.Cause
		wanted string
	}{
		{whole, event.CauseMaxDelivery, reason + "/" + text},
		{whole - 20, event.CauseMaxDelivery, reason + "/" + text[:len(text)-20]},
		{whole - len(text) - 3, event.CauseMaxDelivery, reason[:len(reason)-3] + "/"},
		{whole - len(text) - len(reason) - 1, event.CauseHeaderSize, headerReason + "/" + headerText},
	} {
		cause, why, description, changes := explained(maxChanges-c.room, event.CauseMaxDelivery, reason, text)
		gotReason, gotText := told(t, changes)
		if got := fmt.Sprintf("%s/%s", gotReason, gotText); cause != c.cause || got != c.wanted {
			t.Errorf("room for %d: cause %v, %q", c.room, cause, got)
		}
		if cause == event.CauseMaxDelivery && (why != reason || description != text) {
			t.Errorf("room for %d: the log says %q, %q", c.room, why, description)
		}
	}
}
