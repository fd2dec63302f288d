package servicebus

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// isTLS reports whether a connection is encrypted. A wrapper around a tls.Conn passes its
// ConnectionState on.
func isTLS(nc net.Conn) bool {
	_, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	return ok
}

// onLoopback reports whether a connection stays on this machine.
func onLoopback(nc net.Conn) bool {
	a, ok := nc.LocalAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// sasl is the login layer: the broker offers mechanisms, and the peer chooses one of them (1.5).
type sasl struct {
	verifier *access.Verifier
	log      *slog.Logger
	secure   bool // a key cannot be read on its way, or the settings allow that
}

// Reasons to refuse a login.
var (
	errNotOffered = errors.New("servicebus: the mechanism was not offered")
	errWrongKey   = errors.New("servicebus: unknown rule or wrong key")
)

// takesPlain reports whether PLAIN can succeed, which also needs a key.
func (s *sasl) takesPlain() bool { return s.secure && s.verifier.HasKeys() }

// mechanisms returns the offered mechanisms, in the service's order.
func (s *sasl) mechanisms() []amqp.Symbol {
	if s.takesPlain() {
		return []amqp.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS"}
	}
	return []amqp.Symbol{"MSSBCBS", "ANONYMOUS"}
}

// login returns the rights that the chosen mechanism gives on the whole connection; nil: none.
func (s *sasl) login(init *amqp.SASLInit) (*access.Grant, error) {
	switch init.Mechanism {
	case "ANONYMOUS", "MSSBCBS":
		return nil, nil
	case "PLAIN":
		return s.plain(init.InitialResponse)
	}
	return nil, errNotOffered
}

// plain reads the response of PLAIN: an authorization identity, which may be left out, a rule's
// name and a key of it (RFC 4616).
func (s *sasl) plain(response []byte) (*access.Grant, error) {
	if !s.takesPlain() {
		s.log.Warn("servicebus: PLAIN refused: not offered")
		return nil, errNotOffered
	}
	parts := bytes.Split(response, []byte{0})
	if len(parts) == 3 && (len(parts[0]) == 0 || bytes.EqualFold(parts[0], parts[1])) {
		if g, err := s.verifier.Plain(string(parts[1]), string(parts[2])); err == nil {
			return &g, nil
		}
	}
	s.log.Warn("servicebus: login failed", "mechanism", "PLAIN", "rule", string(clip(parts[min(1, len(parts)-1)])))
	return nil, errWrongKey
}

// protocolHeader answers the peer's header: with the same one if it is accepted now, else with the
// expected one, after which the connection ends (1.1).
func (c *conn) protocolHeader(h amqp.ProtocolHeader) {
	switch {
	case h == amqp.ProtocolSASL && c.phase == atHeader:
		c.phase = atSASL
		c.out.header(h)
		c.out.sasl(&amqp.SASLMechanisms{Mechanisms: c.sasl.mechanisms()})
	case h == amqp.ProtocolAMQP && (c.phase == atHeader || c.phase == atAMQPHeader):
		c.phase = atOpen // an AMQP header without SASL is accepted: $cbs decides (1.1)
		c.out.header(h)
	default:
		c.protocolFault(amqp.CondFramingError, "A protocol header is not expected now.")
	}
}

// saslFrame handles the one frame that a client may send: its choice of mechanism (1.5).
func (c *conn) saslFrame(body []byte) {
	if len(body)+amqp.FrameHeaderSize > int(c.limits.SASLFrameSize) {
		c.saslOutcome(amqp.SASLAuth)
		return
	}
	p, _, err := c.decoder.Decode(body)
	if err != nil {
		c.phase = over
		return
	}
	init, ok := p.(*amqp.SASLInit)
	if !ok {
		c.saslOutcome(amqp.SASLAuth)
		return
	}
	grant, err := c.sasl.login(init)
	if errors.Is(err, errWrongKey) {
		c.login.failed(c)
	}
	if err != nil {
		c.saslOutcome(amqp.SASLAuth)
		return
	}
	if grant != nil {
		c.claims.put(*grant)
		c.authenticated()
	}
	c.saslOutcome(amqp.SASLOK)
}

// saslOutcome ends the login; both fields are always present (1.5).
func (c *conn) saslOutcome(code amqp.SASLCode) {
	text := "Welcome!"
	c.phase = atAMQPHeader
	if code != amqp.SASLOK {
		text = "The login was refused."
		c.phase = over
	}
	c.out.sasl(&amqp.SASLOutcome{Code: code, AdditionalData: []byte(text)})
}
