package listen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// ask sends a request as text and returns status and body.
func ask(t *testing.T, addr, request string) (int, string) {
	t.Helper()
	nc := dial(t, addr)
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.30s: %v", request, err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// httpServer is one of the servers of TestHTTP.
type httpServer int

const (
	usual   httpServer = iota
	bare               // without a handler
	ill                // it reports that it is not healthy
	noticed            // it has notices
	unwell             // it has conditions
)

func gone(context.Context) error { return errors.New("disk is gone") }

func startHTTP(t *testing.T, which httpServer) (addr string) {
	t.Helper()
	o := [...]Options{
		usual:   {Hosts: []string{"Bus.example"}, Handler: http.HandlerFunc(countBody)},
		ill:     {Health: gone, Live: gone, Ready: gone},
		noticed: {Notices: []string{`a "clock"`, "more"}},
		unwell: {Health: func(context.Context) error { return errors.New("disk is full") }, Conditions: func() []Condition {
			since, partition := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), 2
			return []Condition{{State: "disk-low", Since: &since}, {State: "disk-hangs", Since: &since, Partition: &partition}, {State: "x", Partition: new(int), Cause: "operator"}}
		}},
	}[which]
	addr, _ = start(t, o, Any)
	return addr
}

func countBody(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}
	fmt.Fprintf(w, "%s with %d bytes", r.URL.Path, n)
}

func upgradeRequest(path, protocol string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + protocol + "\r\n"
}

func changeRequest(method, from string) string {
	return method + " /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" + from + "\r\n"
}

