package servicebus

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// checkFrame is the frame recorder of WP-210, WP-211 and WP-212: it looks at the performative that begins the body of every
// frame the broker sends in the tests of this package.
func checkFrame(t testing.TB, body []byte) {
	checkFields(t, body)
	v, _, err := amqp.DecodeValue(body, amqp.DefaultLimits)
	if err != nil {
		t.Errorf("%v in % x", err, body)
		return
	}
	checkTypes(t, v)
}

// checkFields wants every field of a performative, in a list that is not list0, behind a small descriptor (WP-210).
func checkFields(t testing.TB, body []byte) {
	counts := map[byte]int{0x10: 10, 0x11: 8, 0x12: 14, 0x13: 11, 0x14: 11, 0x15: 6, 0x16: 3, 0x17: 1, 0x18: 1}
	if body[0] != 0 || body[1] != amqp.CodeSmallUlong {
		t.Errorf("descriptor % x", body[:3])
		return
	}
	n := -1
	switch body[3] {
	case amqp.CodeList8:
		n = int(body[5])
	case amqp.CodeList32:
		n = int(binary.BigEndian.Uint32(body[8:]))
	}
	if want := counts[body[2]]; n != want {
		t.Errorf("performative %#x has %d fields, not %d", body[2], n, want)
	}
}

// types are the fields of composites that hold text (9.2): s a string, y a symbol or an array of them, m a map with symbols
// for keys, d a composite.
var types = map[uint64]string{
	0x10: "ss---yyyym", 0x11: "-----yym", 0x12: "s----dd----yym", 0x13: "----------m", 0x14: "-------d---", 0x15: "----d-",
	0x16: "--d", 0x17: "d", 0x18: "d", // open, begin, attach, flow, transfer, disposition, detach, end, close
	0x28: "s-y--mymdyy", 0x29: "s-y--my", 0x1d: "ysm", // source, target, error
	0x23: "--", 0x24: "", 0x25: "d", 0x26: "", 0x27: "--m", // received, accepted, rejected, released, modified
}

// checkTypes wants symbols where there must be symbols, strings where there must be strings (WP-211), and nothing about
// transactions, of which no peer speaks here (WP-212).
func checkTypes(t testing.TB, v any) {
	d, ok := v.(amqp.Described)
	if !ok {
		t.Errorf("%T where a composite must be", v)
		return
	}
	code, _ := d.Descriptor.(uint64)
	if code >= 0x30 && code <= 0x34 {
		t.Errorf("a link that knows no transactions is sent composite %#x", code)
		return
	}
	kinds, known := types[code]
	fields, _ := d.Value.(amqp.List)
	if !known || len(fields) > len(kinds) {
		t.Errorf("composite %#x with %d fields", d.Descriptor, len(fields))
		return
	}
	for i, f := range fields {
		if f == nil {
			continue
		}
		good := true
		switch kinds[i] {
		case 's':
			_, good = f.(string)
		case 'y':
			if a, many := f.(amqp.Array); many {
				good = a.Elem == amqp.CodeSym8 || a.Elem == amqp.CodeSym32
			} else {
				_, good = f.(amqp.Symbol)
			}
		case 'm':
			m, isMap := f.(amqp.Map)
			good = isMap && keysAre[amqp.Symbol](m)
		case 'd':
			checkTypes(t, f)
		}
		if !good {
			t.Errorf("field %d of composite %#x is %#v", i, code, f)
		}
	}
}

// keysAre tells whether all keys of a map are of one type.
func keysAre[T any](m amqp.Map) bool {
	for _, p := range m {
		if _, ok := p.Key.(T); !ok {
			return false
		}
	}
	return true
}

// Record is a client's connection on which every frame of the broker is looked at, for the tests with an SDK.
func Record(t testing.TB, nc net.Conn) net.Conn { return &recorded{Conn: nc, t: t} }

type recorded struct {
	net.Conn
	t    testing.TB
	rest []byte // of a frame that has not come in full
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.rest = append(r.rest, p[:n]...)
	for len(r.rest) >= 8 {
		size := 8 // of a protocol header
		if string(r.rest[:4]) != "AMQP" {
			size = int(binary.BigEndian.Uint32(r.rest))
		}
		if len(r.rest) < size {
			break
		}
		if size > 8 && r.rest[5] == 0 {
			checkFrame(r.t, r.rest[8:size])
		}
		r.rest = r.rest[size:]
	}
	return n, err
}
