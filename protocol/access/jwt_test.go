package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer is an OpenID provider on this machine.
type issuer struct {
	*httptest.Server
	keys    atomic.Pointer[jose.JSONWebKeySet]
	fetched atomic.Int32
	silent  atomic.Bool // answers 500
	name    string      // its name for itself; "": its URL
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	t.Helper()
	i := &issuer{}
	i.keys.Store(&jose.JSONWebKeySet{Keys: keys})
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		name := i.name
		if name == "" {
			name = i.URL
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		if i.silent.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(i.keys.Load())
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// signer is a key pair of an issuer.
type signer struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, jose.ES256, key}
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.private.Public(), KeyID: s.id, Algorithm: string(s.alg), Use: "sig"}
}

func (s signer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	return compact(t, jose.SigningKey{Algorithm: s.alg, Key: s.private}, (&jose.SignerOptions{}).WithHeader("kid", s.id), claims)
}

// compact signs claims and writes them as three parts with dots between.
func compact(t *testing.T, key jose.SigningKey, o *jose.SignerOptions, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	j, err := jose.NewSigner(key, o)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := j.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signature.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const testAudience = "https://servicebus.azure.net"

// accepting returns a verifier for the tokens of an issuer.
func accepting(t *testing.T, i *issuer, claim string) *Verifier {
	t.Helper()
	j, err := NewJWT(t.Context(), JWTOptions{Issuer: i.URL, Audiences: []string{testAudience, "api://bus"}, RolesClaim: claim, Client: i.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Rules: testRules, JWT: j, Development: true})
}

// claimSet makes the claims of tokens of an issuer.
type claimSet struct {
	issuer string
	now    time.Time
}

// with returns the claims of a valid token with changes: names and values, nil for none.
func (s claimSet) with(change ...any) map[string]any {
	c := map[string]any{"iss": s.issuer, "aud": testAudience, "sub": "app-1", "exp": s.now.Add(time.Hour).Unix(), "roles": []string{"Send"}}
	for k := 0; k+1 < len(change); k += 2 {
		if c[change[k].(string)] = change[k+1]; change[k+1] == nil {
			delete(c, change[k].(string))
		}
	}
	return c
}

// unsigned returns a token with the algorithm "none".
func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]string{"alg": "none", "typ": "JWT"}) + "." + part(claims) + "."
}

// confused returns a token signed with the text of the public key as a shared secret, which
// deceives a verifier that lets the token choose the algorithm.
func (s signer) confused(t *testing.T, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(s.public())
	if err != nil {
		t.Fatal(err)
	}
	return compact(t, jose.SigningKey{Algorithm: jose.HS256, Key: text}, nil, claims)
}

