package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

const (
	apiVersion     = "2021-05" // supported by every Service Bus broker
	emulatorPort   = 5300      // for HTTP only
	defaultTimeout = 60 * time.Second
	idleTimeout    = 30 * time.Second
	contentType    = "application/atom+xml;type=entry;charset=utf-8"

	maxRepeats = 4           // repeats of a request while the broker is busy
	firstPause = time.Second // before the first repeat; doubles for each further one
	maxPause   = 30 * time.Second
)

// Options are the settings of a client. The zero value of each field means its default.
type Options struct {
	Timeout time.Duration // for one request; 0: a minute
	TLS     *tls.Config   // nil: the system's roots; ignored for an emulator
	Product string        // name of the client for the broker; "": ledgerbus-client
	// reason of changes for the broker's log, in one line; "": none. Brokers other than Ledgerbus
	// ignore it
	Reason string
	Now    func() time.Time
}

// A Client makes requests to one namespace. It is safe for concurrent use.
type Client struct {
	cs   client.ConnectionString
	o    Options
	base url.URL // without path
	http *http.Client
	// pause waits before a request is repeated.
	pause func(context.Context, time.Duration) error
}

// New returns a client of the namespace of a connection string. It connects with the first request:
// with plain HTTP to an emulator, at port 5300 unless another is given, and with TLS otherwise
// (1.1).
func New(connectionString string, o Options) (*Client, error) {
	cs, err := client.ParseConnectionString(connectionString)
	if err != nil {
		return nil, err
	}
	return NewFrom(cs, o), nil
}

// readBuffer is the number of bytes of an answer that are read at a time. A broker sends answers
// about the past in pieces of 32 KiB.
const readBuffer = 64 << 10

// NewFrom is [New] with a parsed connection string.
func NewFrom(cs client.ConnectionString, o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Product == "" {
		o.Product = "ledgerbus-client"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	base := url.URL{Scheme: "https"}
	port := cs.Port
	if cs.Emulator {
		base.Scheme = "http"
		if port == 0 {
			port = emulatorPort
		}
	}
	base.Host = authority(cs.Host, port)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ReadBufferSize = readBuffer
	transport.TLSClientConfig = o.TLS
	transport.IdleConnTimeout = idleTimeout
	return &Client{cs: cs, o: o, base: base, pause: pause, http: &http.Client{
		Transport: transport,
		// A token must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Host returns the host of the namespace, with its port if one was given.
func (c *Client) Host() string { return authority(c.cs.Host, c.cs.Port) }

// Hostname returns the host of the namespace without a port.
func (c *Client) Hostname() string { return c.cs.Host }

func authority(host string, port int) string {
	switch {
	case port != 0:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	return host
}

// A request describes an HTTP request to the broker.
type request struct {
	op     string // operation, for error texts
	method string
	path   string // decoded, without the first slash
	query  url.Values
	body   []byte
	update bool // the item must exist
	// the request exists only in Ledgerbus. Its answer is JSON, and it is never repeated, because
	// it may have had an effect
	own   bool
	most  time.Duration     // timeout of the answer; 0: the default
	heard func(http.Header) // called with the headers of the answer; may be nil
	// URLs of the entities in ForwardTo and ForwardDeadLetteredMessagesTo
	send []string
}

// do makes a request and returns the document in the answer, or nil if there is none. It returns a
// refusal as an [*Error].
func (c *Client) do(ctx context.Context, r request) (*document.Document, error) {
	src, err := c.exchange(ctx, r)
	if err != nil || len(src) == 0 {
		return nil, err
	}
	doc, err := document.Parse(src, document.Options{Limits: document.ResponseLimits})
	if err != nil {
		return nil, invalidAnswer(r.op, err)
	}
	return doc, nil
}

// invalidAnswer returns the error of an answer that cannot be read.
func invalidAnswer(op string, err error) *Error {
	return &Error{Op: op, Text: fmt.Sprintf("invalid answer: %v", err), cause: err}
}

// exchange makes a request and repeats it while the broker is too busy, in which case the request
// had no effect. It returns the body of the answer. It returns a refusal as an [*Error].
func (c *Client) exchange(ctx context.Context, r request) ([]byte, error) {
	for wait, repeats := firstPause, 0; ; wait, repeats = 2*wait, repeats+1 {
		status, src, err := c.once(ctx, r)
		switch {
		case err != nil:
			return nil, err
		case (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && repeats < maxRepeats && !r.own:
			if err := c.pause(ctx, min(wait, maxPause)); err != nil {
				return nil, c.noAnswer(r.op, err)
			}
		case status < 200 || status > 299:
			return nil, refusal(r.op, status, src)
		default:
			return src, nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once makes a request once. It reads only enough of the answer to detect that it is too long.
func (c *Client) once(ctx context.Context, r request) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.most, c.o.Timeout))
	defer cancel()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return 0, nil, &Error{Op: r.op, Text: err.Error(), cause: err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, c.noAnswer(r.op, err)
	}
	defer res.Body.Close()
	if r.heard != nil {
		r.heard(res.Header)
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, int64(document.ResponseLimits.Bytes)+1))
	if err != nil {
		return 0, nil, c.noAnswer(r.op, err)
	}
	return res.StatusCode, body, nil
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	if err := checkPath(r.path); err != nil {
		return nil, err
	}
	u := c.base
	u.Path = "/" + r.path
	audience := u.String() // includes everything below it
	if r.query == nil {
		r.query = url.Values{}
	}
	if !r.own {
		r.query.Set("api-version", apiVersion)
	}
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	now := c.o.Now()
	req.Header.Set("User-Agent", c.o.Product)
	req.Header.Set("Authorization", c.cs.Token(audience, now))
	switch {
	case r.method == http.MethodPut:
		req.Header.Set("Content-Type", contentType)
	case r.own && len(r.body) > 0:
		req.Header.Set("Content-Type", wire.ContentType)
	}
	if r.own && len(r.body) > 0 {
		req.Header.Set("Content-Type", wire.ContentType)
	}
	if r.update {
		req.Header.Set("If-Match", "*")
	}
	if c.o.Reason != "" && r.method != http.MethodGet {
		req.Header.Set("X-Ledgerbus-Reason", c.o.Reason)
	}
	for i, target := range r.send {
		if target != "" {
			req.Header.Set(supplementary[i], c.cs.Token(target, now))
		}
	}
	return req, nil
}

// supplementary are the headers with the right to send to the entities that messages are forwarded
// to (1.7).
var supplementary = [...]string{"ServiceBusSupplementaryAuthorization", "ServiceBusDlqSupplementaryAuthorization"}

// checkPath refuses a path that would address something other than the intended entity. "" is the
// namespace itself.
func checkPath(path string) error {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%q is not the path of an entity", path)
		}
	}
	return nil
}

// noAnswer returns the error of a request without an answer. It shortens the HTTP library's text.
func (c *Client) noAnswer(op string, err error) error {
	e := &Error{Op: op, Text: err.Error(), cause: err}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		e.Text = u.Err.Error()
	}
	if n := (*net.OpError)(nil); errors.As(err, &n) && n.Op == "dial" {
		e.Text = fmt.Sprintf("%v; check that the broker is running at %s", n.Err, c.base.Host)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Text = "no answer in time"
	case errors.Is(err, context.Canceled):
		e.Text = "canceled before the answer arrived"
	}
	return e
}
