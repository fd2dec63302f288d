package servicebus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Rights is what an access rule allows (2.5).
type Rights uint8

// The rights. Manage includes the other two.
const (
	Listen Rights = 1 << iota
	Send
	manageOnly
	Manage = manageOnly | Listen | Send
)

// Has reports whether r includes all of want.
func (r Rights) Has(want Rights) bool { return r.closed()&want == want }

// closed is r with what Manage implies, so that a rule that lists Manage alone works.
func (r Rights) closed() Rights {
	if r&manageOnly != 0 {
		return Manage
	}
	return r
}

// String is the right's name in error texts.
func (r Rights) String() string {
	switch r {
	case Listen:
		return "Listen"
	case Send:
		return "Send"
	}
	return "Manage"
}

// AccessRule is a shared access authorization rule of the namespace.
type AccessRule struct {
	Name      string
	Primary   string // key text; its bytes are the HMAC key, it is not base64-decoded
	Secondary string // empty: none
	Rights    Rights
}

const (
	sasPrefix    = "SharedAccessSignature "
	maxTokenSize = 4 << 10
	maxExpiry    = 253402300799 // last second of year 9999
)

var (
	errSignature = errors.New("servicebus: token malformed, of an unknown rule or badly signed")
	errExpired   = errors.New("servicebus: token expired")
	errScope     = errors.New("servicebus: token does not cover the audience")
)

// sasToken is the fields of a shared access signature as they stand in the token (reliability.md S5).
type sasToken struct {
	resource  string // sr, still percent-encoded: that is what was signed
	signature string // sig, percent-decoded
	expiry    string // se
	rule      string // skn, percent-decoded
}

// parseSAS takes a token apart: each field exactly once, in any order, nothing else.
func parseSAS(token string) (sasToken, error) {
	var t sasToken
	if len(token) > maxTokenSize || !strings.HasPrefix(token, sasPrefix) {
		return t, errSignature
	}
	seen := 0
	for field := range strings.SplitSeq(token[len(sasPrefix):], "&") {
		key, value, ok := strings.Cut(field, "=")
		if !ok || value == "" {
			return t, errSignature
		}
		bit := 0
		var err error
		switch key {
		case "sr":
			bit, t.resource = 1, value
		case "sig":
			bit = 2
			t.signature, err = url.PathUnescape(value) // leaves a literal + alone, as it must (2.5)
		case "se":
			bit, t.expiry = 4, value
		case "skn":
			bit, t.rule = 8, decodeStable(value)
		}
		if bit == 0 || seen&bit != 0 || err != nil {
			return t, errSignature
		}
		seen |= bit
	}
	if seen != 15 {
		return t, errSignature
	}
	return t, nil
}

// decodeStable percent-decodes a rule name until it no longer changes: SDKs encode it not at all, once or twice (2.5).
func decodeStable(s string) string {
	for range 3 {
		d, err := url.PathUnescape(s)
		if err != nil || d == s {
			break
		}
		s = d
	}
	return s
}

// expires parses se without overflow.
func (t *sasToken) expires() (time.Time, error) {
	if len(t.expiry) > 12 {
		return time.Time{}, errSignature
	}
	n, err := strconv.ParseUint(t.expiry, 10, 63)
	if err != nil || n > maxExpiry {
		return time.Time{}, errSignature
	}
	return time.Unix(int64(n), 0), nil
}

// signedBy compares the signature with that of a key, in constant time.
func (t *sasToken) signedBy(key string) bool {
	sum := sign(t.resource, t.expiry, key)
	want := make([]byte, base64.StdEncoding.EncodedLen(len(sum)))
	base64.StdEncoding.Encode(want, sum)
	return hmac.Equal(want, []byte(t.signature))
}

func sign(resource, expiry, key string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(resource))
	mac.Write([]byte{'\n'})
	mac.Write([]byte(expiry))
	return mac.Sum(nil)
}

// sasVerifier checks tokens against the rules of a namespace. It is pure: same input, same answer.
type sasVerifier struct {
	rules []AccessRule
	// hosts are the names tokens may be made for, lower-case, without port; nil: any.
	hosts []string
}

