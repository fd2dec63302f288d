package listen

import (
	"bytes"
	"net"
)

// kind is the protocol that the first bytes of a connection announce.
type kind uint8

const (
	undecided  kind = iota // more bytes are needed
	amqpPlain              // an AMQP protocol header, of any layer except TLS
	amqpToTLS              // the AMQP header that asks for TLS (AMQP 5.2.1)
	tlsHello               // a TLS handshake record
	httpMethod             // the first letter of an HTTP method
	unknown                // none of these
)

func (k kind) String() string {
	return [...]string{"nothing", "AMQP", "AMQP asking for TLS", "TLS", "HTTP", "an unknown protocol"}[k]
}

const headerSize = 8 // of an AMQP protocol header, the longest prefix that is needed

var (
	amqpLetters = []byte("AMQP")
	tlsHeader   = []byte{'A', 'M', 'Q', 'P', 2, 1, 0, 0}
)

// classify returns the protocol that the bytes so far announce. With headerSize bytes the result is
// never undecided.
func classify(first []byte) kind {
	if len(first) == 0 {
		return undecided
	}
	switch c := first[0]; {
	// ContentType handshake of RFC 8446, 5.1; no version of AMQP or HTTP begins with it
	case c == 0x16:
		return tlsHello
	case bytes.HasPrefix(amqpLetters, first):
		return undecided
	case bytes.HasPrefix(first, amqpLetters):
		switch {
		case len(first) >= headerSize && bytes.Equal(first[:headerSize], tlsHeader):
			return amqpToTLS
		case len(first) < headerSize && bytes.HasPrefix(tlsHeader, first):
			return undecided
		}
		return amqpPlain
	case c >= 'A' && c <= 'Z': // methods are upper-case words
		return httpMethod
	}
	return unknown
}

// look reads until the kind is known, and never beyond a protocol header. With an error the kind is
// undecided.
func look(nc net.Conn) (first []byte, k kind, err error) {
	buf := make([]byte, headerSize)
	n := 0
	for err == nil {
		var more int
		more, err = nc.Read(buf[n:])
		n += more
		if k = classify(buf[:n]); k != undecided {
			return buf[:n], k, nil
		}
	}
	return nil, undecided, err
}
