package servicebus

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
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

// findSessionFilter reads the session filter of a receiver's source in all its shapes; nil when there is none. Other
// filters are ignored, and not echoed (4.1).
func findSessionFilter(filters amqp.Map, idLength int) (*sessionFilter, *amqp.Error) {
	if _, ok := filters.Get(keyNonExclusiveFilter); ok {
		return nil, &amqp.Error{Condition: amqp.CondNotImplemented, Description: "Session receivers that share a session (" + keyNonExclusiveFilter + ") are not implemented."}
	}
	for _, p := range filters {
		if k, _ := textValue(p.Key); k != keySessionFilter {
			continue
		}
		f := new(sessionFilter)
		v := p.Value
		if d, ok := v.(amqp.Described); ok {
			v = d.Value
		}
		if v == nil {
			f.any = true
			return f, nil
		}
		var ok bool
		if f.id, ok = messageSessionOf(v); !ok {
			return nil, argumentError("The value of the filter '%s' must be a string or null.", keySessionFilter)
		}
		if utf8.RuneCountInString(f.id) > idLength {
			return nil, argumentError("The session id is longer than %d characters.", idLength)
		}
		f.id = strings.Clone(f.id)
		return f, nil
	}
	return nil, nil
}

// granted is the filter map of the reply: the same key and shape as in the attach, with the id of the session (0.11).
func granted(filters amqp.Map, id string) amqp.Map {
	for _, p := range filters {
		if k, _ := textValue(p.Key); k != keySessionFilter {
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

// ticksOf is a time as .NET counts it: 100 ns since the year 1 (4.2).
func ticksOf(t event.Time) int64 { return int64(t)*10_000 + 621_355_968_000_000_000 }
