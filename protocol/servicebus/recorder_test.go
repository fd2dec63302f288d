package servicebus

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// recorder looks at every frame that the broker sends on a connection in the tests of this package
// (WP-210 to WP-213).
type recorder struct {
	t        testing.TB
	spoken   *spokenOf                  // the peer's frames about transactions; nil: none
	attached map[uint16]map[uint32]bool // handles, by the channels that have a session
	closed   bool
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, attached: make(map[uint16]map[uint32]bool)}
}

// frame takes one frame in full. Those of the login layer are not looked at.
func (r *recorder) frame(b []byte) {
	if b[5] != amqp.FrameTypeAMQP {
		return
	}
	channel, body := binary.BigEndian.Uint16(b[6:]), b[int(b[4])*4:]
	if r.closed {
		r.t.Errorf("frame after close: % x", b)
		return
	}
	if len(body) == 0 {
		return
	}
	code, fields, ok := checkComposite(r.t, body)
	if ok {
		r.scope(channel, code, fields)
		r.transactions(channel, code, fields)
	}
}

// transactions fails if the broker names a transaction other than in answers to frames of the peer
// that name one (WP-212).
func (r *recorder) transactions(channel uint16, code byte, fields amqp.List) {
	switch {
	case code == 0x12 && descriptorOf(fields[6]) == 0x30:
		if !r.spoken.attached(channel, fields[0]) {
			r.t.Errorf("the link %v has a coordinator, for which nobody asked", fields[0])
		}
	case code == 0x15 && descriptorOf(fields[4]) >= 0x33:
		first, last := fields[1].(uint32), fields[2].(uint32)
		for id := first; id-first <= last-first; id++ {
			if of := (spokenDelivery{channel, fields[0] == true, id, descriptorOf(fields[4])}); !r.spoken.of(of) {
				r.t.Errorf("a state of transactions that nobody asked for: %+v", of)
			}
		}
	}
}

// descriptorOf is the code of a composite that was decoded as a value, 0 of anything else.
func descriptorOf(v any) uint64 {
	d, _ := v.(amqp.Described)
	code, _ := d.Descriptor.(uint64)
	return code
}

// spokenOf holds a peer's use of transactions: its links to coordinators, and its deliveries that
// are part of one.
type spokenOf struct {
	mu         sync.Mutex
	links      map[spokenLink]string
	deliveries map[spokenDelivery]bool
	anything   bool // that it may have said is not known
}

type spokenLink struct {
	channel uint16
	handle  uint32
}

// spokenDelivery is a delivery of a session that the broker may answer with a state. received: the
// broker is the receiver.
type spokenDelivery struct {
	channel  uint16
	received bool
	id       uint32
	state    uint64
}

// say notes a frame of the peer.
func (s *spokenOf) say(channel uint16, p amqp.Performative) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links == nil {
		s.links, s.deliveries = map[spokenLink]string{}, map[spokenDelivery]bool{}
	}
	switch p := p.(type) {
	case *amqp.Attach:
		delete(s.links, spokenLink{channel, p.Handle})
		if _, ok := p.Target.(*amqp.Coordinator); ok {
			s.links[spokenLink{channel, p.Handle}] = p.Name
		}
	case *amqp.Transfer:
		if _, ok := s.links[spokenLink{channel, p.Handle}]; ok {
			s.deliveries[spokenDelivery{channel, true, p.DeliveryID.Value, 0x33}] = true
		}
		if _, ok := p.State.(amqp.TransactionalState); ok {
			s.deliveries[spokenDelivery{channel, true, p.DeliveryID.Value, 0x34}] = true
		}
	case *amqp.Disposition:
		if _, ok := p.State.(amqp.TransactionalState); ok {
			for id := p.First; id-p.First <= p.Last.Or(p.First)-p.First && id-p.First < 1000; id++ {
				s.deliveries[spokenDelivery{channel, false, id, 0x34}] = true
			}
		}
	}
}

// attached reports whether the peer has attached a coordinator under a name.
func (s *spokenOf) attached(channel uint16, name any) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, is := range s.links {
		if at.channel == channel && is == name {
			return true
		}
	}
	return s.anything
}

// of reports whether the peer has asked for a state of transactions for a delivery.
func (s *spokenOf) of(d spokenDelivery) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.anything || s.deliveries[d]
}

// scope wants no frame before the begin or after the end of its session, none of a link before its
// attach or after its detach, and none at all after close (WP-213).
func (r *recorder) scope(channel uint16, code byte, fields amqp.List) {
	links, begun := r.attached[channel]
	if (code == 0x11) == begun && code != 0x10 && code != 0x18 {
		r.t.Errorf("performative %#x on channel %d, which has a session: %v", code, channel, begun)
		return
	}
	handleAt := map[byte]int{0x12: 1, 0x13: 4, 0x14: 0, 0x16: 0} // attach, flow, transfer, detach
	if at, ofLink := handleAt[code]; ofLink && fields[at] != nil {
		handle, _ := fields[at].(uint32)
		if (code == 0x12) == links[handle] {
			r.t.Errorf("performative %#x on channel %d of handle %d, which is attached: %v", code, channel, handle, links[handle])
		}
		links[handle] = code != 0x16
	}
	switch code {
	case 0x11:
		r.attached[channel] = make(map[uint32]bool)
	case 0x17:
		delete(r.attached, channel)
	case 0x18:
		r.closed = true
	}
}

