package sdkgo

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/coder/websocket"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// webSockets counts the connections that webSocketTo has made.
var webSockets atomic.Int64

// webSocketTo makes WebSocket connections to the broker of a connection string; in TLS if there is
// a configuration for that.
func webSocketTo(connectionString string, config *tls.Config) func(context.Context, azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
	_, host, _ := strings.Cut(connectionString, "Endpoint=sb://")
	host, _, _ = strings.Cut(host, ";")
	url := "ws://" + strings.TrimSuffix(host, "/") + "/$servicebus/websocket"
	options := &websocket.DialOptions{Subprotocols: []string{"amqp"}}
	if config != nil {
		url = strings.Replace(url, "ws:", "wss:", 1)
		options.HTTPClient = &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	return func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
		ws, _, err := websocket.Dial(ctx, url, options)
		if err != nil {
			return nil, err
		}
		webSockets.Add(1)
		return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
	}
}

// TestOverWebSocket shows WP-221: what WP-220 names works over WebSocket as it does without.
func TestOverWebSocket(t *testing.T) {
	t.Parallel()
	list, err := lab.ReadScenarios(listFile)
	if err != nil {
		t.Fatal(err)
	}
	list, err = list.Only([]string{"send-receive-complete", "send-batch", "send-large", "receive-and-delete", "lock-renew", "settle-four-ways",
		"dead-letter-reason", "schedule-call", "schedule-cancel", "defer-receive", "peek-states", "peek-pages", "batch-delete", "session-accept",
		"session-next", "session-state", "credit-drain-on-close", "connection-wrong-key", "topic-fan-out", "topic-sessions", "rule-action"})
	if err != nil {
		t.Fatal(err)
	}
	at := open(t, build(t), list)
	at.webSocket = true
	for _, scenario := range list.Scenarios {
		t.Run(scenario.ID, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			t.Cleanup(func() { <-places })
			before := webSockets.Load()
			written[scenario.ID](newBus(t, at, scenario.ID, noRetries))
			if webSockets.Load() == before {
				t.Error("there was no WebSocket")
			}
		})
	}
}
