package servicebus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const tokenLinkText = "A link to connection '%d' $cbs node has already been opened."

// tokenLink is the place of the one link to $cbs on which the peer has a role (2.1, docs/decisions/0019).
func (c *conn) tokenLink(role amqp.Role) **link {
	if role == amqp.RoleSender {
		return &c.tokens[0]
	}
	return &c.tokens[1]
}

// putToken handles a request to the $cbs node (2.2, 2.3). The signature is checked before the entity's existence, so that
// names cannot be probed.
func (c *conn) putToken(req *request) {
	if op := req.text("operation"); op != "put-token" {
		c.answerToken(req, 400, amqp.CondNotImplemented, fmt.Sprintf("The operation '%s' is not known.", clip([]byte(op))))
		return
	}
	token, ok := req.body.(string)
	name := req.text("name")
	if !ok || name == "" {
		c.answerToken(req, 400, amqp.CondArgumentError, "The request needs the property 'name' and a token as its body.")
		return
	}
	g, err := c.verifyToken(token, req.text("type"), name)
	if errors.Is(err, access.ErrSignature) || errors.Is(err, access.ErrMalformed) {
		c.loginFailed()
	}
	switch {
	case errors.Is(err, access.ErrUnsupported):
		c.answerToken(req, 401, amqp.CondUnauthorizedAccess, fmt.Sprintf("InvalidToken: Tokens of type '%s' are not accepted.", clip([]byte(req.text("type")))))
		return
	case errors.Is(err, access.ErrExpired):
		c.answerToken(req, 401, amqp.CondUnauthorizedAccess,
			"ExpiredToken: The token is expired. Expiration time: "+g.Expires.UTC().Format(time.RFC3339)+".")
		return
	case errors.Is(err, access.ErrScope):
		c.answerToken(req, 401, amqp.CondUnauthorizedAccess, "InvalidAudience: The token's resource does not cover the audience.")
		return
	case err != nil:
		c.answerToken(req, 401, amqp.CondUnauthorizedAccess, "InvalidSignature: The token has an invalid signature.")
		return
	}
	at := addressOfPath(g.Path) // it is decoded: read as an address it could become another
	named, _ := c.verifier.Resource(name)
	at.host, at.text = named.Host, named.Text
	g.Path = at.claimPath()
	if at.path != "" {
		if _, err := c.broker.Resolve(at.path); err != nil {
			cond, text := c.toldAt(err, at)
			c.answerToken(req, cond.status, cond.symbol, text)
			return
		}
	}
	if !c.claims.put(g) {
		c.answerToken(req, 403, amqp.CondResourceLimit, fmt.Sprintf("The maximum number of '%d' tokens per connection has been reached.", c.claims.limit))
		return
	}
	c.authenticated()
	c.timers.by(c, g.Expires)
	c.log.Debug("servicebus: token accepted", "rule", g.Rule, "entity", at.path, "expires", g.Expires)
	c.respondToken(req, 202, "", "Accepted")
}

// verifyToken asks for the verdict on a token of the type the client gives it. The token says itself whether it is a shared access
// signature: azure-servicebus for Python sends one as a "jwt".
func (c *conn) verifyToken(token, kind, audience string) (access.Grant, error) {
	switch signature := strings.HasPrefix(token, access.SASPrefix); {
	case signature, kind == "jwt", kind == "amqp:jwt":
		return c.verifier.Verify(token, audience, c.now)
	case kind == "servicebus.windows.net:sastoken":
		return access.Grant{}, access.ErrMalformed
	}
	return access.Grant{}, access.ErrUnsupported
}

func (c *conn) answerToken(req *request, status int32, symbol amqp.Symbol, text string) {
	c.log.Warn("servicebus: token refused", "status", status, "condition", symbol, "reason", text, "audience", clip([]byte(req.text("name"))))
	c.respondToken(req, status, symbol, c.suffixed(text, "", c.now))
}

func (c *conn) respondToken(req *request, status int32, symbol amqp.Symbol, text string) {
	p := amqp.Map{{Key: "status-code", Value: status}, {Key: "status-description", Value: text}}
	if symbol != "" {
		p = append(p, amqp.Pair{Key: "error-condition", Value: symbol})
	}
	c.respond(req, p, nil)
}
