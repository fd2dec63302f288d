package amqp

// Header is the header section of a message (AMQP 3.2.1). It is written with all five fields.
type Header struct {
	Durable       Opt[bool]
	Priority      Opt[uint8]  // null means 4
	TTL           Opt[uint32] // milliseconds; some clients send 0 for none (wire-protocol 5.1)
	FirstAcquirer Opt[bool]
	DeliveryCount Opt[uint32] // earlier unsuccessful deliveries (wire-protocol 4.8)
}

// Properties is the properties section of a message (AMQP 3.2.4). It is written with all thirteen
// fields.
type Properties struct {
	MessageID any    // string, uint64, UUID, []byte, or nil for null
	UserID    []byte // nil means null
	To        Opt[string]
	Subject   Opt[string]
	ReplyTo   Opt[string]
	// any type of MessageID; in a reply it has the type of the request's message-id (wire-protocol
	// 0.5)
	CorrelationID      any
	ContentType        Opt[Symbol]
	ContentEncoding    Opt[Symbol]
	AbsoluteExpiryTime Opt[Timestamp]
	CreationTime       Opt[Timestamp]
	GroupID            Opt[string] // the message session; "" is a session, null is none
	GroupSequence      Opt[uint32]
	ReplyToGroupID     Opt[string]
}

// Places of the fields of the properties section, for PropertiesField.
const (
	FieldMessageID          = 0
	FieldUserID             = 1
	FieldTo                 = 2
	FieldSubject            = 3
	FieldReplyTo            = 4
	FieldCorrelationID      = 5
	FieldContentType        = 6
	FieldContentEncoding    = 7
	FieldAbsoluteExpiryTime = 8
	FieldCreationTime       = 9
	FieldGroupID            = 10
	FieldGroupSequence      = 11
	FieldReplyToGroupID     = 12
)

// Span is a range of bytes of an encoded message, Start to End (exclusive). The zero Span is empty.
type Span struct{ Start, End int }

// Empty reports whether s has no bytes.
func (s Span) Empty() bool { return s.Start == s.End }

// Len returns the number of bytes in s.
func (s Span) Len() int { return s.End - s.Start }

// Of returns the bytes of s in b, nil for an empty s. They alias b.
func (s Span) Of(b []byte) []byte {
	if s.Start == s.End {
		return nil
	}
	return b[s.Start:s.End:s.End]
}

// BodyKind is the kind of the body's sections.
type BodyKind uint8

// The kinds. A message without a body section is legal (wire-protocol 5.1).
const (
	BodyNone BodyKind = iota
	BodyData
	BodySequence
	BodyValue
)

// Sections holds the places of the sections of an encoded message. Each span includes the
// descriptor and the value; a missing section has an empty span.
type Sections struct {
	Header                Span
	DeliveryAnnotations   Span
	MessageAnnotations    Span
	Properties            Span
	ApplicationProperties Span
	Body                  Span // all body sections
	Footer                Span
	BodyKind              BodyKind
	BodyCount             int    // number of body sections
	TTL                   uint32 // the header's, milliseconds; 0: none
	// LongDescriptors reports whether some section's descriptor is not in the small form 00 53 7x,
	// so that AppendNormalized has work to do.
	LongDescriptors bool
	// Unordered reports whether the sections are not in the order of the specification (AMQP 3.2).
	Unordered bool
}

// Regular reports whether the message can be stored unchanged: its descriptors are small and its
// sections in order.
func (s *Sections) Regular() bool { return !s.LongDescriptors && !s.Unordered }
