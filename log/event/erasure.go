package event

// BodyErased says that the body of a message that waits nowhere any more was to be erased. It is gone when the request is answered. The origin says who asked
// for it, and the [ReasonGiven] behind it why. It changes nothing.
type BodyErased struct {
	Envelope
	Sequence SequenceNumber
	Position Position // of the body that was
	Size     uint32   // bytes of it
}

// Kind implements [Event].
func (*BodyErased) Kind() Kind { return KindBodyErased }

func (b *BodyErased) encode(e *encoder) {
	e.seq(b.Sequence)
	e.uvarint(uint64(b.Position))
	e.uvarint(uint64(b.Size))
}

func (b *BodyErased) decode(d *decoder) {
	b.Sequence = d.seq()
	b.Position = Position(d.uvarint())
	b.Size = d.uint32()
}
