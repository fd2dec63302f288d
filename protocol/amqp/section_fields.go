package amqp

import (
	"encoding/binary"
	"iter"
)

// AppendHeader appends a header section with all five fields.
func AppendHeader(dst []byte, h *Header) []byte {
	dst, mark := beginFields(dst, SectionHeader)
	dst = appendOptBool(dst, h.Durable)
	dst = appendOptUbyte(dst, h.Priority)
	dst = appendOptUint(dst, h.TTL)
	dst = appendOptBool(dst, h.FirstAcquirer)
	dst = appendOptUint(dst, h.DeliveryCount)
	return EndList(dst, mark, 5)
}

// DecodeHeader decodes a header section, including the descriptor, with DefaultLimits and without
// allocating. It ignores the bytes after the section. An error is a *DecodeError.
func DecodeHeader(section []byte) (Header, error) {
	r := newFields(section, DefaultLimits)
	var h Header
	if code, ok := r.compositeCode(); ok && code == SectionHeader {
		h.decode(&r)
	} else {
		r.fail(0, "not a header section")
	}
	if r.err != nil {
		return Header{}, r.err
	}
	return h, nil
}

func (h *Header) decode(r *fields) {
	s := r.openFields()
	h.Durable = r.optBool()
	h.Priority = r.optUint8()
	h.TTL = r.optUint32()
	h.FirstAcquirer = r.optBool()
	h.DeliveryCount = r.optUint32()
	r.closeFields(s)
}

// AppendProperties appends a properties section with all thirteen fields.
func AppendProperties(dst []byte, p *Properties) []byte {
	dst, mark := beginFields(dst, SectionProperties)
	dst = AppendValue(dst, p.MessageID)
	dst = appendOptBinary(dst, p.UserID)
	dst = appendOptString(dst, p.To)
	dst = appendOptString(dst, p.Subject)
	dst = appendOptString(dst, p.ReplyTo)
	dst = AppendValue(dst, p.CorrelationID)
	dst = appendOptSymbol(dst, p.ContentType)
	dst = appendOptSymbol(dst, p.ContentEncoding)
	dst = appendOptTimestamp(dst, p.AbsoluteExpiryTime)
	dst = appendOptTimestamp(dst, p.CreationTime)
	dst = appendOptString(dst, p.GroupID)
	dst = appendOptUint(dst, p.GroupSequence)
	dst = appendOptString(dst, p.ReplyToGroupID)
	return EndList(dst, mark, 13)
}

// DecodeProperties decodes a properties section, including the descriptor, with DefaultLimits. The
// result is a copy. It ignores the bytes after the section. An error is a *DecodeError.
func DecodeProperties(section []byte) (Properties, error) {
	r := newFields(section, DefaultLimits)
	var raw rawProperties
	if code, ok := r.compositeCode(); ok && code == SectionProperties {
		raw.decode(&r)
	} else {
		r.fail(0, "not a properties section")
	}
	if r.err != nil {
		return Properties{}, r.err
	}
	return raw.copied(), nil
}

// rawProperties are properties that alias the input. A nil slice is a null.
type rawProperties struct {
	messageID, correlationID     []byte // encoded values
	userID                       []byte
	to, subject, replyTo         []byte
	contentType, contentEncoding []byte
	groupID, replyToGroupID      []byte
	absoluteExpiryTime           Opt[Timestamp]
	creationTime                 Opt[Timestamp]
	groupSequence                Opt[uint32]
}

func (p *rawProperties) decode(r *fields) {
	s := r.openFields()
	p.messageID = r.idField()
	if r.next() {
		p.userID = r.binaryValue()
	}
	p.to = r.textField()
	p.subject = r.textField()
	p.replyTo = r.textField()
	p.correlationID = r.idField()
	p.contentType = r.asciiField()
	p.contentEncoding = r.asciiField()
	p.absoluteExpiryTime = r.optTimestamp()
	p.creationTime = r.optTimestamp()
	p.groupID = r.textField()
	p.groupSequence = r.optUint32()
	p.replyToGroupID = r.textField()
	r.closeFields(s)
}

// idField reads a message-id or correlation-id, encoded (wire-protocol 5.1).
func (r *fields) idField() []byte {
	if !r.next() {
		return nil
	}
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeStr8, CodeStr32, CodeUlong0, CodeSmallUlong, CodeUlong, CodeUUID, CodeBin8, CodeBin32:
		r.skipBody(code)
	default:
		r.fail(at, "id is not a string, ulong, uuid or binary")
	}
	if r.err != nil {
		return nil
	}
	return r.src[at:r.pos]
}

func (r *fields) textField() []byte {
	if !r.next() {
		return nil
	}
	return r.text()
}

func (r *fields) asciiField() []byte {
	at := r.pos
	b := r.textField()
	if !isASCII(b) {
		r.fail(at, "symbol is not ASCII")
	}
	return b
}

func (p *rawProperties) copied() Properties {
	return Properties{
		MessageID:          idOf(p.messageID),
		UserID:             optCopy(p.userID),
		To:                 optString(p.to),
		Subject:            optString(p.subject),
		ReplyTo:            optString(p.replyTo),
		CorrelationID:      idOf(p.correlationID),
		ContentType:        optSymbol(p.contentType),
		ContentEncoding:    optSymbol(p.contentEncoding),
		AbsoluteExpiryTime: p.absoluteExpiryTime,
		CreationTime:       p.creationTime,
		GroupID:            optString(p.groupID),
		GroupSequence:      p.groupSequence,
		ReplyToGroupID:     optString(p.replyToGroupID),
	}
}

func idOf(raw []byte) any {
	if raw == nil {
		return nil
	}
	r := newReader(raw, DefaultLimits)
	return r.value()
}

func optCopy(b []byte) []byte {
	if b == nil {
		return nil
	}
	return copied(b)
}

func optString(b []byte) Opt[string] {
	if b == nil {
		return Opt[string]{}
	}
	return Some(string(b))
}

func optSymbol(b []byte) Opt[Symbol] {
	if b == nil {
		return Opt[Symbol]{}
	}
	return Some(Symbol(b))
}

// PropertiesField returns the encoded field i of a properties section, which includes the
// descriptor; i is one of the Field constants. ok is false if the field is null or after the end of
// the list. It allocates nothing; the result aliases section. It relies on the checks of
// ScanMessage, and does not panic without them.
func PropertiesField(section []byte, i int) (raw []byte, ok bool) {
	for at, raw := range PropertiesFields(section) {
		if at >= i {
			return raw, at == i
		}
	}
	return nil, false
}

// PropertiesFields iterates over the encoded fields of a properties section that are not null, in
// their order, each with its number, one of the Field constants. The conditions of
// [PropertiesField] apply to each of them.
func PropertiesFields(section []byte) iter.Seq2[int, []byte] {
	return func(yield func(i int, raw []byte) bool) {
		b := withoutDescriptor(section)
		n, count := plainLen(b), 0
		switch {
		case n >= narrowHeader && b[0] == CodeList8:
			b, count = b[narrowHeader:n], int(b[2])
		case n >= wideHeader && b[0] == CodeList32:
			b, count = b[wideHeader:n], int(min(binary.BigEndian.Uint32(b[5:]), 1<<16))
		}
		for i := range count {
			n := 1
			if len(b) == 0 || b[0] != CodeNull { // most fields are null
				if n = RawSize(b); n < 0 || !yield(i, b[:n:n]) {
					return
				}
			}
			b = b[n:]
		}
	}
}
