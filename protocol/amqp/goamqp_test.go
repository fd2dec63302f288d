package amqp_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	client "github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// scriptedPeer answers a client with just enough to check that each reads what the other writes.
type scriptedPeer struct {
	t         *testing.T
	conn      net.Conn
	decoder   amqp.Decoder
	out       []byte
	attached  []*amqp.Attach
	delivered []byte   // to deliver on the receiver link
	received  [][]byte // messages received
	settled   []amqp.DeliveryState
}

// run serves until the connection ends.
func (p *scriptedPeer) run() {
	if !p.header() {
		return
	}
	p.write(amqp.AppendSASLFrame(nil, &amqp.SASLMechanisms{
		Mechanisms: []amqp.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"},
	}))
	if !p.frame() || !p.header() { // sasl-init, then AMQP's own header
		return
	}
	for p.frame() {
	}
}

// header echoes a protocol header.
func (p *scriptedPeer) header() bool {
	var h amqp.ProtocolHeader
	if _, err := io.ReadFull(p.conn, h[:]); err != nil {
		return false
	}
	p.write(h[:])
	return true
}

// read reads one whole frame from the connection; ok is false if the connection has ended.
func (p *scriptedPeer) read() (h amqp.FrameHeader, body []byte, ok bool) {
	b := make([]byte, amqp.FrameHeaderSize)
	if _, err := io.ReadFull(p.conn, b); err != nil {
		return h, nil, false
	}
	h, err := amqp.ParseFrameHeader(b)
	if err != nil {
		p.t.Errorf("peer: %v", err)
		return h, nil, false
	}
	b = append(b, make([]byte, h.Size-amqp.FrameHeaderSize)...)
	if _, err := io.ReadFull(p.conn, b[amqp.FrameHeaderSize:]); err != nil {
		return h, nil, false
	}
	return h, b[4*int(h.DOFF):], true
}

func (p *scriptedPeer) write(b []byte) {
	if _, err := p.conn.Write(b); err != nil {
		p.t.Logf("peer: %v", err)
	}
}

// frame answers one frame.
func (p *scriptedPeer) frame() bool {
	h, body, ok := p.read()
	if !ok {
		return false
	}
	if len(body) == 0 { // a keep-alive
		return true
	}
	perf, payload, err := p.decoder.Decode(body)
	if err != nil {
		p.t.Errorf("peer: %v", err)
		return false
	}
	p.out = p.out[:0]
	p.answer(h.Channel, perf, payload)
	if len(p.out) > 0 {
		p.write(p.out)
	}
	return true
}

func (p *scriptedPeer) answer(channel uint16, perf amqp.Performative, payload []byte) {
	send := func(perf amqp.Performative) { p.out = amqp.AppendFrame(p.out, channel, perf, nil) }
	switch perf := perf.(type) {
	case *amqp.SASLInit:
		p.out = amqp.AppendSASLFrame(p.out, &amqp.SASLOutcome{AdditionalData: []byte("Welcome!")})
	case *amqp.Open:
		send(&amqp.Open{
			ContainerID: "peer", MaxFrameSize: amqp.Some(uint32(65536)), ChannelMax: amqp.Some(uint16(4999)),
			IdleTimeout: amqp.Some(uint32(240000)),
		})
	case *amqp.Begin:
		send(&amqp.Begin{
			RemoteChannel: amqp.Some(channel), NextOutgoingID: 1, IncomingWindow: 5000, OutgoingWindow: 5000,
			HandleMax: amqp.Some(uint32(262143)),
		})
	case *amqp.Attach:
		p.attach(channel, perf)
	case *amqp.Flow:
		if perf.Handle.Set && perf.LinkCredit.Or(0) > 0 && p.delivered != nil {
			p.deliver(channel, perf)
		}
	case *amqp.Transfer:
		p.received = append(p.received, bytes.Clone(payload))
		p.out = amqp.AppendDisposition(p.out, channel, &amqp.Disposition{
			Role: amqp.RoleReceiver, First: perf.DeliveryID.Value, Last: perf.DeliveryID, Settled: true, State: amqp.StateAccepted,
		})
	case *amqp.Disposition:
		p.settled = append(p.settled, perf.State)
		state := perf.State
		if _, ok := state.(amqp.Rejected); ok {
			state = amqp.Rejected{}
		}
		p.out = amqp.AppendDisposition(p.out, channel, &amqp.Disposition{
			Role: amqp.RoleSender, First: perf.First, Last: perf.Last, Settled: true, State: state,
		})
	case *amqp.Detach:
		send(&amqp.Detach{Handle: perf.Handle, Closed: true})
	case *amqp.End:
		send(&amqp.End{})
	case *amqp.Close:
		send(&amqp.Close{})
	}
}

