package access

import (
	"net/url"
	"strings"
)

// resourcePath takes the path out of a token's resource or an audience: <scheme>://<host>[:port]/<path>, the same without
// scheme, or a bare path. It refuses foreign hosts and other schemes (reliability.md S9). The path is percent-decoded once;
// nobody may decode it again.
func (v *Verifier) resourcePath(s string) (string, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if ok {
		switch strings.ToLower(scheme) {
		case "sb", "amqp", "amqps", "http", "https":
		default:
			return "", false
		}
		host, path, _ := strings.Cut(rest, "/")
		if !v.knownHost(host) {
			return "", false
		}
		rest = path
	} else {
		rest = s
		if host, path, _ := strings.Cut(s, "/"); v.looksLikeHost(host) {
			if !v.knownHost(host) {
				return "", false
			}
			rest = path
		}
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", false
	}
	return CleanPath(path)
}

// CleanPath is a decoded resource path as grants hold it: in lower case, without outer slashes. It refuses dots that climb, and
// what no name holds but a second reader could take for an escape or a scheme.
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

// covers says whether what holds for parent holds for path: equal, or parent ends at a / boundary of path. Both are clean.
// The empty path covers everything (wire-protocol.md 2.4).
func covers(parent, path string) bool {
	if parent == "" {
		return true
	}
	return strings.HasPrefix(path, parent) && (len(path) == len(parent) || path[len(parent)] == '/')
}

// knownHost tells whether tokens for a host are for us.
func (v *Verifier) knownHost(host string) bool {
	if v.anyHost {
		return host != ""
	}
	return v.isOurs(hostName(host))
}

func (v *Verifier) isOurs(name string) bool {
	for _, h := range v.hosts {
		if h == name {
			return true
		}
	}
	return false
}

// looksLikeHost tells a host from the first segment of an entity path where there is no scheme. Entity names may hold
// dots, so only forms that cannot be meant otherwise count, and names of ours with a dot: else a token for one entity would be
// read as one for the namespace.
func (v *Verifier) looksLikeHost(s string) bool {
	h := hostName(s)
	return h == "localhost" || h == "127.0.0.1" || strings.HasPrefix(h, "[") || strings.HasSuffix(h, ".servicebus.windows.net") ||
		h != strings.ToLower(s) || strings.Contains(h, ".") && v.isOurs(h)
}

// hostName is a host in lower case without its port.
func hostName(s string) string {
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		s = s[:i]
	}
	return strings.ToLower(s)
}