// WP-060, management-api.md 5.5.
func TestJWT(t *testing.T) {
	t.Parallel()
	known, stranger := newSigner(t, "k1"), newSigner(t, "k1")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	second := signer{"k2", jose.RS256, rsaKey}
	i := newIssuer(t, known.public(), second.public())
	v := accepting(t, i, "")
	now := time.Now()
	claims := claimSet{i.URL, now}.with
	good := known.sign(t, claims())
	parts := strings.Split(good, ".")
	for name, c := range map[string]struct {
		token  string
		want   error
		rights Rights
	}{
		"good":               {good, nil, Send},
		"with Bearer":        {"Bearer " + good, nil, Send},
		"with bearer":        {"bearer " + good, nil, Send},
		"RSA":                {second.sign(t, claims()), nil, Send},
		"two audiences":      {known.sign(t, claims("aud", []string{"other", "api://bus"})), nil, Send},
		"Azure roles":        {known.sign(t, claims("roles", []string{"Azure Service Bus Data Receiver", "Azure Service Bus Data Sender"})), nil, Send | Listen},
		"owner":              {known.sign(t, claims("roles", []string{"Azure Service Bus Data Owner"})), nil, Manage},
		"one role":           {known.sign(t, claims("roles", "Azure Service Bus Data Owner")), nil, Manage},
		"roles in a text":    {known.sign(t, claims("roles", "openid Listen Send")), nil, Listen | Send},
		"history":            {known.sign(t, claims("roles", "ReadHistory ReadBodies")), nil, ReadHistory | ReadBodies},
		"unknown roles":      {known.sign(t, claims("roles", []string{"Owner", "send", ""})), nil, 0},
		"no roles":           {known.sign(t, claims("roles", nil)), nil, 0},
		"roles of no kind":   {known.sign(t, claims("roles", 7)), nil, 0},
		"expired":            {known.sign(t, claims("exp", now.Add(-time.Second).Unix())), ErrExpired, 0},
		"no end":             {known.sign(t, claims("exp", nil)), ErrMalformed, 0},
		"not yet":            {known.sign(t, claims("nbf", now.Add(time.Hour).Unix())), ErrSignature, 0},
		"just now":           {known.sign(t, claims("nbf", now.Add(time.Minute).Unix())), nil, Send},
		"other audience":     {known.sign(t, claims("aud", "other")), ErrScope, 0},
		"no audience":        {known.sign(t, claims("aud", nil)), ErrScope, 0},
		"other issuer":       {known.sign(t, claims("iss", "https://elsewhere")), ErrSignature, 0},
		"no issuer":          {known.sign(t, claims("iss", nil)), ErrSignature, 0},
		"unknown key":        {newSigner(t, "k9").sign(t, claims()), ErrSignature, 0},
		"stranger":           {stranger.sign(t, claims()), ErrSignature, 0},
		"expired, stranger":  {stranger.sign(t, claims("exp", 1)), ErrSignature, 0},
		"no algorithm":       {unsigned(t, claims("roles", []string{"Manage"})), ErrSignature, 0},
		"the key as secret":  {known.confused(t, claims()), ErrSignature, 0},
		"signature of other": {parts[0] + "." + parts[1] + "." + strings.Split(known.sign(t, claims("sub", "x")), ".")[2], ErrSignature, 0},
		"two parts":          {parts[0] + "." + parts[1], ErrMalformed, 0},
		"JSON form":          {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, ErrMalformed, 0},
		"too long":           {good + strings.Repeat("A", maxJWT), ErrMalformed, 0},
		"empty":              {"", ErrMalformed, 0},
	} {
		g, err := v.Verify(c.token, "sb://h/Orders", now)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || g.Rights != c.rights {
			t.Errorf("%s: %+v, %v; want errors.Is(err, c.want) && (err == nil) == (c.want == nil) && g.Rights == c.rights", name, g, err)
		}
		if err == nil && (g.Path != "orders" || g.Rule != "app-1" || g.Expires.Unix() != now.Add(time.Hour).Unix() || !v.current(g) || !g.OfNamespace()) {
			t.Errorf("%s: %+v; want what app-1 may do with orders and all below, for an hour", name, g)
		}
	}
	if g, err := v.Verify(known.sign(t, claims("sub", nil, "name", "Ada")), "q", now); err != nil || g.Rule != "Ada" {
		t.Errorf(`%+v, %v; want g.Rule == "Ada"`, g, err)
	}
	if g, err := v.Verify(signed("sb://h/q", "9999999999", "root", "key+/="), "sb://h/q", now); err != nil || g.Rule != "root" {
		t.Errorf("a signature beside JWTs: %+v, %v", g, err)
	}
	other := accepting(t, i, "bus")
	if g, err := other.Verify(known.sign(t, claims("bus", []string{"Listen"})), "q", now); err != nil || g.Rights != Listen {
		t.Errorf("roles of another claim: %+v, %v", g, err)
	}
}

// S4: keys are fetched at intervals, not because of the content of a token; a withdrawn key is no
// longer valid.
func TestKeysAreFetchedAgain(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "k1"), newSigner(t, "k2")
	i := newIssuer(t, first.public())
	v := accepting(t, i, "")
	now := time.Now()
	token := func(s signer) string {
		return s.sign(t, map[string]any{"iss": i.URL, "aud": testAudience, "sub": "a", "exp": now.Add(time.Hour).Unix(), "roles": "Send"})
	}
	good := func(s signer, at time.Duration, want bool, fetches int32) {
		t.Helper()
		if _, err := v.Verify(token(s), "q", now.Add(at)); (err == nil) != want || i.fetched.Load() != fetches {
			t.Errorf("%s after %s: %v, %d fetches", s.id, at, err, i.fetched.Load())
		}
	}
	good(first, 0, true, 1)
	i.keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{second.public()}})
	for range 10 {
		good(second, time.Second, false, 1)
	}
	good(second, keysLife+time.Minute, true, 2)
	good(first, keysLife+time.Minute, false, 2)
	i.silent.Store(true)
	good(second, 3*keysLife, true, 3) // the issuer is away: its last answer holds
	good(second, 3*keysLife+time.Second, true, 3)
	good(second, 3*keysLife+2*keysPause, true, 4)
}

