package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// batch collects requests so that those of one read reach a partition in one Submit.
type batch struct {
	broker   engine.Broker
	host     engine.PartitionID
	requests []engine.Request

	sends []single
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
	b.broker.Submit(b.host, run)
	clear(run)
}

// newSend hands out a part of a slab: one allocation for many. A send of which the engine releases the bytes has its place beside them,
// and takes none.
func (b *batch) newSend(bytes *chunk) *single {
	if s := bytes.newSend(); s != nil {
		return s
	}
	if len(b.sends) == 0 {
		b.sends = make([]single, slab)
	}
	s := &b.sends[0]
	b.sends = b.sends[1:]
	return s
}
