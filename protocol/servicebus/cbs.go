package servicebus

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

const tokenLinkText = "A link to connection '%d' $cbs node has already been opened."

// putToken handles a request to the $cbs node (2.2, 2.3). It checks the signature before the
// entity's existence, so that names cannot be probed.
func (req *request) putToken() {
	c := req.l.c
	if op := req.text("operation"); op != "put-token" {
		req.answerToken(400, amqp.CondNotImplemented, fmt.Sprintf("The operation '%s' is not known.", clip([]byte(op))))
		return
	}
	token, ok := req.body.(string)
	name := req.text("name")
	if !ok || name == "" {
		req.answerToken(400, amqp.CondArgumentError, "The request needs the property 'name' and a token as its body.")
		return
	}
	g, err := c.claims.verify(token, req.text("type"), name, c.now)
	if errors.Is(err, access.ErrSignature) || errors.Is(err, access.ErrMalformed) {
		c.login.failed(c)
	}
	switch {
	case errors.Is(err, access.ErrUnsupported):
		req.answerToken(401, amqp.CondUnauthorizedAccess, fmt.Sprintf("InvalidToken: Tokens of type '%s' are not accepted.", clip([]byte(req.text("type")))))
		return
	case errors.Is(err, access.ErrExpired):
		req.answerToken(401, amqp.CondUnauthorizedAccess,
			"ExpiredToken: The token is expired. Expiration time: "+g.Expires.UTC().Format(time.RFC3339)+".")
		return
	case errors.Is(err, access.ErrScope):
		req.answerToken(401, amqp.CondUnauthorizedAccess, "InvalidAudience: The token's resource does not cover the audience.")
		return
	case err != nil:
		req.answerToken(401, amqp.CondUnauthorizedAccess, "InvalidSignature: The token has an invalid signature.")
		return
	}
	at := addressOfPath(g.Path) // the path is decoded: parsed as an address it could change
	named, _ := c.verifier.Resource(name)
	at.host, at.text = named.Host, named.Text
	g.Path = at.claimPath()
	if at.path != "" {
		if _, err := c.broker.Resolve(at.path); err != nil {
			cond, text := c.describeAt(err, at)
			req.answerToken(cond.status, cond.symbol, text)
			return
		}
	}
	if !c.claims.put(g) {
		req.answerToken(403, amqp.CondResourceLimit, fmt.Sprintf("The maximum number of '%d' tokens per connection has been reached.", c.claims.limit))
		return
	}
	c.authenticated()
	c.timers.by(c, g.Expires)
	c.log.Debug("servicebus: token accepted", "rule", g.Rule, "entity", at.path, "expires", g.Expires)
	req.respondToken(202, "", "Accepted")
}

func (req *request) answerToken(status int32, symbol amqp.Symbol, text string) {
	c := req.l.c
	c.log.Warn("servicebus: token refused", "status", status, "condition", symbol, "reason", text, "audience", clip([]byte(req.text("name"))))
	req.respondToken(status, symbol, c.texts.suffixed(text, "", c.now))
}

func (req *request) respondToken(status int32, symbol amqp.Symbol, text string) {
	p := amqp.Map{{Key: "status-code", Value: status}, {Key: "status-description", Value: text}}
	if symbol != "" {
		p = append(p, amqp.Pair{Key: "error-condition", Value: symbol})
	}
	req.respond(p, nil)
}
