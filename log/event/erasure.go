package event

// BodyErased asks for the erasure of the body of a message that waits nowhere any more. An
// [ErasureFinished] follows when the body is gone. The origin says who asked for it, and the
// [ReasonGiven] behind it why. It changes nothing.
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

// ErasureFinished says that a body whose erasure was requested is no longer in the files of the log:
// every [BodyErased] in front of it with this position is carried out. It changes nothing.
type ErasureFinished struct {
	Envelope
	Sequence SequenceNumber
	Position Position // of the body that was
}

// Kind implements [Event].
func (*ErasureFinished) Kind() Kind { return KindErasureFinished }

func (f *ErasureFinished) encode(e *encoder) {
	e.seq(f.Sequence)
	e.uvarint(uint64(f.Position))
}

func (f *ErasureFinished) decode(d *decoder) {
	f.Sequence = d.seq()
	f.Position = Position(d.uvarint())
}
