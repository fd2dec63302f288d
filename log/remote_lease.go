package log

import (
	"math"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// RemoteLeaser is implemented by a store: a reader over the network asks for what it has yet to read to be kept, as a reader beside the broker does
// with a file.
type RemoteLeaser interface {
	// Lease asks for the frames of a partition from an LSN on not to be given back, for a minute. It is a courtesy: at most 64 names have one, and
	// where the disk is full none counts.
	Lease(name string, id PartitionID, from event.LSN)
}

// remoteLeases are what was asked for with Lease.
type remoteLeases struct {
	mu  sync.Mutex // guards all
	all map[leaseKey]remoteLease
}

type leaseKey struct {
	name string
	id   PartitionID
}

type remoteLease struct {
	from  event.LSN
	until int64 // ms since 1970
}

// Lease implements [RemoteLeaser].
func (s *store) Lease(name string, id PartitionID, from event.LSN) {
	h, now := &s.holds, s.opts.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[leaseKey]remoteLease)
	}
	for k, a := range h.all {
		if a.until < now.UnixMilli() {
			delete(h.all, k)
		}
	}
	k := leaseKey{name, id}
	if _, ok := h.all[k]; !ok && len(h.all) >= maxLeases*s.logs {
		return
	}
	h.all[k] = remoteLease{from, now.Add(leaseEnds).UnixMilli()}
}

// current are the leases that count now. Their process is 0: the readers are on other machines.
func (s *store) current(now int64) (list []format.Lease) {
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