const (
	foreignPage = "Requests from pages of other origins are refused.\n"
	chunkedHead = "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)

var chunk16 = fmt.Sprintf("%x\r\n%s\r\n", 1<<14, strings.Repeat("x", 1<<14)) // 16 KiB

var httpExchanges = []struct {
	name    string
	server  httpServer
	request string
	status  int
	body    string
}{
	{"health", usual, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, `{"status":"healthy","message":"Service is healthy."}`},
	{"not healthy (MA-003)", ill, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, unhealthy},
	{"notices (reliability.md 1.4)", noticed, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200,
		`{"status":"healthy","message":"Service is healthy.","notices":["a \"clock\"","more"]}`},
	{"conditions", unwell, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, strings.TrimSuffix(unhealthy, "}") +
		`,"conditions":[{"state":"disk-low","since":"2030-01-02T03:04:05Z"},{"state":"disk-hangs","since":"2030-01-02T03:04:05Z","partition":2},{"state":"x","partition":0,"cause":"operator"}]}`},
	{"HEAD", usual, "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""},
	{"HTTP/1.0", usual, "GET /health HTTP/1.0\r\n\r\n", 200, healthy},
	{"health under any name", usual, "GET /health HTTP/1.1\r\nHost: servicebus\r\n\r\n", 200, healthy},
	{"health cannot be changed", usual, "POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "Method Not Allowed\n"},
	{"the handler", usual, "GET /Queue HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/Queue with 0 bytes"},
	{"a queue named health", usual, "GET /health?api-version=2021-05 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/health with 0 bytes"},
	{"live (MA-159)", usual, "GET /livez HTTP/1.1\r\nHost: servicebus\r\n\r\n", 200, `{"status":"live"}`},
	{"ready (MA-160)", usual, "HEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""},
	{"not live", ill, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, `{"status":"not live"}`},
	{"not ready", ill, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, `{"status":"not ready"}`},
	{"live and ready with a full disk (MA-162)", unwell, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, `{"status":"ready","conditions":` +
		`[{"state":"disk-low","since":"2030-01-02T03:04:05Z"},{"state":"disk-hangs","since":"2030-01-02T03:04:05Z","partition":2},{"state":"x","partition":0,"cause":"operator"}]}`},
	{"probes cannot be changed", usual, "PUT /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "Method Not Allowed\n"},
	{"queues named like probes (MA-161)", usual, "GET /livez?api-version=2021-05 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/livez with 0 bytes"},
	{"a change of one", usual, "PUT /readyz?api-version=2021-05 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 200, "/readyz with 0 bytes"},
	{"below live", usual, "GET /livez/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/livez/ with 0 bytes"},
	{"no handler", bare, "GET /Queue HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "404 page not found\n"},
	{"our name", usual, "GET /x HTTP/1.1\r\nHost: bus.Example:5672\r\n\r\n", 200, "/x with 0 bytes"},
	{"an address", usual, "GET /x HTTP/1.1\r\nHost: [::1]:5672\r\n\r\n", 200, "/x with 0 bytes"},
	{"another site's name (S24)", usual, "GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "Unknown host name; the setting hosts lists the names of this broker.\n"},
	{"a WebSocket under another site's name", usual, strings.Replace(upgradeRequest("/$servicebus/websocket", "Sec-WebSocket-Protocol: amqp\r\n"), "localhost", "evil.example", 1), 421, "Unknown host name; the setting hosts lists the names of this broker.\n"},
	{"a WebSocket of another site's page", usual, upgradeRequest("/$servicebus/websocket", "Sec-WebSocket-Protocol: amqp\r\nOrigin: http://evil.example\r\n"), 403, "request Origin \"evil.example\" is not authorized for Host \"localhost\"\n"},
	{"a WebSocket of a page without an origin", usual, upgradeRequest("/$servicebus/websocket", "Sec-WebSocket-Protocol: amqp\r\nOrigin: null\r\n"), 403, "request Origin \"null\" is not a valid URL with a host\n"},
	{"a change by another site's page (S23)", usual, changeRequest("PUT", "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n"), 403, foreignPage},
	{"a change by a page of the same site", usual, changeRequest("DELETE", "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost:1\r\n"), 403, foreignPage},
	{"a form of an old browser", usual, changeRequest("POST", "Origin: http://evil.example\r\n"), 403, foreignPage},
	{"a change by a page without an origin", usual, changeRequest("PUT", "Origin: null\r\n"), 403, foreignPage},
	{"a change by our own page", usual, changeRequest("PUT", "Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n"), 200, "/x with 0 bytes"},
	{"a change by our own page in an old browser", usual, changeRequest("PUT", "Origin: http://localhost\r\n"), 200, "/x with 0 bytes"},
	{"a look from elsewhere", usual, changeRequest("GET", "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n"), 200, "/x with 0 bytes"},
	{"two slashes (S21)", usual, "GET //x HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "//x with 0 bytes"},
	{"dots", usual, "GET /a/../x/. HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/a/../x/. with 0 bytes"},
	{"dots in disguise", usual, "GET /a/%2e%2E/x%2F HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/a/../x/ with 0 bytes"},
	{"no health", usual, "GET //health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "//health with 0 bytes"},
	{"below health", usual, "GET /health/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/health/ with 0 bytes"},
	{"health in capitals", usual, "GET /Health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/Health with 0 bytes"},
	{"what there is", usual, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "* with 0 bytes"},
	{"a tunnel", usual, "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 200, " with 0 bytes"},
	{"HTTP/1.0 without a host", usual, "GET /x HTTP/1.0\r\n\r\n", 200, "/x with 0 bytes"},
	{"a WebSocket of another protocol", usual, upgradeRequest("/$servicebus/websocket", "Sec-WebSocket-Protocol: mqtt\r\n"), 400, "The sub-protocol must be AMQPWSB10 or amqp.\n"},
	{"a WebSocket without protocol", usual, upgradeRequest("/$servicebus/websocket/", ""), 400, "The sub-protocol must be AMQPWSB10 or amqp.\n"},
	{"a WebSocket elsewhere", bare, upgradeRequest("/websocket", "Sec-WebSocket-Protocol: amqp\r\n"), 404, "404 page not found\n"},
	{"no WebSocket", usual, "GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\n\r\n", 426, "WebSocket protocol violation: Connection header \"\" does not contain Upgrade\n"},
	{"a header of nearly 16 KiB", usual, "GET /x HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 16<<10-100) + "\r\n\r\n", 200, "/x with 0 bytes"},
	{"a header of more (S27)", usual, "GET /x HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", 431, "431 Request Header Fields Too Large"},
	{"a body of 64 KiB", usual, chunkedHead + strings.Repeat(chunk16, 4) + "0\r\n\r\n", 200, "/x with 65536 bytes"},
	{"a body of more (S27)", usual, chunkedHead + strings.Repeat(chunk16, 4) + "1\r\nx\r\n0\r\n\r\n", 413, "/x with 65536 bytes"},
	{"no HTTP after all", usual, "GET nonsense\r\n\r\n", 400, "400 Bad Request"},
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var addresses [unwell + 1]string
	for which := range addresses {
		addresses[which] = startHTTP(t, httpServer(which))
	}
	for _, c := range httpExchanges {
		if status, body := ask(t, addresses[c.server], c.request); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
	}
}

// The handler knows how a request came: inside TLS or not, and under which host, even if the client
// named none.
func TestHandlerKnowsTheConnection(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	addr, _ := start(t, Options{TLS: serverTLS, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%t %s", r.TLS != nil && r.TLS.HandshakeComplete, r.Host)
	})}, Any)
	for _, c := range []struct {
		encrypted     bool
		request, want string
	}{
		{false, "GET / HTTP/1.1\r\nHost: LocalHost:1\r\n\r\n", "false LocalHost:1"},
		{true, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "true localhost"},
		{false, "GET / HTTP/1.0\r\n\r\n", "false " + addr},
		{true, "GET / HTTP/1.0\r\n\r\n", "true " + addr},
	} {
		nc := dial(t, addr)
		if c.encrypted {
			nc = tls.Client(nc, clientTLS)
		}
		if _, err := io.WriteString(nc, c.request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.request, body, err, c.want)
		}
	}
}

// A probe that times out shows nothing about the broker, so nothing is logged.
func TestHealthOfNobody(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		var said bytes.Buffer
		s := New(Options{Logger: slog.New(slog.NewTextHandler(&said, nil)), Health: func(ctx context.Context) error {
			return errors.Join(ctx.Err(), errors.New("disk is gone"))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		if gone {
			cancel()
		}
		answer := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/health", nil))
		if answer.Code != http.StatusServiceUnavailable || strings.Contains(said.String(), "probe failed") == gone {
			t.Errorf("gone %t: %d, logged %q", gone, answer.Code, &said)
		}
		cancel()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// WP-007.
func TestWebSocketPathsAndProtocols(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate()
	addr, e := start(t, Options{TLS: serverTLS}, Any)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS, DisableKeepAlives: true}}
	for _, c := range []struct {
		url     string
		offered []string
		chosen  string
		origin  string
	}{
		{"ws://" + addr + "/$servicebus/websocket", []string{"AMQPWSB10"}, "AMQPWSB10", ""},
		{"ws://" + addr + "/$servicebus/websocket/", []string{"amqp"}, "amqp", ""},
		{"ws://" + addr + "/$ServiceBus/WebSocket/", []string{"amqpwsb10"}, "amqpwsb10", "http://" + addr},
		{"ws://" + addr + "/%24servicebus/websocket", []string{"mqtt", "amqp", "AMQPWSB10"}, "AMQPWSB10", ""},
		{"wss://" + addr + "/$servicebus/websocket?sb-hc-action=x", []string{"amqp"}, "amqp", "https://" + addr},
	} {
		options := &websocket.DialOptions{Subprotocols: c.offered, HTTPClient: client, CompressionMode: websocket.CompressionContextTakeover}
		if c.origin != "" {
			options.HTTPHeader = http.Header{"Origin": {c.origin}}
		}
		ws, response, err := websocket.Dial(t.Context(), c.url, options)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if ws.Subprotocol() != c.chosen || response.Header.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("%s: %q, extensions %q", c.url, ws.Subprotocol(), response.Header.Get("Sec-WebSocket-Extensions"))
		}
		nc := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
		if got := exchange(nc, saslHeader); got != saslHeader {
			t.Errorf("%s: %q, want %q", c.url, got, saslHeader)
		}
		if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Errorf("%s: close: %v", c.url, err)
		}
	}
	if encrypted, raw := e.seen(); encrypted != 1 || raw != 0 {
		t.Errorf("%d with TLS, %d with a socket", encrypted, raw)
	}
}

// frame is a WebSocket frame as a client sends it, masked with zeros.
func frame(opcode byte, final bool, payload string) string {
	if final {
		opcode |= 0x80
	}
	head := []byte{opcode, 0x80 | byte(len(payload))}
	if len(payload) > 125 {
		head[1] = 0x80 | 126
		head = binary.BigEndian.AppendUint16(head, uint16(len(payload)))
	}
	return string(head) + "\x00\x00\x00\x00" + payload
}

// upgraded is a connection after the WebSocket handshake.
func upgraded(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc := dial(t, addr)
	_, err := io.WriteString(nc, "GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(nc)
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v; want response.StatusCode == http.StatusSwitchingProtocols", response, err)
	}
	return nc, r
}

// serverFrame reads a frame of the server.
func serverFrame(t *testing.T, r io.Reader) (opcode byte, payload string) {
	t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	size := int(head[1])
	if size == 126 {
		more := make([]byte, 2)
		if _, err := io.ReadFull(r, more); err != nil {
			t.Fatal(err)
		}
		size = int(binary.BigEndian.Uint16(more))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	return head[0] & 0x0f, string(body)
}

// WP-007: messages and their contents are independent streams: a piece of AMQP may begin in one
// message and end in the next, a message may be empty or fragmented, and pings may come between.
func TestWebSocketMessagesAreAStream(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, Options{}, Any)
	nc, r := upgraded(t, addr)
	long := strings.Repeat("y", 3000)
	_, err := io.WriteString(nc, frame(2, true, "AM")+frame(2, true, "")+frame(9, true, "ping")+frame(2, false, "QP\x03")+
		frame(9, true, "pong?")+frame(0, false, "\x01")+frame(0, true, "\x00\x00AMQP\x00\x01\x00\x00")+frame(2, true, long))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	pongs := 0
	want := saslHeader + "AMQP\x00\x01\x00\x00" + long
	for got.Len() < len(want) {
		switch opcode, payload := serverFrame(t, r); opcode {
		case 2:
			got.WriteString(payload)
		case 10:
			pongs++
		default:
			t.Fatalf("frame %d", opcode)
		}
	}
	if got.String() != want || pongs != 2 {
		t.Errorf("%d pongs, %.40q", pongs, got.String())
	}
	if _, err := io.WriteString(nc, frame(8, true, "\x03\xe8")); err != nil {
		t.Fatal(err)
	}
	if opcode, payload := serverFrame(t, r); opcode != 8 || payload != "\x03\xe8" {
		t.Errorf("the close is answered with frame %d, %q", opcode, payload)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection is open after its close")
	}
}

func TestWebSocketTextIsRefused(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, Options{}, Any)
	nc, r := upgraded(t, addr)
	if _, err := io.WriteString(nc, frame(1, true, saslHeader)); err != nil {
		t.Fatal(err)
	}
	if opcode, payload := serverFrame(t, r); opcode != 8 || payload != "\x03\xeb" { // 1003
		t.Errorf("frame %d, %q", opcode, payload)
	}
}

// A peer that does not answer the close is cut; a broken stream is not an end of the stream.
func TestWebSocketThatGoesSilent(t *testing.T) {
	t.Parallel()
	addr, e := start(t, Options{}, Any)
	_, r := upgraded(t, addr)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		for nc := range e.conns {
			nc.Close() // as the AMQP server does when a connection is over
		}
		n := len(e.conns)
		e.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not handed on")
		}
	}
	began := time.Now()
	if opcode, payload := serverFrame(t, r); opcode != 8 || payload != "\x03\xe8" {
		t.Errorf("frame %d, %q", opcode, payload)
	}
	if _, err := r.ReadByte(); err == nil || time.Since(began) > closeTime+5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// A peer that does not read is cut after the time that the deadline of the write gave it.
func TestWebSocketWriteDeadline(t *testing.T) {
	t.Parallel()
	result := make(chan error, 1)
	s := New(Options{Logger: quiet, AMQP: served(func(nc net.Conn) {
		defer nc.Close()
		if nc.LocalAddr() == nil || nc.RemoteAddr() == nil {
			t.Error("no addresses")
		}
		if err := nc.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := nc.Write(make([]byte, 64<<20))
		result <- err
	})})
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(context.Background(), l, Any) }()
	upgraded(t, l.Addr().String())
	select {
	case err := <-result:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the write hangs")
	}
}

type served func(net.Conn)

func (f served) ServeConn(nc net.Conn) { f(nc) }
