package servicebus

// input is the received data that is being handled.
type input struct {
	chunk *chunk     // holds the current frame
	body  []byte     // of the current frame, with its payload
	rest  readResult // frames that wait; see conn.handle
	cut   bool       // the current frame is only a beginning: there was no memory for the rest
	short bool       // the peer may hold back what follows this turn's frames; see acknowledge
	taken uint64     // number of reads whose frames have been taken
}

// begin notes that frames of a chunk are being handled.
func (i *input) begin(c *chunk) { i.chunk = c }

// end notes that they have been handled.
func (i *input) end() { i.chunk, i.body = nil, nil }

// keep makes frames wait.
func (i *input) keep(rest readResult) { i.rest = rest }

// waits reports whether frames wait to be handled.
func (i *input) waits() bool { return i.rest.chunk != nil }

// takeRest returns the waiting frames.
func (i *input) takeRest() readResult {
	rest := i.rest
	i.rest = readResult{}
	return rest
}

// drop releases the waiting frames and the rest of the reader.
func (i *input) drop(r *reader) {
	if i.waits() {
		i.takeRest().chunk.Release()
	}
	select {
	case in := <-r.out:
		if in.chunk != nil {
			in.chunk.Release()
		}
	default:
	}
}
