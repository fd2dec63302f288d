package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/go-jose/go-jose/v4"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// MA-061: keys of an entity are valid for the entity and its children. A change of keys ends the
// links that used them.
func TestKeysOfAnEntity(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"queue": {"orders", "other", "orders/eu"}}))
	put := func(kind event.EntityKind, path, key string) {
		t.Helper()
		p := engine.DefaultProperties(kind)
		if key != "" {
			p.AccessRules = []event.AccessRule{{Name: "app", Primary: event.Secret(key), Secondary: event.Secret(key + ", too"), Rights: event.Rights{event.Send}}}
		}
		if _, err := srv.Engine().PutEntity(t.Context(), engine.PutEntity{Kind: kind, Path: path, Properties: p}); err != nil {
			t.Fatal(err)
		}
	}
	put(event.Queue, "orders", "first")
	put(event.Topic, "news", "of news")
	put(event.Subscription, "news/Subscriptions/all", "")
	sender, err := dialWith(t, srv, "app", "first", "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, entity := range []string{"other", "orders/eu", "news"} {
		if _, err := dialWith(t, srv, "app", "first", entity); err == nil {
			t.Errorf("the key of orders is good for %s", entity)
		}
	}
	for path, want := range map[string]int{"": 0, "news": 1, "news/subscriptions/all": 1, "news/subscriptions/all/$deadletterqueue/$management": 1,
		"news/subscriptions/none/rules/r": 1, "orders/$management": 1, "orders/eu": 0, "newspaper": 0, strings.Repeat("a/", maxResource): 0} {
		if got := len(srv.entityRules(path)); got != want {
			t.Errorf("%d rules at %s", got, path)
		}
	}
	put(event.Queue, "orders", "second")
	for err = nil; err == nil; { // until the connection has ended the link
		err = sender.Send(t.Context(), client.NewMessage([]byte("x")))
	}
	if client.Condition(err) != "amqp:link:detach-forced" {
		t.Errorf(`%+v; want client.Condition(err) == "amqp:link:detach-forced"`, err)
	}
	if _, err := dialWith(t, srv, "app", "first", "orders"); err == nil {
		t.Error("the old key is good")
	}
	if _, err := dialWith(t, srv, "app", "second", "orders"); err != nil {
		t.Error(err)
	}
}

// identity is a credential of the Azure SDK.
type identity func() string

func (i identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: i(), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// sendAs sends with the unmodified Go SDK and an identity token.
func sendAs(t *testing.T, srv *Server, who identity) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := azservicebus.NewClient(srv.Endpoints()[0].Authority(""), who, &azservicebus.ClientOptions{TLSConfig: clientTLS(t, srv), RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	sender, err := c.NewSender("orders", nil)
	if err != nil {
		return err
	}
	return sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil)
}

// WP-060, management-api.md 5.5: tests identity tokens of a configured issuer over $cbs.
func TestIdentityTokens(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	defer issuer.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	})
	token := func(role string) identity {
		return func() string {
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := json.Marshal(map[string]any{"iss": issuer.URL, "aud": "https://servicebus.azure.net", "sub": "app", "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{role}})
			if err != nil {
				t.Fatal(err)
			}
			signed, err := signer.Sign(payload)
			if err != nil {
				t.Fatal(err)
			}
			text, err := signed.CompactSerialize()
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	nonsense := identity(func() string { return "a.b.c" })
	srv := start(t, load(t, t.TempDir(), map[string][]string{"jwt.issuer": {issuer.URL}, "jwt.audience": {"https://servicebus.azure.net"}}))
	if err := sendAs(t, srv, token("Azure Service Bus Data Sender")); err != nil {
		t.Error(err)
	}
	for _, who := range []identity{token("Azure Service Bus Data Receiver"), token("none"), nonsense} {
		if err := sendAs(t, srv, who); err == nil {
			t.Error("sent without the right")
		}
	}
	if err := sendAs(t, start(t, load(t, t.TempDir(), nil)), token("Manage")); err == nil {
		t.Error("sent although no issuer is configured")
	}
	if err := sendAs(t, start(t, load(t, t.TempDir(), map[string][]string{"accept-any-bearer": {"true"}})), nonsense); err != nil {
		t.Error(err)
	}
	issuer.Close()
	_, err = Start(t.Context(), load(t, t.TempDir(), map[string][]string{"jwt.issuer": {issuer.URL}, "jwt.audience": {"a"}}))
	if problems := (settings.Problems)(nil); !errors.As(err, &problems) || problems[0].Where != "jwt.issuer" {
		t.Errorf("an issuer that is not there: %v", err)
	}
}
