package amqp

import "strconv"

// Limits bounds what a decoder accepts (reliability 7.4 and 8). A decoder reads exactly up to each
// limit and refuses one more. The zero Limits means DefaultLimits.
type Limits struct {
	// Depth is how many lists, maps and arrays may be open inside each other, the outermost
	// counted.
	Depth int
	// Described is how many described values may be open inside each other.
	Described int
	// Elements is how many elements one list, map or array may have; keys and values of a map count
	// one each. Whatever it says, no compound may announce more elements than it has bytes left.
	Elements int
	// ZeroWidth is how many elements without a byte of their own (an array of nulls) one decoded
	// value may have in total. It is a total because such elements cost memory and no input.
	ZeroWidth int
}

// DefaultLimits are the limits after login (reliability 8). Treat it as a constant.
var DefaultLimits = Limits{Depth: 32, Described: 10, Elements: 65536, ZeroWidth: 4096}

// HandshakeLimits are the limits before login (reliability 8). Treat it as a constant.
var HandshakeLimits = Limits{Depth: 8, Described: 8, Elements: 256, ZeroWidth: 256}

func (l Limits) orDefault() Limits {
	if l == (Limits{}) {
		return DefaultLimits
	}
	return l
}

// DecodeError says where input stopped making sense and why. It ends what the bytes belonged to
// (message, link or connection) with the condition CondDecodeError.
type DecodeError struct {
	Offset int    // byte offset in the slice given to the decoder
	Reason string // a constant text, without any of the input
}

// Error returns "amqp: byte <offset>: <reason>".
func (e *DecodeError) Error() string {
	return "amqp: byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// FramingError says where a stream of frames stopped making sense and why (reliability S18). It
// ends the connection with the condition CondFramingError.
type FramingError struct {
	Offset int64  // byte offset of the frame in the stream
	Reason string // a constant text, without any of the input
}

// Error returns "amqp: stream byte <offset>: <reason>".
func (e *FramingError) Error() string {
	return "amqp: stream byte " + strconv.FormatInt(e.Offset, 10) + ": " + e.Reason
}
