package caller

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

// Reasons, besides a bad token, why a request is refused before it is read.
var (
	// ErrNoToken: the request has no Authorization header.
	ErrNoToken = errors.New("caller: no token")
	// ErrPlain: the request has a key, over a connection that others can read.
	ErrPlain = errors.New("caller: key sent without TLS")
	// ErrAddress: the caller's address has sent too many bad tokens.
	ErrAddress = errors.New("caller: too many bad tokens from this address")
)

// Limits of texts that a caller can put into the audit, in bytes.
const (
	maxName    = 128
	maxAddress = 64
	maxPath    = 400
)

// firstConnection separates the numbers of requests from those of AMQP connections in the audit.
const firstConnection = 1 << 40

// An Authenticator checks the tokens of requests. It is safe for concurrent use. A broker needs
// only one, which gives every request its own number.
type Authenticator struct {
	Access   *access.Verifier
	Failures *access.Failures // counts bad tokens by address; nil: they are not counted
	Logger   *slog.Logger     // nil: slog.Default

	requests atomic.Uint64
}

// Login checks the token of a request for a decoded path. Over TLS or on loopback it also accepts
// Basic authentication with the name and key of a rule of the namespace, which is meant for people
// with curl. The error is [ErrNoToken], [ErrPlain], [ErrAddress] or an error of
// [access.Verifier.VerifyPath]. After many bad tokens or keys from the caller's address the answer
// is delayed.
func (d *Authenticator) Login(r *http.Request, path string, now time.Time) (access.Grant, error) {
	token := r.Header.Get("Authorization")
	if token == "" {
		return access.Grant{}, ErrNoToken
	}
	if d.Failures != nil && d.Failures.Refused(peer(r), now) {
		return access.Grant{}, ErrAddress
	}
	name, key, basic := r.BasicAuth()
	if basic && !isPrivate(r) {
		return access.Grant{}, ErrPlain
	}
	var g access.Grant
	var err error
	if basic {
		g, err = d.Access.Plain(name, key)
	} else {
		g, err = d.Access.VerifyPath(token, path, now)
	}
	if err != nil {
		d.failed(r, err, now)
	}
	return g, err
}

// isPrivate reports whether a request cannot be read on its way: it came inside TLS, or from this
// machine.
func isPrivate(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return to != nil && to.IP.IsLoopback()
}

// peer returns the address that a request came from, without port.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// failed counts a token without a valid signature, and delays the answer after many of them. A
// token that has expired, or is for another resource, was signed with a key and does not count.
func (d *Authenticator) failed(r *http.Request, err error, now time.Time) {
	if d.Failures == nil || errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrScope) {
		return
	}
	wait, refused := d.Failures.Failed(peer(r), now)
	if refused {
		d.logger().Warn("caller: address refused after bad tokens", "address", peer(r))
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func (d *Authenticator) logger() *slog.Logger {
	if d.Logger == nil {
		return slog.Default()
	}
	return d.Logger
}

// Origin returns the origin of a change: the caller and its address. link is the audit's name for
// the way it came, such as the API.
func (d *Authenticator) Origin(r *http.Request, g access.Grant, link, path string) *engine.Origin {
	return &engine.Origin{
		Connection: firstConnection + d.requests.Add(1), RemoteAddress: Clip(r.RemoteAddr, maxAddress), Product: Clip(r.UserAgent(), maxName),
		Principal: Clip(g.Rule, maxName), Link: link, Entity: Clip(path, maxPath),
	}
}

// Clip cuts a text to at most most bytes, at a character boundary.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