func TestDiscoveryFails(t *testing.T) {
	t.Parallel()
	key := newSigner(t, "k")
	lying, empty, gone := newIssuer(t, key.public()), newIssuer(t), newIssuer(t, key.public())
	lying.name = "https://other"
	gone.silent.Store(true)
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hung.Close()
	moved := httptest.NewServer(http.RedirectHandler(gone.URL, http.StatusFound))
	defer moved.Close()
	for url, want := range map[string]string{
		lying.URL: "issuer did not match", empty.URL: "no keys", gone.URL: "500", moved.URL: "302", "http://127.0.0.1:1": "connection refused",
		"": "missing issuer or audience", hung.URL: context.DeadlineExceeded.Error(),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if url == hung.URL {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		_, err := NewJWT(ctx, JWTOptions{Issuer: url, Audiences: []string{"a"}})
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want err != nil && strings.Contains(err.Error(), want)", url, err)
		}
	}
	if _, err := NewJWT(t.Context(), JWTOptions{Issuer: gone.URL}); err == nil {
		t.Error("no audience")
	}
}

// Management-api.md 1.7: the development switch has an effect.
func TestAnyBearer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options Options
		token   string
		want    error
	}{
		{Options{Development: true, AnyBearer: true}, "Bearer a.b-_~+/c==", nil},
		{Options{Development: true, AnyBearer: true}, "eyJ", nil},
		{Options{Development: true, AnyBearer: true}, "Bearer ", ErrMalformed},
		{Options{Development: true, AnyBearer: true}, "Bearer a b", ErrMalformed},
		{Options{Development: true, AnyBearer: true}, "Basic YTpi", ErrMalformed},
		{Options{Development: true, AnyBearer: true}, "Bearer a=b", ErrMalformed},
		{Options{Development: true, AnyBearer: true}, signed("sb://h", later, "root", "x"), ErrSignature},
		{Options{AnyBearer: true, Hosts: []string{"h"}}, "Bearer abc", ErrUnsupported},
		{Options{Development: true}, "Bearer abc", ErrUnsupported},
	} {
		v := New(c.options)
		g, err := v.Verify(c.token, "sb://h/q", testNow)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || (err == nil) != v.Allows(g, "q", Manage, testNow) {
			t.Errorf(`%+v %q: %+v, %v; want errors.Is(err, c.want) && (err == nil) == (c.want == nil) && (err == nil) == v.Allows(g, "q", Manage, testNow)`, c.options, c.token, g, err)
		}
	}
	i := newIssuer(t, newSigner(t, "k").public())
	j, err := NewJWT(t.Context(), JWTOptions{Issuer: i.URL, Audiences: []string{"a"}, Client: i.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Development: true, AnyBearer: true, JWT: j}).Verify("abc.def.ghi", "q", testNow); err == nil {
		t.Error("the switch weakens an issuer")
	}
}

func FuzzJWT(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	keys := &keySet{next: testNow.Add(1 << 60)}
	keys.keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	v := New(Options{Development: true, JWT: &JWT{issuer: "i", audiences: []string{"a"}, roles: "roles", keys: keys}})
	for _, header := range []string{`{"alg":"none"}`, `{"alg":"ES256","kid":"k"}`, `{"alg":"RS256","jwk":{},"crit":["b64"],"b64":false}`} {
		encode := base64.RawURLEncoding.EncodeToString
		f.Add(fmt.Sprintf("%s.%s.%s", encode([]byte(header)), encode([]byte(`{"iss":"i","aud":["a"],"exp":9e99,"roles":"Manage"}`)), encode(make([]byte, 64))))
	}
	f.Fuzz(func(t *testing.T, token string) {
		if g, err := v.Verify("Bearer "+token, "q", testNow); err == nil || g.Rights != 0 {
			t.Errorf("%q: %+v, %v; want err != nil && g.Rights == 0", token, g, err)
		}
	})
}
