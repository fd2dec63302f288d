package servicebus

// An acknowledger is a connection that can acknowledge received data at once, instead of with the
// next answer. A peer that uses Nagle's algorithm, such as JavaScript's SDK, holds back its next
// bytes until the last ones are acknowledged. If those get no answer, the acknowledgement comes
// only with the kernel's delay: after 40 ms on Linux.
//
// Acknowledge costs a system call and a packet, so it is called only where the peer may be waiting
// and no answer follows: after a read that ended inside a frame, or whose frames get no answer. It
// is not called while sends or settlements are on their way to the log, because they will be
// answered.
type acknowledger interface{ Acknowledge() }

// shortRead bounds the bytes of a read after which the peer may be holding some back, if the read
// had room for more: after more than two full segments the kernel acknowledges by itself.
const shortRead = 4096

// acknowledge acknowledges the frames of a short read, unless a pending answer does so anyway.
func (i *input) acknowledge(r *reader, answered bool) {
	i.short = false
	if r.ack != nil && !answered {
		r.ack.Acknowledge()
	}
}
