// Package amqp is AMQP 1.0 as Go values: types, performatives, frames and message sections, decoded
// from bytes and appended to bytes. Service Bus clients disagree on many details. This package
// writes forms that all of them can read, and reads the forms that any of them writes (docs:
// wire-protocol 9).
//
// It does not know that a broker exists. It opens no socket, starts no goroutine, reads no clock
// and holds no state except what a Decoder keeps for the one goroutine that owns it. Everything
// else depends only on its arguments. Finding the frame boundaries of a stream is left to the
// stream's reader: the limits there depend on the peer and on whether it has logged in.
//
// Invariants:
//
//  1. One encoder. Every composite is written with every field, as list8 or list32, after a
//     descriptor 00 53 xx. No map, array or symbol list is written empty if null is possible.
//  2. One checker. The reader's skip decides whether bytes are well-formed. Values are built only
//     from bytes that it has passed, so memory is taken only after sizes, counts, depth, texts and
//     keys have been checked (Limits). No input makes a decoder panic.
//  3. decode(encode(x)) is x, and encode(decode(b)) decodes to the same again.
//  4. The path of a delivery allocates nothing: Decoder for transfers, dispositions and flows,
//     AppendTransferHeader, AppendDisposition and AppendFlow, ScanMessage, MapEntries and
//     PropertiesField.
//  5. A message's bytes are read and not rebuilt: ScanMessage finds the sections, and Sections.Tail
//     stays as sent.
//
// Decoding a frame that has arrived whole, with the decoder of its connection:
//
//	h, err := amqp.ParseFrameHeader(frame)                    // *FramingError: close with CondFramingError
//	p, payload, err := decoder.Decode(frame[4*int(h.DOFF):]) // *DecodeError: close with CondDecodeError
//	switch p := p.(type) {
//	case *amqp.Transfer:
//		s, err := amqp.ScanMessage(payload, amqp.DefaultLimits)
//		id, ok := amqp.PropertiesField(s.Properties.Of(payload), amqp.FieldMessageID)
//	…
//
// and encoding a delivery:
//
//	room := int(maxFrameSize) - amqp.TransferHeaderSize(&t)
//	out = amqp.AppendTransferHeader(out, channel, &t, len(part))
//	out = append(out, part...)
package amqp