func (p *scriptedPeer) attach(channel uint16, a *amqp.Attach) {
	p.attached = append(p.attached, a)
	reply := &amqp.Attach{
		Name: a.Name, Handle: a.Handle, Role: !a.Role, SenderSettleMode: a.SenderSettleMode,
		ReceiverSettleMode: a.ReceiverSettleMode, Source: a.Source, Target: a.Target,
		InitialDeliveryCount: amqp.Some(uint32(0)), MaxMessageSize: amqp.Some(uint64(262144)),
		Properties: amqp.Map{{Key: amqp.Symbol("com.microsoft:locked-until-utc"), Value: int64(638400000000000000)}},
	}
	if a.Target == nil {
		reply.Target = &amqp.Target{}
	}
	if reply.Source == nil {
		reply.Source = &amqp.Source{}
	}
	p.out = amqp.AppendFrame(p.out, channel, reply, nil)
	if a.Role == amqp.RoleSender {
		p.out = amqp.AppendFlow(p.out, channel, &amqp.Flow{
			NextIncomingID: amqp.Some(uint32(0)), IncomingWindow: 5000, NextOutgoingID: 1, OutgoingWindow: 5000,
			Handle: amqp.Some(a.Handle), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1000)),
			Available: amqp.Some(uint32(0)),
		})
	}
}

// deliver sends the message in two frames.
func (p *scriptedPeer) deliver(channel uint16, f *amqp.Flow) {
	half := len(p.delivered) / 2
	first := &amqp.Transfer{
		Handle: f.Handle.Value, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte("0123456789abcdef"),
		MessageFormat: amqp.Some(amqp.MessageFormatPlain), Settled: amqp.Some(false), More: true, Batchable: true,
	}
	p.out = append(amqp.AppendTransferHeader(p.out, channel, first, half), p.delivered[:half]...)
	rest := &amqp.Transfer{Handle: f.Handle.Value}
	p.out = append(amqp.AppendTransferHeader(p.out, channel, rest, len(p.delivered)-half), p.delivered[half:]...)
	p.delivered = nil
}

