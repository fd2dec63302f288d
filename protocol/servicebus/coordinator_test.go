package servicebus

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Handles of coordinators in these tests begin here.
const coordinatorHandle = 50

// attachCoordinator attaches a coordinator as the Java SDK does, and waits for credit.
func (p *peerConn) attachCoordinator(handle uint32) *amqp.Coordinator {
	p.Helper()
	p.write(0, &amqp.Attach{Name: fmt.Sprint("coordinator", handle), Handle: handle, Role: amqp.RoleSender, Source: &amqp.Source{},
		Target: &amqp.Coordinator{Capabilities: []amqp.Symbol{"amqp:local-transactions", "amqp:distributed-transactions"}}}, nil)
	a := expect[*amqp.Attach](p)
	if a.Source == nil || a.Role != amqp.RoleReceiver || a.MaxMessageSize.Value == 0 {
		p.Fatalf("%+v; want a.Source != nil && a.Role == amqp.RoleReceiver && a.MaxMessageSize.Value != 0", a)
	}
	if f := expect[*amqp.Flow](p); f.LinkCredit.Value == 0 || !f.DeliveryCount.Set {
		p.Fatalf("%+v; want f.LinkCredit.Value != 0 && f.DeliveryCount.Set", f)
	}
	return a.Target.(*amqp.Coordinator)
}

// control asks a coordinator for something.
func (p *peerConn) control(handle, id uint32, asked amqp.Control) {
	p.write(0, &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(id), DeliveryTag: []byte{1}}, controlMessage(asked))
}

func controlMessage(asked amqp.Control) []byte {
	return amqp.AppendControl(amqp.AppendDescriptor(nil, amqp.SectionValue), asked)
}

// declare begins a transaction (WP-191).
func (p *peerConn) declare(handle, id uint32) (txn []byte) {
	p.Helper()
	p.control(handle, id, &amqp.Declare{})
	d := expect[*amqp.Disposition](p)
	declared, ok := d.State.(amqp.Declared)
	if !ok || d.First != id || !d.Settled || d.Role != amqp.RoleReceiver || len(declared.TxnID) != 16 {
		p.Fatalf("%+v; want ok && d.First == id && d.Settled && d.Role == amqp.RoleReceiver && len(declared.TxnID) == 16", d)
	}
	return declared.TxnID
}

// discharge ends a transaction, and wants that accepted.
func (p *peerConn) discharge(handle, id uint32, txn []byte, fail bool) {
	p.Helper()
	p.control(handle, id, &amqp.Discharge{TxnID: txn, Fail: fail})
	p.accepted(id)
}

// accepted wants a delivery accepted.
func (p *peerConn) accepted(id uint32) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	if _, ok := d.State.(amqp.Accepted); !ok || d.First != id || !d.Settled || d.Role != amqp.RoleReceiver {
		p.Fatalf("%+v; want ok && d.First == id && d.Settled && d.Role == amqp.RoleReceiver", d)
	}
}

// rejectedText wants a delivery rejected with a condition, in these words.
func (p *peerConn) rejectedText(id uint32, symbol amqp.Symbol, text string) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	r, ok := d.State.(amqp.Rejected)
	if !ok || r.Error == nil || r.Error.Condition != symbol || d.First != id || !d.Settled || !strings.HasPrefix(r.Error.Description, text) {
		p.Fatalf("%+v %+v; want ok && r.Error != nil && r.Error.Condition == symbol && d.First == id && d.Settled && strings.HasPrefix(r.Error.Description, text)", d, r.Error)
	}
	p.suffix(r.Error.Description)
}

