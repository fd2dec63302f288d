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

// Target is a queue of some AMQP 1.0 broker and the way there.
type Target struct {
	ConnectionString string // of Service Bus; or
	// amqp://[user:password@]host[:port] or amqps://…: SASL PLAIN with a user, else ANONYMOUS
	URL string
	// with URL: do not log in with user and password: sign tokens with them, and show those on $cbs
	CBS   bool
	Queue string
	// queue to receive from, when it is not Queue itself but one that Queue forwards to
	From string
	// the client library writes every frame by itself, as it does for the SDKs; else frames leave
	// together
	Plain bool
}

// endpoint is a Target in its parts.
type endpoint struct {
	queue  string
	from   string
	at     client.ConnectionString
	sasl   amqp.SASLType // nil: ANONYMOUS
	tokens bool          // show a token for each queue
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
		// without the URL: it may hold a password
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

// dial connects, and is authorised for the queues afterwards.
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