// composites are the parts of a frame (9.1, 9.2), a letter per field: s a string, y a symbol or an
// array of them, m a map with symbols for keys, d a composite.
var composites = map[byte]string{
	0x10: "ss---yyyym", 0x11: "-----yym", 0x12: "s----dd----yym", 0x13: "----------m", 0x14: "-------d---", 0x15: "----d-",
	// open, begin, attach, flow, transfer, disposition, detach, end, close
	0x16: "--d", 0x17: "d", 0x18: "d",
	0x28: "s-y--mymdyy", 0x29: "s-y--my", 0x1d: "ysm", // source, target, error
	0x30: "y", 0x33: "b", 0x34: "bd", // coordinator, declared, transactional-state
}

// outcomes may be cut after their last field, and be list0.
//
// received, accepted, rejected, released, modified
var outcomes = map[byte]string{0x23: "--", 0x24: "", 0x25: "d", 0x26: "", 0x27: "--m"}

// checkComposite requires a small descriptor, a list that is not list0 and has every field
// (WP-210), symbols where the type is symbol, and strings where it is string (WP-211). It checks
// the first value in b.
func checkComposite(t testing.TB, b []byte) (code byte, fields amqp.List, ok bool) {
	if len(b) < 4 || b[0] != 0 || b[1] != amqp.CodeSmallUlong {
		t.Errorf("% x where a composite must be", b[:min(len(b), 10)])
		return 0, nil, false
	}
	code = b[2]
	kinds, exact := composites[code]
	if !exact {
		if kinds, ok = outcomes[code]; !ok {
			t.Errorf("composite %#x", code)
			return code, nil, false
		}
	}
	b = b[3:]
	n := 0
	switch b[0] {
	case amqp.CodeList0:
		b = b[1:]
	case amqp.CodeList8:
		n, b = int(b[2]), b[3:]
	case amqp.CodeList32:
		n, b = int(binary.BigEndian.Uint32(b[5:])), b[9:]
	default:
		t.Errorf("composite %#x with % x for a list", code, b[0])
		return code, nil, false
	}
	if n > len(kinds) || exact && n < len(kinds) {
		t.Errorf("composite %#x has %d fields, not %d", code, n, len(kinds))
		return code, nil, false
	}
	for i := range n {
		v, rest, err := amqp.DecodeValue(b, amqp.DefaultLimits)
		if err != nil {
			t.Errorf("field %d of composite %#x: %v", i, code, err)
			return code, nil, false
		}
		if kinds[i] == 'd' && v != nil {
			checkComposite(t, b)
		} else if !isOf(kinds[i], v) {
			t.Errorf("field %d of composite %#x is %#v", i, code, v)
		}
		fields, b = append(fields, v), rest
	}
	return code, fields, true
}

// isOf reports whether a field is of the kind that a letter means.
func isOf(kind byte, v any) (ok bool) {
	if v == nil {
		return true
	}
	switch kind {
	case 's':
		_, ok = v.(string)
	case 'y':
		if a, many := v.(amqp.Array); many {
			return a.Elem == amqp.CodeSym8 || a.Elem == amqp.CodeSym32
		}
		_, ok = v.(amqp.Symbol)
	case 'b':
		_, ok = v.([]byte)
	case 'm':
		m, isMap := v.(amqp.Map)
		return isMap && keysAre[amqp.Symbol](m)
	default:
		return true
	}
	return ok
}

// keysAre reports whether all keys of a map are of one type.
func keysAre[T any](m amqp.Map) bool {
	for _, p := range m {
		if _, ok := p.Key.(T); !ok {
			return false
		}
	}
	return true
}

// Record is a client's connection on which every frame of the broker is looked at, for the tests
// with an SDK.
func Record(t testing.TB, nc net.Conn) net.Conn { return &recorded{Conn: nc, frames: newRecorder(t)} }

type recorded struct {
	net.Conn
	frames *recorder
	rest   []byte // of a frame that has not come in full
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
		if string(r.rest[:4]) != "AMQP" {
			r.frames.frame(r.rest[:size])
		}
		r.rest = r.rest[size:]
	}
	return n, err
}

