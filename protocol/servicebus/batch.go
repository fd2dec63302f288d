package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// A batch collects the requests of one read, so that they reach each partition in one Submit.
type batch struct {
	broker engine.Broker
	runs   []run  // of the partitions that had requests before
	turn   uint64 // number of submits

	sends []singleSend
}

// A run is the requests to one partition, in order.
type run struct {
	host     engine.PartitionID
	requests []engine.Request
}

const slab = 64

// add appends a request to the run of its partition. Requests to different partitions have no
// order.
func (b *batch) add(host engine.PartitionID, r engine.Request) {
	for i := range b.runs {
		if of := &b.runs[i]; of.host == host {
			of.requests = append(of.requests, r)
			return
		}
	}
	b.runs = append(b.runs, run{host, []engine.Request{r}})
}

// submit hands the runs to the engine. It blocks while a partition's mailbox is full; this is the
// back-pressure.
func (b *batch) submit() {
	b.turn++
	for i := range b.runs {
		of := &b.runs[i]
		if len(of.requests) == 0 {
			continue
		}
		requests := of.requests
		// before the call: a run is submitted once, even if Submit panics
		of.requests = requests[:0]
		b.broker.Submit(of.host, requests)
		clear(requests)
	}
}

// newSend returns a send from a slab: one allocation serves many. A send whose bytes the engine
// releases is kept next to those bytes and needs no allocation.
func (b *batch) newSend(bytes *chunk) *singleSend {
	if s := bytes.newSend(); s != nil {
		return s
	}
	if len(b.sends) == 0 {
		b.sends = make([]singleSend, slab)
	}
	s := &b.sends[0]
	b.sends = b.sends[1:]
	return s
}
