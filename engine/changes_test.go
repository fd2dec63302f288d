package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// told returns the two properties of dead-lettering in changes; a value that is not a text is "?".
func told(changes event.Changes) (reason, description string) {
	for _, p := range changes {
		text := p.Value.Text
		if p.Value.Type != event.String {
			text = "?"
		}
		switch p.Name {
		case reasonKey:
			reason = text
		case descriptionKey:
			description = text
		}
	}
	return reason, description
}

// toldIn returns the two properties of dead-lettering in stored changes.
func toldIn(t *testing.T, stored []byte) (reason, description string) {
	t.Helper()
	c, err := event.ReadChanges(stored)
	if err != nil {
		t.Fatal(err)
	}
	return told(c.Set)
}

// 9.2: the description is cut first, then the reason, at characters; nothing else is.
func TestShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4096)
	whole := deadLetterChanges("reason", long)
	size := whole.Size()
	empty := deadLetterChanges("", "").Size()
	number := event.Property{Name: "k", Value: event.Value{Type: event.Encoded, Text: "\x80\x01\x02\x03\x04\x05\x06\x07\x08"}}
	none := event.Property{Name: "none"}
	mixed := event.Changes{number, {Name: reasonKey, Value: event.Value{Type: event.Encoded, Text: "\x54\x07"}}, none, textProperty(descriptionKey, "abc")}
	alone := event.Changes{textProperty(descriptionKey, "abc")}
	for _, c := range []struct {
		name                string
		changes             event.Changes
		room                int
		reason, description string
		not                 bool
	}{
		{"nothing to cut", whole, size, "reason", long, false},
		{"one byte", whole, size - 1, "reason", long[1:], false},
		{"the description", whole, empty + len("reason") + 9, "reason", long[:9], false},
		{"still a long one", whole, empty + len("reason") + 1 + 128, "reason", long[:128], false},
		{"not a long one any more", whole, empty + len("reason") + 1 + 127, "reason", long[:127], false},
		{"all of it", whole, empty + len("reason"), "reason", "", false},
		{"the reason", whole, empty + 4, "reas", "", false},
		{"both", whole, empty, "", "", false},
		{"more than there is", whole, empty - 1, "", "", true},
		{"no room at all", whole, -5, "", "", true},
		{"within a character", deadLetterChanges("r", "aä€"), empty + 1 + len("aä€") - 1, "r", "aä", false},
		{"within two", deadLetterChanges("r", "ä€"), empty + 1 + 1, "r", "", false},
		{"a reason that is no text", mixed, mixed.Size() - 2, "?", "a", false},
		{"a reason that is no text, and too long", mixed, mixed.Size() - 4, "", "", true},
		{"no reason", alone, alone.Size() - 2, "", "a", false},
		{"none", nil, 0, "", "", true},
	} {
		before := slices.Clone(c.changes)
		got, ok := shortenChanges(c.changes, c.room)
		if ok == c.not || !slices.Equal(before, c.changes) {
			t.Errorf("%s: %t; want ok != c.not && slices.Equal(before, c.changes)", c.name, ok)
			continue
		}
		if !ok {
			continue
		}
		if reason, description := told(got); reason != c.reason || description != c.description || got.Size() > c.room {
			t.Errorf("%s: %q and %q in %d bytes of %d", c.name, reason, description, got.Size(), c.room)
		}
	}
	if got, _ := shortenChanges(mixed, mixed.Size()-2); !slices.Equal(got[:3], mixed[:3]) {
		t.Errorf("other properties are not what they were: %+v", got)
	}
}

// FuzzShortened: whatever the texts are, the result fits. It differs only in the description and
// the reason, which are beginnings of the given ones, and leaves out nothing that would have fit.
func FuzzShortened(f *testing.F) {
	f.Add("reason", strings.Repeat("x", 300), "n", "\x43", 100)
	f.Add("", "größe", descriptionKey, "abc", 40)
	f.Add("r", strings.Repeat("ü", 200), reasonKey, "", 330)
	f.Fuzz(func(t *testing.T, reason, description, name, value string, room int) {
		changes := append(deadLetterChanges(reason, description), textProperty(name, value), event.Property{Name: name, Value: event.Value{Type: event.Encoded, Text: value}})
		got, ok := shortenChanges(changes, room)
		if !ok {
			if changes[0].Value.Text, changes[1].Value.Text = "", ""; name != reasonKey && name != descriptionKey && changes.Size() <= room {
				t.Errorf("%d bytes would fit in %d", changes.Size(), room)
			}
			return
		}
		if got.Size() > room || len(got) != len(changes) {
			t.Fatalf("%+v in %d: %+v", changes, room, got)
		}
		for i := range got {
			was, now := changes[i], got[i]
			if was == now {
				continue
			}
			if was.Name != now.Name || was.Value.Type != event.String || now.Value.Type != event.String ||
				was.Name != reasonKey && was.Name != descriptionKey || !strings.HasPrefix(was.Value.Text, now.Value.Text) {
				t.Fatalf("%+v became %+v", was, now)
			}
			if utf8.ValidString(was.Value.Text) && !utf8.ValidString(now.Value.Text) {
				t.Fatalf("%q became %q", was.Value.Text, now.Value.Text)
			}
		}
	})
}

// 9.2: the broker's reason for a dead-lettering is cut like all others; if there is no room for it
// at all, that becomes the reason.
func TestExplained(t *testing.T) {
	t.Parallel()
	const reason, text = "MaxDeliveryCountExceeded", "Message could not be consumed after 10 delivery attempts."
	whole := deadLetterChanges(reason, text).Size()
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
		cause, why, description, changes := fitReason(maxChanges-c.room, event.CauseMaxDelivery, reason, text)
		gotReason, gotText := toldIn(t, changes)
		if got := fmt.Sprintf("%s/%s", gotReason, gotText); cause != c.cause || got != c.wanted {
			t.Errorf("room for %d: cause %v, %q", c.room, cause, got)
		}
		if cause == event.CauseMaxDelivery && (why != reason || description != text) {
			t.Errorf("room for %d: the log says %q, %q", c.room, why, description)
		}
	}
}
