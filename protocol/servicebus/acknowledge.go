package servicebus

// acknowledger is a connection that can tell the peer at once what has been received, instead of
// with the next answer. A peer that gathers what it writes (Nagle's algorithm, as JavaScript's SDK
// does) holds its next bytes back until it hears that the last ones have come. Where those get no
// answer it hears so only when the kernel sends a delayed acknowledgement: after 40 ms on Linux.
//
// Acknowledge costs a system call and a packet, so it is called only where the peer may be waiting
// and nothing else tells it: after a read that ended inside a frame, or whose frames get no answer.
// It is not called while sends or settlements are on their way to the log, for they will be
// answered.
type acknowledger interface{ Acknowledge() }

// shortRead is the most bytes that a read may have brought, with room for more, for the peer to be
// holding some back: after more than two full segments the kernel acknowledges anyway.
const shortRead = 4096

// acknowledge tells the peer that the frames of a short read have come, unless an answer that is
// going to be written tells it anyway.
func (i *input) acknowledge(r *reader, answered bool) {
	i.short = false
	if r.ack != nil && !answered {
		r.ack.Acknowledge()
	}
}
