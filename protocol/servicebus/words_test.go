package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// opens begins a connection that has logged in as root, with an open of the test's, and a session
// on channel 0.
func (b *bench) opens(o *amqp.Open) *peerConn {
	b.Helper()
	p := b.dial()
	p.raw(amqp.ProtocolSASL[:])
	p.next()
	expect[*amqp.SASLMechanisms](p)
	p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")}))
	expect[*amqp.SASLOutcome](p)
	p.raw(amqp.ProtocolAMQP[:])
	p.next()
	p.write(0, o, nil)
	expect[*amqp.Open](p)
	p.begin(0)
	return p
}

// 8.4: a missing entity is named as the client wrote it, with letter case and escapes kept, by the
// host of the address, else that of the open, else the namespace's name: at attach, when a token is
// put, and when it is deleted while a link exists.
func TestNotFoundInTheClientsWords(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for i, test := range []struct{ hostname, address, want string }{
			{"", "Missing", "sb://ns/Missing"},
			{"My.Host:5671", "Missing/Sub-Path", "sb://My.Host:5671/Missing/Sub-Path"},
			{"my.host", "/Missing%2DQueue/", "sb://my.host/Missing%2DQueue"},
			{"my.host", "amqps://Other.Host:5671/Missing", "sb://Other.Host:5671/Missing"},
			{"my.host", "amqps://user:secret@Other.Host/Missing", "sb://Other.Host/Missing"},
			{"my.host", "T/Subscriptions/Missing", "sb://my.host/T/Subscriptions/Missing"},
			{"my.host", "Missing/$Management", "sb://my.host/Missing/$Management"},
			{"my.host", "Missing/$DeadLetterQueue", "sb://my.host/Missing/$DeadLetterQueue"},
		} {
			want := "The messaging entity '" + test.want + "' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. "
			p := b.opens(&amqp.Open{ContainerID: "c", Hostname: test.hostname})
			for handle := range uint32(2) {
				if handle == 0 {
					p.attachSender(handle, test.address)
				} else {
					p.attachReceiver(handle, test.address, amqp.SenderUnsettled)
				}
				if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondNotFound || !strings.HasPrefix(d.Error.Description, want) {
					t.Errorf("%s: %q; want d.Error.Condition == amqp.CondNotFound && strings.HasPrefix(d.Error.Description, want)", test.address, d.Error.Description)
				}
			}
			if !strings.Contains(test.address, "secret") {
				p.tokenAnswer(p.putToken(test.address, token("sb://my.host", "root", "root-key", time.Hour), fmt.Sprint(i)), 404, want)
			}
			p.net.Close()
		}
		b.queue("Mixed", nil)
		p := b.opens(&amqp.Open{ContainerID: "c", Hostname: "My.Host"})
		p.attachSender(1, "mIXED")
		if err := p.ns.DeleteEntity(p.Context(), engine.DeleteEntity{Path: "Mixed", Reason: "client"}); err != nil {
			t.Fatal(err)
		}
		if d := expect[*amqp.Detach](p); !strings.HasPrefix(d.Error.Description, "The messaging entity 'sb://My.Host/mIXED' could not be found.") {
			t.Errorf(`%+v; want strings.HasPrefix(d.Error.Description, "The messaging entity 'sb://My.Host/mIXED' could not be found.")`, d.Error)
		}
		send := b.login("send", "send-key")
		send.attachReceiver(1, "sb://That.Host/Q", amqp.SenderUnsettled)
		if d := expect[*amqp.Detach](send); !strings.Contains(d.Error.Description, "Resource: 'sb://That.Host/q'.") {
			t.Errorf(`%+v; want strings.Contains(d.Error.Description, "Resource: 'sb://That.Host/q'.")`, d.Error)
		}
	})
}

// A rule that is there already, and one that is not, are named as the service does it, in the
// client's letters.
func TestRulesInTheClientsWords(t *testing.T) {
	topics(t, func(b *bench) {
		p := b.node("T/subscriptions/U")
		for _, test := range []struct {
			operation, name, want string
			status                int32
		}{
			{"add-rule", "RuleName", "OK", 200},
			{"add-rule", "RuleName", "The messaging entity 'ns:Topic:T|U|RuleName' already exists. TrackingId:", 409},
			{"add-rule", "rulename", "The messaging entity 'ns:Topic:T|U|rulename' already exists. TrackingId:", 409},
			{"remove-rule", "Other", "The messaging entity 'ns:Topic:T|U|Other' could not be found. To know more visit", 404},
			{"add-rule", "no/name", "", 400},
		} {
			status, properties, _ := p.manage(operationPrefix+test.operation, ruleBody(test.name, amqp.Map{{Key: "sql-filter", Value: expression("1=1")}}))
			if text, _ := properties.Get("statusDescription"); status != test.status || !strings.HasPrefix(fmt.Sprint(text), test.want) {
				t.Errorf("%s %s: %+v; want status == test.status && strings.HasPrefix(fmt.Sprint(text), test.want)", test.operation, test.name, properties)
			}
		}
	})
}

