package amqp

// Composite is a described list with named fields: a performative, a terminus, a delivery state, an
// error. The set is closed.
type Composite interface {
	descriptor() byte
}

// Performative is the body of a frame: *Open, *Begin, *Attach, *Flow, *Transfer, *Disposition,
// *Detach, *End, *Close, *SASLMechanisms, *SASLInit, *SASLChallenge, *SASLResponse or *SASLOutcome.
type Performative interface {
	Composite
	performative()
}

// Role says which end of a link a peer is.
type Role bool

// The two roles (AMQP 2.8.1).
const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// SenderSettleMode says whether a sender settles what it sends (AMQP 2.8.2).
type SenderSettleMode uint8

// The sender's modes.
const (
	SenderUnsettled SenderSettleMode = 0
	SenderSettled   SenderSettleMode = 1
	SenderMixed     SenderSettleMode = 2 // the meaning of null
)

// ReceiverSettleMode says when a receiver settles (AMQP 2.8.3).
type ReceiverSettleMode uint8

// The receiver's modes.
const (
	ReceiverFirst  ReceiverSettleMode = 0 // the meaning of null
	ReceiverSecond ReceiverSettleMode = 1 // only after the sender has settled
)

// Open negotiates a connection (AMQP 2.7.1).
type Open struct {
	ContainerID string
	Hostname    string // "" means null
	// bytes; null means NoLimit and is written as NoLimit: one client requires a number
	MaxFrameSize        Opt[uint32]
	ChannelMax          Opt[uint16] // null means 65535
	IdleTimeout         Opt[uint32] // milliseconds; null or 0 means none
	OutgoingLocales     []Symbol    // empty means null, here and in all symbol lists
	IncomingLocales     []Symbol
	OfferedCapabilities []Symbol
	DesiredCapabilities []Symbol
	// empty means null, here and in all map fields: an empty map breaks a client (wire-protocol
	// 0.13)
	Properties Map
}

// Begin starts a session (AMQP 2.7.2).
type Begin struct {
	RemoteChannel  Opt[uint16] // the peer's channel this answers; null in a request
	NextOutgoingID uint32
	IncomingWindow uint32 // transfers
	OutgoingWindow uint32 // transfers
	// null means NoLimit and is written as NoLimit: one client stops on null
	HandleMax           Opt[uint32]
	OfferedCapabilities []Symbol
	DesiredCapabilities []Symbol
	Properties          Map
}

// Attach opens a link (AMQP 2.7.3).
type Attach struct {
	Name               string
	Handle             uint32 // chosen by the writer
	Role               Role   // of the writer
	SenderSettleMode   Opt[SenderSettleMode]
	ReceiverSettleMode Opt[ReceiverSettleMode]
	// nil means null: the attach is a refusal, or the side does not matter
	Source               *Source
	Target               Terminus // *Target, *Coordinator, or nil for null
	Unsettled            Map
	IncompleteUnsettled  bool
	InitialDeliveryCount Opt[uint32] // null from a sender is written as 0
	// bytes; in the answer to a sending client it must be 1 to 2^31-1 (wire-protocol 0.2)
	MaxMessageSize      Opt[uint64]
	OfferedCapabilities []Symbol
	DesiredCapabilities []Symbol
	Properties          Map
}

// Flow updates the window of a session and, with a handle, the credit of a link (AMQP 2.7.4).
type Flow struct {
	NextIncomingID Opt[uint32]
	IncomingWindow uint32 // transfers
	NextOutgoingID uint32
	OutgoingWindow uint32      // transfers
	Handle         Opt[uint32] // null means a session flow
	DeliveryCount  Opt[uint32]
	LinkCredit     Opt[uint32] // deliveries
	Available      Opt[uint32] // deliveries
	Drain          bool
	Echo           bool // asks for a flow back
	Properties     Map
}

// Transfer carries a delivery or a part of one (AMQP 2.7.5). The bytes of the message follow it.
type Transfer struct {
	Handle             uint32
	DeliveryID         Opt[uint32] // null in continuation frames
	DeliveryTag        []byte      // nil means null, as in continuation frames
	MessageFormat      Opt[uint32]
	Settled            Opt[bool]
	More               bool // another frame of the same delivery follows
	ReceiverSettleMode Opt[ReceiverSettleMode]
	State              DeliveryState // nil means null
	Resume             bool
	Aborted            bool // the delivery is withdrawn
	Batchable          bool
}

// Disposition tells the state of the deliveries First to Last (AMQP 2.7.6).
type Disposition struct {
	Role      Role // of the writer
	First     uint32
	Last      Opt[uint32] // null means First
	Settled   bool
	State     DeliveryState // nil means null
	Batchable bool
}

// Detach ends a link, or with Closed false suspends it (AMQP 2.7.7).
type Detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

// End ends a session (AMQP 2.7.8).
type End struct{ Error *Error }

// Close ends a connection (AMQP 2.7.9).
type Close struct{ Error *Error }

// Error is an error for the peer (AMQP 2.8.14). It implements the Go interface error as well.
type Error struct {
	Condition   Symbol // one of the Cond constants
	Description string // for people; always written as a string, never null (wire-protocol 8.1)
	Info        Map
}

// Error returns "<condition>: <description>".
func (e *Error) Error() string {
	if e.Description == "" {
		return string(e.Condition)
	}
	return string(e.Condition) + ": " + e.Description
}

func (*Open) performative()           {}
func (*Begin) performative()          {}
func (*Attach) performative()         {}
func (*Flow) performative()           {}
func (*Transfer) performative()       {}
func (*Disposition) performative()    {}
func (*Detach) performative()         {}
func (*End) performative()            {}
func (*Close) performative()          {}
func (*SASLMechanisms) performative() {}
func (*SASLInit) performative()       {}
func (*SASLChallenge) performative()  {}
func (*SASLResponse) performative()   {}
func (*SASLOutcome) performative()    {}

func (*Open) descriptor() byte           { return descOpen }
func (*Begin) descriptor() byte          { return descBegin }
func (*Attach) descriptor() byte         { return descAttach }
func (*Flow) descriptor() byte           { return descFlow }
func (*Transfer) descriptor() byte       { return descTransfer }
func (*Disposition) descriptor() byte    { return descDisposition }
func (*Detach) descriptor() byte         { return descDetach }
func (*End) descriptor() byte            { return descEnd }
func (*Close) descriptor() byte          { return descClose }
func (*Error) descriptor() byte          { return descError }
func (*SASLMechanisms) descriptor() byte { return descSASLMechanisms }
func (*SASLInit) descriptor() byte       { return descSASLInit }
func (*SASLChallenge) descriptor() byte  { return descSASLChallenge }
func (*SASLResponse) descriptor() byte   { return descSASLResponse }
func (*SASLOutcome) descriptor() byte    { return descSASLOutcome }
