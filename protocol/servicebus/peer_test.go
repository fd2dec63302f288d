package servicebus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

// peerConn is a client made of frames.
type peerConn struct {
	*bench
	net      net.Conn
	in       chan received
	early    []received // received, and to be read before those in in
	header   bool
	sent     uint32        // by put
	idle     time.Duration // the idle-time-out that the broker advertised
	most     atomic.Uint32 // bytes of a frame, as the open said; 0: any
	spoken   spokenOf
	gathers  bool // written bytes wait in gathered
	gathered []byte
}

// gone reports that the connection or a link of it was ended by the broker.
func (p *peerConn) gone() bool {
	for {
		select {
		case r := <-p.in:
			if _, ok := r.p.(*amqp.Detach); ok || r.err != nil {
				p.net.Close()
				return true
			}
		default:
			return false
		}
	}
}

type received struct {
	channel uint16
	p       amqp.Performative
	payload []byte
	raw     []byte
	header  []byte
	err     error
}

func (b *bench) dial() *peerConn { return b.dialAs(func(nc net.Conn) net.Conn { return nc }) }

// dialAs is dial with the broker's end of the connection.
func (b *bench) dialAs(wrap func(net.Conn) net.Conn) *peerConn {
	client, server := net.Pipe()
	go b.server.ServeConn(wrap(server))
	p := &peerConn{bench: b, net: client, in: make(chan received, 10000)}
	go p.read()
	b.clients = append(b.clients, client)
	return p
}

func (p *peerConn) read() {
	defer close(p.in)
	frames := newRecorder(p)
	frames.spoken = &p.spoken
	for {
		var head [8]byte
		if _, err := io.ReadFull(p.net, head[:]); err != nil {
			p.in <- received{err: err}
			return
		}
		if string(head[:4]) == "AMQP" {
			p.in <- received{header: head[:]}
			continue
		}
		size := binary.BigEndian.Uint32(head[:])
		body := make([]byte, size-8)
		if _, err := io.ReadFull(p.net, body); err != nil {
			p.in <- received{err: err}
			return
		}
		r := received{channel: binary.BigEndian.Uint16(head[6:]), raw: append(head[:], body...)}
		frames.frame(r.raw)
		if most := p.most.Load(); most > 0 && size > most {
			p.Errorf("a frame of %d bytes for a peer that takes %d: %.100q", size, most, r.raw)
		}
		if len(body) > 0 {
			r.p, r.payload, r.err = amqp.DecodePerformative(body, amqp.DefaultLimits)
		}
		p.in <- r
	}
}

func (p *peerConn) raw(b []byte) { p.net.Write(b) }

func (p *peerConn) write(channel uint16, f amqp.Performative, payload []byte) {
	if o, ok := f.(*amqp.Open); ok {
		p.most.Store(o.MaxFrameSize.Value)
	}
	p.spoken.say(channel, f)
	if p.gathers {
		p.gathered = amqp.AppendFrame(p.gathered, channel, f, payload)
		return
	}
	p.net.Write(amqp.AppendFrame(nil, channel, f, payload))
}

// next is the next frame, keep-alives left out.
func (p *peerConn) next() received {
	p.Helper()
	if len(p.early) > 0 {
		r := p.early[0]
		p.early = p.early[1:]
		return r
	}
	for {
		select {
		case r, ok := <-p.in:
			if !ok {
				return received{err: io.EOF}
			}
			if r.p == nil && r.header == nil && r.err == nil {
				continue
			}
			return r
		case <-time.After(time.Hour):
			p.Fatal("nothing came for an hour")
		}
	}
}

// quiet fails when a frame other than a keep-alive comes within d.
func (p *peerConn) quiet(d time.Duration) {
	p.Helper()
	if len(p.early) > 0 {
		p.Fatalf("unexpected: %+v", p.early)
	}
	end := time.After(d)
	for {
		select {
		case r := <-p.in:
			if r.p != nil || r.err != nil {
				p.Fatalf("unexpected: %T %+v %v", r.p, r.p, r.err)
			}
		case <-end:
			return
		}
	}
}

