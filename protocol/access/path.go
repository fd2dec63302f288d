package access

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// A Resource is what an audience, or the resource of a token, names, in its original spelling.
type Resource struct {
	Host string // with its port; "": not given
	Text string // the path, not decoded, in its original case, without outer slashes

	path string // the path in the form of grants
}

// Resource parses an audience or a token's resource: <scheme>://<host>[:port]/<path>, the same
// without scheme, or a bare path. Any scheme is accepted, because it says nothing about the
// resource (wire-protocol.md 1.4). Resource refuses foreign hosts, and a user before the host
// (reliability.md S9). It percent-decodes the path once; no caller may decode it again.
func (v *Verifier) Resource(s string) (r Resource, ok bool) {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i]
	}
	rest, ok := cutScheme(s)
	host, path, _ := strings.Cut(rest, "/")
	switch {
	case !ok && !v.looksLikeHost(host):
		path = s
	case !v.knownHost(host):
		return r, false
	default:
		r.Host = host
	}
	r.Text = strings.Trim(path, "/")
	if path, err := url.PathUnescape(path); err == nil {
		r.path, ok = CleanPath(path)
		return r, ok
	}
	return r, false
}

// cutScheme removes a scheme and the slashes after it; ok is false if s does not begin with one.
func cutScheme(s string) (rest string, ok bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return s, false
	}
	for i, c := range []byte(scheme) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && strings.IndexByte("+-.", c) < 0) {
			return s, false
		}
	}
	return rest, true
}

// CleanPath returns a decoded resource path in the form of grants: in lower case, without outer
// slashes. It refuses the segments . and .., and the characters % and :, which no name has and a
// second reader could take for an escape or a scheme.
func CleanPath(path string) (string, bool) {
	path = strings.ToLower(strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/"))
	if strings.ContainsAny(path, "%:") {
		return "", false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." || segment == "." {
			return "", false
		}
	}
	return path, true
}

// covers reports whether a right for parent applies to path: they are equal, or parent ends at a /
// boundary of path. Both are clean. The empty path covers everything (wire-protocol.md 2.4).
func covers(parent, path string) bool {
	if parent == "" {
		return true
	}
	return strings.HasPrefix(path, parent) && (len(path) == len(parent) || path[len(parent)] == '/')
}

// knownHost reports whether tokens for a host are meant for us.
func (v *Verifier) knownHost(host string) bool {
	if !isHost(host) {
		return false
	}
	return v.anyHost || v.isOurs(hostName(host))
}

// isHost reports whether s is a host with or without a port. Other text at the place of a host must
// be refused: where any host is ours, one reader could take "a:b://q" as the path q of a host
// "a:b:", and the next as the host q.
func isHost(s string) bool {
	name, port, hasPort := s, "", false
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port, hasPort = s[:i], s[i+1:], true
	}
	if hasPort {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	if literal, ok := strings.CutPrefix(name, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		address, err := netip.ParseAddr(literal)
		return ok && err == nil && address.Is6()
	}
	return name != "" && !strings.ContainsAny(name, `:@[]\%`)
}

func (v *Verifier) isOurs(name string) bool {
	for _, h := range v.hosts {
		if h == name {
			return true
		}
	}
	return false
}

// looksLikeHost tells a host from the first segment of an entity path where there is no scheme.
// Entity names may contain dots. So it accepts only forms that are certainly hosts, and our own
// host names that have a dot: otherwise a token for one entity would be read as one for the
// namespace.
func (v *Verifier) looksLikeHost(s string) bool {
	h := hostName(s)
	return h == "localhost" || h == "127.0.0.1" || strings.HasPrefix(h, "[") || strings.HasSuffix(h, ".servicebus.windows.net") ||
		h != strings.ToLower(s) || strings.Contains(h, ".") && v.isOurs(h)
}

// hostName returns a host in lower case without its port.
func hostName(s string) string {
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		s = s[:i]
	}
	return strings.ToLower(s)
}
