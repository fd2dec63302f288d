package attack

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// peer is a client made of frames that reads what it is sent and looks at little of it.
type peer struct {
	net.Conn
	id      uint32        // of the next delivery
	answers atomic.Int64  // transfers that came
	over    chan struct{} // closed when nothing more comes
	deaf    atomic.Bool   // it reads no more
	out     []byte
}

// from dials the broker from an address of the loopback network.
func from(ctx context.Context, source, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 5 * time.Second}
	return d.DialContext(ctx, "tcp", address)
}

// attacker connects from one of ten addresses that are not the honest clients'.
func attacker(ctx context.Context, n int, address string) (*peer, error) {
	nc, err := from(ctx, fmt.Sprintf("127.0.1.%d", 1+n%10), address)
	if err != nil {
		return nil, err
	}
	p := &peer{Conn: nc, over: make(chan struct{})}
	context.AfterFunc(ctx, func() { nc.Close() })
	go p.read(ctx)
	return p, nil
}

func (p *peer) read(ctx context.Context) {
	defer close(p.over)
	defer p.Close()
	in := bufio.NewReaderSize(p, 4<<10)
	head := make([]byte, 8)
	body := make([]byte, 64<<10)
	for {
		if p.deaf.Load() {
			<-ctx.Done()
		}
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint32(head)) - len(head)
		if string(head[:4]) == "AMQP" || size == 0 {
			continue
		}
		if size < 0 || size > len(body) {
			return
		}
		if _, err := io.ReadFull(in, body[:size]); err != nil {
			return
		}
		if size > 3 && body[1] == amqp.CodeSmallUlong && body[2] == 0x14 { // transfer
			p.answers.Add(1)
		}
	}
}

// write adds a frame to what goes out with the next flush.
func (p *peer) write(channel uint16, f amqp.Performative, payload []byte) {
	p.out = amqp.AppendFrame(p.out, channel, f, payload)
}

func (p *peer) flush() error {
	_, err := p.Write(p.out)
	p.out = p.out[:0]
	return err
}

func (p *peer) open(container string) {
	p.out = append(p.out, amqp.ProtocolAMQP[:]...)
	p.write(0, &amqp.Open{ContainerID: container}, nil)
}

func (p *peer) begin(channel uint16) {
	p.write(channel, &amqp.Begin{NextOutgoingID: 0, IncomingWindow: math.MaxInt32, OutgoingWindow: math.MaxInt32, HandleMax: amqp.Some(uint32(math.MaxInt32))}, nil)
}

// attach attaches a link on which the peer has the role; as a receiver it gives all the credit
// there is.
func (p *peer) attach(channel uint16, handle uint32, name, address string, role amqp.Role) {
	a := &amqp.Attach{Name: name, Handle: handle, Role: role, Source: &amqp.Source{Address: "peer"}, Target: &amqp.Target{Address: address},
		InitialDeliveryCount: amqp.Some(uint32(0))}
	if role == amqp.RoleReceiver {
		a.Source, a.Target = &amqp.Source{Address: address}, &amqp.Target{Address: "peer"}
	}
	p.write(channel, a, nil)
	if role == amqp.RoleReceiver {
		p.write(channel, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: math.MaxInt32, OutgoingWindow: math.MaxInt32,
			Handle: amqp.Some(handle), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(math.MaxInt32))}, nil)
	}
}

func (p *peer) transfer(channel uint16, handle uint32, message []byte) {
	const most = 60 << 10 // of a frame
	id := p.id
	p.id++
	for first := true; first || len(message) > 0; first = false {
		part := message[:min(len(message), most)]
		message = message[len(part):]
		t := &amqp.Transfer{Handle: handle, More: len(message) > 0}
		if first {
			t.DeliveryID, t.DeliveryTag, t.Settled = amqp.Some(id), binary.BigEndian.AppendUint32(nil, id), amqp.Some(true)
		}
		p.write(channel, t, part)
	}
}

// request sends a request to the node behind a link.
func (p *peer) request(channel uint16, handle uint32, properties amqp.Map, body any) {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: fmt.Sprint(p.id), ReplyTo: amqp.Some("peer")})
	m = amqp.AppendSection(m, amqp.SectionApplicationProperties, properties)
	p.transfer(channel, handle, amqp.AppendSection(m, amqp.SectionValue, body))
}

// login opens the connection and puts a token for the whole namespace, on channel 0 and handles 0
// and 1.
func (p *peer) login() error {
	const audience = "sb://localhost"
	p.open("attacker")
	p.begin(0)
	p.attach(0, 0, "cbs-to", "$cbs", amqp.RoleSender)
	p.attach(0, 1, "cbs-from", "$cbs", amqp.RoleReceiver)
	p.request(0, 0, amqp.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "servicebus.windows.net:sastoken"}, {Key: "name", Value: audience}},
		signature(audience))
	if err := p.flush(); err != nil {
		return err
	}
	for began := time.Now(); p.answers.Load() == 0; time.Sleep(time.Millisecond) {
		select {
		case <-p.over:
			return io.ErrUnexpectedEOF
		default:
		}
		if time.Since(began) > patience {
			return fmt.Errorf("no answer to a token after %s", patience)
		}
	}
	return nil
}

// manage attaches the pair of links to an entity's management node, on handles 2 and 3 of
// channel 0.
func (p *peer) manage(entity string) {
	p.attach(0, 2, "manage-to", entity+"/$management", amqp.RoleSender)
	p.attach(0, 3, "manage-from", entity+"/$management", amqp.RoleReceiver)
}

// ask sends a request to the management node.
func (p *peer) ask(operation string, body amqp.Map) {
	p.request(0, 2, amqp.Map{{Key: "operation", Value: "com.microsoft:" + operation}}, body)
}

// signature is a token by the emulator's key.
func signature(audience string) string {
	resource, expires := url.QueryEscape(audience), time.Now().Add(time.Hour).Unix()
	mac := hmac.New(sha256.New, []byte("SAS_KEY_VALUE"))
	fmt.Fprintf(mac, "%s\n%d", resource, expires)
	return fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%d&skn=RootManageSharedAccessKey", resource,
		url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))), expires)
}