// bringForward has the first frame of type T read next, and those before it after it, for frames
// that may come in either order.
func bringForward[T amqp.Performative](p *peerConn) {
	p.Helper()
	var others []received
	for {
		r := p.next()
		if _, ok := r.p.(T); ok {
			p.early = append(append([]received{r}, others...), p.early...)
			return
		}
		if others = append(others, r); r.err != nil {
			p.Fatalf("%+v; want r.err == nil", others)
		}
	}
}

// expect returns the next frame, which must be of type T; it skips flows before it.
func expect[T amqp.Performative](p *peerConn) T {
	p.Helper()
	for {
		r := p.next()
		if f, ok := r.p.(T); ok {
			return f
		}
		if _, ok := r.p.(*amqp.Flow); ok {
			continue
		}
		var want T
		p.Fatalf("%T instead of %T: %+v %v", r.p, want, r.p, r.err)
	}
}

func expectFrame[T amqp.Performative](p *peerConn) (T, []byte) {
	p.Helper()
	for {
		r := p.next()
		if f, ok := r.p.(T); ok {
			return f, r.payload
		}
		if _, ok := r.p.(*amqp.Flow); ok {
			continue
		}
		var want T
		p.Fatalf("%T instead of %T: %+v %v", r.p, want, r.p, r.err)
	}
}

// closed waits for the end of the stream, whatever comes before.
func (p *peerConn) closed() {
	p.Helper()
	for {
		if r := p.next(); errors.Is(r.err, io.EOF) || errors.Is(r.err, io.ErrUnexpectedEOF) {
			return
		}
	}
}

// open brings the connection to an open session on channel 0 without a token.
func (p *peerConn) open() *peerConn {
	p.Helper()
	p.raw(amqp.ProtocolAMQP[:])
	if r := p.next(); string(r.header) != string(amqp.ProtocolAMQP[:]) {
		p.Fatalf("header %v", r)
	}
	p.write(0, &amqp.Open{ContainerID: "test", MaxFrameSize: amqp.Some(uint32(65536))}, nil)
	p.idle = time.Duration(expect[*amqp.Open](p).IdleTimeout.Value) * time.Millisecond
	p.begin(0)
	return p
}

func (p *peerConn) begin(channel uint16) *amqp.Begin {
	p.Helper()
	p.write(channel, &amqp.Begin{NextOutgoingID: 0, IncomingWindow: 5000, OutgoingWindow: 5000, HandleMax: amqp.Some(uint32(255))}, nil)
	return expect[*amqp.Begin](p)
}

// login is open with SASL PLAIN.
func (b *bench) login(user, password string) *peerConn {
	b.Helper()
	return b.dial().logIn(user, password)
}

// logIn is login on a connection that is there.
func (p *peerConn) logIn(user, password string) *peerConn {
	p.Helper()
	p.authenticate(user, password)
	return p.open()
}

// authenticate logs in with SASL PLAIN, and opens nothing yet.
func (p *peerConn) authenticate(user, password string) {
	p.Helper()
	p.raw(amqp.ProtocolSASL[:])
	p.next()
	expect[*amqp.SASLMechanisms](p)
	p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00" + user + "\x00" + password)}))
	if o := expect[*amqp.SASLOutcome](p); o.Code != amqp.SASLOK {
		p.Fatalf("login: %+v", o)
	}
}

func (b *bench) root() *peerConn { b.Helper(); return b.login("root", "root-key") }

// attachSender attaches handle on channel 0 and waits for credit.
func (p *peerConn) attachSender(handle uint32, address string) *amqp.Attach {
	p.Helper()
	p.write(0, &amqp.Attach{Name: fmt.Sprint("s", handle), Handle: handle, Role: amqp.RoleSender,
		Source: &amqp.Source{}, Target: &amqp.Target{Address: address}}, nil)
	a := expect[*amqp.Attach](p)
	if a.Target != nil {
		expect[*amqp.Flow](p)
	}
	return a
}