// WP-190, WP-191, WP-198, SM-242: every connection can have a coordinator. Transactions without
// operations end at once, and only once.
func TestCoordinator(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open() // one SDK asks for it before its first token
		if c := p.attachCoordinator(coordinatorHandle); !cmp.Equal(c.Capabilities, []amqp.Symbol{"amqp:local-transactions"}) {
			t.Errorf("%+v (-want +got):\n%s", c, cmp.Diff([]amqp.Symbol{"amqp:local-transactions"}, c.Capabilities))
		}
		first, second := p.declare(coordinatorHandle, 0), p.declare(coordinatorHandle, 1)
		if bytes.Equal(first, second) {
			t.Error("two transactions of one id")
		}
		p.discharge(coordinatorHandle, 2, first, false)
		p.discharge(coordinatorHandle, 3, second, true)
		for i, id := range [][]byte{first, second, {}, {1}, make([]byte, 16), make([]byte, 32)} {
			p.control(coordinatorHandle, 4+uint32(i), &amqp.Discharge{TxnID: id})
			p.rejectedText(4+uint32(i), amqp.CondTransactionUnknownID, "Transaction hasn't been declared yet, or has already been discharged TrackingId:")
		}
		p.write(0, &amqp.Attach{Name: "no capabilities", Handle: 51, Role: amqp.RoleSender, Target: &amqp.Coordinator{}}, nil)
		if a := expect[*amqp.Attach](p); !cmp.Equal(a.Target, &amqp.Coordinator{}) {
			t.Errorf("%+v (-want +got):\n%s", a, cmp.Diff(&amqp.Coordinator{}, a.Target))
		}
	})
}

// What is no declare and no discharge is refused, and the coordinator stays.
func TestCoordinatorMalformed(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachCoordinator(coordinatorHandle)
		for i, test := range []struct {
			body   []byte
			symbol amqp.Symbol
		}{
			{[]byte("rubbish"), amqp.CondDecodeError},
			{nil, amqp.CondDecodeError},
			{newMessage("a", "x"), amqp.CondDecodeError},
			{amqp.AppendSection(nil, amqp.SectionValue, "declare"), amqp.CondDecodeError},
			{amqp.AppendSection(nil, amqp.SectionValue, nil), amqp.CondDecodeError},
			// no id
			{append(amqp.AppendDescriptor(nil, amqp.SectionValue), 0, 0x53, 0x32, 0x45), amqp.CondDecodeError},
			{controlMessage(&amqp.Declare{GlobalID: []byte("x")}), amqp.CondNotImplemented},
			{bytes.Repeat([]byte("x"), 70_000), amqp.CondMessageSizeExceeded},
		} {
			p.transfer(coordinatorHandle, uint32(i), test.body)
			p.rejectedText(uint32(i), test.symbol, "")
		}
		p.write(0, &amqp.Transfer{Handle: coordinatorHandle, DeliveryID: amqp.Some(uint32(20)), State: amqp.TransactionalState{TxnID: []byte{1}}},
			controlMessage(&amqp.Declare{}))
		p.rejectedText(20, amqp.CondNotAllowed, noPartText)
		// no peer waits for it
		for id, asked := range []amqp.Control{&amqp.Declare{}, &amqp.Discharge{TxnID: []byte{1}}} {
			p.write(0, &amqp.Transfer{Handle: coordinatorHandle, DeliveryID: amqp.Some(21 + uint32(id)), Settled: amqp.Some(true)}, controlMessage(asked))
		}
		p.write(0, &amqp.Transfer{Handle: coordinatorHandle, DeliveryID: amqp.Some(uint32(30)), More: true}, controlMessage(&amqp.Declare{}))
		p.write(0, &amqp.Transfer{Handle: coordinatorHandle, Aborted: true}, nil)
		p.discharge(coordinatorHandle, 41, p.declare(coordinatorHandle, 40), false)
	})
}

