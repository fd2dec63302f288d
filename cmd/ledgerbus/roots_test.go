package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v2"
)

// Where a machine has no root certificates, as in the container image, the binary's own are used: an issuer of identity tokens and a
// namespace in the cloud are reached over TLS all the same.
func TestRootsOfOurOwn(t *testing.T) {
	t.Parallel()
	const child = "LEDGERBUS_TEST_ROOTS"
	if os.Getenv(child) != "" {
		if code := run(t.Context(), []string{"ledgerbus", "serve", "--config", filepath.Join(t.TempDir(), "none.json")}); code != exitUsage {
			t.Fatalf("exit code %d", code) // having looked for its settings, it has done what comes before
		}
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Fatalf("no root certificates: %v", err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// No command is forgotten: whatever reaches others over TLS has loaded the roots before it acts.
func TestAllCommandsTrustRoots(t *testing.T) {
	t.Parallel()
	leaves := 0
	var walk func([]*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			if walk(c.Subcommands); len(c.Subcommands) > 0 {
				continue
			}
			if leaves++; c.Before == nil {
				t.Errorf("%s does not load them", c.Name)
			}
		}
	}
	walk(app().Commands)
	if leaves < 40 {
		t.Errorf("%d commands", leaves)
	}
}