// attachReceiver attaches handle on channel 0 without credit.
func (p *peerConn) attachReceiver(handle uint32, address string, mode amqp.SenderSettleMode) *amqp.Attach {
	p.Helper()
	p.write(0, &amqp.Attach{Name: fmt.Sprint("r", handle), Handle: handle, Role: amqp.RoleReceiver,
		SenderSettleMode: amqp.Some(mode), ReceiverSettleMode: amqp.Some(amqp.ReceiverSecond),
		Source: &amqp.Source{Address: address}, Target: &amqp.Target{Address: fmt.Sprint("reply", handle)}}, nil)
	return expect[*amqp.Attach](p)
}

func (p *peerConn) credit(handle, count, credit uint32, drain bool) {
	p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, NextOutgoingID: 0, OutgoingWindow: 5000,
		Handle: amqp.Some(handle), DeliveryCount: amqp.Some(count), LinkCredit: amqp.Some(credit), Drain: drain}, nil)
}

func (p *peerConn) transfer(handle, id uint32, message []byte) {
	for first := true; first || len(message) > 0; first = false {
		n := min(len(message), 60000)
		t := &amqp.Transfer{Handle: handle, More: n < len(message)}
		if first {
			t.DeliveryID, t.DeliveryTag, t.MessageFormat = amqp.Some(id), []byte{1}, amqp.Some(uint32(0))
		}
		p.write(0, t, message[:n])
		message = message[n:]
	}
}

// send sends a message and wants it accepted.
func (p *peerConn) send(handle, id uint32, message []byte) {
	p.Helper()
	p.transfer(handle, id, message)
	d := expect[*amqp.Disposition](p)
	if _, ok := d.State.(amqp.Accepted); !ok || d.First != id || !d.Settled || d.Role != amqp.RoleReceiver {
		p.Fatalf("%+v; want ok && d.First == id && d.Settled && d.Role == amqp.RoleReceiver", d)
	}
}

// rejected wants delivery id rejected with a condition.
func (p *peerConn) rejected(id uint32, symbol amqp.Symbol) *amqp.Error {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	r, ok := d.State.(amqp.Rejected)
	if !ok || r.Error == nil || r.Error.Condition != symbol || d.First != id || !d.Settled {
		p.Fatalf("%+v; want ok && r.Error != nil && r.Error.Condition == symbol && d.First == id && d.Settled", d)
	}
	p.tracked(r.Error.Description)
	return r.Error
}

// tracked wants the suffix of 8.4, with an entity (WP-215, SM-007).
func (p *peerConn) tracked(text string) {
	p.Helper()
	p.suffix(text)
	if !strings.Contains(text, ", SystemTracker:ns:") || strings.Contains(text, ", SystemTracker:ns:,") {
		p.Errorf("no entity in %q", text)
	}
}

// suffix wants the suffix of 8.4 on a text that is of no entity.
func (p *peerConn) suffix(text string) {
	p.Helper()
	for _, part := range []string{" TrackingId:", ", SystemTracker:ns", ", Timestamp:"} {
		if !strings.Contains(text, part) {
			p.Errorf("no %q in %q", part, text)
		}
	}
}

func (p *peerConn) settle(id uint32, state amqp.DeliveryState, settled bool) {
	p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, First: id, Settled: settled, State: state}, nil)
}

// outcome wants a settled answer with a state.
func (p *peerConn) outcome(id uint32, state amqp.DeliveryState) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	if d.Role != amqp.RoleSender || d.First != id || !d.Settled || !cmp.Equal(d.State, state) {
		p.Fatalf("%+v (-want +got):\n%s", d, cmp.Diff(state, d.State))
	}
}

// newMessage makes an encoded message with an id and a body.
func newMessage(id any, body string) []byte {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id})
	return amqp.AppendData(m, []byte(body))
}

// opened is a delivery taken apart.
type openedMessage struct {
	id          uint32
	tag         []byte
	header      amqp.Header
	properties  amqp.Properties
	delivery    amqp.Map
	annotations amqp.Map
	application amqp.Map
	body        string
	settled     bool
}

