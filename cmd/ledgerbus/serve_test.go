package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
)

// A start prints the addresses of its listeners, and warns only where others can reach them.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	const warning = "addresses other than loopback"
	lifted := map[string][]string{"insecure-no-tls": {"true"}, "insecure-no-auth": {"true"}, "i-accept-the-risk": {"true"}}
	for _, c := range []struct {
		listen string
		host   string
		warned int
	}{
		{"127.0.0.1:0", "localhost", 0},
		{"127.0.0.9:0", "127.0.0.9", 0},
		{"0.0.0.0:0", "localhost", 2},
		{"0.0.0.0:0/tls", "localhost", 1},
	} {
		t.Run(c.listen, func(t *testing.T) {
			t.Parallel()
			flags := map[string][]string{"data": {filepath.Join(t.TempDir(), "data")}, "listen": {c.listen}}
			for name, value := range lifted {
				flags[name] = value
			}
			s, err := settings.Load(settings.Sources{Flags: flags})
			if err != nil {
				t.Fatal(err)
			}
			srv, err := broker.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := srv.Close(); err != nil {
					t.Error(err)
				}
			}()
			var out strings.Builder
			announce(&out, srv)
			if !strings.Contains(out.String(), "Endpoint=sb://"+c.host+":") || strings.Count(out.String(), warning) != c.warned {
				t.Errorf("%s\nwant the host %s, and %d times %q", &out, c.host, c.warned, warning)
			}
		})
	}
}

// A start logs what to write instead of an old spelling, and the value of a former setting.
func TestLogNotes(t *testing.T) {
	var out strings.Builder
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	logNotes([]settings.Note{{Where: "c.yaml:3", Old: "log-level", New: "log: {level: ...}"}, {Where: "--limits-links", Old: "limits.links", New: "20000", Fixed: true}})
	for _, want := range []string{`level=WARN msg="setting has an old spelling" old=log-level new="log: {level: ...}" place=c.yaml:3`,
		`level=WARN msg="setting has no effect" setting=limits.links place=--limits-links fixed_value=20000`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", &out, want)
		}
	}
}
