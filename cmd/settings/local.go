package settings

import (
	"fmt"
	"net"
	"net/netip"
)

// Local returns the address at which a broker with these settings can be reached from its own
// machine, and whether it has to be over TLS: the first that takes peers without TLS, else the
// first there is. It reads no entity file and no key, so that it is cheap to ask every few seconds.
func Local(from Sources) (address string, tls bool, err error) {
	l := gather(from)
	l.addresses()
	l.checkTLS()
	if err := l.problems.err(); err != nil {
		return "", false, err
	}
	for _, entry := range l.settings.Listening.Addresses {
		candidate, mode, err := l.settings.Listener(entry)
		if err != nil {
			return "", false, Problems{{Where: "listen", Text: fmt.Sprintf("%q: %v", entry, err)}}
		}
		if address == "" || tls && mode != ListenTLS {
			address, tls = candidate, mode == ListenTLS
		}
	}
	if address == "" {
		return "", false, Problems{{Where: "listen", Text: "needs at least one HOST:PORT"}}
	}
	return onThisMachine(address), tls, nil
}

// onThisMachine is where to connect to for an address that is listened on: an unspecified one means
// every interface, loopback too.
func onThisMachine(address string) string {
	host, port, _ := net.SplitHostPort(address) // checked by Listener
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
