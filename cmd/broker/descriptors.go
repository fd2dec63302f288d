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
	// reserveDescriptors stay free for what the log opens for a moment, for administration, and for
	// a connection that is accepted to be refused (reliability.md F18).
	reserveDescriptors = 64
	// ownDescriptors is for standard streams, the poller, listeners and certificates that are read
	// again.
	ownDescriptors = 24
	// fewestSockets is the fewest with which a broker is of any use: one for each connection that
	// is told that there are too many, and a few for those that are served.
	fewestSockets = servicebus.Overhang + 32
	// readingShare is the part of all descriptors, one in readingShare, that the log may use for
	// segment files that it reads, where descriptors are few.
	readingShare = 8
	usualReading = 256
)

// raiseDescriptors raises the soft limit of open files to the hard one and returns it.
func raiseDescriptors() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		// systems that say "unlimited" may have a limit all the same
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			l = raised
		}
	}
	return int(min(uint64(l.Cur), math.MaxInt32)), nil
}

// descriptors is how the file descriptors of the process are shared out.
type descriptors struct {
	limit   int // all there may be
	reading int // of the log, for segment files that are read
	log     int // of the log, all
}

func shareDescriptors(limit int) descriptors {
	return descriptors{limit: limit, reading: min(usualReading, max(1, limit/readingShare))}
}

// sockets is how many are left for connections.
func (d *descriptors) sockets() int { return d.limit - reserveDescriptors - ownDescriptors - d.log }

// hold counts what the log of that many partitions keeps open. Where too little is left to serve
// anybody that is a problem of the settings.
func (d *descriptors) hold(partitions int) error {
	d.log = log.Descriptors(partitions, d.reading)
	if missing := fewestSockets - d.sockets(); missing > 0 {
		return settings.Problems{{Where: "open files", Text: fmt.Sprintf("the limit is %d, but %d partitions need at least %d: raise it (ulimit -n)",
			d.limit, partitions, d.limit+missing)}}
	}
	return nil
}

// bound lowers limits of connections, filled in where they are 0, to what there are sockets for. A
// quarter of the sockets is for HTTP and for connections that have not said what they want, another
// for AMQP before the first valid token: those who have logged in find half of the sockets,
// whatever the others do. The first quarter and all connections of AMQP together never need more
// than there are.
func (d *descriptors) bound(l settings.Limits) settings.Limits {
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
