package servicebus

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
	keyLockedUntilUTC     = "com.microsoft:locked-until-utc"
)

// sessionFilter is how a receiver asks for a message session: for one by its id, or for the next that is available (4.2).
type sessionFilter struct {
	id  string
	any bool
}

// filtered reads the filters of a receiver's source. The broker knows that for message sessions, in all its shapes, where messages are
// received; any other is refused by its name, for without it the client would get what it did not ask for. What a sending peer says of
// its own source is its own affair.
func (l *link) filtered(a *amqp.Attach) *amqp.Error {
	if a.Role == amqp.RoleSender {
		return nil
	}
	for _, p := range a.Source.Filter {
		kind, value := filterKind(p)
		if kind == keySessionFilter && !l.at.cbs && !l.at.management {
			if l.filter != nil {
				return argumentError("There is more than one filter '%s'.", keySessionFilter)
			}
			var e *amqp.Error
			if l.filter, e = newSessionFilter(value, l.c.limits.IDLength); e != nil {
				return e
			}
			continue
		}
		if p.Value == nil { // as if it were not there (AMQP 3.5.8)
			continue
		}
		key, _ := textValue(p.Key)
		name := "'" + loggable(key) + "'"
		if kind != key {
			name += " (" + loggable(kind) + ")"
		}
		return refusal(amqp.CondNotImplemented, "The filter "+name+" is not implemented.")
	}
	return nil
}

// filterKind is what kind of filter an entry of a filter map is, which its descriptor says, where it has one, else its key; and the
// filter's value without that.
func filterKind(p amqp.Pair) (kind string, value any) {
	if d, ok := p.Value.(amqp.Described); ok {
		return filterName(d.Descriptor), d.Value
	}
	kind, _ = textValue(p.Key)
	return kind, p.Value
}

// filterNames are the descriptors of filters whose names say more than they do (4.2; Apache's AMQP filters for JMS).
var filterNames = map[int64]string{
	0x137000000C: keySessionFilter, 0x137000000E: keyNonExclusiveFilter,
	0x468C00000003: "apache.org:no-local-filter:list", 0x468C00000004: "apache.org:selector-filter:string",
}

// filterName is how the type of a described filter is called.
func filterName(descriptor any) string {
	if text, ok := textValue(descriptor); ok {
		if strings.TrimSuffix(text, ":string") == keySessionFilter {
			return keySessionFilter
		}
		return text
	}
	code, ok := integerValue(descriptor)
	if name := filterNames[code]; ok && name != "" {
		return name
	}
	return fmt.Sprintf("descriptor %#x", descriptor)
}

// newSessionFilter is the session filter of a value: text, or null.
func newSessionFilter(value any, idLength int) (*sessionFilter, *amqp.Error) {
	if value == nil {
		return &sessionFilter{any: true}, nil
	}
	id, ok := messageSessionOf(value)
	if !ok {
		return nil, argumentError("The value of the filter '%s' must be a string or null.", keySessionFilter)
	}
	if utf8.RuneCountInString(id) > idLength {
		return nil, argumentError("The session id is longer than %d characters.", idLength)
	}
	return &sessionFilter{id: strings.Clone(id)}, nil
}

// granted is the filter map of the reply: the same key and shape as in the attach, with the id of the session (0.11).
func granted(filters amqp.Map, id string) amqp.Map {
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

// request is what the engine is asked for.
func (f *sessionFilter) request(properties amqp.Map) *engine.SessionRequest {
	return &engine.SessionRequest{ID: []byte(f.id), Any: f.any, Wait: sessionWait(properties)}
}

// defaultSessionWait is how long a receiver that does not say it waits for the next available session.
const defaultSessionWait = time.Minute

// sessionWait is how long to look for an available session: a little less than the client waits, so that it hears of it.
func sessionWait(properties amqp.Map) time.Duration {
	wait, ok := clientTimeout(properties)
	if !ok {
		return defaultSessionWait
	}
	return wait - min(wait/10, 500*time.Millisecond)
}

// clientTimeout is the time a client says it waits for its link.
func clientTimeout(properties amqp.Map) (time.Duration, bool) {
	ms, ok := integer(properties, keyTimeout)
	return time.Duration(min(max(ms, 0), maxTimeout.Milliseconds())) * time.Millisecond, ok
}

// maxTimeout bounds what a client asks for, so that the arithmetic is safe; its links do not last as long.
const maxTimeout = 30 * 24 * time.Hour
