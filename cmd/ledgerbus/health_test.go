package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// Tests the result of a health check: the answer, and 0 or 1.
func TestHealthCommand(t *testing.T) {
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(map[string]string{"/health": "fine\x1b[31m", "/livez": "live", "/readyz": "ready"}[r.URL.Path]))
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
		{"ill", []string{"--address", address(ill.URL)}, 1, "ill\n", "is not healthy: it answered with status 503"},
		{"live", []string{"--live", "--address", address(well.URL)}, 0, "live\n", ""},
		{"ready", []string{"--ready", "--address", address(secure.URL) + "/tls"}, 0, "ready\n", ""},
		{"not live", []string{"--live", "--address", address(ill.URL)}, 1, "ill\n", "is not live: it answered with status 503"},
		{"not ready", []string{"--ready", "--address", address(ill.URL)}, 1, "ill\n", "is not ready: it answered with status 503"},
		{"both", []string{"--ready", "--live"}, 2, "", "--live and --ready cannot be used together"},
		{"here and there", []string{"--address", address(ill.URL), "--context", "x"}, 2, "", "--address and --config cannot be used with --connection-string or --context"},
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

// TestHealthFollowsContext: health asks the same broker as all other commands: that of the flags,
// of the environment, or of the context in use. In a broker's container, where only its settings
// are known, it asks that broker.
func TestHealthFollowsContext(t *testing.T) {
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) }))
		t.Cleanup(s.Close)
		return s.URL[strings.LastIndex(s.URL, "/")+1:]
	}
	connection := func(address string) string {
		return "Endpoint=sb://" + address + ";SharedAccessKeyName=k;SharedAccessKey=s;UseDevelopmentEmulator=true"
	}
	file, none := filepath.Join(t.TempDir(), "contexts.yaml"), filepath.Join(t.TempDir(), "none.yaml")
	contexts := "LEDGERBUS_CONTEXTS=" + file
	for _, name := range []string{"used", "other"} {
		r := executeWith(t, []string{contexts}, connection(serve(name)), "context", "set", name)
		if r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	if r := executeWith(t, []string{contexts}, "", "context", "use", "used"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	inEnv, listens := "LEDGERBUS_CONNECTION_STRING="+connection(serve("environment")), "LEDGERBUS_LISTEN="+serve("settings")
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"the context in use", []string{contexts}, nil, "used"},
		{"a context by name", []string{contexts}, []string{"--context", "other"}, "other"},
		{"a context of the environment", []string{contexts, "LEDGERBUS_CONTEXT=other", listens}, nil, "other"},
		{"a connection string", []string{contexts, inEnv}, []string{"-c", connection(serve("flag"))}, "flag"},
		{"that of the environment", []string{contexts, inEnv, listens}, nil, "environment"},
		{"settings of a broker", []string{contexts, listens}, nil, "settings"},
		{"settings and no context", []string{"LEDGERBUS_CONTEXTS=" + none, listens}, nil, "settings"},
		{"an address", []string{contexts, inEnv, listens}, []string{"--address", serve("address")}, "address"},
	} {
		if r := executeWith(t, c.env, "", append([]string{"health"}, c.args...)...); r.code != 0 || r.out != c.want+"\n" {
			t.Errorf("%s: exit code %d, %q, %q; want %q", c.name, r.code, r.out, r.errOut, c.want)
		}
	}
	if r := executeWith(t, []string{"LEDGERBUS_CONTEXTS=" + none}, "", "health", "--context", "gone"); r.code != 2 || !strings.Contains(r.errOut, `unknown context "gone"`) {
		t.Errorf("%+v", r)
	}
}
