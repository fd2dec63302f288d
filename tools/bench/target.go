package bench

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/tools/client"
)

// A Target is a queue of an AMQP 1.0 broker and the way to reach it.
type Target struct {
	ConnectionString string // of Service Bus; or
	// amqp://[user:password@]host[:port] or amqps://…: SASL PLAIN with a user, else ANONYMOUS
	URL string
	// with URL: use user and password not to log in but to sign tokens for $cbs
	CBS   bool
	Queue string
	// queue to receive from, if Queue forwards to another one
	From string
	// the client library writes every frame separately, as for the SDKs; otherwise frames leave
	// together
	Plain bool
}

// An endpoint is a parsed Target.
type endpoint struct {
	queue  string
	from   string
	at     client.ConnectionString
	sasl   amqp.SASLType // nil: ANONYMOUS
	tokens bool          // send a token for each queue
	plain  bool
}

func (t Target) endpoint() (endpoint, error) {
	if t.ConnectionString != "" {
		cs, err := client.ParseConnectionString(t.ConnectionString)
		if err != nil {
			return endpoint{}, err
		}
		e := endpoint{queue: t.Queue, at: cs, tokens: true, plain: t.Plain}
		e.queue = cmp.Or(e.queue, cs.EntityPath)
		e.from = cmp.Or(t.From, e.queue)
		return e, nil
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "amqp" && u.Scheme != "amqps" {
		// it may: omits the URL, which may contain a password
		return endpoint{}, errors.New("bench: the URL must be amqp://host[:port] or amqps://host[:port]")
	}
	e := endpoint{queue: t.Queue, from: cmp.Or(t.From, t.Queue), plain: t.Plain, at: client.ConnectionString{Host: u.Hostname(), Emulator: u.Scheme == "amqp"}}
	if u.Port() != "" {
		if e.at.Port, err = strconv.Atoi(u.Port()); err != nil {
			return endpoint{}, errors.New("bench: the URL's port is not a number")
		}
	}
	password, hasPassword := u.User.Password()
	switch {
	case t.CBS && !hasPassword:
		return endpoint{}, errors.New("bench: tokens need a key name and a key in the URL")
	case t.CBS:
		e.at, e.tokens = e.at.WithKey(u.User.Username(), password), true
	case hasPassword:
		e.sasl = amqp.SASLTypePlain(u.User.Username(), password)
	}
	return e, nil
}

// dial connects and authorises for the queues.
func (e endpoint) dial(ctx context.Context, coalesce bool) (*client.Client, error) {
	o := client.Options{Product: "ledgerbench", SASL: e.sasl}
	if coalesce && !e.plain {
		o.Wrap = func(nc net.Conn) net.Conn { return newCoalescer(nc) }
	}
	c, err := client.Dial(ctx, e.at, o)
	if err != nil {
		return nil, err
	}
	if e.tokens {
		for _, queue := range slices.Compact([]string{e.queue, e.from}) {
			if err := c.Authorize(ctx, queue); err != nil {
				c.Close()
				return nil, err
			}
		}
	}
	return c, nil
}
