package servicebus

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// dotnet is a peer that speaks frames of .NET's SDK 7.21.0, as they were recorded.
type dotnet struct {
	*peerConn
	// of transactions: those of the recording, and those that the broker has declared instead
	ids map[string][]byte
}

// says sends a frame with a recorded body.
func (p *dotnet) says(channel uint16, digits string) {
	p.Helper()
	body, err := hex.DecodeString(digits)
	if err != nil {
		p.Fatal(err)
	}
	for recorded, declared := range p.ids {
		id, _ := hex.DecodeString(recorded)
		body = bytes.ReplaceAll(body, id, declared)
	}
	if f, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits); err == nil {
		p.spoken.say(channel, f)
	} else {
		p.Fatal(err)
	}
	head := append(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), 2, amqp.FrameTypeAMQP)
	p.raw(append(binary.BigEndian.AppendUint16(head, channel), body...))
}

// declares sends a recorded declare. What follows under the recorded id is said with the id that is
// declared.
func (p *dotnet) declares(channel uint16, digits, recorded string) {
	p.Helper()
	p.says(channel, digits)
	if p.ids == nil {
		p.ids = map[string][]byte{}
	}
	declared, ok := p.hears(channel).State.(amqp.Declared)
	if !ok {
		p.Fatal("nothing is declared")
	}
	p.ids[recorded] = declared.TxnID
}

// hears returns the next frame, a disposition on a channel; it skips flows before it.
func (p *dotnet) hears(channel uint16) *amqp.Disposition {
	p.Helper()
	for {
		r := p.next()
		if _, ok := r.p.(*amqp.Flow); ok {
			continue
		}
		d, ok := r.p.(*amqp.Disposition)
		if !ok || r.channel != channel {
			p.Fatalf("%T on channel %d: %+v; want a disposition on channel %d", r.p, r.channel, r.p, channel)
		}
		return d
	}
}

// answered wants a disposition on a channel. recorded is the transaction that it names, if any.
func (p *dotnet) answered(channel uint16, role amqp.Role, id uint32, settled bool, recorded string, outcome amqp.DeliveryState) {
	p.Helper()
	want := &amqp.Disposition{Role: role, First: id, Last: amqp.Some(id), Settled: settled, State: outcome}
	if recorded != "" {
		want.State = amqp.TransactionalState{TxnID: p.ids[recorded], Outcome: outcome}
	}
	if got := p.hears(channel); !cmp.Equal(got, want) {
		p.Fatalf("channel %d (-want +got):\n%s", channel, cmp.Diff(want, got))
	}
}

// attaches sends an attach that is not one of the recording, and gives a receiver credit.
func (p *dotnet) attaches(channel uint16, a *amqp.Attach, credit uint32) {
	p.Helper()
	p.write(channel, a, nil)
	if expect[*amqp.Attach](p.peerConn); credit > 0 {
		p.write(channel, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000, Handle: amqp.Some(uint32(0)), LinkCredit: amqp.Some(credit)}, nil)
	}
}

// The coordinator of recording 06, on channel 3.
const dotnetCoordinator = "005312c06c0ea120626162666661623734623339346132376238343135363537643031613330666543424040005328c0320ba12062616266666162373462333934613237623834313536353764303161333066654040404040a3046d6f766540404040005330c002014040404340404040"