// grant is what a valid token gives.
type grant struct {
	path    string // of the audience, lower-case, clean
	rule    string
	rights  Rights
	expires time.Time // zero: never
}

// verify checks a token for an audience (2.4, 2.5; reliability.md S5 to S9). Signature before expiry before scope, so a
// peer without a key learns nothing.
func (v *sasVerifier) verify(token, audience string, now time.Time) (grant, error) {
	t, err := parseSAS(token)
	if err != nil {
		return grant{}, err
	}
	rule, ok := v.signer(&t)
	if !ok {
		return grant{}, errSignature
	}
	expires, err := t.expires()
	if err != nil {
		return grant{}, err
	}
	if !now.Before(expires) {
		return grant{expires: expires}, errExpired
	}
	decoded, err := url.PathUnescape(t.resource)
	if err != nil {
		return grant{}, errSignature
	}
	scope, ok := v.resourcePath(decoded)
	if !ok {
		return grant{}, errScope
	}
	path, ok := v.resourcePath(audience)
	if !ok || !covers(scope, path) {
		return grant{}, errScope
	}
	return grant{path: path, rule: rule.Name, rights: rule.Rights, expires: expires}, nil
}

// signer finds the rule whose key made the signature. An unknown name costs as much as a wrong key.
func (v *sasVerifier) signer(t *sasToken) (AccessRule, bool) {
	var rule AccessRule
	known := false
	for _, r := range v.rules {
		if r.Name == t.rule {
			rule, known = r, true
		}
	}
	primary, secondary := t.signedBy(rule.Primary), t.signedBy(rule.Secondary)
	if !known || rule.Primary == "" {
		primary = false
	}
	if !known || rule.Secondary == "" {
		secondary = false
	}
	return rule, primary || secondary
}

// plain checks a user name and password of SASL PLAIN: rule name and key (1.5).
func (v *sasVerifier) plain(user, password string) (grant, bool) {
	var rule AccessRule
	known := false
	for _, r := range v.rules {
		if r.Name == user {
			rule, known = r, true
		}
	}
	primary := hmac.Equal([]byte(rule.Primary), []byte(password))
	secondary := hmac.Equal([]byte(rule.Secondary), []byte(password))
	ok := known && password != "" && (primary || secondary)
	return grant{rule: rule.Name, rights: rule.Rights}, ok
}

// resourcePath takes the path out of a token's resource or an audience: <scheme>://<host>[:port]/<path>, the same
// without scheme, or a bare path. It refuses foreign hosts, other schemes and dots that climb (S9).
func (v *sasVerifier) resourcePath(s string) (string, bool) {
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
	path := strings.ToLower(strings.Trim(strings.ReplaceAll(rest, `\`, "/"), "/"))
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." || segment == "." {
			return "", false
		}
	}
	return path, true
}

func (v *sasVerifier) knownHost(host string) bool {
	if v.hosts == nil {
		return host != ""
	}
	host = hostName(host)
	for _, h := range v.hosts {
		if h == host {
			return true
		}
	}
	return false
}

// looksLikeHost tells a host from the first segment of an entity path where there is no scheme. Entity names may hold
// dots, so without configured names only forms that cannot be meant otherwise count: else a token for one entity would
// be read as one for the namespace.
func (v *sasVerifier) looksLikeHost(s string) bool {
	h := hostName(s)
	return h == "localhost" || h == "127.0.0.1" || strings.HasSuffix(h, ".servicebus.windows.net") ||
		h != strings.ToLower(s) || v.hosts != nil && v.knownHost(s)
}

// hostName is a host in lower case without its port.
func hostName(s string) string {
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		s = s[:i]
	}
	return strings.ToLower(s)
}

// NewSASToken signs a token for a resource with the key of a rule, as the SDKs do (2.5).
func NewSASToken(resource, ruleName, key string, expiry time.Time) string {
	sr, se := url.QueryEscape(resource), strconv.FormatInt(expiry.Unix(), 10)
	sig := base64.StdEncoding.EncodeToString(sign(sr, se, key))
	return sasPrefix + "sr=" + sr + "&sig=" + url.QueryEscape(sig) + "&se=" + se + "&skn=" + url.PathEscape(ruleName)
}
