package engine

import (
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestCharactersOfPaths checks which paths entities can have (management-api.md 5.4): MassTransit
// and Wolverine name topics of generic and of array types with hyphens or underscores at the ends.
func TestCharactersOfPaths(t *testing.T) {
	t.Parallel()
	for path, refusal := range map[string]string{
		"a": "", "A-1": "", "a/b": "", "a.b": "", "a/.b": "",
		"-a": "", "a-": "", "_a": "", "a_": "", "~a": "", "a~": "", "-": "", "--": "", "_": "", "~": "",
		"MassTransit/Fault--Shop/Poison--": "", "Shop/Item__": "", "a/-": "", "-/a": "",
		".": "which no URL can name", "..": "which no URL can name", "a/..": "which no URL can name", "./a": "which no URL can name",
		".a": "must not begin or end with a period", "a.": "must not begin or end with a period", "...": "must not begin or end with a period",
		"": "1 to 260 characters", "/a": "empty segment", "a/": "empty segment", "a//b": "empty segment",
		"a b": "not allowed", "a+b": "not allowed", "é": "not allowed", "$a": "not allowed", "a*": "not allowed", "a%": "not allowed",
		"subscriptions": "reserved", "a/Subscriptions/b": "reserved",
		strings.Repeat("-", 260): "", strings.Repeat("-", 261): "1 to 260 characters",
	} {
		for _, kind := range []event.EntityKind{event.Queue, event.Topic} {
			text := ""
			if err := CheckPath(kind, path); err != nil {
				text = err.Text
			}
			if (refusal == "") != (text == "") || !strings.Contains(text, refusal) {
				t.Errorf("%v %q: %q, want %q", kind, path, text, refusal)
			}
		}
		if err := CheckPath(event.Subscription, SubscriptionPath(path, "s")); (err == nil) != (refusal == "") {
			t.Errorf("a subscription of %q: %v", path, err)
		}
	}
}
