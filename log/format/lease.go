package format

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Lease says which part of the logs a reader beside a broker needs (log-format.md 4). A broker
// looks for leases before it removes files of a log.
type Lease struct {
	PID     uint32      // of the reader
	Renewed int64       // ms since 1970
	Lowest  []event.LSN // by partition: the reader needs nothing below
}

const (
	// MaxLease is the longest lease that is read, bytes.
	MaxLease = noteHead + leaseHead + 8*MaxPartitions + 4

	leasePrefix = "lease-"
	leaseHead   = 16
)

// LeaseName returns a lease's name in the data directory.
func LeaseName(id uint64) string { return fmt.Sprintf("%s%016x", leasePrefix, id) }

// IsLease reports whether a name is that of a lease.
func IsLease(name string) bool {
	var id uint64
	_, err := fmt.Sscanf(name, leasePrefix+"%016x", &id)
	return err == nil && LeaseName(id) == name
}

// Encode returns the contents of the file.
func (l Lease) Encode(tag uint32) []byte {
	p := le.AppendUint32(nil, l.PID)
	p = le.AppendUint32(p, 0)
	p = le.AppendUint64(p, uint64(l.Renewed))
	for _, at := range l.Lowest {
		p = le.AppendUint64(p, uint64(at))
	}
	return seal("LBLE", noPartition, tag, p)
}

// DecodeLease reads the contents of the file.
func DecodeLease(file []byte, tag uint32, partitions int) (Lease, error) {
	p, err := open(file, "LBLE", noPartition, tag)
	if err != nil {
		return Lease{}, err
	}
	if len(p) != leaseHead+8*partitions {
		return Lease{}, fmt.Errorf("%w: length", ErrDamaged)
	}
	l := Lease{PID: le.Uint32(p), Renewed: int64(le.Uint64(p[8:]))}
	for p = p[leaseHead:]; len(p) > 0; p = p[8:] {
		l.Lowest = append(l.Lowest, event.LSN(le.Uint64(p)))
	}
	return l, nil
}
