package listen

import (
	"bufio"
	"encoding/hex"
	"io"
	"net/http"
	"testing"
	"time"
)

// WP-007, WP-255: the WebSocket of .NET's SDK, as recorded: its request, a message for each frame
// of AMQP, and its answer to the close, which has a status that never belongs on the wire (1005).
// The AMQP in it is that of a bare connection.
func TestDotnetWebSocket(t *testing.T) {
	t.Parallel()
	addr, e := start(t, Options{}, Any)
	nc := dial(t, addr)
	_, err := io.WriteString(nc, "GET /$servicebus/websocket/ HTTP/1.1\r\nHost: 127.0.0.41:6672\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: xwVYag+lR0ehD7Y0eOGUeQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(nc)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Protocol") != "amqp" ||
		response.Header.Get("Sec-WebSocket-Accept") != "MoZLrnSeQuv4ILuAOyrhNmhbJFk=" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	for _, sent := range []string{
		"414d515003010000",
		"0000001902010000005341c00c03a3074d5353424342534040",
		"414d515000010000",
		"0000002502000000005311c0180840520170000013887000001388700003ffff4040c10100",
	} {
		b, err := hex.DecodeString(sent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, frame(2, true, string(b))); err != nil {
			t.Fatal(err)
		}
		if opcode, got := serverFrame(t, r); opcode != 2 || got != string(b) {
			t.Fatalf("frame %d, %x; want 2, %s", opcode, got, sent)
		}
	}
	e.mu.Lock()
	for nc := range e.conns {
		nc.Close() // as the AMQP server does after the AMQP close
	}
	e.mu.Unlock()
	if opcode, payload := serverFrame(t, r); opcode != 8 || payload != "\x03\xe8" {
		t.Errorf("frame %d, %q", opcode, payload)
	}
	began := time.Now()
	if _, err := io.WriteString(nc, frame(8, true, "\x03\xed")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); err == nil || time.Since(began) >= closeTime {
		t.Errorf("%v after %s; want the end at once", err, time.Since(began))
	}
}
