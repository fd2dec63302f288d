package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
)

// Options are the settings of a client. The zero value of each field means its default.
type Options struct {
	ContainerID string      // "": random
	TLS         *tls.Config // nil: the system's roots; ignored for an emulator
	Product     string      // name of the client for the broker; "": ledgerbus-client
	// SASL logs in; nil: ANONYMOUS. A client that needs no further authorisation need not call
	// Authorize.
	SASL amqp.SASLType
	Wrap func(net.Conn) net.Conn // wraps the network connection; nil: no wrapper
}

// A Client is one connection. It is safe for concurrent use.
type Client struct {
	cs   ConnectionString // set once in Dial
	conn *amqp.Conn       // set once in Dial

	stop    context.CancelFunc
	renewed chan struct{} // closed when the renewal ends

	mu      sync.Mutex
	session *amqp.Session         // guarded by mu: of all senders and receivers
	tokens  *requester            // guarded by mu: the $cbs links
	manage  map[string]*requester // guarded by mu: the $management links, by node address
	claims  map[string]bool       // guarded by mu: authorised entities
}

// Dial connects: with plain TCP to an emulator, else with TLS. It sends no token; tokens are sent
// per entity.
func Dial(ctx context.Context, cs ConnectionString, o Options) (*Client, error) {
	if o.Product == "" {
		o.Product = "ledgerbus-client"
	}
	if o.SASL == nil {
		o.SASL = amqp.SASLTypeAnonymous()
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", cs.Address())
	if err != nil {
		return nil, dialError(cs, err)
	}
	if !cs.Emulator {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			config = o.TLS.Clone()
		}
		if config.ServerName == "" {
			config.ServerName = cs.Host
		}
		nc = tls.Client(nc, config)
	}
	if o.Wrap != nil {
		nc = o.Wrap(nc)
	}
	conn, err := amqp.NewConn(ctx, nc, &amqp.ConnOptions{
		ContainerID: o.ContainerID,
		HostName:    cs.authority(),
		SASLType:    o.SASL,
		Properties:  map[string]any{"product": o.Product, "platform": runtime.GOOS, "framework": runtime.Version()},
	})
	if err != nil {
		nc.Close()
		return nil, dialError(cs, err)
	}
	background, stop := context.WithCancel(context.Background())
	c := &Client{cs: cs, conn: conn, stop: stop, renewed: make(chan struct{}), manage: map[string]*requester{}, claims: map[string]bool{}}
	go c.renew(background)
	return c, nil
}

func dialError(cs ConnectionString, err error) error {
	e := wrap("connect to "+cs.Address(), err).(*Error)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		e.Text = fmt.Sprintf("%v; check that the broker is running there", op.Err)
	}
	return e
}

// Close closes the connection. Unsettled messages stay locked until their locks end.
func (c *Client) Close() error {
	c.stop()
	ended := false
	select {
	case <-c.conn.Done():
		ended = true
	default:
	}
	err := c.conn.Close()
	<-c.renewed
	if conn := (*amqp.ConnError)(nil); !ended && errors.As(err, &conn) && conn.RemoteErr == nil {
		return nil // the peer answered the close and disconnected first
	}
	return wrap("close", err)
}

// Conn returns the underlying connection, for links that this package does not open.
func (c *Client) Conn() *amqp.Conn { return c.conn }

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// entitySession returns the AMQP session of senders and receivers.
func (c *Client) entitySession(ctx context.Context) (*amqp.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		s, err := c.conn.NewSession(ctx, nil)
		if err != nil {
			return nil, err
		}
		c.session = s
	}
	return c.session, nil
}

// Authorize sends a token for an entity, its sub-queues and its management node, unless it was sent
// before (2.2). Senders, receivers and requests call it themselves.
func (c *Client) Authorize(ctx context.Context, entity string) error {
	c.mu.Lock()
	done := c.claims[entity]
	c.mu.Unlock()
	if done {
		return nil
	}
	if err := c.putToken(ctx, entity); err != nil {
		return err
	}
	c.mu.Lock()
	c.claims[entity] = true
	c.mu.Unlock()
	return nil
}

func (c *Client) putToken(ctx context.Context, entity string) error {
	c.mu.Lock()
	if c.tokens == nil {
		r, err := c.newRequester(ctx, "$cbs")
		if err != nil {
			c.mu.Unlock()
			return wrap("authorize", err)
		}
		c.tokens = r
	}
	tokens := c.tokens
	c.mu.Unlock()

	scheme := "amqps://"
	if c.cs.Emulator {
		scheme = "amqp://"
	}
	audience := scheme + c.cs.authority() + "/" + entity
	_, err := tokens.call(ctx, "authorize", &amqp.Message{
		ApplicationProperties: map[string]any{"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience},
		Value:                 c.cs.Token(audience, time.Now()),
	})
	if hasEnded(err) { // the next token opens new links
		c.mu.Lock()
		if c.tokens == tokens {
			c.tokens = nil
		}
		c.mu.Unlock()
	}
	return err
}

// renew sends new tokens before the old ones expire, until the client is closed.
func (c *Client) renew(ctx context.Context) {
	defer close(c.renewed)
	ticker := time.NewTicker(tokenRenew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.conn.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		var entities []string
		for entity := range c.claims {
			entities = append(entities, entity)
		}
		c.mu.Unlock()
		for _, entity := range entities {
			// Ignores a refusal, because the broker detaches the entity's links when the old token
			// expires (2.6).
			one, cancel := context.WithTimeout(ctx, time.Minute)
			_ = c.putToken(one, entity)
			cancel()
		}
	}
}

// cleanEntity removes leading and trailing slashes.
func cleanEntity(entity string) string { return strings.Trim(entity, "/") }

// open authorises an entity and opens a link to it.
func open[L any](ctx context.Context, c *Client, op, entity string, link func(*amqp.Session) (L, error)) (L, error) {
	var none L
	if err := c.Authorize(ctx, entity); err != nil {
		return none, err
	}
	s, err := c.entitySession(ctx)
	if err != nil {
		return none, wrap(op+" "+entity, err)
	}
	l, err := link(s)
	return l, wrap(op+" "+entity, err)
}
