package servicebus

// input is what has been read and is being handled.
type input struct {
	chunk *chunk  // the frame being handled stands in it
	body  []byte  // of that frame, with its payload
	rest  inbound // frames that have been read and wait; see conn.handle
	cut   bool    // the frame being handled is a beginning: there was no memory for the rest
	short bool    // the peer may hold back what follows this turn's frames; see acknowledge
	taken uint64  // reads of which frames have been taken
}

// begin notes that frames of a chunk are being handled.
func (i *input) begin(c *chunk) { i.chunk = c }

// end notes that they have been.
func (i *input) end() { i.chunk, i.body = nil, nil }

// keep lets frames wait.
func (i *input) keep(rest inbound) { i.rest = rest }

// waits reports whether frames that have been read wait to be handled.
func (i *input) waits() bool { return i.rest.chunk != nil }

// takeRest hands them out.
func (i *input) takeRest() inbound {
	rest := i.rest
	i.rest = inbound{}
	return rest
}

// drop releases them, and what the reader left behind.
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
