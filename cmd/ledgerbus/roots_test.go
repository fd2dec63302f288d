package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// On a machine without root certificates, such as the container image, the binary uses its built-in
// ones. So an issuer of identity tokens and a cloud namespace are still reachable over TLS.
// Commands that only read a directory do not load them.
func TestRootsOfOurOwn(t *testing.T) {
	t.Parallel()
	const child = "LEDGERBUS_TEST_ROOTS"
	none := filepath.Join(os.DevNull, "none")
	const cloud = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b"
	commands := map[string]struct {
		args  []string
		loads bool
	}{
		"serve":  {[]string{"serve", "--data", none}, true},
		"peek":   {[]string{"peek", "orders", "-c", cloud}, true},
		"list":   {[]string{"queue", "list", "-c", cloud}, true},
		"story":  {[]string{"story", "orders#1", "--data", none}, false},
		"verify": {[]string{"log", "verify", none}, false},
	}
	if name := os.Getenv(child); name != "" {
		c := commands[name]
		if code := run(t.Context(), append([]string{"ledgerbus"}, c.args...)); code == exitWell {
			t.Fatalf("exit code %d; want that it found nothing there", code)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			t.Fatal(err)
		}
		if loaded := !pool.Equal(x509.NewCertPool()); loaded != c.loads {
			t.Fatalf("root certificates are loaded: %t, want %t", loaded, c.loads)
		}
		return
	}
	for name := range commands {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"="+name, "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
