package event

// BodyErased requests the erasure of the body of a settled message. An [ErasureFinished] follows
// when the body is gone. The origin says who requested it, and the [ReasonGiven] after it says why.
// It changes nothing.
//
//event:kind 69 verb=erase-requested with=erasures fact slice
type BodyErased struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Position Position       // of the erased body
	Size     uint32         // bytes of it
}

// ErasureFinished says that a body whose erasure was requested is no longer in the files of the
// log: every earlier [BodyErased] with this position is carried out. It changes nothing.
//
//event:kind 71 verb=erased with=erased fact slice
type ErasureFinished struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Position Position       // of the erased body
}
