package filter

import (
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Message is the part of a message that filters see, never the body. Its owner may reuse it after
// [Message.Reset].
type Message struct {
	System [SystemCount]event.Value // by SystemProperty; null: not set
	User   []event.Property         // application properties in wire order
}

// Reset empties m and keeps its memory.
func (m *Message) Reset() {
	m.System = [SystemCount]event.Value{}
	clear(m.User)
	m.User = m.User[:0]
}

// Opaque is the type of an application property whose value filters cannot see (binary, list, map):
// it exists and is otherwise unknown (semantics.md 15.4).
const Opaque event.ValueType = 255

// SystemProperty is a property that filters name with sys (semantics.md 15.4).
type SystemProperty uint8

// The types are those that filters expect in a [Message]. Ids that are not strings on the wire are
// passed as text.
const (
	ContentType             SystemProperty = iota // String
	CorrelationID                                 // String
	DeadLetterSource                              // String
	DeliveryCount                                 // Long
	EnqueuedSequenceNumber                        // Long
	EnqueuedTimeUtc                               // Instant
	ExpiresAtUtc                                  // Instant
	ForcePersistence                              // Bool
	Label                                         // String; sys.Subject is the same
	LockedUntilUtc                                // Instant
	LockToken                                     // UUID
	MessageID                                     // String
	PartitionKey                                  // String
	ReplyTo                                       // String
	ReplyToSessionID                              // String
	ScheduledEnqueueTimeUtc                       // Instant
	SequenceNumber                                // Long
	SessionID                                     // String
	Size                                          // Long, in bytes
	State                                         // Int: 0 active, 1 deferred, 2 scheduled
	TimeToLive                                    // Span
	To                                            // String
	ViaPartitionKey                               // String
	SystemCount                                   // the number of system properties
)

var systemNames = [SystemCount]string{
	ContentType: "ContentType", CorrelationID: "CorrelationId", DeadLetterSource: "DeadLetterSource", DeliveryCount: "DeliveryCount",
	EnqueuedSequenceNumber: "EnqueuedSequenceNumber", EnqueuedTimeUtc: "EnqueuedTimeUtc", ExpiresAtUtc: "ExpiresAtUtc",
	ForcePersistence: "ForcePersistence", Label: "Label", LockedUntilUtc: "LockedUntilUtc", LockToken: "LockToken",
	MessageID: "MessageId", PartitionKey: "PartitionKey", ReplyTo: "ReplyTo", ReplyToSessionID: "ReplyToSessionId",
	ScheduledEnqueueTimeUtc: "ScheduledEnqueueTimeUtc", SequenceNumber: "SequenceNumber", SessionID: "SessionId", Size: "Size",
	State: "State", TimeToLive: "TimeToLive", To: "To", ViaPartitionKey: "ViaPartitionKey",
}

// String returns the name in the spelling of semantics.md 15.4.
func (p SystemProperty) String() string {
	if p >= SystemCount {
		return "unknown"
	}
	return systemNames[p]
}

// systemNamed finds a system property by its name in any case; false: no such property.
func systemNamed(name string) (SystemProperty, bool) {
	for p, n := range systemNames {
		if strings.EqualFold(n, name) {
			return SystemProperty(p), true
		}
	}
	return Label, strings.EqualFold(name, "Subject")
}

// fields are the system properties that a correlation filter can test.
var fields = [...]SystemProperty{
	event.FieldCorrelationID: CorrelationID, event.FieldMessageID: MessageID, event.FieldTo: To, event.FieldReplyTo: ReplyTo,
	event.FieldLabel: Label, event.FieldSessionID: SessionID, event.FieldReplyToSessionID: ReplyToSessionID,
	event.FieldContentType: ContentType,
}
