package engine

import "sync"

// Memory that each received message needs once, for a short time, is reused. A settlement and the
// description of a delivery take a few hundred bytes each. Allocating them would be most of the
// work that receiving causes the garbage collector and the operating system.

var settles, deliveries sync.Pool

// Recycled returns a copy of the command for a caller that submits it and never looks at it again:
// the partition that carries it out uses its memory for another command.
func (cmd Settle) Recycled() *Settle {
	s, _ := settles.Get().(*Settle)
	if s == nil {
		s = new(Settle)
	}
	*s = cmd
	s.recycled = true
	return s
}

// Recycle takes the memory of a command that has been carried out, if its sender agreed to that.
func (cmd *Settle) Recycle() {
	if cmd.recycled {
		*cmd = Settle{}
		settles.Put(cmd)
	}
}

// deliverySlab is the number of deliveries allocated at once.
const deliverySlab = 64

// newDelivery returns memory for the description of a message on its way to a client.
func (d *decision) newDelivery() *Delivery {
	if used, ok := deliveries.Get().(*Delivery); ok {
		return used
	}
	if len(d.slab) == 0 {
		d.slab = make([]Delivery, deliverySlab)
	}
	given := &d.slab[0]
	d.slab = d.slab[1:]
	return given
}

// Recycle frees the memory of a delivery that is no longer needed. A receiver need not call it.
func (d *Delivery) Recycle() {
	*d = Delivery{}
	deliveries.Put(d)
}
