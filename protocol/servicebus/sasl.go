package servicebus

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"

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
		c.out = append(c.out, h[:]...)
		c.out = amqp.AppendSASLFrame(c.out, &amqp.SASLMechanisms{Mechanisms: []amqp.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS"}})
	case h == amqp.ProtocolAMQP && (c.phase == atHeader || c.phase == atAMQPHeader):
		c.phase = atOpen // a bare AMQP header is fine: $cbs decides (1.1)
		c.out = append(c.out, h[:]...)
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

// saslPlain grants a rule's rights to the whole connection.
func (c *conn) saslPlain(response []byte) amqp.SASLCode {
	if !c.tls && !c.plainNoTLS {
		c.log.Warn("servicebus: PLAIN refused without TLS")
		return amqp.SASLAuth
	}
	parts := bytes.Split(response, []byte{0})
	if len(parts) != 3 {
		return amqp.SASLAuth
	}
	g, err := c.verifier.Plain(string(parts[1]), string(parts[2]))
	if err != nil {
		c.log.Warn("servicebus: login failed", "mechanism", "PLAIN", "rule", string(clip(parts[1])))
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
	c.out = amqp.AppendSASLFrame(c.out, &amqp.SASLOutcome{Code: code, AdditionalData: []byte(text)})
}