// Several coordinators are attached side by side; what one has declared another may discharge. With
// its coordinator a transaction ends (WP-197).
func TestCoordinators(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachCoordinator(coordinatorHandle)
		p.write(0, &amqp.Attach{Name: "another", Handle: 51, Role: amqp.RoleSender, Target: &amqp.Coordinator{}}, nil)
		expect[*amqp.Attach](p)
		first, second := p.declare(coordinatorHandle, 0), p.declare(coordinatorHandle, 1)
		p.discharge(51, 2, first, false)
		p.write(0, &amqp.Detach{Handle: coordinatorHandle, Closed: true}, nil)
		expect[*amqp.Detach](p)
		p.control(51, 3, &amqp.Discharge{TxnID: second})
		p.rejectedText(3, amqp.CondTransactionUnknownID, notDeclaredText)
		third := p.declare(51, 4)
		p.write(0, &amqp.End{}, nil)
		expect[*amqp.End](p)
		p.begin(0)
		p.attachCoordinator(coordinatorHandle)
		p.control(coordinatorHandle, 0, &amqp.Discharge{TxnID: third})
		p.rejectedText(0, amqp.CondTransactionUnknownID, notDeclaredText)
		fourth := p.declare(coordinatorHandle, 1)
		q := b.root() // SM-240
		q.attachCoordinator(coordinatorHandle)
		q.control(coordinatorHandle, 0, &amqp.Discharge{TxnID: fourth})
		q.rejectedText(0, amqp.CondTransactionUnknownID, notDeclaredText)
		p.discharge(coordinatorHandle, 2, fourth, false)
	})
}

// A coordinator on which nothing happens stays, as links to $cbs do; a connection that has nothing
// else is closed.
func TestCoordinatorIdle(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.IdleTimeout = time.Hour }, func(b *bench) {
		p := b.root()
		p.attachCoordinator(coordinatorHandle)
		p.attachSender(1, "q")
		for i := range uint32(10) {
			time.Sleep(2 * time.Minute)
			p.send(1, i, newMessage("a", "x"))
		}
		p.discharge(coordinatorHandle, 11, p.declare(coordinatorHandle, 10), false)
		p.write(0, &amqp.Detach{Handle: 1, Closed: true}, nil)
		expect[*amqp.Detach](p)
		if c := expect[*amqp.Close](p); c.Error == nil || !strings.Contains(c.Error.Description, "LinkTracker") {
			t.Errorf(`%+v; want c.Error != nil && strings.Contains(c.Error.Description, "LinkTracker")`, c)
		}
	})
}

// A peer without a token can begin few transactions, and fewer when they do not fit into the little
// memory that it may use.
func TestDeclareBeforeLogin(t *testing.T) {
	for most, memory := range map[uint32]int{16: 0, 12: 10_500} {
		declareBeforeLogin(t, memory, most)
	}
}

func declareBeforeLogin(t *testing.T, memory int, most uint32) {
	bubble(t, func(o *Options) { o.Limits.BufferedLogin = memory }, func(b *bench) {
		p := b.dial().open()
		p.attachCoordinator(coordinatorHandle)
		for id := uint32(0); ; id++ {
			p.control(coordinatorHandle, id, &amqp.Declare{})
			d := expect[*amqp.Disposition](p)
			if r, ok := d.State.(amqp.Rejected); ok {
				if r.Error.Condition != amqp.CondResourceLimit || id > most || memory == 0 && id < most {
					t.Errorf("%d of %d: %+v", id, most, r.Error)
				}
				return
			}
		}
	})
}

// WP-199a: a client of cross-entity transactions has all its links in one session, and its
// coordinator there before its first token. One link more than that needs one.
func TestCoordinatorBesideTokens(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.attachCoordinator(coordinatorHandle)
		p.attachTokens()
		p.write(0, &amqp.Attach{Name: "second", Handle: coordinatorHandle + 1, Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Coordinator{}}, nil)
		expect[*amqp.Attach](p)
		if d := expect[*amqp.Detach](p); d.Error == nil || d.Error.Condition != amqp.CondResourceLimit {
			t.Fatalf("%+v; want d.Error != nil && d.Error.Condition == amqp.CondResourceLimit", d)
		}
		p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
		p.attachSender(coordinatorHandle+2, "q")
	})
}
