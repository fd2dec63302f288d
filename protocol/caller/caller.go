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

// Reasons why a request is refused before it is looked at, beside a bad token.
var (
	// ErrNoToken: the request has no Authorization.
	ErrNoToken = errors.New("caller: no token")
	// ErrPlain: the request has a key, over a connection on which others can read it.
	ErrPlain = errors.New("caller: a key without TLS")
	// ErrAddress: too many tokens of the caller's address were bad.
	ErrAddress = errors.New("caller: too many bad tokens of this address")
)

// Bounds of what a caller can put into the audit, bytes.
const (
	maxName    = 128
	maxAddress = 64
	maxPath    = 400
)

// firstConnection keeps the numbers of requests apart from those of AMQP connections in the audit.
const firstConnection = 1 << 40

// Authenticator checks the tokens of requests. It is safe for concurrent use. One is enough for a
// broker, so that no two requests have the same number.
type Authenticator struct {
	Access   *access.Verifier
	Failures *access.Failures // counts bad tokens by address; nil: nobody does
	Logger   *slog.Logger     // nil: slog.Default

	requests atomic.Uint64
}

// Login checks the token of a request for a decoded path. In place of a token, over TLS or on
// loopback, name and key of a rule of the namespace will do, as Basic authentication: that is for
// people with curl. The error is [ErrNoToken], [ErrPlain], [ErrAddress] or an error of
// [access.Verifier.VerifyPath]. After many bad tokens or keys from the caller's address the answer
// is held back for a while.
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

// isPrivate reports whether nobody can read a request on its way: it came inside TLS, or from this
// machine.
func isPrivate(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return to != nil && to.IP.IsLoopback()
}

// peer is the address a request came from, without port.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// failed counts a token without a valid signature, and delays the answer when there have been many.
// One that has expired, or is for another resource, was signed with a key.
func (d *Authenticator) failed(r *http.Request, err error, now time.Time) {
	if d.Failures == nil || errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrScope) {
		return
	}
	wait, refused := d.Failures.Failed(peer(r), now)
	if refused {
		d.logger().Warn("address refused after bad tokens", "address", peer(r))
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

// Origin says who makes a change, and from where. link is the name that the audit has for the way
// it came, such as the API.
func (d *Authenticator) Origin(r *http.Request, g access.Grant, link, path string) *engine.Origin {
	return &engine.Origin{
		Connection: firstConnection + d.requests.Add(1), RemoteAddress: Clip(r.RemoteAddr, maxAddress), Product: Clip(r.UserAgent(), maxName),
		Principal: Clip(g.Rule, maxName), Link: link, Entity: Clip(path, maxPath),
	}
}

// Clip cuts a text to at most most bytes, at the end of a character.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
