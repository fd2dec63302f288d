package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// batch collects requests so that those of one read reach each partition in one Submit.
type batch struct {
	broker engine.Broker
	runs   []run  // of the partitions that were asked for something before
	turn   uint64 // how often it was submitted

	sends []singleSend
}

// run is requests to one partition, in order.
type run struct {
	host     engine.PartitionID
	requests []engine.Request
}

const slab = 64

// add appends a request to the run of its partition. Between partitions there is no order.
func (b *batch) add(host engine.PartitionID, r engine.Request) {
	for i := range b.runs {
		if of := &b.runs[i]; of.host == host {
			of.requests = append(of.requests, r)
			return
		}
	}
	b.runs = append(b.runs, run{host, []engine.Request{r}})
}

// submit hands the runs over. It blocks while a partition's mailbox is full: that is back-pressure.
func (b *batch) submit() {
	b.turn++
	for i := range b.runs {
		of := &b.runs[i]
		if len(of.requests) == 0 {
			continue
		}
		requests := of.requests
		// before the call: a run is submitted once, whatever happens in it
		of.requests = requests[:0]
		b.broker.Submit(of.host, requests)
		clear(requests)
	}
}

// newSend hands out a part of a slab: one allocation for many. A send whose bytes the engine
// releases is kept beside those bytes and takes none.
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
