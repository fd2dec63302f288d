package event

import (
	"reflect"
	"time"
)

// EntityKind is the kind of an entity.
//
//event:closed kind of entity
type EntityKind uint8

const (
	Queue        EntityKind = 1
	Topic        EntityKind = 2
	Subscription EntityKind = 3
)

// String returns the kind as error texts name it.
func (k EntityKind) String() string {
	switch k {
	case Queue:
		return "Queue"
	case Topic:
		return "Topic"
	case Subscription:
		return "Subscription"
	}
	return "Entity"
}

// MarshalText makes kinds readable in JSON.
func (k EntityKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Status says what an entity allows (semantics.md 16.1).
type Status uint8

const (
	Active Status = iota
	Disabled
	SendDisabled
	ReceiveDisabled
)

// String returns the status as the management API names it.
func (s Status) String() string {
	switch s {
	case Active:
		return "Active"
	case Disabled:
		return "Disabled"
	case SendDisabled:
		return "SendDisabled"
	case ReceiveDisabled:
		return "ReceiveDisabled"
	}
	return "Unknown"
}

// Properties are an entity's settings, all effective values after defaulting (semantics.md 1.3).
// Settings that a kind of entity does not have keep the zero value.
type Properties struct {
	LockDuration                     time.Duration
	MaxSizeMegabytes                 uint32
	MaxMessageSizeKilobytes          uint32
	RequiresDuplicateDetection       bool
	DuplicateDetectionWindow         time.Duration
	RequiresSession                  bool
	DefaultMessageTimeToLive         time.Duration // Forever: none
	DeadLetteringOnMessageExpiration bool
	MaxDeliveryCount                 uint32
	EnableBatchedOperations          bool
	Status                           Status
	AutoDeleteOnIdle                 time.Duration // Forever: never
	EnablePartitioning               bool
	ForwardTo                        string
	ForwardDeadLetteredMessagesTo    string
	UserMetadata                     string

	// Since version 2.

	SupportOrdering bool `log:"v2"`
	// kept and shown; messages are stored anyway
	EnableExpress              bool `log:"v2"`
	DeadLetteringOnFilterError bool `log:"v2"` // of a subscription (semantics.md 15.6)
	// of a topic: a message that no rule matches is refused
	FilteringBeforePublishing bool         `log:"v2"`
	SubscriptionPartitioning  bool         `log:"v2"` // of a topic; kept and shown
	AccessRules               []AccessRule `log:"v2"`
}

// Equal reports whether two entities have the same settings.
func (p *Properties) Equal(q *Properties) bool {
	a, b := *p, *q
	if len(a.AccessRules) == 0 {
		a.AccessRules = nil
	}
	if len(b.AccessRules) == 0 {
		b.AccessRules = nil
	}
	return reflect.DeepEqual(&a, &b)
}

// Rights are the rights of an access rule, in the order given.
type Rights []Right

// Right is one thing an access rule allows (semantics.md 16; management-api.md 5.1).
//
//event:closed right
type Right uint8

const (
	Manage Right = 1
	Send   Right = 2
	Listen Right = 3
)

// String returns the right as the management API names it.
func (r Right) String() string {
	switch r {
	case Manage:
		return "Manage"
	case Send:
		return "Send"
	case Listen:
		return "Listen"
	}
	return "Unknown"
}

// MarshalText makes rights readable in JSON.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// AccessRule is a shared access authorization rule of a queue or topic: a named pair of keys and
// the rights that they grant.
type AccessRule struct {
	Name      string
	Rights    Rights
	Primary   Secret
	Secondary Secret
	// CreatedAt and ModifiedAt are when the rule was made and last changed; 0: unknown. Older
	// versions stored the client's values.
	CreatedAt  Time
	ModifiedAt Time
}

// Secret is a key. It is stored as it is and printed as ***, so that no dump and no log shows it
// (reliability.md S31).
type Secret string

// String hides the key.
func (s Secret) String() string { return "***" }

// GoString hides the key.
func (s Secret) GoString() string { return "***" }

// MarshalText hides the key.
func (s Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Reveal returns the key itself.
func (s Secret) Reveal() string { return string(s) }

// Rule is a rule of a subscription: which messages the subscription gets a copy of, and how the
// copy is changed (semantics.md 15).
type Rule struct {
	Name      string // compared case-insensitively
	Filter    Filter
	Action    Action
	CreatedAt Time
}

// Filter selects messages.
type Filter struct {
	Kind       FilterKind
	Text       string      // of an SQL filter
	Parameters []Property  // of an SQL filter: values of @name
	Conditions []Condition // of a correlation filter, by field
	Properties []Property  // of a correlation filter: application properties, in the order given
}

// FilterKind is the kind of a filter, in the words of the management API.
//
//event:closed kind of filter
//event:words SqlFilter TrueFilter FalseFilter CorrelationFilter
type FilterKind uint8

const (
	SQLFilter         FilterKind = 1
	TrueFilter        FilterKind = 2
	FalseFilter       FilterKind = 3
	CorrelationFilter FilterKind = 4
)

// Action changes the copy of a message that a rule matched.
type Action struct {
	Text       string // SET and REMOVE statements; "": no action
	Parameters []Property
}

// Condition requires a system property of a message to equal a text.
type Condition struct {
	Field Field
	Text  string
}

// Field is a system property that a correlation filter can test, in the words of the management
// API.
//
//event:closed field
//event:words CorrelationId MessageId To ReplyTo Label SessionId ReplyToSessionId ContentType
type Field uint8

const (
	FieldCorrelationID    Field = 1
	FieldMessageID        Field = 2
	FieldTo               Field = 3
	FieldReplyTo          Field = 4
	FieldLabel            Field = 5
	FieldSessionID        Field = 6
	FieldReplyToSessionID Field = 7
	FieldContentType      Field = 8
)

// Property is a named value.
type Property struct {
	Name  string
	Value Value
}

// Value is a simple value as filters see it and rules hold it (semantics.md 15.4). The zero value
// is null.
type Value struct {
	Type ValueType
	// Bits holds a boolean (0, 1), an integer (two's complement), a double (IEEE 754), a time
	// (ticks of 100 ns since year 1, as the management API counts them) or a span of time (ticks,
	// two's complement).
	Bits uint64
	// Text holds a string, the 16 bytes of a UUID in the order they are written, or a decimal in
	// digits. For a time it holds the zone with which it is shown: "" is Z, [NoZone] none,
	// otherwise an offset such as +02:00.
	Text string
}

// ValueType is the type of a value. Int and Long are both integers of 64 bits to a filter; a rule
// shows the one that it was made with.
//
//event:closed type of value
type ValueType uint8

const (
	Null    ValueType = 0
	Bool    ValueType = 1
	Int     ValueType = 2
	Long    ValueType = 3
	Double  ValueType = 4
	Decimal ValueType = 5
	String  ValueType = 6
	UUID    ValueType = 7
	Instant ValueType = 8
	Span    ValueType = 9
)

// MaxEntityPartitions is how many partitions an entity may have. A lock token has room for no more.
const MaxEntityPartitions = tokenPartition + 1

// KeyHash is the newest version of the hash that maps a key to a partition of an entity. Another
// hash needs another number.
const KeyHash = 1

// EntityCreated records the creation of an entity. It is in the log of partition 0.
//
//event:kind 2 verb=created
type EntityCreated struct {
	Envelope
	EntityKind  EntityKind
	Path        string // as shown; compared case-insensitively
	HashVersion uint8  // version of the placement hash that chose Hosts
	Hosts       []byte // partition that hosts each entity partition, by entity partition number
	Properties  Properties
	// of a subscription: the entity that it belongs to and shares hosts with
	Topic EntityID `log:"v2"`
	// version of the hash that maps a key to a partition; 0: the entity has one partition
	KeyHash uint8 `log:"v3,with=partitioned,among=1..KeyHash"`
}

// EntityUpdated replaces an entity's properties.
//
//event:kind 3 verb=changed
type EntityUpdated struct {
	Envelope
	Properties Properties
	Before     Properties `log:"v2"` // for the audit
}

// EntityDeleted records the deletion of an entity with all its messages. The deletions of a topic's
// subscriptions are separate events.
//
//event:kind 4 verb=deleted
type EntityDeleted struct {
	Envelope
	Reason     string     `export:"reason"` // client, idle
	EntityKind EntityKind `log:"v2"`
	Path       string     `log:"v2"`
	Before     Properties `log:"v2"` // for the audit
}

// EntityTouched records from time to time when an entity was last used. An entity that is not used
// for its AutoDeleteOnIdle is deleted (semantics.md 7.7).
//
//event:kind 37 verb=touched
type EntityTouched struct {
	Envelope
	AccessedAt Time
}

// RuleAdded adds a rule to a subscription. Rules are kept in the order in which they were added.
//
//event:kind 38 verb=rule-added
type RuleAdded struct {
	Envelope      // of the subscription
	Rule     Rule `export:"description:Name"`
}

// RuleUpdated replaces the filter and the action of a rule, which keeps its name, its place and its
// time of creation.
//
//event:kind 39 verb=rule-changed
type RuleUpdated struct {
	Envelope
	Rule   Rule `export:"description:Name"`
	Before Rule // for the audit
}

// RuleRemoved removes a rule.
//
//event:kind 40 verb=rule-removed
type RuleRemoved struct {
	Envelope
	Rule Rule `export:"description:Name"`
}

// MessagePublished stores a message that was sent to a topic. It has the copies for all
// subscriptions, so that all of them exist or none. The topic itself keeps only the number it gave
// out and the id in its duplicate history.
//
//event:kind 41 verb=published
type MessagePublished struct {
	Envelope                    // of the topic
	Sequence     SequenceNumber `export:"number"`
	MessageID    []byte         `export:"message_id"`
	SessionID    []byte         `log:"after=HasSession" export:"session_id"`
	HasSession   bool
	PartitionKey []byte
	TimeToLive   time.Duration // the sender's own, limited by the topic; 0: none
	EnqueuedAt   Time
	Batch        uint32
	// shared by all copies; nothing is stored when there are none
	Body           Blob `export:"size:Size"`
	IDType         IDType
	DuplicateUntil Time
	Copies         []Copy
	Details        Details  `log:"v2"`
	Arrival        *Arrival `log:"in=Details,with=moves"`       // nil: it was sent here
	Keyed          bool     `log:"in=Details,with=partitioned"` // see [MessageEnqueued]
}

// Copy is a subscription's copy of a message.
type Copy struct {
	Subscription EntityID
	Sequence     SequenceNumber // the subscription's own
	// the sender set a time to live, which is ExpiresAt minus the time of enqueuing
	OwnTTL    bool
	ExpiresAt Time // 0: never
	// the subscription requires sessions: the copy belongs to the session SessionID
	InSession bool
	SessionID []byte
	Rule      string // the rule that made and changed the copy; "": a plain copy
	// changes by the rule's action, and reason and description of a dead-lettering
	Changes Blob
	// Cause is not 0 for a copy that is dead-lettered at once.
	Cause       Cause
	Reason      string
	Description string
}

// ScheduledPublished stores the copies of a scheduled message of a topic, as if the message were
// sent now (semantics.md 7.6).
//
//event:kind 42 verb=activated
type ScheduledPublished struct {
	Envelope
	Sequence    SequenceNumber `export:"number"` // its number until now
	NewSequence SequenceNumber `export:"new_number"`
	EnqueuedAt  Time
	Copies      []Copy
}
