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

// SessionFilter is how a receiver asks for a message session: for one by its id, or for the next
// that is available (4.2).
type SessionFilter struct {
	id  string
	any bool
}

// ReadFilters reads the filters of a receiver's source. The only filter the broker has is the one
// for message sessions, in all its shapes, and only where messages are received, which the argument
// messages says. Any other is refused by its name: without it the client would get messages that it
// did not ask for. f is nil when no filter is for sessions. idLength is the most characters that a
// session id may have.
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
		if p.Value == nil { // as if it were not there (AMQP 3.5.8)
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

// maxFilterName is the most bytes of a filter's name that a refusal shows.
const maxFilterName = 256

// filterKind returns what kind of filter an entry of a filter map is, which is its descriptor or,
// without one, its key; and the value without the descriptor.
func filterKind(p amqp.Pair) (kind string, value any) {
	if d, ok := p.Value.(amqp.Described); ok {
		return filterName(d.Descriptor), d.Value
	}
	kind, _ = Text(p.Key)
	return kind, p.Value
}

// filterNames names the filters that clients identify by a number, because a name says more in a
// refusal (4.2; Apache's AMQP filters for JMS).
var filterNames = map[int64]string{
	0x137000000C: keySessionFilter, 0x137000000E: keyNonExclusiveFilter,
	0x468C00000003: "apache.org:no-local-filter:list", 0x468C00000004: "apache.org:selector-filter:string",
}

// filterName is the name of a described filter's type.
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

// newSessionFilter is the session filter of a value: text, or null.
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

// Granted is the filter map of the reply: the same key and shape as in the attach, with the id of
// the session (0.11).
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

// Request is what the engine is asked for; properties are those of the attach, which may say how
// long to wait.
func (f *SessionFilter) Request(properties amqp.Map) *engine.SessionRequest {
	return &engine.SessionRequest{ID: []byte(f.id), Any: f.any, Wait: sessionWait(properties)}
}

// DefaultSessionWait is how long a receiver that does not say it waits for the next available
// session.
const DefaultSessionWait = time.Minute

// sessionWait is how long to look for an available session: a little less than the client waits, so
// that it still gets the refusal.
func sessionWait(properties amqp.Map) time.Duration {
	wait, ok := ClientTimeout(properties)
	if !ok {
		return DefaultSessionWait
	}
	return wait - min(wait/10, 500*time.Millisecond)
}

// ClientTimeout is the time a client says it waits for its link, in the properties of its attach:
// at most [MaxTimeout].
func ClientTimeout(properties amqp.Map) (wait time.Duration, given bool) {
	ms, given := Integer(properties, keyTimeout)
	return time.Duration(min(max(ms, 0), MaxTimeout.Milliseconds())) * time.Millisecond, given
}

// MaxTimeout bounds what a client asks for, so that sums of times cannot overflow; no link waits
// that long anyway.
const MaxTimeout = 30 * 24 * time.Hour
