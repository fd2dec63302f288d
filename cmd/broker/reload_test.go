package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/protocol/listen"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// pair is a certificate with its key and its signing authority.
type pair struct {
	text  []byte
	roots *x509.CertPool
}

func newPair(t *testing.T) pair {
	t.Helper()
	folder := t.TempDir()
	_, authority, err := listen.Generated(folder, []string{"localhost"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p := pair{roots: x509.NewCertPool()}
	text, err := os.ReadFile(authority)
	if err != nil || !p.roots.AppendCertsFromPEM(text) {
		t.Fatalf("%+v; want p.roots.AppendCertsFromPEM(text)", err)
	}
	if p.text, err = os.ReadFile(filepath.Join(folder, "server-with-key.pem")); err != nil {
		t.Fatal(err)
	}
	return p
}

// handshake reports whether a client that trusts p is shown p.
func (p pair) handshake(t *testing.T, srv *Server) bool {
	t.Helper()
	c, err := tls.Dial("tcp", srv.Addrs()[0].String(), &tls.Config{RootCAs: p.roots, ServerName: "localhost"})
	if err != nil {
		if unknown := (*tls.CertificateVerificationError)(nil); !errors.As(err, &unknown) {
			t.Errorf("%+v; want errors.As(err, &unknown)", err)
		}
		return false
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// lookNow makes the next handshake check the files.
func (c *certificates) lookNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
}

// Reliability.md 7.2: a certificate is replaced without a restart, and never by an unusable one.
func TestCertificateReplaced(t *testing.T) {
	t.Parallel()
	first, second := newPair(t), newPair(t)
	file := filepath.Join(t.TempDir(), "pair.pem")
	age := 0
	put := func(text []byte, mode fs.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, text, 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		age++ // whatever the resolution of the file system's clock is
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(age)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	put(first.text, 0o600)
	s := load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0/tls"}, "tls.certificate-file": {file}, "tls.key-file": {file}})
	srv := start(t, s)
	shown := func(step string, want, other pair) {
		t.Helper()
		if !want.handshake(t, srv) || other.handshake(t, srv) {
			t.Errorf("%s: another certificate is shown", step)
		}
	}
	shown("at start", first, second)
	put(second.text, 0o600)
	srv.certificates.mu.Lock()
	srv.certificates.looked = time.Now().Add(time.Hour) // as if recently checked
	srv.certificates.mu.Unlock()
	shown("before the next look", first, second)
	srv.certificates.lookNow()
	shown("replaced", second, first)
	for name, bad := range map[string][]byte{"nonsense": []byte("nonsense"), "half": first.text[:len(first.text)/2], "empty": nil} {
		put(bad, 0o600)
		srv.certificates.lookNow()
		shown(name, second, first)
		if err := srv.Reload(s); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v; want err != nil && strings.Contains(err.Error(), file)", name, err)
		}
		shown(name+", again", second, first)
	}
	put(first.text, 0o644)
	srv.certificates.lookNow()
	shown("a key others may read", second, first)
	put(first.text, 0o600)
	if err := srv.Reload(s); err != nil { // does not wait for the next check
		t.Error(err)
	}
	shown("asked to", first, second)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	srv.certificates.lookNow()
	shown("gone", first, second)
}

// withKeys returns settings with one rule that has the given keys.
func withKeys(t *testing.T, dir, primary, secondary string) settings.Settings {
	t.Helper()
	s := load(t, dir, nil)
	s.Access = []settings.AccessRule{{Name: "app", Rights: []settings.Right{settings.Manage}, Primary: settings.NewSecret(primary), Secondary: settings.NewSecret(secondary)}}
	return s
}

// dialWith connects with a key and attaches a sender.
func dialWith(t *testing.T, srv *Server, rule, key, entity string) (*client.Sender, error) {
	t.Helper()
	cs, err := client.ParseConnectionString(fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true", srv.Endpoints()[0].Authority(""), rule, key))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), cs, client.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() }) // the broker may have closed it first
	return c.NewSender(t.Context(), entity)
}

// Management-api.md 5.2, reliability.md S10: keys of the namespace are replaced without a restart.
func TestKeysReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := start(t, withKeys(t, dir, "one", ""))
	sender, err := dialWith(t, srv, "app", "one", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Reload(withKeys(t, dir, "two", "one")); err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), client.NewMessage([]byte("x"))); err != nil {
		t.Errorf("with what is the secondary key now: %v", err)
	}
	if err := srv.Reload(withKeys(t, dir, "two", "three")); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; { // the link ends when the connection has heard of it
		err = sender.Send(t.Context(), client.NewMessage([]byte("x")))
	}
	if client.Condition(err) != "amqp:link:detach-forced" {
		t.Errorf("with a key that is gone: %v", err)
	}
	if _, err := dialWith(t, srv, "app", "one", "orders"); err == nil {
		t.Error("a key that is gone logs in")
	}
	if _, err := dialWith(t, srv, "app", "three", "orders"); err != nil {
		t.Error(err)
	}
	known := load(t, dir, nil)
	if err := srv.Reload(known); err == nil || !strings.Contains(err.Error(), "well-known key") {
		t.Errorf("the emulator's key: %v", err)
	}
	if _, err := dialWith(t, srv, "RootManageSharedAccessKey", "SAS_KEY_VALUE", "orders"); err == nil {
		t.Error("the emulator's key was taken over")
	}
}

// Reliability.md 7.2: settings are reloaded completely or not at all, so that "not reloaded" is
// true for the keys as well.
func TestNothingIsTakenOverWithABadCertificate(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "pair.pem")
	first := newPair(t)
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(first.text)
	with := func(key string) settings.Settings {
		s := withKeys(t, dir, key, "")
		s.TLS.From, s.TLS.CertificateFile, s.TLS.KeyFile = settings.TLSFiles, file, file
		return s
	}
	srv := start(t, with("one"))
	put([]byte("nonsense"))
	if err := srv.Reload(with("two")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a bad certificate: %v", err)
	}
	if _, err := dialWith(t, srv, "app", "one", "orders"); err != nil {
		t.Errorf("the key there was: %v", err)
	}
	if _, err := dialWith(t, srv, "app", "two", "orders"); err == nil {
		t.Error("the new key is good already")
	}
	second := newPair(t)
	put(second.text)
	known := load(t, dir, nil)
	if err := srv.Reload(known); err == nil || second.handshake(t, srv) {
		t.Errorf("the certificate came with rules that were refused: %v", err)
	}
	if err := srv.Reload(with("two")); err != nil || !second.handshake(t, srv) {
		t.Errorf("a good one: %v", err)
	}
	if _, err := dialWith(t, srv, "app", "two", "orders"); err != nil {
		t.Error(err)
	}
}

// Listeners differ only in the clients that they accept.
func TestListenersServeTheSame(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0/tls", "127.0.0.1:0/plain", "127.0.0.1:0"}}))
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(t, srv), DisableKeepAlives: true}}
	get := func(url string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := web.Do(request)
		if err != nil {
			return ""
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			return ""
		}
		return string(body)
	}
	for i, e := range srv.Endpoints() {
		secret, plain := get("https://"+e.Addr.String()+"/health"), get("http://"+e.Addr.String()+"/health")
		if (secret != "") != (i != 1) || (plain != "") != (i != 0) {
			t.Errorf("%s: over TLS %q, without %q", e.Mode, secret, plain)
		}
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Authority(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v; want errors.Is(err, fs.ErrNotExist)", err)
	}
	srv := start(t, load(t, dir, nil))
	text, err := Authority(dir)
	if err != nil || strings.Contains(string(text), "PRIVATE") {
		t.Fatalf(`%+v; want !strings.Contains(string(text), "PRIVATE")`, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	if !(pair{roots: roots}).handshake(t, srv) {
		t.Error("who trusts it does not trust the broker")
	}
	file := filepath.Join(dir, "tls", "ca.pem")
	key, err := os.ReadFile(filepath.Join(dir, "tls", "ca-with-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Authority(dir); err == nil {
		t.Error("a key is handed out")
	}
}
