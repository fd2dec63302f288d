package bench

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// Target is a queue of some AMQP 1.0 broker and the way there.
type Target struct {
	ConnectionString string // of Service Bus; or
	URL              string // amqp://[user:password@]host[:port] or amqps://…: SASL PLAIN with a user, else ANONYMOUS
	CBS              bool   // with URL: do not log in with user and password, sign tokens with them and show those on $cbs
	Queue            string
}

// endpoint is a Target taken apart.
type endpoint struct {
	queue    string
	address  string // host:port
	hostname string // for the open frame and TLS
	tls      bool
	sasl     amqp.SASLType
	signer   *signer // nil: no tokens
}

func (t Target) endpoint() (endpoint, error) {
	if t.ConnectionString != "" {
		return t.fromConnectionString()
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "amqp" && u.Scheme != "amqps" {
		return endpoint{}, errors.New("bench: the URL must be amqp://host[:port] or amqps://host[:port]") // without the URL: it may hold a password
	}
	e := endpoint{queue: t.Queue, tls: u.Scheme == "amqps", hostname: u.Host, address: withPort(u.Host, u.Scheme == "amqps"), sasl: amqp.SASLTypeAnonymous()}
	password, hasPassword := u.User.Password()
	switch {
	case t.CBS && !hasPassword:
		return endpoint{}, errors.New("bench: tokens need a key name and a key in the URL")
	case t.CBS:
		e.signer = &signer{keyName: u.User.Username(), key: password}
	case hasPassword:
		e.sasl = amqp.SASLTypePlain(u.User.Username(), password)
	}
	return e, nil
}

func (t Target) fromConnectionString() (endpoint, error) {
	e := endpoint{queue: t.Queue, tls: true, sasl: amqp.SASLTypeAnonymous(), signer: &signer{}}
	for part := range strings.SplitSeq(t.ConnectionString, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "endpoint":
			u, err := url.Parse(value)
			if err != nil {
				return endpoint{}, errors.New("bench: connection string: Endpoint is not a URL")
			}
			e.hostname = u.Host
		case "sharedaccesskeyname":
			e.signer.keyName = value
		case "sharedaccesskey":
			e.signer.key = value
		case "entitypath":
			if e.queue == "" {
				e.queue = value
			}
		case "usedevelopmentemulator":
			emulator, _ := strconv.ParseBool(value)
			e.tls = !emulator
		}
	}
	if e.hostname == "" || e.signer.keyName == "" || e.signer.key == "" {
		return endpoint{}, errors.New("bench: the connection string needs Endpoint, SharedAccessKeyName and SharedAccessKey")
	}
	e.address = withPort(e.hostname, e.tls)
	return e, nil
}

func withPort(host string, tls bool) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	if tls {
		return net.JoinHostPort(host, "5671")
	}
	return net.JoinHostPort(host, "5672")
}

// dial connects, and is authorised for the queue afterwards.
func (e endpoint) dial(ctx context.Context, coalesce bool) (*amqp.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if e.tls {
		name, _, _ := net.SplitHostPort(e.address)
		nc = tls.Client(nc, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12})
	}
	if coalesce {
		nc = newCoalescer(nc)
	}
	c, err := amqp.NewConn(ctx, nc, &amqp.ConnOptions{
		HostName: e.hostname, SASLType: e.sasl, IdleTimeout: 5 * time.Minute, Properties: map[string]any{"product": "ledgerbus-bench"},
	})
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("bench: connect to %s: %w", e.address, err)
	}
	if e.signer != nil {
		if err := e.authorize(ctx, c); err != nil {
			c.Close()
			return nil, fmt.Errorf("bench: authorize for %s: %w", e.queue, err)
		}
	}
	return c, nil
}

// authorize shows a token for the queue (wire-protocol 2).
func (e endpoint) authorize(ctx context.Context, c *amqp.Conn) error {
	s, err := c.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	const node, replyTo = "$cbs", "bench-claims"
	answers, err := s.NewReceiver(ctx, node, &amqp.ReceiverOptions{TargetAddress: replyTo})
	if err != nil {
		return err
	}
	requests, err := s.NewSender(ctx, node, nil)
	if err != nil {
		return err
	}
	scheme := "amqp://"
	if e.tls {
		scheme = "amqps://"
	}
	audience := scheme + e.hostname + "/" + e.queue
	to := replyTo
	if err := requests.Send(ctx, &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: "claim", ReplyTo: &to},
		ApplicationProperties: map[string]any{
			"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience,
		},
		Value: e.signer.token(audience, time.Now().Add(24*time.Hour)),
	}, nil); err != nil {
		return err
	}
	answer, err := answers.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if err := answers.AcceptMessage(ctx, answer); err != nil {
		return err
	}
	if code, _ := answer.ApplicationProperties["status-code"].(int32); code < 200 || code > 299 {
		return fmt.Errorf("status %v: %v", answer.ApplicationProperties["status-code"], answer.ApplicationProperties["status-description"])
	}
	return nil
}

// signer makes tokens (wire-protocol 2.5).
type signer struct{ keyName, key string }

func (s *signer) token(audience string, until time.Time) string {
	resource, expiry := url.QueryEscape(audience), strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.key))
	mac.Write([]byte(resource + "\n" + expiry))
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + resource + "&sig=" + signature + "&se=" + expiry + "&skn=" + s.keyName
}
