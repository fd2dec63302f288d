package broker

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/coder/websocket"

	"github.com/ledgerbus/ledgerbus/test/sas"
)

// splitWriteConn is a connection that writes everything in two pieces.
type splitWriteConn struct{ net.Conn }

func (c splitWriteConn) Write(p []byte) (int, error) {
	at := min(len(p), 8)
	n, err := c.Conn.Write(p[:at])
	if err != nil || at == len(p) {
		return n, err
	}
	m, err := c.Conn.Write(p[at:])
	return n + m, err
}

// A peer may delay its writes until the last piece is acknowledged (Nagle's algorithm, which some
// SDKs leave on). It gets its answers sooner than the kernel acknowledges by itself, which is after
// 40 ms, also over TLS and WebSocket.
func TestPeerThatGathersItsWrites(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), nil))
	gathering := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = nc.(*net.TCPConn).SetNoDelay(false)
		}
		return nc, err
	}
	address := srv.Addrs()[0].String()
	plain := func() (net.Conn, error) { return gathering(t.Context(), "tcp", address) }
	for name, dial := range map[string]func() (net.Conn, error){
		"plain": plain,
		"TLS": func() (net.Conn, error) {
			nc, err := plain()
			return tls.Client(nc, clientTLS(t, srv)), err
		},
		"WebSocket": func() (net.Conn, error) {
			ws, _, err := websocket.Dial(t.Context(), "ws://"+address+"/$servicebus/websocket", &websocket.DialOptions{
				Subprotocols: []string{"amqp"}, HTTPClient: &http.Client{Transport: &http.Transport{DialContext: gathering}}})
			if err != nil {
				return nil, err
			}
			return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			const calls = 40 // the kernel acknowledges some of the first at once
			if quick := quickCalls(t, splitWriteConn{nc}, calls); quick < calls/2 {
				t.Errorf("%d of %d calls were answered before the acknowledgement of a kernel that waits", quick, calls)
			}
		})
	}
}

// quickCalls returns how many of n consecutive calls to $management were answered within 30 ms.
func quickCalls(t *testing.T, nc net.Conn, calls int) (quick int) {
	t.Helper()
	c, err := amqp.NewConn(t.Context(), nc, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const audience = "sb://localhost/orders"
	requester(t, c, "$cbs")(map[string]any{"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience},
		sas.Token(audience, "RootManageSharedAccessKey", "SAS_KEY_VALUE", time.Now().Add(time.Hour)))
	peek := requester(t, c, "orders/$management")
	for range calls {
		began := time.Now()
		peek(map[string]any{"operation": "com.microsoft:peek-message"}, map[string]any{"from-sequence-number": int64(1), "message-count": int32(1)})
		if time.Since(began) < 30*time.Millisecond {
			quick++
		}
	}
	return quick
}

// requester opens the links to a node and returns a function that sends a request and waits for its
// answer.
func requester(t *testing.T, c *amqp.Conn, node string) func(properties map[string]any, body any) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := c.NewSession(t.Context(), nil)
	must(err)
	sender, err := session.NewSender(t.Context(), node, nil)
	must(err)
	replyTo := "answers"
	receiver, err := session.NewReceiver(t.Context(), node, &amqp.ReceiverOptions{TargetAddress: replyTo})
	must(err)
	return func(properties map[string]any, body any) {
		t.Helper()
		must(sender.Send(t.Context(), &amqp.Message{
			Properties: &amqp.MessageProperties{MessageID: "1", ReplyTo: &replyTo}, ApplicationProperties: properties, Value: body,
		}, nil))
		answer, err := receiver.Receive(t.Context(), nil)
		must(err)
		must(receiver.AcceptMessage(t.Context(), answer))
	}
}
