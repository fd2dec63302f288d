package broker

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"

	"golang.org/x/sys/unix"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
)

const (
	// reserveDescriptors stay free for files that the log opens briefly, for administration, and
	// for connections that are accepted only to be refused (reliability.md F18).
	reserveDescriptors = 64
	// ownDescriptors is for standard streams, the poller, listeners and certificates that are read
	// again.
	ownDescriptors = 24
	// fewestSockets is the smallest useful number: one for each connection that is refused because
	// there are too many, and a few for the connections that are served.
	fewestSockets = servicebus.Overhang + 32
	// readingShare divides the number of descriptors: the log may use this part for segment files
	// that it reads, if descriptors are scarce.
	readingShare = 8
	usualReading = 256
)

// raiseDescriptors raises the soft limit of open files to the hard limit and returns it.
func raiseDescriptors() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		// a system that reports "unlimited" may still have a limit
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			l = raised
		}
	}
	return int(min(uint64(l.Cur), math.MaxInt32)), nil
}

// descriptors is the allocation of the process's file descriptors.
type descriptors struct {
	limit   int // total
	reading int // of the log, for segment files being read
	log     int // of the log, total
}

func shareDescriptors(limit int) descriptors {
	return descriptors{limit: limit, reading: min(usualReading, max(1, limit/readingShare))}
}

// sockets returns the number of descriptors left for connections.
func (d *descriptors) sockets() int { return d.limit - reserveDescriptors - ownDescriptors - d.log }

// reserveForLog reserves the descriptors that the log keeps open for this many partitions. If too
// few are left for connections, that is a problem of the settings.
func (d *descriptors) reserveForLog(partitions int) error {
	d.log = log.Descriptors(partitions, d.reading)
	if missing := fewestSockets - d.sockets(); missing > 0 {
		return settings.Problems{{Where: "open files", Text: fmt.Sprintf("the limit is %d, but %d partitions need at least %d: raise it (ulimit -n)",
			d.limit, partitions, d.limit+missing)}}
	}
	return nil
}

// limitConnections lowers connection limits to the available sockets, after it has set limits of 0
// to their defaults. A quarter of the sockets is for HTTP and for pending connections. Another
// quarter is for AMQP before the first valid token. The other half is always left for connections
// that have logged in. The first quarter and all AMQP connections together never need more sockets
// than there are.
func (d *descriptors) limitConnections(l settings.Limits) settings.Limits {
	asked := settings.Limits{Connections: cmp.Or(l.Connections, 5000), Unauthenticated: cmp.Or(l.Unauthenticated, 1000)}
	share := d.sockets() / 4
	l.Unauthenticated = min(asked.Unauthenticated, share)
	l.Connections = min(asked.Connections, d.sockets()-l.Unauthenticated-servicebus.Overhang)
	attributes := []any{"limit", d.limit, "reserve", reserveDescriptors, "log", d.log, "connections", l.Connections,
		"unauthenticated", l.Unauthenticated}
	if l.Connections < asked.Connections || l.Unauthenticated < asked.Unauthenticated {
		slog.Warn("connection limits lowered to fit the limit of open files", attributes...)
	} else {
		slog.Info("file descriptors", attributes...)
	}
	return l
}
