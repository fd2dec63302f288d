package amqp

import "encoding/binary"

// A frame (AMQP 2.3):
//
//	size 4 | doff 1 | type 1 | channel 2 | extended header 4·doff−8 | body
//
// size counts everything, doff counts words of four bytes before the body. SASL frames ignore the
// channel.

// FrameHeader is the first eight bytes of a frame.
type FrameHeader struct {
	Size    uint32 // bytes of the whole frame
	DOFF    uint8  // words before the body
	Type    uint8  // FrameTypeAMQP or FrameTypeSASL
	Channel uint16
}

// ParseFrameHeader reads the header at the start of b and checks everything that does not depend on
// a connection (reliability S18): size ≥ 8, doff ≥ 2, 4·doff ≤ size, a known type. An error is a
// *FramingError with offset 0.
func ParseFrameHeader(b []byte) (FrameHeader, error) {
	if len(b) < FrameHeaderSize {
		return FrameHeader{}, &FramingError{Reason: "frame header cut short"}
	}
	h := FrameHeader{
		Size:    binary.BigEndian.Uint32(b),
		DOFF:    b[4],
		Type:    b[5],
		Channel: binary.BigEndian.Uint16(b[6:]),
	}
	if reason := h.fault(); reason != "" {
		return FrameHeader{}, &FramingError{Reason: reason}
	}
	return h, nil
}

// fault returns the fault of h; "": none.
func (h FrameHeader) fault() string {
	switch {
	case h.Size < FrameHeaderSize:
		return "frame smaller than its header"
	case h.DOFF < 2:
		return "data offset inside the frame header"
	case 4*uint32(h.DOFF) > h.Size:
		return "data offset beyond the frame"
	case h.Type != FrameTypeAMQP && h.Type != FrameTypeSASL:
		return "unknown frame type"
	}
	return ""
}

// AppendFrame appends an AMQP frame with p and, after it, the payload, which only a transfer may
// have. For the frames of a busy connection there are AppendTransferHeader, AppendDisposition and
// AppendFlow, which do not allocate. The caller keeps the frame below the peer's max-frame-size.
func AppendFrame(dst []byte, channel uint16, p Performative, payload []byte) []byte {
	start := len(dst)
	dst = append(appendPerformative(beginFrame(dst, FrameTypeAMQP, channel), p), payload...)
	return endFrame(dst, start, 0)
}

// AppendSASLFrame appends a SASL frame with p.
func AppendSASLFrame(dst []byte, p Performative) []byte {
	start := len(dst)
	return endFrame(appendPerformative(beginFrame(dst, FrameTypeSASL, 0), p), start, 0)
}

// AppendEmptyFrame appends a keep-alive (wire-protocol 1.1).
func AppendEmptyFrame(dst []byte) []byte {
	return append(dst, 0, 0, 0, FrameHeaderSize, 2, FrameTypeAMQP, 0, 0)
}

// AppendTransferHeader appends a transfer's frame without the payload. The frame's size counts
// payloadSize bytes, which the caller appends next.
func AppendTransferHeader(dst []byte, channel uint16, t *Transfer, payloadSize int) []byte {
	start := len(dst)
	return endFrame(appendTransfer(beginFrame(dst, FrameTypeAMQP, channel), t), start, payloadSize)
}

// TransferHeaderSize returns the number of bytes that AppendTransferHeader appends for t, which
// gives the room for the payload in a frame. It allocates only for states other than Accepted and
// Released.
func TransferHeaderSize(t *Transfer) int {
	// fields that take one byte even when null, and the constructors of two more
	const flags, tag, mode = 5, 1, 1
	fields := uintSize(t.Handle) + optUintSize(t.DeliveryID) + optUintSize(t.MessageFormat) + flags + tag + mode
	if t.DeliveryTag != nil {
		fields += 1 + len(t.DeliveryTag)
		if len(t.DeliveryTag) > 255 {
			fields += 3
		}
	}
	if t.ReceiverSettleMode.Set {
		fields++
	}
	switch t.State.(type) {
	case nil:
		fields++
	case Accepted, Released:
		fields += 4
	default:
		fields += len(appendState(nil, t.State))
	}
	if fields <= 254 {
		return FrameHeaderSize + 3 + narrowHeader + fields
	}
	return FrameHeaderSize + 3 + wideHeader + fields
}

func uintSize(v uint32) int {
	switch {
	case v == 0:
		return 1
	case v < 256:
		return 2
	}
	return 5
}

func optUintSize(o Opt[uint32]) int {
	if !o.Set {
		return 1
	}
	return uintSize(o.Value)
}

// AppendDisposition appends a frame with d.
func AppendDisposition(dst []byte, channel uint16, d *Disposition) []byte {
	start := len(dst)
	return endFrame(appendDisposition(beginFrame(dst, FrameTypeAMQP, channel), d), start, 0)
}

// AppendFlow appends a frame with f.
func AppendFlow(dst []byte, channel uint16, f *Flow) []byte {
	start := len(dst)
	return endFrame(appendFlow(beginFrame(dst, FrameTypeAMQP, channel), f), start, 0)
}

func beginFrame(dst []byte, frameType uint8, channel uint16) []byte {
	return append(dst, 0, 0, 0, 0, 2, frameType, byte(channel>>8), byte(channel))
}

// endFrame writes the size of the frame begun at start; more bytes of it are still to come.
func endFrame(dst []byte, start, more int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start+more))
	return dst
}
