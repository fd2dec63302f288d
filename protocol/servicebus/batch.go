package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// batch collects requests so that those of one read reach a partition in one Submit.
type batch struct {
	c        *conn
	host     engine.PartitionID
	requests []engine.Request

	sends    []engine.Send
	messages []engine.Message
	settles  []engine.Settle
}

const slab = 64

// add appends a request to the run of its partition. A request for another partition ends the run, so each partition gets
// its requests in order.
func (b *batch) add(host engine.PartitionID, r engine.Request) {
	if len(b.requests) > 0 && b.host != host {
		b.submit()
	}
	b.host = host
	b.requests = append(b.requests, r)
}

// submit hands the run over. It blocks while the partition's mailbox is full: that is back-pressure.
func (b *batch) submit() {
	if len(b.requests) == 0 {
		return
	}
	run := b.requests
	b.requests = run[:0] // before the call: a run is submitted once, whatever happens in it
	b.c.broker.Submit(b.host, run)
	clear(run)
}

// newSend, newMessage and newSettle hand out parts of slabs: one allocation for many.
func (b *batch) newSend() *engine.Send {
	if len(b.sends) == 0 {
		b.sends = make([]engine.Send, slab)
	}
	s := &b.sends[0]
	b.sends = b.sends[1:]
	*s = engine.Send{}
	return s
}

func (b *batch) newMessage() []engine.Message {
	if len(b.messages) == 0 {
		b.messages = make([]engine.Message, slab)
	}
	m := b.messages[:1:1]
	b.messages = b.messages[1:]
	return m
}

func (b *batch) newSettle() *engine.Settle {
	if len(b.settles) == 0 {
		b.settles = make([]engine.Settle, slab)
	}
	s := &b.settles[0]
	b.settles = b.settles[1:]
	return s
}