func (p *peerConn) receive() openedMessage {
	p.Helper()
	t, payload := expectFrame[*amqp.Transfer](p)
	for more := t.More; more; {
		next, rest := expectFrame[*amqp.Transfer](p)
		if next.DeliveryID.Set || next.DeliveryTag != nil {
			p.Fatalf("continuation frame with an id: %+v", next)
		}
		payload, more = append(payload, rest...), next.More
	}
	m := decodeMessage(p, payload)
	m.id, m.tag, m.settled = t.DeliveryID.Value, t.DeliveryTag, t.Settled.Value
	tag := 16
	if m.settled {
		tag = 0
	}
	if t.DeliveryTag == nil || len(m.tag) != tag || t.MessageFormat.Value != 0 || !t.MessageFormat.Set {
		p.Errorf("%+v; want t.DeliveryTag != nil && len(m.tag) == tag && t.MessageFormat.Value == 0 && t.MessageFormat.Set", t)
	}
	return m
}

func decodeMessage(t testing.TB, b []byte) (m openedMessage) {
	t.Helper()
	s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
	if err != nil {
		t.Fatalf("%v in % x", err, b)
	}
	if s.Header.Empty() || s.Properties.Empty() {
		t.Fatal("no header or no properties")
	}
	m.header, _ = amqp.DecodeHeader(s.Header.Of(b))
	m.properties, _ = amqp.DecodeProperties(s.Properties.Of(b))
	m.delivery = mapOf(s.DeliveryAnnotations.Of(b))
	m.annotations = mapOf(s.MessageAnnotations.Of(b))
	m.application = mapOf(s.ApplicationProperties.Of(b))
	for d := range amqp.DataSections(s.Body.Of(b)) {
		m.body += string(d)
	}
	for _, p := range slices.Concat(m.delivery, m.annotations) { // WP-211
		if _, text := p.Key.(string); text {
			t.Errorf("annotation %q has a string for a key", p.Key)
		}
	}
	if !keysAre[string](m.application) {
		t.Errorf("keys of %+v", m.application)
	}
	return m
}

// putToken sets up a $cbs pair on handles 100 and 101 if there is none and puts a token.
func (p *peerConn) putToken(audience, token string, id any) amqp.Map {
	p.Helper()
	return p.putTokenOf("servicebus.windows.net:sastoken", audience, token, id)
}

func (p *peerConn) putTokenOf(kind, audience, token string, id any, more ...amqp.Pair) amqp.Map {
	p.Helper()
	p.attachTokens()
	p.tokenRequest(kind, audience, token, id, more...)
	return p.reply(id)
}

// attachTokens sets up the $cbs pair if there is none.
func (p *peerConn) attachTokens() {
	p.Helper()
	if !p.header {
		p.header = true
		p.attachSender(100, "$cbs")
		p.attachReceiver(101, "$cbs", amqp.SenderSettled)
		p.credit(101, 0, 1000, false)
	}
}

// tokenRequest puts a token and does not wait for the answer.
func (p *peerConn) tokenRequest(kind, audience, token string, id any, more ...amqp.Pair) {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, ReplyTo: amqp.Some("reply101")})
	m = amqp.AppendSection(m, amqp.SectionApplicationProperties, append(amqp.Map{
		{Key: "operation", Value: "put-token"}, {Key: "type", Value: kind}, {Key: "name", Value: audience},
	}, more...))
	m = amqp.AppendSection(m, amqp.SectionValue, token)
	p.write(0, &amqp.Transfer{Handle: 100, DeliveryID: amqp.Some(uint32(9000)), DeliveryTag: []byte{1}, Settled: amqp.Some(true)}, m)
}

// reply is the application-properties of an answer, which must be for message id.
func (p *peerConn) reply(id any) amqp.Map {
	p.Helper()
	properties, _ := p.replyWithBody(id)
	return properties
}

func (p *peerConn) replyWithBody(id any) (amqp.Map, any) {
	p.Helper()
	t, b := expectFrame[*amqp.Transfer](p)
	if !t.Settled.Value {
		p.Error("answer is not settled")
	}
	for more := t.More; more; {
		next, rest := expectFrame[*amqp.Transfer](p)
		b, more = append(b, rest...), next.More
	}
	s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
	if err != nil {
		p.Fatal(err)
	}
	props, _ := amqp.DecodeProperties(s.Properties.Of(b))
	if !cmp.Equal(props.CorrelationID, id) {
		p.Fatalf("correlation-id %#v, not %#v (-want +got):\n%s", props.CorrelationID, id, cmp.Diff(id, props.CorrelationID))
	}
	application := mapOf(s.ApplicationProperties.Of(b))
	_, raw, _ := amqp.SectionContent(s.Body.Of(b))
	body, _, err := amqp.DecodeValue(raw, amqp.DefaultLimits)
	if err != nil {
		p.Fatal(err)
	}
	return application, body
}

