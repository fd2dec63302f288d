package engine

import (
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The properties that tell why a message is in a dead-letter queue (semantics.md 9.2).
const (
	reasonKey      = "DeadLetterReason"
	descriptionKey = "DeadLetterErrorDescription"
)

// deadLetterChanges returns the two properties of a message that the broker dead-letters.
func deadLetterChanges(reason, description string) event.Changes {
	return event.Changes{textProperty(reasonKey, reason), textProperty(descriptionKey, description)}
}

func textProperty(name, value string) event.Property {
	return event.Property{Name: name, Value: event.Value{Type: event.String, Text: value}}
}

// shortenChanges cuts the description in property changes, then the reason, until they fit in room
// bytes of log (semantics.md 9.2). ok is false if that is not enough. It leaves the given changes
// as they are.
func shortenChanges(changes event.Changes, room int) (_ event.Changes, ok bool) {
	if changes.Size() <= room {
		return changes, true
	}
	cut := slices.Clone(changes)
	for _, key := range []string{descriptionKey, reasonKey} {
		for i := range cut {
			if v := &cut[i].Value; cut[i].Name == key && v.Type == event.String && cut.Size() > room {
				v.Text = longestFitting(v.Text, func(text string) bool { v.Text = text; return cut.Size() <= room })
			}
		}
	}
	return cut, cut.Size() <= room
}

// longestFitting returns the longest beginning of a text that fits, cut at a character; "" if
// nothing fits.
func longestFitting(text string, fits func(string) bool) string {
	n := sort.Search(len(text), func(n int) bool { return !fits(text[:n+1]) })
	return clipTo(text, n)
}

// clipTo cuts a text to at most n bytes, at a character.
func clipTo(s string, n int) string {
	if n >= len(s) {
		return s
	}
	n = max(0, n)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
