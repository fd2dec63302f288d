package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	maxPath = 260 // characters of a queue's or topic's path (semantics.md 1.2)
	maxName = 50  // characters of the name of a subscription or rule
)

// subscriptionsInfix is between a topic's path and a subscription's name.
const subscriptionsInfix = "/Subscriptions/"

const (
	deadLetterSuffix         = "/$deadletterqueue"
	transferDeadLetterSuffix = "/$transfer/$deadletterqueue"
)

// SubscriptionPath returns the path of a topic's subscription.
func SubscriptionPath(topic, name string) string { return topic + subscriptionsInfix + name }

// SplitPath splits a path into the entity, in lower case, and the sub-queue (semantics.md 1.2).
func SplitPath(path string) (entity string, q event.SubQueue) {
	name := strings.ToLower(path)
	if entity, ok := strings.CutSuffix(name, transferDeadLetterSuffix); ok {
		return entity, event.TransferDeadLetter
	}
	if entity, ok := strings.CutSuffix(name, deadLetterSuffix); ok {
		return entity, event.DeadLetter
	}
	return name, event.Main
}

// CheckPath refuses a path that no entity of a kind can have (management-api.md 5.4).
func CheckPath(kind event.EntityKind, path string) *Error {
	if kind != event.Subscription {
		return checkEntityPath(kind, path)
	}
	i := strings.LastIndexByte(path, '/')
	topic, ok := "", false
	if i >= 0 && len(path[:i])+1 >= len(subscriptionsInfix) {
		cut := i + 1 - len(subscriptionsInfix)
		topic, ok = path[:cut], strings.EqualFold(path[cut:i+1], subscriptionsInfix)
	}
	if !ok {
		return Refuse(InvalidArgument, "'%s' is not the path of a subscription; expected <topic>/Subscriptions/<name>.", path)
	}
	if err := checkEntityPath(event.Topic, topic); err != nil {
		return err
	}
	return CheckName(event.Subscription.String(), path[i+1:])
}

func checkEntityPath(kind event.EntityKind, path string) *Error {
	if n := utf8.RuneCountInString(path); n == 0 || n > maxPath {
		return Refuse(InvalidArgument, "The path of a %s must have 1 to %d characters; this one has %d.", strings.ToLower(kind.String()), maxPath, n)
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			return Refuse(InvalidArgument, "'%s' contains an empty segment; slashes are allowed only between segments.", path)
		case strings.EqualFold(segment, "Subscriptions"):
			return Refuse(InvalidArgument, "'%s' contains the segment '%s', which is reserved.", path, segment)
		}
		if err := checkCharacters(kind.String(), path, segment); err != nil {
			return err
		}
	}
	if strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") {
		return Refuse(InvalidArgument, "'%s' must not begin or end with a period.", path)
	}
	return nil
}

// CheckName refuses a text that cannot be the name of a subscription or rule; what is the kind to
// name in the refusal.
func CheckName(what, name string) *Error {
	if n := utf8.RuneCountInString(name); n == 0 || n > maxName {
		return Refuse(InvalidArgument, "The name of a %s must have 1 to %d characters; this one has %d.", strings.ToLower(what), maxName, n)
	}
	plain := name
	if what == "Rule" {
		plain = strings.TrimPrefix(name, "$")
	}
	return checkCharacters(what, name, plain)
}

func checkCharacters(what, whole, segment string) *Error {
	// proxies and HTTP clients resolve them as relative paths
	if segment == "." || segment == ".." {
		return Refuse(InvalidArgument, "'%s' contains the segment '%s', which no URL can name. (%s)", whole, segment, what)
	}
	for _, c := range segment {
		if !alphanumeric(c) && !strings.ContainsRune(".-_~", c) {
			return Refuse(InvalidArgument, "'%s' contains character(s) that is not allowed by Service Bus: %q. "+
				"Entity segments can contain only letters, numbers, periods (.), hyphens (-), and underscores (_). (%s)", whole, c, what)
		}
	}
	return nil
}

// alphanumeric reports whether a character is an ASCII letter or digit: names of Service Bus have
// no others.
func alphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
