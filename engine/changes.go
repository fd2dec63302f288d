package engine

import "encoding/binary"

// Stored property changes are an encoded AMQP map of application properties (docs/log-format.md): bytes as clients send
// them. The broker itself changes properties only when it dead-letters, so this is all the engine knows of that encoding.

const (
	amqpMap32    = 0xd1
	amqpString8  = 0xa1
	amqpString32 = 0xb1
)

// deadLetterChanges encodes the two properties of a message the broker dead-letters (semantics.md 9.2).
func deadLetterChanges(reason, description string) []byte {
	dst := make([]byte, 9, 9+64+len(reason)+len(description))
	dst[0] = amqpMap32
	for _, s := range []string{"DeadLetterReason", reason, "DeadLetterErrorDescription", description} {
		if len(s) < 256 {
			dst = append(dst, amqpString8, byte(len(s)))
		} else {
			dst = append(dst, amqpString32)
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
		}
		dst = append(dst, s...)
	}
	binary.BigEndian.PutUint32(dst[1:], uint32(len(dst)-5))
	binary.BigEndian.PutUint32(dst[5:], 4)
	return dst
}
