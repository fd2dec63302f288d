package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/coder/websocket"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/protocol/listen"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// clientTLS returns a client's TLS configuration that trusts only the broker's development
// authority.
func clientTLS(t *testing.T, srv *Server) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(srv.Trust())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate")
	}
	// the Go SDK would take localhost:PORT for the name
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// overTLS returns the connection string of the broker's first endpoint for clients with TLS.
func overTLS(srv *Server) string {
	return strings.Replace(srv.ConnectionString(), "UseDevelopmentEmulator=true;", "", 1)
}

// roundTrip sends and receives with the unmodified Go SDK.
func roundTrip(t *testing.T, connection string, o *azservicebus.ClientOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := azservicebus.NewClientFromConnectionString(connection, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	sender, err := c.NewSender("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	// several frames, and several messages of a WebSocket
	body := strings.Repeat("0123456789", 20_000)
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte(body)}, nil); err != nil {
		t.Fatal(err)
	}
	receiver, err := c.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil || len(messages) != 1 || string(messages[0].Body) != body {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	if err := receiver.RenewMessageLock(ctx, messages[0], nil); err != nil {
		t.Error(err)
	}
	if err := receiver.CompleteMessage(ctx, messages[0], nil); err != nil {
		t.Error(err)
	}
}

func TestSDKOverTLS(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "/tls"} {
		srv := start(t, load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0" + mode}}))
		roundTrip(t, overTLS(srv), &azservicebus.ClientOptions{TLSConfig: clientTLS(t, srv)})
	}
}

// WP-007, WP-221 as far as it goes: send, receive, renew, complete. More of the Go SDK:
// test/sdk/go, TestOverWebSocket.
func TestSDKOverWebSocket(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), nil))
	for _, protocol := range []string{"amqp", "AMQPWSB10"} {
		for _, encrypted := range []bool{false, true} {
			transport := &http.Transport{TLSClientConfig: clientTLS(t, srv), DisableKeepAlives: true}
			roundTrip(t, overTLS(srv), &azservicebus.ClientOptions{
				NewWebSocketConn: func(ctx context.Context, args azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
					url := args.Host
					if !encrypted {
						url = strings.Replace(url, "wss://", "ws://", 1)
					}
					ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{protocol}, HTTPClient: &http.Client{Transport: transport}})
					if err != nil {
						return nil, err
					}
					return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
				},
			})
		}
	}
}

