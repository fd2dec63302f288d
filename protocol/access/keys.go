package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// age at which keys are fetched again: for that long a new key may be unknown, and a withdrawn
	// one still valid
	keysLife  = 5 * time.Minute
	keysPause = time.Minute     // delay of the next try after a failure
	keysTime  = 3 * time.Second // of one request to the issuer
	maxKeys   = 1 << 20         // bytes of an answer of the issuer
)

// A keySet holds the public keys of an issuer.
type keySet struct {
	url    string
	client *http.Client

	keys atomic.Pointer[jose.JSONWebKeySet]

	mu   sync.Mutex // held while the keys are fetched; guards next
	next time.Time  // time of the next fetch
}

// refresh fetches the keys again when they are old; the token that is being checked does not
// influence it. One caller fetches and waits. The others use the present keys, and so do all when
// the issuer does not answer.
func (k *keySet) refresh(now time.Time) {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	if now.Before(k.next) {
		return
	}
	k.next = now.Add(keysPause)
	ctx, cancel := context.WithTimeout(context.Background(), keysTime)
	defer cancel()
	if k.load(ctx) == nil {
		k.next = now.Add(keysLife)
	}
}

// fetch fetches the keys for the first time.
func (k *keySet) fetch(ctx context.Context, now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = now.Add(keysLife)
	return k.load(ctx)
}

func (k *keySet) load(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", k.url, response.Status)
	}
	var keys jose.JSONWebKeySet
	if err := json.NewDecoder(response.Body).Decode(&keys); err != nil {
		return fmt.Errorf("%s: %w", k.url, err)
	}
	if len(keys.Keys) == 0 {
		return fmt.Errorf("%s: no keys", k.url)
	}
	k.keys.Store(&keys)
	return nil
}

// VerifySignature returns the payload of a token that one of the keys signed. It implements the key
// set of go-oidc.
func (k *keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	t, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	if len(t.Signatures) != 1 {
		return nil, errors.New("the token must have exactly one signature")
	}
	id := t.Signatures[0].Header.KeyID
	for _, key := range k.keys.Load().Keys {
		if id != "" && key.KeyID != id || key.Use == "enc" || !key.IsPublic() {
			continue
		}
		if payload, err := t.Verify(&key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer matches the signature")
}

// limitedClient returns a client that follows no redirect and reads at most maxKeys bytes of an
// answer.
func limitedClient(base *http.Client) *http.Client {
	c := &http.Client{}
	if base != nil {
		*c = *base
	}
	transport := c.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	c.Transport = limitedTransport{transport}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// limitedTransport cuts answers that are too long.
type limitedTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxKeys), response.Body}
	}
	return response, err
}