// No text of a peer makes a frame larger than the peer accepts: texts are cut, and a text that must
// be complete is refused if there is no room for it. The recorder of every peerConn checks each
// frame.
func TestPeersTextsFitItsFrames(t *testing.T) {
	sessions(t, func(b *bench, other *peerConn) {
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		var lengths []int
		for n := 0; n < 700; n += 13 {
			lengths = append(lengths, n)
		}
		for _, most := range []uint32{512, 600, 1024} {
			for _, n := range append(lengths, 1000, 2047, 2048, 2049, 5000, 15_000) {
				long := strings.Repeat("ü", n/2) + strings.Repeat("x", n%2)
				b.peersTexts(most, long)
			}
		}
		other.send(1, 0, inSession("a", "1", "x"))
	})
}

// peersTexts makes a peer with small frames send a text wherever one is possible, each time on a
// new connection or session.
func (b *bench) peersTexts(most uint32, long string) {
	b.Helper()
	ended := 0
	p := b.opens(&amqp.Open{ContainerID: long, Hostname: long, MaxFrameSize: amqp.Some(most), Properties: amqp.Map{{Key: amqp.Symbol("product"), Value: long}}})
	attach := func(a amqp.Attach) {
		p.write(0, &a, nil)
		for done := false; !done; {
			switch f := p.next().p.(type) {
			case *amqp.Attach:
				done = f.Source != nil
			case *amqp.Detach:
				done = true
				if f.Error == nil {
					b.Errorf("%+v; want f.Error != nil", f)
				}
			case *amqp.End:
				ended++
				done = true
				if f.Error.Condition != amqp.CondFrameSizeTooSmall {
					b.Errorf("%+v; want f.Error.Condition == amqp.CondFrameSizeTooSmall", f.Error)
				}
			case *amqp.Flow:
			default:
				b.Fatalf("%+v", f)
			}
		}
		p.write(0, &amqp.End{}, nil)
		for ended == 0 {
			if _, ok := p.next().p.(*amqp.End); ok {
				ended++
			}
		}
		ended = 0
		p.begin(0)
	}
	symbol := amqp.Symbol(strings.ReplaceAll(long, "ü", "ue"))
	for _, at := range []string{"q", "none", long, "amqps://" + long + "/q", "amqps://h/" + long, "q/$management", "s"} {
		for _, name := range []string{"n", long} {
			attach(amqp.Attach{Name: name, Source: &amqp.Source{Address: "mine"}, Target: &amqp.Target{Address: at}})
			attach(amqp.Attach{Name: name, Source: &amqp.Source{Address: long}, Target: &amqp.Target{Address: at}})
			attach(amqp.Attach{Name: name, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: at}, Target: &amqp.Target{Address: long}})
		}
	}
	attach(amqp.Attach{Name: "n", Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q", Filter: amqp.Map{{Key: symbol, Value: amqp.Described{Descriptor: symbol, Value: long}}}}})
	attach(amqp.Attach{Name: "n", Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "s", Filter: amqp.Map{{Key: symbol, Value: described(message.Short(long, 100))}}}})
	attach(amqp.Attach{Name: "n", Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: long}}}})
	attach(amqp.Attach{Name: "n", Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q", Capabilities: []amqp.Symbol{symbol}, Outcomes: []amqp.Symbol{symbol}, ExpiryPolicy: symbol, DistributionMode: symbol}})

	// requests: their answers may have several frames
	p.attachManagement("t/Subscriptions/u")
	text := func(m amqp.Map) {
		if v, _ := m.Get("statusDescription"); len(fmt.Sprint(v)) > 4500 {
			b.Errorf("a text of %d bytes", len(fmt.Sprint(v)))
		}
	}
	for _, operation := range []string{"add-rule", "remove-rule", long} {
		_, properties, _ := p.manage(operationPrefix+operation, ruleBody("r"+long, amqp.Map{{Key: "sql-filter", Value: expression(long)}}),
			amqp.Pair{Key: "com.microsoft:tracking-id", Value: long}, amqp.Pair{Key: keyAssociatedLink, Value: long})
		text(properties)
	}
	p.putTokenOf(long, "sb://h/"+long, long, long)
	p.putToken("sb://"+long+"/"+long, token("sb://h", "root", "root-key", time.Hour), "1")
	p.attachSender(9, "q")
	p.transfer(9, 0, amqp.AppendData(amqp.AppendProperties(nil, &amqp.Properties{MessageID: long}), nil))
	expect[*amqp.Disposition](p)
	p.write(0, &amqp.Close{Error: &amqp.Error{Condition: symbol, Description: long}}, nil)
	expect[*amqp.Close](p)
	p.net.Close()
}
