package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/protocol/servicebus"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load returns settings for a broker in a directory on a free port.
func load(t *testing.T, dir string, more map[string][]string) settings.Settings {
	t.Helper()
	flags := map[string][]string{"data": {dir}, "listen": {"127.0.0.1:0"}, "queue": {"orders"}}
	for name, values := range more {
		flags[name] = values
	}
	s, err := settings.Load(settings.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, s settings.Settings) *Server {
	t.Helper()
	srv, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func dial(t *testing.T, srv *Server) *client.Client {
	t.Helper()
	cs, err := client.ParseConnectionString(srv.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), cs, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the broker may have closed it first
	return c
}

func TestMessagesSurviveARestart(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	first := start(t, s)
	if r := first.Recovered(); !r.New || r.Messages != 0 {
		t.Errorf("a new directory: %+v", r)
	}
	sender, err := dial(t, first).NewSender(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), client.NewMessage([]byte("kept"))); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := start(t, s)
	if r := second.Recovered(); r.New || !r.Clean || r.Messages != 1 || r.Bytes == 0 || len(r.Refused) != 0 {
		t.Errorf("after a restart: %+v", r)
	}
	c := dial(t, second)
	peeked, err := c.Peek(t.Context(), "orders", 1, 10)
	if err != nil || len(peeked) != 1 || string(peeked[0].GetData()) != "kept" {
		t.Fatalf(`%v, %v; want len(peeked) == 1 && string(peeked[0].GetData()) == "kept"`, peeked, err)
	}
	r, err := c.NewReceiver(t.Context(), "orders", client.PeekLock)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Credit(1); err != nil {
		t.Fatal(err)
	}
	m, err := r.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ends, err := c.RenewLocks(t.Context(), "orders", client.LockToken(m))
	if err != nil || len(ends) != 1 || time.Until(ends[0]) < 30*time.Second {
		t.Errorf("renewed until %v, %v", ends, err)
	}
	if err := r.Complete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if peeked, err := c.Peek(t.Context(), "orders", 1, 10); err != nil || len(peeked) != 0 {
		t.Errorf("after completing: %v, %v", peeked, err)
	}
}

func TestUnknownEntityIsRefused(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, load(t, t.TempDir(), nil)))
	if _, err := c.NewSender(t.Context(), "nowhere"); client.Condition(err) != "amqp:not-found" {
		t.Errorf("got %v", err)
	}
}

func TestRightsOfAnAccessRule(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), nil)
	s.Access = []settings.AccessRule{{Name: "reader", Rights: []settings.Right{settings.Listen}, Primary: settings.NewSecret("first"), Secondary: settings.NewSecret("second")}}
	srv := start(t, s)
	if strings.Contains(srv.ConnectionString(), "first") {
		t.Error("the connection string shows a real key")
	}
	for _, key := range []string{"first", "second", "third"} {
		cs, err := client.ParseConnectionString(strings.Replace(srv.ConnectionString(), "***", key, 1))
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.Dial(t.Context(), cs, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.NewReceiver(t.Context(), "orders", client.PeekLock)
		if (err == nil) != (key != "third") {
			t.Errorf("receiving with the %s key: %v", key, err)
		}
		if _, err := c.NewSender(t.Context(), "orders"); err == nil {
			t.Errorf("sending with the %s key of a rule that may only listen", key)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Tests the way to the cloud: TLS, and an audience of that scheme. A TLS listener before the broker
// plays the cloud.
func TestClientOverTLS(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), nil))
	cloud := httptest.NewUnstartedServer(nil)
	cloud.StartTLS() // for its certificate, valid for example.com
	defer cloud.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: cloud.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var pumps sync.WaitGroup
	pumps.Go(func() {
		front, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		back, err := net.Dial("tcp", srv.Addrs()[0].String())
		if err != nil {
			t.Error(err)
			return
		}
		pumps.Go(func() { _, _ = io.Copy(front, back); front.Close() })
		_, _ = io.Copy(back, front)
		back.Close()
	})
	cs, err := client.ParseConnectionString("Endpoint=sb://" + l.Addr().String() + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE")
	if err != nil {
		t.Fatal(err)
	}
	roots := cloud.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c, err := client.Dial(t.Context(), cs, client.Options{TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := c.NewSender(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), client.NewMessage([]byte("x"))); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	pumps.Wait()
}

func TestHealth(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), map[string][]string{"listen": {"127.0.0.1:0", "127.0.0.1:0"}}))
	if len(srv.Addrs()) != 2 {
		t.Fatalf("%+v; want len(srv.Addrs()) == 2", srv.Addrs())
	}
	for _, addr := range srv.Addrs() {
		for path, want := range map[string]string{"/health": `200 {"status":"healthy","message":"Service is healthy."}`, "/livez": `200 {"status":"live"}`, "/readyz": `200 {"status":"ready"}`,
			"/livez?api-version=2021-05": "401 <Error><Code>401</Code><Detail>MissingToken:", "/x": "401 <Error><Code>401</Code><Detail>MissingToken:"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if got := response.Status[:4] + string(body); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q; want strings.HasPrefix(got, want)", path, got)
			}
		}
	}
}

