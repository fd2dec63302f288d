package event

// BodyErased says that somebody had the body of a message erased, which waits nowhere any more: it is gone when that is answered. By whom says its
// origin, and why the [ReasonGiven] behind it. It changes nothing.
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