// loopback is a connection over TCP. The two ends of a net.Pipe do not suffice: their error after
// their own Close is not net.ErrClosed, and the client reports it as a failure if its reader sees
// it first.
func loopback(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestClient makes an unmodified client connect, send, receive and settle.
func TestClient(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	near, far := loopback(t)
	peer := &scriptedPeer{t: t, conn: far, delivered: deliveredMessage()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		peer.run()
	}()

	conn, err := client.NewConn(ctx, near, &client.ConnOptions{SASLType: client.SASLTypeAnonymous(), HostName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	sendWithClient(ctx, t, session)
	receiveWithClient(ctx, t, session)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	near.Close()
	far.Close()
	<-done
	peer.check()
}

func sendWithClient(ctx context.Context, t *testing.T, session *client.Session) {
	t.Helper()
	sender, err := session.NewSender(ctx, "queue", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := sender.MaxMessageSize(); got != 262144 {
		t.Errorf("max-message-size %d", got)
	}
	if err := sender.Send(ctx, clientMessage(), nil); err != nil {
		t.Fatal(err)
	}
}

// receiveWithClient receives a message of a session and dead-letters it.
func receiveWithClient(ctx context.Context, t *testing.T, session *client.Session) {
	t.Helper()
	receiver, err := session.NewReceiver(ctx, "queue", &client.ReceiverOptions{
		SettlementMode: client.ReceiverSettleModeSecond.Ptr(),
		Filters: []client.LinkFilter{
			client.NewLinkFilter("com.microsoft:session-filter", 0x000000137000000C, "session"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := receiver.LinkSourceFilterValue("com.microsoft:session-filter"); got != "session" {
		t.Errorf("session filter %v", got)
	}
	if got := receiver.Properties()["com.microsoft:locked-until-utc"]; got != int64(638400000000000000) {
		t.Errorf("locked-until %v", got)
	}
	message, err := receiver.Receive(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkDelivered(t, message)
	reject := &client.Error{Condition: "com.microsoft:dead-letter", Info: map[string]any{"DeadLetterReason": "r"}}
	if err := receiver.RejectMessage(ctx, message, reject); err != nil {
		t.Fatal(err)
	}
}

// check checks that one message was received, as it was sent, and that one was dead-lettered.
func (p *scriptedPeer) check() {
	p.t.Helper()
	if len(p.settled) != 1 {
		p.t.Fatalf("settled %v, want one delivery", p.settled)
	}
	rejected, ok := p.settled[0].(amqp.Rejected)
	if !ok || rejected.Error == nil || rejected.Error.Condition != "com.microsoft:dead-letter" {
		p.t.Errorf("settled %v, want a dead-letter", p.settled[0])
	}
	if len(p.received) != 1 {
		p.t.Fatalf("%d messages received, want 1", len(p.received))
	}
	checkSent(p.t, p.received[0])
}

func clientMessage() *client.Message {
	contentType, group, expiry := "text/plain", "session", time.UnixMilli(1700000000000).UTC()
	return &client.Message{
		Header:              &client.MessageHeader{Durable: true, Priority: 4, TTL: time.Minute},
		DeliveryAnnotations: client.Annotations{"d": int32(1)},
		Annotations:         client.Annotations{"x-opt-partition-key": "p"},
		Properties: &client.MessageProperties{
			MessageID: client.UUID{1, 2, 3}, ContentType: &contentType, GroupID: &group, AbsoluteExpiryTime: &expiry,
			CorrelationID: uint64(77),
		},
		ApplicationProperties: map[string]any{
			"time": expiry, "ubyte": uint8(1), "byte": int8(-1), "int": int32(5), "long": int64(1) << 40, "double": 1.5,
			"string": "text", "bool": true, "uuid": client.UUID{9},
		},
		Data:   [][]byte{[]byte("one"), []byte("two")},
		Footer: client.Annotations{"f": "x"},
	}
}

// checkSent checks the received clientMessage.
func checkSent(t *testing.T, b []byte) {
	t.Helper()
	s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if s.BodyKind != amqp.BodyData || s.BodyCount != 2 || s.LongDescriptors || s.TTL != 60000 {
		t.Errorf("%+v; want s.BodyKind == amqp.BodyData && s.BodyCount == 2 && !s.LongDescriptors && s.TTL == 60000", s)
	}
	header, err := amqp.DecodeHeader(s.Header.Of(b))
	if err != nil || header.TTL != amqp.Some(uint32(60000)) || !header.Durable.Value {
		t.Errorf("header %+v, %v", header, err)
	}
	p, err := amqp.DecodeProperties(s.Properties.Of(b))
	if err != nil || p.MessageID != (amqp.UUID{1, 2, 3}) || p.CorrelationID != uint64(77) ||
		p.GroupID != amqp.Some("session") || p.AbsoluteExpiryTime != amqp.Some(amqp.Timestamp(1700000000000)) {
		t.Errorf("properties %+v, %v", p, err)
	}
	_, content, _ := amqp.SectionContent(s.ApplicationProperties.Of(b))
	value, _, err := amqp.DecodeValue(content, amqp.DefaultLimits)
	m, _ := value.(amqp.Map)
	if err != nil || len(m) != 9 {
		t.Errorf("application-properties %v, %v", m, err)
	}
	for key, want := range map[string]any{
		"time": amqp.Timestamp(1700000000000), "ubyte": uint8(1), "byte": int8(-1), "int": int32(5),
		"long": int64(1) << 40, "double": 1.5, "string": "text", "bool": true, "uuid": amqp.UUID{9},
	} {
		if got, ok := m.Get(key); !ok || got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	annotations := map[string]string{}
	for key, raw := range amqp.MapEntries(s.MessageAnnotations.Of(b)) {
		text, _ := amqp.RawText(raw)
		annotations[string(key)] = string(text)
	}
	if annotations["x-opt-partition-key"] != "p" {
		t.Errorf("annotations %q", annotations)
	}
}

// deliveredMessage is a message as a broker delivers it: fresh sections before the sender's tail.
func deliveredMessage() []byte {
	b := amqp.AppendHeader(nil, &amqp.Header{
		Durable: amqp.Some(true), Priority: amqp.Some(uint8(4)), DeliveryCount: amqp.Some(uint32(2)),
	})
	b, mark := amqp.BeginMap(amqp.AppendDescriptor(b, amqp.SectionMessageAnnotations))
	b = amqp.AppendTimestamp(amqp.AppendSymbol(b, "x-opt-enqueued-time"), 1700000000000)
	b = amqp.AppendValue(amqp.AppendSymbol(b, "x-opt-sequence-number"), int64(1))
	b = amqp.EndMap(b, mark, 2)
	b = amqp.AppendProperties(b, &amqp.Properties{MessageID: "m", GroupID: amqp.Some("session")})
	b = amqp.AppendSection(b, amqp.SectionApplicationProperties, amqp.Map{{Key: "k", Value: uint16(3)}})
	return amqp.AppendData(b, []byte("body"))
}

// checkDelivered checks a client's view of deliveredMessage.
func checkDelivered(t *testing.T, m *client.Message) {
	t.Helper()
	if m.Header == nil || m.Header.DeliveryCount != 2 || !m.Header.Durable {
		t.Errorf("header %+v", m.Header)
	}
	if m.Properties == nil || m.Properties.MessageID != "m" || *m.Properties.GroupID != "session" {
		t.Errorf("properties %+v", m.Properties)
	}
	enqueued, _ := m.Annotations["x-opt-enqueued-time"].(time.Time)
	if enqueued.UnixMilli() != 1700000000000 || m.Annotations["x-opt-sequence-number"] != int64(1) {
		t.Errorf("annotations %#v", m.Annotations)
	}
	if !cmp.Equal(m.ApplicationProperties, map[string]any{"k": uint16(3)}) || string(m.GetData()) != "body" {
		t.Errorf("application-properties %v, body %q (-want +got):\n%s", m.ApplicationProperties, m.GetData(), cmp.Diff(map[string]any{"k": uint16(3)}, m.ApplicationProperties))
	}
}

// TestClientMessageEncoding compares the two codecs on whole messages, both ways.
func TestClientMessageEncoding(t *testing.T) {
	b, err := clientMessage().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	checkSent(t, b)
	var m client.Message
	if err := m.UnmarshalBinary(deliveredMessage()); err != nil {
		t.Fatal(err)
	}
	checkDelivered(t, &m)
	for name, value := range map[string]any{
		"list": amqp.List{int64(1), "two", nil}, "null": nil, "longs": amqp.Array{Elem: amqp.CodeLong, Values: []any{int64(7)}},
	} {
		var m client.Message
		if err := m.UnmarshalBinary(amqp.AppendSection(nil, amqp.SectionValue, value)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
