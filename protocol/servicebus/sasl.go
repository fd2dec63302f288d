package servicebus

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

var errGrace = errors.New("servicebus: the peer did not answer the close")

// isTLS reports whether a connection is encrypted. A wrapper around a tls.Conn passes its ConnectionState on.
func isTLS(nc net.Conn) bool {
	_, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	return ok
}

// protocolHeader answers the peer's header: the same one if it is welcome now, else the one wanted, and the end (1.1).
func (c *conn) protocolHeader(h amqp.ProtocolHeader) {
	switch {
	case h == amqp.ProtocolSASL && c.phase == atHeader:
		c.phase = atSASL
		c.out.header(h)
		offered := []amqp.Symbol{"MSSBCBS", "ANONYMOUS"} // in the service's order
		if c.takesPlain() {
			offered = slices.Insert(offered, 1, "PLAIN")
		}
		c.out.sasl(&amqp.SASLMechanisms{Mechanisms: offered})
	case h == amqp.ProtocolAMQP && (c.phase == atHeader || c.phase == atAMQPHeader):
		c.phase = atOpen // a bare AMQP header is fine: $cbs decides (1.1)
		c.out.header(h)
	default:
		c.protocolFault(amqp.CondFramingError, "A protocol header is not expected now.")
	}
}

// saslFrame handles the one frame a client may send: its choice of mechanism (1.5).
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
	switch init.Mechanism {
	case "ANONYMOUS", "MSSBCBS": // confer no rights
		c.saslOutcome(amqp.SASLOK)
	case "PLAIN":
		c.saslOutcome(c.saslPlain(init.InitialResponse))
	default:
		c.saslOutcome(amqp.SASLAuth)
	}
}

// takesPlain reports whether PLAIN can succeed: where nobody can read the key on its way, or the settings say that this does not matter,
// and where there is a key.
func (c *conn) takesPlain() bool {
	safe := c.tls || c.plainNoTLS || c.plainHere && onLoopback(c.net)
	return safe && c.verifier.HasKeys()
}

// onLoopback reports whether a connection stays on this machine.
func onLoopback(nc net.Conn) bool {
	a, ok := nc.LocalAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// saslPlain grants a rule's rights to the whole connection. The response is whose rights are asked for, which may be left out, the rule's
// name and a key of it (RFC 4616).
func (c *conn) saslPlain(response []byte) amqp.SASLCode {
	if !c.takesPlain() {
		c.log.Warn("servicebus: PLAIN refused, it was not offered")
		return amqp.SASLAuth
	}
	var g access.Grant
	err := access.ErrMalformed
	parts := bytes.Split(response, []byte{0})
	if len(parts) == 3 && (len(parts[0]) == 0 || bytes.EqualFold(parts[0], parts[1])) {
		g, err = c.verifier.Plain(string(parts[1]), string(parts[2]))
	}
	if err != nil {
		c.log.Warn("servicebus: login failed", "mechanism", "PLAIN", "rule", string(clip(parts[min(1, len(parts)-1)])))
		c.loginFailed()
		return amqp.SASLAuth
	}
	c.claims.put(g)
	c.authenticated()
	return amqp.SASLOK
}

// saslOutcome ends the login; both fields are always there (1.5).
func (c *conn) saslOutcome(code amqp.SASLCode) {
	text := "Welcome!"
	c.phase = atAMQPHeader
	if code != amqp.SASLOK {
		text = "The login was refused."
		c.phase = over
	}
	c.out.sasl(&amqp.SASLOutcome{Code: code, AdditionalData: []byte(text)})
}
