package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log"
)

// tree returns every name below a directory, with mode and contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := fnv.New64a()
		if !d.IsDir() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum.Write(text)
		}
		fmt.Fprintf(&b, "%s %s %x\n", path, info.Mode(), sum.Sum64())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A supervisor retries repeatedly, and a chapter is kept for ever. So a start that fails before it
// serves adds no chapter.
func TestFailedStartWritesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "data")
	good := load(t, dir, nil)
	if err := start(t, good).Close(); err != nil {
		t.Fatal(err)
	}
	nonsense := filepath.Join(t.TempDir(), "pair.pem")
	if err := os.WriteFile(nonsense, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*settings.Settings){
		"an address is taken": func(s *settings.Settings) {
			s.Listening.Addresses = []string{"127.0.0.1:0", taken.Addr().String()}
		},
		"a certificate is nonsense": func(s *settings.Settings) {
			s.TLS.From, s.TLS.CertificateFile, s.TLS.KeyFile = settings.TLSFiles, nonsense, nonsense
		},
		"another number of partitions": func(s *settings.Settings) { s.Storage.Partitions = 7 },
	} {
		before := tree(t, dir)
		s := good
		change(&s)
		if srv, err := Start(t.Context(), s); err == nil {
			t.Errorf("%s: it starts, %v", name, srv.Close())
		}
		if after := tree(t, dir); after != before {
			t.Errorf("%s: before\n%safter\n%s", name, before, after)
		}
	}
	fresh := filepath.Join(t.TempDir(), "data")
	s := load(t, fresh, map[string][]string{"listen": {taken.Addr().String()}})
	if _, err := Start(t.Context(), s); err == nil {
		t.Error("it starts")
	}
	if _, err := os.Stat(filepath.Join(fresh, "namespace.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log was made, with its number of partitions: %v", err)
	}
}

// A client that waits for a port finds the certificate to trust: it is written before the first
// address accepts connections.
func TestCertificateBeforeThePorts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	srv := newServer(load(t, dir, nil))
	if err := srv.bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := Authority(dir); err != nil || len(srv.Addrs()) == 0 {
		t.Errorf("%v listened on, and the certificate: %v", srv.Addrs(), err)
	}
	if err := errors.Join(srv.open(t.Context()), srv.Close()); err != nil {
		t.Error(err)
	}
}

// An unreadable key of the development authority is found before the log is written.
func TestDamagedKeyWritesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := load(t, dir, nil)
	if err := start(t, s).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls", "server-with-key.pem"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if srv, err := Start(t.Context(), s); err == nil {
		t.Errorf("it starts, %v", srv.Close())
	}
	if after := tree(t, dir); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// F13: a second broker with the same settings fails because of the directory, as before, not
// because of the address.
func TestSecondBrokerOnTheSameAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := start(t, load(t, dir, nil))
	second := load(t, dir, map[string][]string{"listen": {srv.Addrs()[0].String()}})
	if _, err := Start(t.Context(), second); !errors.Is(err, log.ErrInUse) {
		t.Errorf("%+v; want errors.Is(err, log.ErrInUse)", err)
	}
}

// A connection that arrives before the broker is ready is served when it is ready, and closed if it
// never becomes ready.
func TestConnectionBeforeReady(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]bool{"served": true, "cut": false} {
		s := load(t, filepath.Join(t.TempDir(), "data"), map[string][]string{"tls": {"off"}})
		srv := newServer(s)
		if err := srv.bind(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", srv.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /health HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if ready {
			if err := errors.Join(srv.authorise(t.Context()), srv.open(t.Context()), srv.serve()); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), `"status":"healthy"`) {
				t.Errorf("%s: %q, %v; want strings.Contains(string(answer), `\"status\":\"healthy\"`)", name, answer, err)
			}
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			// also keeps the listener from being collected and thereby closed
			t.Errorf("%s: %v on %v", name, err, srv.Addrs())
		}
	}
}

// A start that is stopped while it reads the log is not a fault of a partition. Not parallel: it
// checks the log output.
func TestStopWhileReadingTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := load(t, dir, nil)
	if err := start(t, s).Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	said := captureLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv := newServer(s)
	if err := srv.open(ctx); !errors.Is(err, context.Canceled) || strings.Contains(said.String(), "refused") {
		t.Errorf("%v\n%s; want errors.Is(err, context.Canceled) && !strings.Contains(said.String(), \"refused\")", err, said)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}