// WP-245, SM-390: .NET completes in a transaction, which settles the delivery at its commit; after
// a rollback it completes the message again on its link, also in a session. The frames are those of
// recordings 03 and 06.
func TestDotnetTransaction(t *testing.T) {
	const committed, rolledBack = "f19a9971ba7d42ce8707ed9a15a02b34", "57b76a9d285a4a9a92eae5f6b90c3d05"
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"), newMessage("2", "x"))
		p := &dotnet{peerConn: b.root()}
		for channel := range uint16(3) {
			p.begin(channel + 1)
		}
		p.attaches(1, &amqp.Attach{Name: "s", Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{Address: "/q"}}, 0)
		p.attaches(2, &amqp.Attach{Name: "r", Role: amqp.RoleReceiver, ReceiverSettleMode: amqp.Some(amqp.ReceiverSecond), Source: &amqp.Source{Address: "/q"}, Target: &amqp.Target{}}, 2)
		p.receive()
		p.receive()
		p.says(3, dotnetCoordinator)
		expect[*amqp.Attach](p.peerConn)

		p.declares(3, "005314c0150b4343a00801000000000000004340424040404042005377005331c0020140", committed)
		p.says(1, "005314c02a0b435201a0040200000043404240005334c01402a010f19a9971ba7d42ce8707ed9a15a02b3440404041005373c0130da1046d2d7478404040404040404040404040005375a0027478")
		p.answered(1, amqp.RoleReceiver, 1, true, committed, amqp.StateAccepted)
		p.says(2, "005315c0220641434042005334c01702a010f19a9971ba7d42ce8707ed9a15a02b340053244540")
		p.answered(2, amqp.RoleSender, 0, false, committed, amqp.StateAccepted)
		p.says(3, "005314c0160b435201a00802000000000000004340424040404042005377005332c01402a010f19a9971ba7d42ce8707ed9a15a02b3442")
		p.answered(2, amqp.RoleSender, 0, true, committed, amqp.StateAccepted)
		p.answered(3, amqp.RoleReceiver, 1, true, "", amqp.StateAccepted)

		p.declares(3, "005314c0160b435202a00803000000000000004340424040404042005377005331c0020140", rolledBack)
		p.says(1, "005314c02a0b435202a0040300000043404240005334c01402a01057b76a9d285a4a9a92eae5f6b90c3d0540404041005373c0140da1056d2d747832404040404040404040404040005375a003747832")
		p.answered(1, amqp.RoleReceiver, 2, true, rolledBack, amqp.StateAccepted)
		p.says(2, "005315c023064152014042005334c01702a01057b76a9d285a4a9a92eae5f6b90c3d050053244540")
		p.answered(2, amqp.RoleSender, 1, false, rolledBack, amqp.StateAccepted)
		p.says(3, "005314c0160b435203a00804000000000000004340424040404042005377005332c01402a01057b76a9d285a4a9a92eae5f6b90c3d0541")
		p.answered(3, amqp.RoleReceiver, 3, true, "", amqp.StateAccepted)
		p.quiet(time.Second)
		p.says(2, "005315c00b0641520140420053244540")
		p.answered(2, amqp.RoleSender, 1, true, "", amqp.StateAccepted)
		b.shows("q", "[m-tx]")
	})
}

// WP-245: the same under a message session, where .NET takes it for lost if it is told that the
// delivery is settled. The second time it completes the message in another transaction.
func TestDotnetTransactionInSession(t *testing.T) {
	const first, second = "67b0b9a71c2c4a1c94250fc4b33cb597", "aa1172cba2b6404ca8050e2f98429aa7"
	for _, inside := range []bool{false, true} {
		t.Run(fmt.Sprint("inside ", inside), func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
				b.put("s", inSession("a", "1", "x"))
				p := &dotnet{peerConn: b.root()}
				p.begin(3)
				p.begin(6)
				p.attaches(6, &amqp.Attach{Name: "r", Role: amqp.RoleReceiver, ReceiverSettleMode: amqp.Some(amqp.ReceiverSecond),
					Source: &amqp.Source{Address: "/s", Filter: amqp.Map{{Key: amqp.Symbol("com.microsoft:session-filter"), Value: "a"}}}, Target: &amqp.Target{}}, 1)
				p.receive()
				p.says(3, dotnetCoordinator)
				expect[*amqp.Attach](p.peerConn)
				p.declares(3, "005314c0160b435206a00807000000000000004340424040404042005377005331c0020140", first)
				p.says(6, "005315c0220641434042005334c01702a01067b0b9a71c2c4a1c94250fc4b33cb5970053244540")
				p.answered(6, amqp.RoleSender, 0, false, first, amqp.StateAccepted)
				p.says(3, "005314c0160b435207a00808000000000000004340424040404042005377005332c01402a01067b0b9a71c2c4a1c94250fc4b33cb59741")
				p.answered(3, amqp.RoleReceiver, 7, true, "", amqp.StateAccepted)
				p.quiet(time.Second)
				if inside {
					p.declares(3, "005314c0160b43520aa0080b000000000000004340424040404042005377005331c0020140", second)
					p.says(6, "005315c0220641434042005334c01702a010aa1172cba2b6404ca8050e2f98429aa70053244540")
					p.answered(6, amqp.RoleSender, 0, false, second, amqp.StateAccepted)
					p.says(3, "005314c0160b43520ba0080c000000000000004340424040404042005377005332c01402a010aa1172cba2b6404ca8050e2f98429aa742")
					p.answered(6, amqp.RoleSender, 0, true, second, amqp.StateAccepted)
					p.answered(3, amqp.RoleReceiver, 11, true, "", amqp.StateAccepted)
				} else {
					p.says(6, "005315c00a06414340420053244540")
					p.answered(6, amqp.RoleSender, 0, true, "", amqp.StateAccepted)
				}
				b.shows("s", "[]")
			})
		})
	}
}

