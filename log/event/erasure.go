package event

// BodyErased asks for the erasure of the body of a message that waits nowhere any more. An
// [ErasureFinished] follows when the body is gone. The origin says who asked for it, and the
// [ReasonGiven] behind it why. It changes nothing.
//
//event:kind 69 verb=erase-requested with=erasures fact slice
type BodyErased struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Position Position       // of the body that was
	Size     uint32         // bytes of it
}

// ErasureFinished says that a body whose erasure was requested is no longer in the files of the
// log: every [BodyErased] in front of it with this position is carried out. It changes nothing.
//
//event:kind 71 verb=erased with=erased fact slice
type ErasureFinished struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Position Position       // of the body that was
}
