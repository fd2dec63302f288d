package log

import (
	"math"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Lender is what a store is, too: somebody who reads its logs over the network asks for what they have yet to read, as a reader beside the broker does
// with a file.
type Lender interface {
	// Lend asks for the frames of a partition from an LSN on not to be given back, for a minute. It is a courtesy: at most 64 names have one, and
	// where the disk is full none counts.
	Lend(name string, id PartitionID, from event.LSN)
}

// holds are what was asked for with Lend.
type holds struct {
	mu  sync.Mutex // guards all
	all map[hold]asking
}

type hold struct {
	name string
	id   PartitionID
}

type asking struct {
	from  event.LSN
	until int64 // ms since 1970
}

// Lend implements [Lender].
func (s *store) Lend(name string, id PartitionID, from event.LSN) {
	h, now := &s.holds, s.opts.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[hold]asking)
	}
	for k, a := range h.all {
		if a.until < now.UnixMilli() {
			delete(h.all, k)
		}
	}
	k := hold{name, id}
	if _, ok := h.all[k]; !ok && len(h.all) >= maxLeases*s.logs {
		return
	}
	h.all[k] = asking{from, now.Add(leaseEnds).UnixMilli()}
}

// asked are the holds that count now, as leases of process 0: whoever asked is elsewhere.
func (s *store) asked(now int64) (list []format.Lease) {
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, a := range h.all {
		if age := time.Duration(a.until-now) * time.Millisecond; age < 0 || age > leaseEnds {
			continue
		}
		l := format.Lease{Renewed: now, Lowest: make([]event.LSN, s.logs)}
		for i := range l.Lowest {
			l.Lowest[i] = math.MaxUint64
		}
		if int(k.id) < len(l.Lowest) {
			l.Lowest[k.id] = a.from
		}
		list = append(list, l)
	}
	return list
}
