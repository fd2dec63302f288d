package message

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const (
	keySessionFilter      = "com.microsoft:session-filter"
	keyNonExclusiveFilter = "com.microsoft:non-exclusive-session-filter"
	keyTimeout            = "com.microsoft:timeout"
)

// SessionFilter is a receiver's request for a message session: for one by its id, or for the next
// available one (4.2).
type SessionFilter struct {
	id  string
	any bool
}

// ReadFilters reads the filters of a receiver's source. The broker has only the filter for message
// sessions, in all its forms, and only where messages are received, which the argument messages
// says. Any other filter is refused by its name: without it the client would get messages that it
// did not ask for. f is nil if no filter is for sessions. idLength is the maximum number of
// characters of a session id.
func ReadFilters(filters amqp.Map, messages bool, idLength int) (f *SessionFilter, e *amqp.Error) {
	for _, p := range filters {
		kind, value := filterKind(p)
		if kind == keySessionFilter && messages {
			if f != nil {
				return nil, ArgumentError("There is more than one filter '%s'.", keySessionFilter)
			}
			if f, e = newSessionFilter(value, idLength); e != nil {
				return nil, e
			}
			continue
		}
		if p.Value == nil { // as if it were absent (AMQP 3.5.8)
			continue
		}
		key, _ := Text(p.Key)
		name := "'" + Short(key, maxFilterName) + "'"
		if kind != key {
			name += " (" + Short(kind, maxFilterName) + ")"
		}
		return nil, &amqp.Error{Condition: amqp.CondNotImplemented, Description: "The filter " + name + " is not implemented."}
	}
	return f, nil
}

// maxFilterName bounds the bytes of a filter's name in a refusal.
const maxFilterName = 256

// filterKind returns the kind of a filter in a filter map, which is its descriptor or, without one,
// its key; and the value without the descriptor.
func filterKind(p amqp.Pair) (kind string, value any) {
	if d, ok := p.Value.(amqp.Described); ok {
		return filterName(d.Descriptor), d.Value
	}
	kind, _ = Text(p.Key)
	return kind, p.Value
}

// filterNames names the filters that clients identify by a number, because a name is clearer in a
// refusal (4.2; Apache's AMQP filters for JMS).
var filterNames = map[int64]string{
	0x137000000C: keySessionFilter, 0x137000000E: keyNonExclusiveFilter,
	0x468C00000003: "apache.org:no-local-filter:list", 0x468C00000004: "apache.org:selector-filter:string",
}

// filterName returns the name of a described filter's type.
func filterName(descriptor any) string {
	if text, ok := Text(descriptor); ok {
		if strings.TrimSuffix(text, ":string") == keySessionFilter {
			return keySessionFilter
		}
		return text
	}
	code, ok := integerOf(descriptor)
	if name := filterNames[code]; ok && name != "" {
		return name
	}
	return fmt.Sprintf("descriptor %#x", descriptor)
}

// newSessionFilter returns the session filter with a value: text, or null.
func newSessionFilter(value any, idLength int) (*SessionFilter, *amqp.Error) {
	if value == nil {
		return &SessionFilter{any: true}, nil
	}
	id, ok := sessionIDOf(value)
	if !ok {
		return nil, ArgumentError("The value of the filter '%s' must be a string or null.", keySessionFilter)
	}
	if utf8.RuneCountInString(id) > idLength {
		return nil, ArgumentError("The session id is longer than %d characters.", idLength)
	}
	return &SessionFilter{id: strings.Clone(id)}, nil
}

// Granted returns the filter map of the reply: the same key and form as in the attach, with the id
// of the session (0.11).
func Granted(filters amqp.Map, id string) amqp.Map {
	for _, p := range filters {
		if kind, _ := filterKind(p); kind != keySessionFilter {
			continue
		}
		if d, ok := p.Value.(amqp.Described); ok {
			return amqp.Map{{Key: p.Key, Value: amqp.Described{Descriptor: d.Descriptor, Value: id}}}
		}
		return amqp.Map{{Key: p.Key, Value: id}}
	}
	return nil
}

// Request returns the request to the engine; properties are those of the attach, which may have a
// time to wait.
func (f *SessionFilter) Request(properties amqp.Map) *engine.SessionRequest {
	return &engine.SessionRequest{ID: []byte(f.id), Any: f.any, Wait: sessionWait(properties)}
}

// DefaultSessionWait is the time that a receiver waits for the next available session if it does
// not say.
const DefaultSessionWait = time.Minute

// sessionWait returns the time to wait for an available session: a little less than the client
// waits, so that it still gets the refusal.
func sessionWait(properties amqp.Map) time.Duration {
	wait, ok := ClientTimeout(properties)
	if !ok {
		return DefaultSessionWait
	}
	return wait - min(wait/10, 500*time.Millisecond)
}

// ClientTimeout returns the time that a client waits for its link, according to the properties of
// its attach: at most [MaxTimeout].
func ClientTimeout(properties amqp.Map) (wait time.Duration, given bool) {
	ms, given := Integer(properties, keyTimeout)
	return time.Duration(min(max(ms, 0), MaxTimeout.Milliseconds())) * time.Millisecond, given
}

// MaxTimeout bounds the time-outs of clients, so that sums of times cannot overflow; no link waits
// that long anyway.
const MaxTimeout = 30 * 24 * time.Hour
