package amqp

import "iter"

// ScanMessage finds the sections of the encoded message b and checks everything in it that could
// harm a consumer (reliability S15-S17, F20): the number of sections, sizes, counts, depth, texts,
// keys, and the types of the fields of header and properties. It builds no value and allocates only
// a scratch buffer, which is reused, for a map of more than 16 keys. The limits apply to each
// section, ZeroWidth to all of them together. A message without any section is well-formed. An
// error is a *DecodeError.
func ScanMessage(b []byte, lim Limits) (Sections, error) {
	r := newFields(b, lim)
	var s Sections
	last := SectionHeader - 1
	seen := 0 // a bit for each section
	for r.pos < r.end && r.err == nil {
		start := r.pos
		code, ok := r.compositeCode()
		switch {
		case !ok:
		case !isSection(code):
			r.fail(start, "not a message section")
		case seen&(1<<(code-SectionHeader)) != 0 && (code != last || code != SectionData && code != SectionSequence):
			r.fail(start, "message section comes twice")
		case isBody(code) && s.BodyCount > 0 && code != last:
			r.fail(start, "body of more than one kind")
		default:
			s.Unordered = s.Unordered || code < last
			if code == SectionHeader {
				var h Header
				h.decode(&r)
				s.TTL = h.TTL.Or(0)
			} else {
				r.section(code)
			}
			s.add(code, Span{start, r.pos}, b[start] == CodeDescribed && b[start+1] == CodeSmallUlong)
		}
		if s.BodyCount > r.elements {
			r.fail(start, "too many body sections")
		}
		last = code
		seen |= 1 << (code - SectionHeader)
	}
	if r.err != nil {
		return Sections{}, r.err
	}
	return s, nil
}

func isSection(code byte) bool { return code >= SectionHeader && code <= SectionFooter }

func isBody(code byte) bool { return code >= SectionData && code <= SectionValue }

// add records a section that was found at p.
func (s *Sections) add(code byte, p Span, small bool) {
	s.LongDescriptors = s.LongDescriptors || !small
	switch code {
	case SectionHeader:
		s.Header = p
	case SectionDeliveryAnnotations:
		s.DeliveryAnnotations = p
	case SectionMessageAnnotations:
		s.MessageAnnotations = p
	case SectionProperties:
		s.Properties = p
	case SectionApplicationProperties:
		s.ApplicationProperties = p
	case SectionFooter:
		s.Footer = p
	default:
		if s.BodyCount == 0 {
			s.Body.Start = p.Start
		}
		s.Body.End = p.End
		s.BodyCount++
		s.BodyKind = BodyKind(code-SectionData) + BodyData
	}
}

// section checks the value of a section other than the header, whose descriptor has been read.
func (r *fields) section(code byte) {
	switch code {
	case SectionProperties:
		new(rawProperties).decode(r)
	case SectionDeliveryAnnotations, SectionMessageAnnotations, SectionApplicationProperties, SectionFooter:
		r.mapSection(code)
	case SectionData:
		r.binaryValue()
	case SectionSequence:
		if r.pos < r.end && r.src[r.pos] != CodeList0 && r.src[r.pos] != CodeList8 && r.src[r.pos] != CodeList32 {
			r.fail(r.pos, "amqp-sequence is not a list")
		}
		r.skip()
	default:
		r.skip()
	}
}

// mapSection checks a map and the types of its keys. Annotations may have keys that are symbols or
// ulongs, or strings in place of symbols. Application-properties have strings, or symbols in place
// of strings.
func (r *fields) mapSection(code byte) {
	at := r.pos
	if at >= r.end || r.src[at] != CodeMap8 && r.src[at] != CodeMap32 {
		r.fail(at, "section is not a map")
		return
	}
	r.skip()
	if r.err != nil {
		return
	}
	for b := mapContent(r.src[at:r.pos]); len(b) > 0; {
		switch b[0] {
		case CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		case CodeUlong0, CodeSmallUlong, CodeUlong:
			if code == SectionApplicationProperties {
				r.fail(at, "key of application-properties is not a string")
				return
			}
		default:
			r.fail(at, "key of a map section is neither text nor ulong")
			return
		}
		b = b[plainLen(b):]
		b = b[RawSize(b):]
	}
}

// mapContent returns the keys and values of an encoded map, nil if b is not a map.
func mapContent(b []byte) []byte {
	if len(b) == 0 || b[0] != CodeMap8 && b[0] != CodeMap32 {
		return nil
	}
	return RawElements(b)
}

// SectionContent removes the descriptor of an encoded section. ok is false if there is no
// descriptor of a section. The value aliases section.
func SectionContent(section []byte) (code byte, value []byte, ok bool) {
	r := newReader(section, DefaultLimits)
	code, ok = r.compositeCode()
	if !ok || !isSection(code) {
		return 0, nil, false
	}
	return code, section[r.pos:], true
}

// withoutDescriptor returns the value of a section, or the bytes unchanged if they are not one.
func withoutDescriptor(section []byte) []byte {
	// the usual case
	if len(section) >= 3 && section[0] == CodeDescribed && section[1] == CodeSmallUlong {
		return section[3:]
	}
	if _, value, ok := SectionContent(section); ok {
		return value
	}
	return section
}

// MapEntries iterates over the keys and encoded values of a section that is a map, or of an encoded
// map, in their order and without allocating. The key is the text of a symbol or string; entries
// with other keys are skipped. Key and value alias section. Malformed bytes end the iteration: scan
// a message first.
func MapEntries(section []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, raw []byte) bool) {
		for b := mapContent(withoutDescriptor(section)); len(b) > 0; {
			k := plainLen(b)
			if k < 0 {
				return
			}
			v := RawSize(b[k:])
			if v < 0 {
				return
			}
			if key, ok := RawText(b[:k]); ok && !yield(key, b[k:k+v:k+v]) {
				return
			}
			b = b[k+v:]
		}
	}
}

// DataSections iterates over the contents of a body's data sections: the parts of a body or, in a
// batch, the encoded messages (wire-protocol 3.4). They alias body. Any other section ends the
// iteration.
func DataSections(body []byte) iter.Seq[[]byte] {
	return func(yield func(data []byte) bool) {
		for len(body) > 0 {
			code, value, ok := SectionContent(body)
			if !ok || code != SectionData {
				return
			}
			n := plainLen(value)
			if n < 0 {
				return
			}
			data, ok := RawBinary(value[:n])
			if !ok || !yield(data) {
				return
			}
			body = value[n:]
		}
	}
}

// AppendNormalized appends the message b, with sections s, so that the sections are in order and
// every section's descriptor is in its small form; the values are unchanged. It is for messages
// that are not Regular: some clients look for 00 53 7x and cannot read longer descriptors
// (wire-protocol 5.1), and some SDKs write the footer before the body or the delivery annotations
// last.
func AppendNormalized(dst, b []byte, s *Sections) []byte {
	if s.Regular() {
		return append(dst, b...)
	}
	for _, p := range [...]Span{s.Header, s.DeliveryAnnotations, s.MessageAnnotations, s.Properties, s.ApplicationProperties, s.Body, s.Footer} {
		dst = appendSmall(dst, p.Of(b))
	}
	return dst
}

// appendSmall appends sections with their descriptors in the small form.
func appendSmall(dst, b []byte) []byte {
	for len(b) > 0 {
		code, value, ok := SectionContent(b)
		if !ok {
			return append(dst, b...)
		}
		n := RawSize(value)
		if n < 0 {
			return append(dst, b...)
		}
		dst = append(AppendDescriptor(dst, code), value[:n]...)
		b = value[n:]
	}
	return dst
}