// manage sends a request to a node whose pair is handles 200 and 201, and waits for the answer.
func (p *peerConn) manage(operation string, body amqp.Map, more ...amqp.Pair) (status int32, properties amqp.Map, answer any) {
	p.Helper()
	p.request("m", operation, body, more...)
	return p.managed("m")
}

// request sends a request.
func (p *peerConn) request(id any, operation string, body amqp.Map, more ...amqp.Pair) {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id, ReplyTo: amqp.Some("reply201")})
	m = amqp.AppendSection(m, amqp.SectionApplicationProperties, append(amqp.Map{{Key: "operation", Value: operation}}, more...))
	m = amqp.AppendSection(m, amqp.SectionValue, body)
	t := &amqp.Transfer{Handle: 200, DeliveryID: amqp.Some(uint32(9000)), DeliveryTag: []byte{1}, Settled: amqp.Some(true)}
	for ; len(m) > 60000; m = m[60000:] {
		t.More = true
		p.write(0, t, m[:60000])
		t = &amqp.Transfer{Handle: 200}
	}
	t.More = false
	p.write(0, t, m)
}

// managed is the answer to a request, with what every answer must have (WP-160, WP-183, WP-211).
func (p *peerConn) managed(id any) (status int32, properties amqp.Map, answer any) {
	p.Helper()
	properties, answer = p.replyWithBody(id)
	v, _ := properties.Get("statusCode")
	status, ok := v.(int32)
	if text, _ := properties.Get("statusDescription"); !ok || text == nil {
		p.Fatalf("%+v; want ok && text != nil", properties)
	}
	if c, ok := properties.Get("errorCondition"); (status >= 300) != ok {
		p.Errorf("status %d and condition %v", status, c)
	} else if _, symbol := c.(amqp.Symbol); ok && !symbol {
		p.Errorf("condition is a %T", c)
	}
	nothingEmpty(p, answer)
	if m, ok := answer.(amqp.Map); !keysAre[string](properties) || ok && !keysAre[string](m) {
		p.Errorf("keys of %+v, %+v", properties, answer)
	}
	return status, properties, answer
}

// nothingEmpty wants no empty map, list or array in an answer (WP-183).
func nothingEmpty(t testing.TB, v any) {
	t.Helper()
	var inside []any
	switch v := v.(type) {
	case amqp.Map:
		for _, p := range v {
			inside = append(inside, p.Value)
		}
	case amqp.List:
		inside = v
	case amqp.Array:
		inside = v.Values
	default:
		return
	}
	if len(inside) == 0 {
		t.Errorf("an empty %T", v)
	}
	for _, v := range inside {
		nothingEmpty(t, v)
	}
}

// managedWith wants a status and, of an error, its condition.
func (p *peerConn) managedWith(status int32, symbol amqp.Symbol, operation string, body amqp.Map, more ...amqp.Pair) any {
	p.Helper()
	got, properties, answer := p.manage(operationPrefix+operation, body, more...)
	c, _ := properties.Get("errorCondition")
	if condition, _ := c.(amqp.Symbol); got != status || condition != symbol {
		p.Fatalf("%s: %+v; want got == status && condition == symbol", operation, properties)
	}
	if status >= 300 {
		text, _ := properties.Get("statusDescription")
		p.tracked(text.(string))
	}
	return answer
}

func (p *peerConn) attachManagement(entity string) {
	p.Helper()
	p.attachSender(200, entity+"/$management")
	p.attachReceiver(201, entity+"/$management", amqp.SenderSettled)
	p.credit(201, 0, 1000, false)
}

func token(audience, rule, key string, life time.Duration) string {
	return sas.Token(audience, rule, key, time.Now().Add(life))
}
