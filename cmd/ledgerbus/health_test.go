package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What a health check sees: the answer, and 0 or 1.
func TestHealthCommand(t *testing.T) {
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write([]byte("fine\x1b[31m"))
	}))
	defer well.Close()
	secure := httptest.NewTLSServer(well.Config.Handler)
	defer secure.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("ill"))
	}))
	defer ill.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // it accepts and says nothing
	address := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		out    string
		errOut string
	}{
		{"well", []string{"--address", address(well.URL)}, 0, "fine\\u001b[31m\n", ""},
		{"over TLS", []string{"--address", address(secure.URL) + "/tls"}, 0, "fine\\u001b[31m\n", ""},
		{"ill", []string{"--address", address(ill.URL)}, 1, "ill\n", "is not healthy: it answers with status 503"},
		{"silent", []string{"--address", silent.Addr().String(), "--timeout", "10ms"}, 1, "", "does not answer: context deadline exceeded"},
		{"no port", []string{"--address", "127.0.0.1"}, 2, "", `"127.0.0.1": must be HOST:PORT`},
		{"an argument", []string{"127.0.0.1:1"}, 2, "", "health takes no argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, "", "", append([]string{"health"}, c.args...)...)
			if r.code != c.code || r.out != c.out || !strings.Contains(r.errOut, c.errOut) {
				t.Errorf("exit code %d, %q, %q; want %d, %q, %q", r.code, r.out, r.errOut, c.code, c.out, c.errOut)
			}
		})
	}
}