// The recorder finds the faults that it checks for.
func TestRecorder(t *testing.T) {
	begin := amqp.AppendFrame(nil, 3, &amqp.Begin{RemoteChannel: amqp.Some(uint16(3))}, nil)
	attach := amqp.AppendFrame(nil, 3, &amqp.Attach{Name: "l", Handle: 5, Source: &amqp.Source{Address: "q"}, Target: &amqp.Target{}}, nil)
	flow := amqp.AppendFrame(nil, 3, &amqp.Flow{Handle: amqp.Some(uint32(5))}, nil)
	transfer := amqp.AppendFrame(nil, 3, &amqp.Transfer{Handle: 5}, []byte("x"))
	detach := amqp.AppendFrame(nil, 3, &amqp.Detach{Handle: 5, Error: &amqp.Error{Condition: "x", Description: "y"}}, nil)
	end, closing := amqp.AppendFrame(nil, 3, &amqp.End{}, nil), amqp.AppendFrame(nil, 0, &amqp.Close{}, nil)
	raw := func(body ...byte) []byte { return append([]byte{0, 0, 0, byte(8 + len(body)), 2, 0, 0, 3}, body...) }
	for name, test := range map[string]struct {
		frames [][]byte
		good   bool
	}{
		"all in order":           {[][]byte{begin, attach, flow, transfer, detach, attach, detach, end, begin, end, amqp.AppendEmptyFrame(nil), closing}, true},
		"before its begin":       {[][]byte{attach}, false},
		"two begins":             {[][]byte{begin, begin}, false},
		"before its attach":      {[][]byte{begin, flow}, false},
		"two attaches":           {[][]byte{begin, attach, attach}, false},
		"flow after detach":      {[][]byte{begin, attach, detach, flow}, false},
		"transfer after detach":  {[][]byte{begin, attach, detach, transfer}, false},
		"two detaches":           {[][]byte{begin, attach, detach, detach}, false},
		"flow after end":         {[][]byte{begin, attach, end, flow}, false},
		"two ends":               {[][]byte{begin, end, end}, false},
		"end after close":        {[][]byte{begin, closing, end}, false},
		"keep-alive after close": {[][]byte{closing, amqp.AppendEmptyFrame(nil)}, false},
		"wide descriptor":        {[][]byte{raw(0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x18, 0xC0, 2, 1, 0x40)}, false},
		"list0":                  {[][]byte{raw(0, 0x53, 0x18, 0x45)}, false},
		"a field is missing":     {[][]byte{begin, raw(0, 0x53, 0x16, 0xC0, 3, 2, 0x43, 0x41)}, false},
		"error of two fields":    {[][]byte{raw(0, 0x53, 0x18, 0xC0, 12, 1, 0, 0x53, 0x1d, 0xC0, 6, 2, 0xA3, 1, 'x', 0xA1, 0)}, false},
		"condition is a string":  {[][]byte{raw(0, 0x53, 0x18, 0xC0, 13, 1, 0, 0x53, 0x1d, 0xC0, 7, 3, 0xA1, 1, 'x', 0xA1, 0, 0x40)}, false},
		"an error that is good":  {[][]byte{raw(0, 0x53, 0x18, 0xC0, 13, 1, 0, 0x53, 0x1d, 0xC0, 7, 3, 0xA3, 1, 'x', 0xA1, 0, 0x40)}, true},
		"a state of its own":     {[][]byte{begin, amqp.AppendFrame(nil, 3, &amqp.Disposition{Role: true, Last: amqp.Some(uint32(0)), Settled: true, State: amqp.TransactionalState{TxnID: []byte{1}, Outcome: amqp.StateAccepted}}, nil)}, false},
		"a declared":             {[][]byte{begin, amqp.AppendFrame(nil, 3, &amqp.Disposition{Role: true, Last: amqp.Some(uint32(0)), Settled: true, State: amqp.Declared{TxnID: []byte{1}}}, nil)}, false},
		"error with a symbol":    {[][]byte{raw(0, 0x53, 0x18, 0xC0, 14, 1, 0, 0xA3, 1, 'e', 0xC0, 7, 3, 0xA3, 1, 'x', 0xA1, 0, 0x40)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := &tally{TB: t}
			r := newRecorder(found)
			for _, f := range test.frames {
				r.frame(f)
			}
			if (found.errors == 0) != test.good {
				t.Errorf("%d errors", found.errors)
			}
		})
	}
}

// tally counts errors instead of failing.
type tally struct {
	testing.TB
	errors int
}

func (t *tally) Errorf(string, ...any) { t.errors++ }

// mapOf decodes a section that is a map; other sections have no entries.
func mapOf(section []byte) amqp.Map {
	_, content, _ := amqp.SectionContent(section)
	v, _, _ := amqp.DecodeValue(content, amqp.DefaultLimits)
	m, _ := v.(amqp.Map)
	return m
}

// timestampOf is a time in the milliseconds of the wire, rounded down.
func timestampOf(t time.Time) amqp.Timestamp { return amqp.Timestamp(t.UnixMilli()) }

// deadLetterCondition is what clients reject a message with to dead-letter it (4.6).
const deadLetterCondition amqp.Symbol = "com.microsoft:dead-letter"
