package amqp

// Fields of composites that may be null.

func appendOptBool(dst []byte, o Opt[bool]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendBool(dst, o.Value)
}

// appendTrue appends a boolean whose null means false, and writes false as null.
func appendTrue(dst []byte, v bool) []byte {
	if v {
		return append(dst, CodeTrue)
	}
	return AppendNull(dst)
}

func appendOptUbyte(dst []byte, o Opt[uint8]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUbyte(dst, o.Value)
}

func appendOptUshort(dst []byte, o Opt[uint16]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUshort(dst, o.Value)
}

func appendOptUint(dst []byte, o Opt[uint32]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUint(dst, o.Value)
}

func appendOptUlong(dst []byte, o Opt[uint64]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUlong(dst, o.Value)
}

func appendOptTimestamp(dst []byte, o Opt[Timestamp]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return AppendTimestamp(dst, o.Value)
}

func appendOptString(dst []byte, o Opt[string]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return AppendString(dst, o.Value)
}

func appendOptSymbol(dst []byte, o Opt[Symbol]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return AppendSymbol(dst, o.Value)
}

func appendSenderMode(dst []byte, o Opt[SenderSettleMode]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUbyte(dst, uint8(o.Value))
}

func appendReceiverMode(dst []byte, o Opt[ReceiverSettleMode]) []byte {
	if !o.Set {
		return AppendNull(dst)
	}
	return appendUbyte(dst, uint8(o.Value))
}

// appendNonEmpty writes "" as null.
func appendNonEmpty(dst []byte, s string) []byte {
	if s == "" {
		return AppendNull(dst)
	}
	return AppendString(dst, s)
}

// appendNonEmptySymbol writes "" as null.
func appendNonEmptySymbol(dst []byte, s Symbol) []byte {
	if s == "" {
		return AppendNull(dst)
	}
	return AppendSymbol(dst, s)
}

// appendOptBinary writes nil as null.
func appendOptBinary(dst, b []byte) []byte {
	if b == nil {
		return AppendNull(dst)
	}
	return appendBinary(dst, b)
}

// appendMapField writes an empty map as null: one client cannot read empty maps (wire-protocol
// 0.13).
func appendMapField(dst []byte, m Map) []byte {
	if len(m) == 0 {
		return AppendNull(dst)
	}
	return appendMap(dst, m)
}

// appendSymbols writes an empty list as null, because one client cannot read empty arrays
// (wire-protocol 0.13), and others as an array of sym32 like the real service (wire-protocol 1.5).
func appendSymbols(dst []byte, symbols []Symbol) []byte {
	if len(symbols) == 0 {
		return AppendNull(dst)
	}
	mark := len(dst)
	dst = append(dst, CodeArray32, 0, 0, 0, 0, 0, 0, 0, 0, CodeSym32)
	for _, s := range symbols {
		dst = append(appendSize(dst, CodeSym32, len(s)), s...)
	}
	return endCompound(dst, mark, len(symbols))
}
