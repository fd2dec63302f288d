package servicebus

// acknowledger is a connection that can tell the peer at once what has been received, instead of with the next answer. A peer that
// gathers what it writes (Nagle's algorithm, as JavaScript's SDK does) holds its next bytes back until it hears that the last ones
// have come. When those get no answer, that is when the kernel's patience is over: 40 ms on Linux.
//
// Acknowledge costs a system call and a packet, so it is called only where the peer may be waiting and nothing else tells it: behind
// a read that ended inside a frame, or whose frames get no answer. While sends or settlements are on their way to the log it is not.
type acknowledger interface{ Acknowledge() }

// shortRead is up to how many bytes a read may have brought, with room for more, for the peer to be holding some back: of more than
// two full segments the kernel tells it anyway.
const shortRead = 4096

// acknowledge says that the frames of a short read have come, unless something else is going to be written that says so.
func (i *input) acknowledge(r *reader, answered bool) {
	i.short = false
	if r.ack != nil && !answered {
		r.ack.Acknowledge()
	}
}
