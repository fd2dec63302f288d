package amqp

import "strconv"

// Limits bounds the input of a decoder (reliability 7.4 and 8). A decoder accepts values up to and
// including each limit. The zero Limits means DefaultLimits.
type Limits struct {
	// Depth bounds the nesting of lists, maps and arrays, including the outermost one.
	Depth int
	// Described bounds the nesting of described values.
	Described int
	// Elements bounds the elements of one list, map or array; keys and values of a map count one
	// each. In any case no compound may announce more elements than it has bytes left.
	Elements int
	// ZeroWidth bounds the elements without bytes (an array of nulls) of one decoded value in
	// total. It is a total because such elements take memory and no input.
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

// DecodeError says where and why input is malformed. It ends the message, link or connection of the
// bytes with the condition CondDecodeError.
type DecodeError struct {
	Offset int    // byte offset in the slice given to the decoder
	Reason string // a constant text, without any part of the input
}

// Error returns "amqp: byte <offset>: <reason>".
func (e *DecodeError) Error() string {
	return "amqp: byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// FramingError says where and why a stream of frames is malformed (reliability S18). It ends the
// connection with the condition CondFramingError.
type FramingError struct {
	Offset int64  // byte offset of the frame in the stream
	Reason string // a constant text, without any part of the input
}

// Error returns "amqp: stream byte <offset>: <reason>".
func (e *FramingError) Error() string {
	return "amqp: stream byte " + strconv.FormatInt(e.Offset, 10) + ": " + e.Reason
}
