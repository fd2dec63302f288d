package amqp

// Constructors of values, also called format codes (AMQP 1.6).
const (
	CodeDescribed  byte = 0x00 // a descriptor and a value follow
	CodeNull       byte = 0x40
	CodeTrue       byte = 0x41
	CodeFalse      byte = 0x42
	CodeUint0      byte = 0x43
	CodeUlong0     byte = 0x44
	CodeList0      byte = 0x45
	CodeUbyte      byte = 0x50
	CodeByte       byte = 0x51
	CodeSmallUint  byte = 0x52
	CodeSmallUlong byte = 0x53
	CodeSmallInt   byte = 0x54
	CodeSmallLong  byte = 0x55
	CodeBool       byte = 0x56
	CodeUshort     byte = 0x60
	CodeShort      byte = 0x61
	CodeUint       byte = 0x70
	CodeInt        byte = 0x71
	CodeFloat      byte = 0x72
	CodeChar       byte = 0x73
	CodeDecimal32  byte = 0x74
	CodeUlong      byte = 0x80
	CodeLong       byte = 0x81
	CodeDouble     byte = 0x82
	CodeTimestamp  byte = 0x83
	CodeDecimal64  byte = 0x84
	CodeDecimal128 byte = 0x94
	CodeUUID       byte = 0x98
	CodeBin8       byte = 0xA0
	CodeStr8       byte = 0xA1
	CodeSym8       byte = 0xA3
	CodeBin32      byte = 0xB0
	CodeStr32      byte = 0xB1
	CodeSym32      byte = 0xB3
	CodeList8      byte = 0xC0
	CodeMap8       byte = 0xC1
	CodeList32     byte = 0xD0
	CodeMap32      byte = 0xD1
	CodeArray8     byte = 0xE0
	CodeArray32    byte = 0xF0
)

// Descriptors of the composite types, as the smallulong they are written with (wire-protocol 9.1).
const (
	descOpen               byte = 0x10
	descBegin              byte = 0x11
	descAttach             byte = 0x12
	descFlow               byte = 0x13
	descTransfer           byte = 0x14
	descDisposition        byte = 0x15
	descDetach             byte = 0x16
	descEnd                byte = 0x17
	descClose              byte = 0x18
	descError              byte = 0x1D
	descReceived           byte = 0x23
	descAccepted           byte = 0x24
	descRejected           byte = 0x25
	descReleased           byte = 0x26
	descModified           byte = 0x27
	descSource             byte = 0x28
	descTarget             byte = 0x29
	descCoordinator        byte = 0x30
	descDeclare            byte = 0x31
	descDischarge          byte = 0x32
	descDeclared           byte = 0x33
	descTransactionalState byte = 0x34
	descSASLMechanisms     byte = 0x40
	descSASLInit           byte = 0x41
	descSASLChallenge      byte = 0x42
	descSASLResponse       byte = 0x43
	descSASLOutcome        byte = 0x44
)

// Descriptors of the sections of a message, in the order sections must have (wire-protocol 5.1).
const (
	SectionHeader                byte = 0x70
	SectionDeliveryAnnotations   byte = 0x71
	SectionMessageAnnotations    byte = 0x72
	SectionProperties            byte = 0x73
	SectionApplicationProperties byte = 0x74
	SectionData                  byte = 0x75
	SectionSequence              byte = 0x76
	SectionValue                 byte = 0x77
	SectionFooter                byte = 0x78
)

// Message formats of a transfer (wire-protocol 3.2). Others are refused with CondNotImplemented.
const (
	MessageFormatPlain uint32 = 0 // one message
	// data sections that hold one encoded message each (wire-protocol 3.4)
	MessageFormatBatch uint32 = 0x80013700
)

// Frame types (AMQP 2.3.1).
const (
	FrameTypeAMQP uint8 = 0
	FrameTypeSASL uint8 = 1
)

// FrameHeaderSize is the number of bytes before a frame's body without an extended header.
const FrameHeaderSize = 8

// MinMaxFrameSize is the smallest max-frame-size a peer may offer, in bytes (AMQP 2.7.1).
const MinMaxFrameSize = 512

// NoLimit is the value of max-frame-size and handle-max that means "no limit", as a null does.
const NoLimit uint32 = 4294967295

// ProtocolHeader is the first thing that each peer writes on a connection: "AMQP", a protocol id
// and a version.
type ProtocolHeader [8]byte

// The protocol headers (wire-protocol 1.1). Treat them as constants.
var (
	ProtocolAMQP = ProtocolHeader{'A', 'M', 'Q', 'P', 0, 1, 0, 0}
	ProtocolSASL = ProtocolHeader{'A', 'M', 'Q', 'P', 3, 1, 0, 0}
)
