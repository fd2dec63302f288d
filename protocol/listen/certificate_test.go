package listen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func generated(t *testing.T, folder string, now time.Time, hosts ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, file, err := Generated(folder, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s", file)
	}
	if bytes.Contains(text, []byte("KEY")) {
		t.Error("the file for clients holds a key")
	}
	return cert, roots
}

func TestGenerated(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "tls")
	start := time.Now()
	day := 24 * time.Hour
	trusted := func(cert tls.Certificate, roots *x509.CertPool, now time.Time, host string) bool {
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: host})
		return err == nil
	}
	first, roots := generated(t, folder, start, "localhost", "127.0.0.1", "::1")
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true, "bus.example": false} {
		if trusted(first, roots, start, host) != want {
			t.Errorf("%s: trusted is not %t", host, want)
		}
	}
	again, _ := generated(t, folder, start.Add(300*day), "localhost", "127.0.0.1", "::1")
	if !bytes.Equal(again.Certificate[0], first.Certificate[0]) {
		t.Error("a good certificate was replaced")
	}
	wider, widerRoots := generated(t, folder, start.Add(300*day), "localhost", "bus.example")
	if !trusted(wider, roots, start.Add(300*day), "bus.example") || !roots.Equal(widerRoots) {
		t.Error("another host needs another authority")
	}
	renewed, _ := generated(t, folder, start.Add(700*day), "localhost")
	if !trusted(renewed, roots, start.Add(700*day), "localhost") {
		t.Error("an old certificate was not renewed")
	}
	later := start.Add(authorityLife)
	last, lastRoots := generated(t, folder, later, "localhost")
	if !trusted(last, lastRoots, later, "localhost") || roots.Equal(lastRoots) {
		t.Error("an old authority was not renewed")
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 3 {
		t.Errorf("%v, %v; want len(files) == 3", files, err)
	}
}

// Reliability.md S32: a key that others may read is made private and stays in use.
func TestGeneratedKeysAreNarrowed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "tls")
	first, _ := generated(t, folder, time.Now(), "localhost")
	for _, mode := range []fs.FileMode{0o666, 0o640, 0o604} {
		for _, name := range []string{signerFile, serverFile} {
			if err := os.Chmod(filepath.Join(folder, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		again, _ := generated(t, folder, time.Now(), "localhost")
		if !bytes.Equal(again.Certificate[0], first.Certificate[0]) {
			t.Errorf("%04o: a good certificate was replaced", mode)
		}
		for _, name := range []string{signerFile, serverFile} {
			if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode() != 0o600 {
				t.Errorf("%04o: %s has mode %v, %v", mode, name, info.Mode(), err)
			}
		}
	}
}

func TestGeneratedCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{signerFile, serverFile} {
		folder := t.TempDir()
		generated(t, folder, time.Now(), "localhost")
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Generated(folder, []string{"localhost"}, time.Now()); err == nil || !strings.HasPrefix(err.Error(), file+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf(`%s: %v; want err != nil && strings.HasPrefix(err.Error(), file+": ") && !strings.Contains(err.Error(), "\n")`, name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Generated(filepath.Join(file, "tls"), nil, time.Now()); err == nil {
		t.Error("made below a file")
	}
}
