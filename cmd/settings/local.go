package settings

import (
	"fmt"
	"net"
	"net/netip"
)

// Local returns an address for connections from the broker's own machine, and whether they need
// TLS: the first address that takes peers without TLS, else the first of all. It reads no entity
// file and no key, so a caller can afford it every few seconds.
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

// onThisMachine returns the address to connect to for the address of a listener. An unspecified one
// means every interface, including loopback.
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
