package servicebus

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// address is the parsed address of a link's source or target (1.9).
type address struct {
	// entity and sub-queue, percent-decoded, without scheme, authority and outer slashes
	path        string
	management  bool // a $management suffix was removed
	cbs         bool // the claims node
	coordinator bool // of transactions; it has no path

	// the peer's own words, for error texts
	host string // the authority, without a user; "" when none is given
	text string // the path, neither decoded nor shortened, without outer slashes
}

const managementSuffix = "/$management"

// maxAddress is the number of bytes of an address that are read. No valid address is longer.
const maxAddress = 2048

// parseAddress parses the many spellings of an address. It never fails: an invalid address resolves
// to nothing.
func parseAddress(s string) address {
	// keeps the address only, not the frame around it
	s = strings.Clone(message.Short(s, maxAddress))
	host, path := cutAuthority(s)
	a := addressOfPath(cleanPath(path))
	a.host, a.text = host, strings.Trim(path, "/")
	return a
}

// addressOfPath removes the suffix of a path that is already decoded.
func addressOfPath(path string) address {
	a := address{path: path}
	if strings.EqualFold(a.path, "$cbs") {
		return address{path: "$cbs", cbs: true}
	}
	if n := len(a.path) - len(managementSuffix); n >= 0 && strings.EqualFold(a.path[n:], managementSuffix) {
		a.path, a.management = a.path[:n], true
	} else if strings.EqualFold(a.path, managementSuffix[1:]) {
		a.path, a.management = "", true
	}
	return a
}

// claimPath returns the path that a claim must cover to use the address: in lower case; a
// management node is below its entity.
func (a address) claimPath() string {
	p := strings.ToLower(a.path)
	if a.management {
		return p + managementSuffix
	}
	return p
}

// node reports whether the address is that of a node, which answers requests, and not of an entity.
func (a address) node() bool { return a.cbs || a.management || a.coordinator }

// counts reports whether links to the address count as use of the connection: links to $cbs and to
// coordinators only serve other links.
func (a address) counts() bool { return !a.cbs && !a.coordinator }

// loggable shortens a peer's text for the log.
func loggable(s string) string { return message.Short(s, 256) }

// clip shortens a peer's text for an error.
func clip(name []byte) []byte { return name[:min(len(name), 64)] }

// cutAuthority removes scheme://authority, and the user of the authority.
func cutAuthority(s string) (authority, path string) {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return "", s
	}
	authority, path, _ = strings.Cut(rest, "/")
	return authority[strings.LastIndexByte(authority, '@')+1:], path
}

// cleanPath percent-decodes once and strips outer slashes. A path that does not decode to text,
// such as per%cent, stays as it is: it names nothing, and errors echo it.
func cleanPath(p string) string {
	if strings.IndexByte(p, '%') >= 0 {
		if d, err := url.PathUnescape(p); err == nil && utf8.ValidString(d) {
			p = d
		}
	}
	if strings.IndexByte(p, '\\') >= 0 {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	return strings.Trim(p, "/")
}
