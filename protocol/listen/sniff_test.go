package listen

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var firstBytes = []struct {
	name  string
	bytes string
	want  kind
	need  int // bytes after which it is clear
}{
	{"AMQP", "AMQP\x00\x01\x00\x00", amqpPlain, 5},
	{"SASL", "AMQP\x03\x01\x00\x00", amqpPlain, 5},
	{"TLS of AMQP", "AMQP\x02\x01\x00\x00", amqpToTLS, 8},
	{"TLS of AMQP, another version", "AMQP\x02\x01\x00\x01", amqpPlain, 8},
	{"AMQP 0-9-1", "AMQP\x00\x00\x09\x01", amqpPlain, 5},
	{"ClientHello", "\x16\x03\x01\x02\x00\x01\x00\x01", tlsHello, 1},
	{"ClientHello of the future", "\x16\x07\x07\x00\x00\x00\x00\x00", tlsHello, 1},
	{"GET", "GET /hea", httpMethod, 1},
	{"POST", "POST / H", httpMethod, 1},
	{"a method like AMQP", "AMQ / HT", httpMethod, 4},
	{"ACL", "ACL / HT", httpMethod, 2},
	{"HTTP/2", "PRI * HT", httpMethod, 1},
	{"zeros", strings.Repeat("\x00", 8), unknown, 1},
	{"SSLv2", "\x80\x2e\x01\x00\x02\x00\x15\x00", unknown, 1},
	{"lower case", "get / ht", unknown, 1},
	{"line", "\r\n\r\nGET ", unknown, 1},
}

func TestFirstBytes(t *testing.T) {
	t.Parallel()
	for _, c := range firstBytes {
		for n := range len(c.bytes) + 1 {
			want := c.want
			if n < c.need {
				want = undecided
			}
			if got := classify([]byte(c.bytes[:n])); got != want {
				t.Errorf("%s: after %d bytes: %s, want %s", c.name, n, got, want)
			}
		}
	}
}

// readConn is a connection to read from.
type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// A peer that sends its bytes one by one means the same, and nothing it sent is lost.
func FuzzFirstBytes(f *testing.F) {
	for _, c := range firstBytes {
		f.Add([]byte(c.bytes))
		f.Add([]byte(c.bytes + "and more"))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole, k, err := look(readConn{Reader: bytes.NewReader(sent)})
		slow := readConn{Reader: iotest.OneByteReader(bytes.NewReader(sent))}
		first, slowKind, slowErr := look(slow)
		if k != slowKind || (err == nil) != (slowErr == nil) || (err == nil) != (k != undecided) || len(whole) > headerSize {
			t.Fatalf("%s, %v at once; %s, %v byte by byte", k, err, slowKind, slowErr)
		}
		if err != nil {
			return
		}
		if len(sent) >= headerSize && classify(sent[:headerSize]) != k {
			t.Fatalf("%s, but %s when all is known", k, classify(sent[:headerSize]))
		}
		rest, err := io.ReadAll(&plainConn{Conn: slow, unread: first})
		if err != nil || !bytes.Equal(rest, sent) {
			t.Fatalf("%q arrives as %q, %v", sent, rest, err)
		}
	})
}

// A slow reader is kept, one that does not read is not: the deadline is for each piece.
func TestPatience(t *testing.T) {
	t.Parallel()
	var p patience
	if p.each() != 0 {
		t.Error("patience without a deadline")
	}
	p.until(time.Now().Add(time.Minute))
	if d := p.each(); d > time.Minute || d < 50*time.Second {
		t.Errorf("%+v; want d <= time.Minute && d >= 50*time.Second", d)
	}
	p.until(time.Now().Add(-time.Minute))
	if p.each() != 1 {
		t.Error("a deadline that has passed is none")
	}
	p.until(time.Time{})
	if p.each() != 0 {
		t.Error("the deadline was not taken back")
	}
	var pieces []int
	n, err := inPieces(make([]byte, 2*pieceSize+1), func(b []byte) error {
		pieces = append(pieces, len(b))
		if len(b) == 1 {
			return io.ErrClosedPipe
		}
		return nil
	})
	if n != 2*pieceSize || err == nil || len(pieces) != 3 {
		t.Errorf("%+v %+v %+v; want n == 2*pieceSize && err != nil && len(pieces) == 3", n, err, pieces)
	}
}
