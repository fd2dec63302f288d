package amqp

// Frames hold performatives, and those hold the other composites. The functions of this file handle
// each of them alone.

// decodeComposite decodes the composite at the start of src, of any type of this package, and
// returns the bytes after it.
func decodeComposite(src []byte, lim Limits) (c Composite, rest []byte, err error) {
	r := newFields(src, lim)
	if code, ok := r.compositeCode(); ok {
		switch {
		case code == descError:
			v := new(Error)
			v.decode(&r)
			c = v
		case code == descSource:
			v := new(Source)
			v.decode(&r)
			c = v
		case code == descTarget:
			v := new(Target)
			v.decode(&r)
			c = v
		case code == descCoordinator:
			v := new(Coordinator)
			v.decode(&r)
			c = v
		case isState(code):
			c = r.state(code)
		default:
			c = r.performative(code)
		}
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	return c, src[r.pos:], nil
}

// appendComposite appends the descriptor of c and its list with all fields.
func appendComposite(dst []byte, c Composite) []byte {
	switch c := c.(type) {
	case Performative:
		return appendPerformative(dst, c)
	case DeliveryState:
		return appendState(dst, c)
	case *Error:
		return appendError(dst, c)
	case *Source:
		return appendSource(dst, c)
	case *Target:
		return appendTarget(dst, c)
	case *Coordinator:
		return appendCoordinator(dst, c)
	}
	panic("amqp: no composite")
}