func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := start(t, load(t, dir, nil))

	if _, err := Start(t.Context(), load(t, dir, nil)); !errors.Is(err, log.ErrInUse) {
		t.Errorf("a second broker on the directory: %v", err)
	}
	other := load(t, t.TempDir(), map[string][]string{"listen": {srv.Addrs()[0].String()}})
	_, err := Start(t.Context(), other)
	if listen := (*ListenError)(nil); !errors.As(err, &listen) || listen.Address != srv.Addrs()[0].String() {
		t.Errorf("an address in use: %v", err)
	}
	// the failed start left nothing: the directory is free
	other.Listening.Addresses = []string{"127.0.0.1:0"}
	if err := start(t, other).Close(); err != nil {
		t.Error(err)
	}
	other.Storage.Partitions = 7
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "cannot be changed to 7") {
		t.Errorf("another number of partitions: %v", err)
	}
}

// reliability.md 1.4, F15: broker time does not start before the program was built.
func TestRefusedClocks(t *testing.T) {
	t.Parallel()
	for at, good := range map[time.Time]bool{
		time.Unix(0, 0): false, earliest.Add(-time.Millisecond): false, earliest: true, time.Now(): true, time.Now().AddDate(10, 0, 0): true,
	} {
		err := checkClock(at)
		if problems := (settings.Problems)(nil); good != (err == nil) || !good && (!errors.As(err, &problems) || problems[0].Where != "clock") {
			t.Errorf(`%v: %v; want good == (err == nil) && (good || errors.As(err, &problems) && problems[0].Where == "clock")`, at, err)
		}
	}
}

// WP-015: the protocol gets the connection limits of the settings.
func TestLimitsOfTheSettings(t *testing.T) {
	t.Parallel()
	s := load(t, t.TempDir(), map[string][]string{
		"limits.connections": {"11"}, "limits.unauthenticated": {"13"}, "limits.locked": {"16"}, "limits.buffered-in": {"180000"},
		"limits.buffered-out": {"190KiB"}, "limits.idle-timeout": {"20s"}, "limits.link-idle": {"21s"}, "limits.no-links": {"22s"},
		"limits.transactions": {"23"}, "limits.transaction-bytes": {"240000"}, "limits.all-transaction-bytes": {"250000"}, "limits.all-transactions": {"26"},
	})
	want := servicebus.Limits{
		Connections: 11, Unauthenticated: 13, Locked: 16,
		BufferedIn: 180000, BufferedOut: 190 << 10, IdleTimeout: 20 * time.Second, LinkIdle: 21 * time.Second, NoLinks: 22 * time.Second,
		Transactions: 23, TransactionBytes: 240000, AllStagedBytes: 250000, AllTransactions: 26,
	}
	if got := (&Server{settings: s}).options().Limits; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	t.Parallel()
	srv := start(t, load(t, t.TempDir(), nil))
	c := dial(t, srv)
	silent, err := net.Dial("tcp", srv.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Error("the connection is still open")
	}
}