// The limits of AMQP connections also apply to connections in a WebSocket.
func TestWebSocketsCountAsConnections(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"limits.connections": {"2"}}))
	dial := func() net.Conn {
		ws, _, err := websocket.Dial(t.Context(), "ws://"+srv.Addrs()[0].String()+"/$servicebus/websocket", &websocket.DialOptions{Subprotocols: []string{"amqp"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		return websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	}
	for range 2 {
		if _, err := amqp.NewConn(t.Context(), dial(), nil); err != nil {
			t.Fatal(err)
		}
	}
	third, err := amqp.NewConn(t.Context(), dial(), nil)
	if err == nil { // opened, but refused because of the limit
		<-third.Done()
		err = third.Err()
	}
	if err == nil || !strings.Contains(err.Error(), "ConnectionsQuotaExceeded") {
		t.Errorf("a third connection: %v", err)
	}
}

// A listener for TLS refuses plain peers, and accepts SASL PLAIN, which contains a key. Other
// listeners do not accept SASL PLAIN.
func TestListenerForTLS(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0/tls", "127.0.0.1:0/plain"}}))
	if strings.Contains(srv.ConnectionString(), "UseDevelopmentEmulator") {
		t.Error("the connection string leads SDKs to a connection without TLS")
	}
	for i, e := range srv.Endpoints() {
		for _, emulator := range []bool{false, true} {
			text := "Endpoint=sb://" + e.Authority("") + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
			if emulator {
				text += ";UseDevelopmentEmulator=true"
			}
			cs, err := client.ParseConnectionString(text)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			c, err := client.Dial(ctx, cs, client.Options{TLS: clientTLS(t, srv)})
			cancel()
			if want := emulator == (i == 1); (err == nil) != want {
				t.Errorf("listener %s, without TLS %t: %v", e.Mode, emulator, err)
			}
			if err == nil {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// A client may start without TLS and request it (AMQP 5.2.1), even if plain peers are refused.
func TestUpgradeToTLS(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0/any", "127.0.0.1:0/tls"}})
	s.Mode = settings.Production // refuses a key without TLS
	srv := start(t, s)
	// contains a key and therefore needs TLS
	plain := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("RootManageSharedAccessKey", "SAS_KEY_VALUE")}
	for _, e := range srv.Endpoints() {
		nc, err := net.Dial("tcp", e.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		header, answer := "AMQP\x02\x01\x00\x00", make([]byte, 8)
		if _, err := io.WriteString(nc, header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, answer); err != nil || string(answer) != header {
			t.Fatalf("listener %s: %q, %v", e.Mode, answer, err)
		}
		conn, err := amqp.NewConn(t.Context(), tls.Client(nc, clientTLS(t, srv)), plain)
		if err != nil {
			t.Errorf("listener %s: %v", e.Mode, err)
			continue
		}
		session, err := conn.NewSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.NewSender(t.Context(), "orders", nil); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := amqp.Dial(t.Context(), "amqp://"+srv.Addrs()[0].String(), plain); err == nil {
		t.Error("a key is taken without TLS")
	}
}

func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, _, err := listen.Generated(folder, []string{"localhost"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	pair := filepath.Join(folder, "server-with-key.pem")
	srv := start(t, load(t, t.TempDir(), map[string][]string{"tls.certificate-file": {pair}, "tls.key-file": {pair}}))
	if srv.Trust() != "" {
		t.Error("an operator's certificate needs no authority of ours")
	}
	if _, err := os.Stat(filepath.Join(srv.Settings().Storage.Data, "tls")); err == nil {
		t.Error("certificates were made for nothing")
	}
	text, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	roundTrip(t, overTLS(srv), &azservicebus.ClientOptions{TLSConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}})

	other := filepath.Join(folder, "ca-with-key.pem")
	missing := filepath.Join(folder, "none.pem")
	for _, c := range []struct{ certificate, want string }{
		{other, "tls: certificate " + other + ", key " + pair + ": tls: private key does not match public key"},
		{missing, "tls: certificate " + missing + ", key " + pair + ": open " + missing + ": no such file or directory"},
	} {
		_, err := Start(t.Context(), load(t, t.TempDir(), map[string][]string{"tls.certificate-file": {c.certificate}, "tls.key-file": {pair}}))
		if problems := (settings.Problems)(nil); !errors.As(err, &problems) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// plainLogin logs in with SASL PLAIN, sends a message and receives it, without a token.
func plainLogin(ctx context.Context, nc net.Conn, user, key string) error {
	conn, err := amqp.NewConn(ctx, nc, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(user, key)})
	if err != nil {
		_ = nc.Close()
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		return err
	}
	if err := sender.Send(ctx, amqp.NewMessage([]byte("x")), nil); err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
	if err != nil {
		return err
	}
	m, err := receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if err := receiver.AcceptMessage(ctx, m); err != nil {
		return err
	}
	// The client has given credit for another message, and its Close waits for no answer: a
	// receiver that is still attached then would get the next login's message, and hold its lock.
	return receiver.Close(ctx)
}

// Reliability.md 7.2: PLAIN works over TLS, also in a WebSocket. Without TLS it works on loopback
// in development mode, and with --insecure-no-tls. A wrong key is always refused; otherwise PLAIN
// is not offered.
func TestPlainLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		production, insecure bool
		plain                bool // without TLS
	}{"development": {plain: true}, "production": {production: true}, "production, no TLS": {production: true, insecure: true, plain: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, t.TempDir(), nil)
			s.Access = []settings.AccessRule{{Name: "app", Rights: []settings.Right{settings.Manage}, Primary: settings.NewSecret("one")}}
			if s.Listening.InsecureNoTLS = test.insecure; test.production {
				s.Mode = settings.Production
				s.Listening.Addresses = []string{"127.0.0.1:0/any"}
			}
			srv := start(t, s)
			address := srv.Addrs()[0].String()
			transport := &http.Transport{TLSClientConfig: clientTLS(t, srv), DisableKeepAlives: true}
			webSocket := func(scheme string) (net.Conn, error) {
				ws, _, err := websocket.Dial(t.Context(), scheme+"://"+address+"/$servicebus/websocket", &websocket.DialOptions{Subprotocols: []string{"amqp"}, HTTPClient: &http.Client{Transport: transport}})
				if err != nil {
					return nil, err
				}
				return websocket.NetConn(t.Context(), ws, websocket.MessageBinary), nil
			}
			for way, dial := range map[string]func() (net.Conn, error){
				"plain":     func() (net.Conn, error) { return net.Dial("tcp", address) },
				"TLS":       func() (net.Conn, error) { return tls.Dial("tcp", address, clientTLS(t, srv)) },
				"WebSocket": func() (net.Conn, error) { return webSocket("ws") },
				"both":      func() (net.Conn, error) { return webSocket("wss") },
			} {
				for key, want := range map[string]bool{"one": test.plain || way == "TLS" || way == "both", "two": false} {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					nc, err := dial()
					if err == nil {
						err = plainLogin(ctx, nc, "app", key)
					}
					if (err == nil) != want {
						t.Errorf("%s, key %s: %v", way, key, err)
					}
					if !test.plain && !want && way != "TLS" && way != "both" && !strings.Contains(err.Error(), "no supported auth mechanism") {
						t.Errorf("%s: %v; want that no auth mechanism is supported", way, err)
					}
					cancel()
				}
			}
		})
	}
}

// Management-api.md 5.2, reliability.md S10: links of a connection that logged in with a key end
// when the key is removed, like links with a token.
func TestPlainKeysReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := start(t, withKeys(t, dir, "one", ""))
	nc, err := net.Dial("tcp", srv.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.NewConn(t.Context(), nc, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("app", "one")})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	session, err := conn.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := session.NewSender(t.Context(), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Reload(withKeys(t, dir, "two", "one")); err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), amqp.NewMessage([]byte("x")), nil); err != nil {
		t.Errorf("with what is the secondary key now: %v", err)
	}
	if err := srv.Reload(withKeys(t, dir, "two", "three")); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; { // the link ends when the connection has heard of it
		err = sender.Send(t.Context(), amqp.NewMessage([]byte("x")), nil)
	}
	if detached := (*amqp.LinkError)(nil); !errors.As(err, &detached) || detached.RemoteErr == nil || detached.RemoteErr.Condition != "amqp:link:detach-forced" {
		t.Errorf("with a key that is gone: %v", err)
	}
	if _, err := session.NewSender(t.Context(), "orders", nil); err == nil {
		t.Error("a link is attached with a key that is gone")
	}
}