// WP-245: with EnableCrossEntityTransactions all links are in one AMQP session, with two
// coordinators. The frames are those of recording 06b.
func TestDotnetTransactionOfEntities(t *testing.T) {
	const txn = "1e2d0daffef84bcc80b310db57b6c1a4"
	bubble(t, nil, func(b *bench) {
		b.put("q", newMessage("1", "x"))
		p := &dotnet{peerConn: b.root()}
		p.says(1, "005311c0180840520170ffffffff7000001388700003ffff4040c10100")
		expect[*amqp.Begin](p.peerConn)
		p.says(1, "005312c06c0ea120346338633135383361666330343061396238313531393166353939376566313643424040005328c0320ba12034633863313538336166633034306139623831353139316635393937656631364040404040a3046d6f766540404040005330c002014040404340404040")
		expect[*amqp.Attach](p.peerConn)
		p.says(1, "005312c09e0ea144616d71703a2f2f3132372e302e302e34312f2d62323133343863653b3133333a3133383a3134313a736f7572636528616464726573733a2f712c66696c7465723a5b5d29520141405001005328c0110ba1022f71404040404040c10100404040005329c02f07a126712d30333465313563352d343062382d346463362d616234362d39653239336532333438396540404040404040404040404040")
		expect[*amqp.Attach](p.peerConn)
		p.says(1, "005313c0180b520170ffffffff52017000001388520143520143404240")
		p.receive()
		p.says(1, "005312c06d0ea12066326337613865343637303134353562623332646338623635363561653038665202424040005328c0320ba12066326337613865343637303134353562623332646338623635363561653038664040404040a3046d6f766540404040005330c002014040404340404040")
		expect[*amqp.Attach](p.peerConn)
		p.declares(1, "005314c0160b520243a00801000000000000004340424040404042005377005331c0020140", txn)
		p.says(1, "005312c09e0ea127616d71703a2f2f3132372e302e302e34312f2d62323133343863653b3133333a3133383a3134345203424040005328c0340ba12771322d39636365313833362d303330302d343864322d623133382d38313933306132636434303440404040404040404040005329c00c07a1032f7132404040404040404043404040c11d02a315636f6d2e6d6963726f736f66743a74696d656f75747000001f3f")
		expect[*amqp.Attach](p.peerConn)
		p.says(1, "005314c02b0b52035201a0040100000043404240005334c01402a0101e2d0daffef84bcc80b310db57b6c1a440404041005372c11d02a317782d6f70742d7669612d706172746974696f6e2d6b6579a1016b005375a003766961")
		p.answered(1, amqp.RoleReceiver, 1, true, txn, amqp.StateAccepted)
		p.says(1, "005315c0220641434042005334c01702a0101e2d0daffef84bcc80b310db57b6c1a40053244540")
		p.answered(1, amqp.RoleSender, 0, false, txn, amqp.StateAccepted)
		p.says(1, "005314c0170b52025202a00802000000000000004340424040404042005377005332c01402a0101e2d0daffef84bcc80b310db57b6c1a442")
		p.answered(1, amqp.RoleSender, 0, true, txn, amqp.StateAccepted)
		p.answered(1, amqp.RoleReceiver, 2, true, "", amqp.StateAccepted)
		b.shows("q", "[]")
		p.detaches(3)
		p.detaches(1)
	})
}

// detaches closes a link as .NET did it in recording 06b.
func (p *dotnet) detaches(handle byte) {
	p.Helper()
	p.says(1, fmt.Sprintf("005316c0050352%02x4140", handle))
	if d := expect[*amqp.Detach](p.peerConn); d.Handle != uint32(handle) || d.Error != nil {
		p.Errorf("%+v; want handle %d closed", d, handle)
	}
}
