package sdkgo

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Ways to the broker other than AMQP over plain TCP.
var transports = group{
	"connection-tls":       func(b *bus) { everything(b.overTLS()) },
	"connection-websocket": func(b *bus) { everything(b.overWebSocket()) },
}

// trusting is TLS with the broker's certificate. The SDK for messages would take the port for a
// part of the name.
func (b *bus) trusting() *tls.Config {
	b.Helper()
	text, err := os.ReadFile(b.place.authority)
	b.must(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		b.Fatalf("%s holds no certificate", b.place.authority)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

// overTLS is the scenario with a client that speaks TLS.
func (b *bus) overTLS() *bus {
	b.Helper()
	return b.by(&azservicebus.ClientOptions{RetryOptions: b.retry, TLSConfig: b.trusting()})
}

// overWebSocket is the scenario with a client that speaks AMQP in a WebSocket in TLS.
func (b *bus) overWebSocket() *bus {
	b.Helper()
	dial := webSocketTo(b.place.tlsConnectionString, b.trusting())
	return b.by(&azservicebus.ClientOptions{RetryOptions: b.retry, NewWebSocketConn: dial})
}

// by is the scenario with another client.
func (b *bus) by(options *azservicebus.ClientOptions) *bus {
	b.Helper()
	other := *b
	other.client = b.connectBy(b.place.tlsConnectionString, options)
	other.sender = other.senderOf(other.client)
	return &other
}

func everything(b *bus) {
	one := b.on("one")
	b.post(&message{Body: []byte("A"), SessionID: to.Ptr("s"), ApplicationProperties: map[string]any{"colour": "red"}})
	b.postBatch(inSession("s", "B"), inSession("s", "C"), inSession("s", "D"), inSession("s", "E"))
	r := one.receiver()
	got := one.take(r, "A", "B", "C", "D")
	one.complete(r, got[0])
	one.abandon(r, got[1])
	one.postpone(r, got[2])
	one.buryFor("reason", r, got[3])
	again := one.one(r, "B")
	one.wantCount(again, 1)
	e := one.one(r, "E")
	before := *e.LockedUntil
	b.must(r.RenewMessageLock(b.patient(), e, nil))
	b.wantAfter("locked until, renewed", *e.LockedUntil, before)
	one.complete(r, again, e)

	peeked := one.peekAll(peekLock)
	one.wantTexts(peeked, "C")
	one.wantState(peeked[0], azservicebus.MessageStateDeferred)
	one.complete(r, one.deferred(r, number(got[2]))...)
	dlq := one.deadLetters()
	dead := one.one(dlq, "D")
	one.wantReason(dead, "reason")
	one.complete(dlq, dead)
	one.empty(peekLock)

	b.must(b.cancel(b.schedule(soon(time.Hour), inSession("s", "X"))[0]))
	at := soon(2 * time.Second)
	b.schedule(at, inSession("s", "F"))
	f := one.one(r, "F")
	one.wantOnTime("F", time.Now(), at)
	large := strings.Repeat("L", 200_000)
	b.post(&message{Body: []byte(large), SessionID: to.Ptr("s")})
	one.complete(r, f, one.one(r, large))
	one.empty(peekLock)

	grouped := b.on("grouped")
	s := grouped.accept("s")
	b.must(s.SetSessionState(b.patient(), []byte("state"), nil))
	if state, err := s.GetSessionState(b.patient(), nil); err != nil || string(state) != "state" {
		b.Errorf("state %q, %v", state, err)
	}
	grouped.complete(s, grouped.take(s, "A", "B", "C", "D", "E", "F", large)...)
	grouped.nothing(s)

	red := b.on("red")
	r = red.receiver()
	red.complete(r, red.one(r, "A"))
	red.nothing(r)
}
