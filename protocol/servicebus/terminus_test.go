package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// receiverOf attaches a receiver as handle 2 on channel 0 with a source.
func (p *peerConn) receiverOf(source *amqp.Source, target *amqp.Target, mode amqp.Opt[amqp.SenderSettleMode]) *amqp.Attach {
	p.Helper()
	p.write(0, &amqp.Attach{Name: "r2", Handle: 2, Role: amqp.RoleReceiver, SenderSettleMode: mode, Source: source, Target: target}, nil)
	return expect[*amqp.Attach](p)
}

// 4.1, 4.7: the answer has the requested features of a link that the broker honours, field by
// field: nothing outlives the link, the broker gives no outcome on behalf of the peer, only known
// outcomes are possible, and messages are moved, except for browsers of queues.
func TestAnswerHasWhatHolds(t *testing.T) {
	topics(t, func(b *bench) {
		lifetime := amqp.Map{{Key: amqp.Symbol("lifetime-policy"), Value: "x"}}
		capable := []amqp.Symbol{"queue", "shared", "global"}
		for _, test := range []struct {
			address    string
			mode, want amqp.Symbol
		}{
			{"q", "", ""}, {"q", "move", "move"}, {"q", "copy", "copy"}, {"q", "other", "move"}, {"Q/$DeadLetterQueue", "copy", "copy"},
			{"t/Subscriptions/u", "copy", "move"}, {"t/Subscriptions/u", "", ""}, {"t/Subscriptions/u/$DeadLetterQueue", "copy", "move"},
			{"q/$management", "copy", ""},
		} {
			p := b.root()
			a := p.receiverOf(&amqp.Source{
				Address: test.address, Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(99)), DynamicNodeProperties: lifetime,
				DistributionMode: test.mode, DefaultOutcome: amqp.Modified{DeliveryFailed: true}, Capabilities: capable,
				Filter:   amqp.Map{{Key: amqp.Symbol("none"), Value: nil}},
				Outcomes: []amqp.Symbol{"amqp:accepted:list", "amqp:declared:list", "amqp:modified:list"},
			}, &amqp.Target{
				Address: "mine", Durable: amqp.Some(uint32(1)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(99)), DynamicNodeProperties: lifetime, Capabilities: capable,
			}, amqp.Opt[amqp.SenderSettleMode]{})
			want := &amqp.Source{Address: test.address, DistributionMode: test.want}
			if test.want != "copy" && !strings.Contains(test.address, "$management") {
				want.Outcomes = []amqp.Symbol{"amqp:accepted:list", "amqp:modified:list"}
			}
			if !cmp.Equal(a.Source, want) || !cmp.Equal(a.Target, &amqp.Target{Address: "mine"}) ||
				a.OfferedCapabilities != nil || a.DesiredCapabilities != nil || a.Unsettled != nil || a.Properties != nil {
				t.Errorf("%s %q: %+v %+v %+v (-want +got):\n%s", test.address, test.mode, a.Source, a.Target, a, cmp.Diff(want, a.Source))
			}
			p.net.Close()
		}
		p := b.root()
		p.write(0, &amqp.Attach{Name: "s", Handle: 1, Role: amqp.RoleSender,
			Source: &amqp.Source{Address: "mine", Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", DistributionMode: "copy", Outcomes: []amqp.Symbol{"amqp:accepted:list"},
				Filter: amqp.Map{{Key: amqp.Symbol("k"), Value: "v"}}, Capabilities: capable},
			Target:              &amqp.Target{Address: "q", Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never", Timeout: amqp.Some(uint32(9)), Capabilities: capable},
			DesiredCapabilities: []amqp.Symbol{"DELAYED_DELIVERY"}, OfferedCapabilities: capable}, nil)
		a := expect[*amqp.Attach](p)
		if !cmp.Equal(a.Source, &amqp.Source{Address: "mine"}) || !cmp.Equal(a.Target, &amqp.Target{Address: "q"}) || a.OfferedCapabilities != nil || a.DesiredCapabilities != nil {
			t.Errorf("%+v %+v %+v (-want +got):\n%s", a.Source, a.Target, a, cmp.Diff(&amqp.Source{Address: "mine"}, a.Source))
		}
	})
}

// Semantics.md 20: features that do not exist are refused by name.
func TestRefusedByName(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for name, test := range map[string]struct {
			attach amqp.Attach
			symbol amqp.Symbol
			text   string
		}{
			"temporary queue, to receive": {amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Dynamic: true, Capabilities: []amqp.Symbol{"temporary-queue"}}}, amqp.CondNotImplemented, noDynamicText},
			"dynamic with an address":     {amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Dynamic: true, Address: "q"}}, amqp.CondNotImplemented, noDynamicText},
			"temporary queue, to send":    {amqp.Attach{Target: &amqp.Target{Dynamic: true}}, amqp.CondNotImplemented, noDynamicText},
			"no target":                   {amqp.Attach{}, amqp.CondNotImplemented, noRelayText},
			"target without address":      {amqp.Attach{Target: &amqp.Target{}}, amqp.CondNotImplemented, noRelayText},
			"no source":                   {amqp.Attach{Role: amqp.RoleReceiver}, amqp.CondInvalidField, noAddressText},
			"source without address":      {amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{}}, amqp.CondInvalidField, noAddressText},
			"number for an address":       {amqp.Attach{Target: &amqp.Target{Address: uint32(7)}}, amqp.CondInvalidField, badAddressText},
		} {
			p := b.root()
			test.attach.Name = "x"
			p.write(0, &test.attach, nil)
			if a := expect[*amqp.Attach](p); a.Source != nil || a.Target != nil {
				t.Errorf("%s: %+v; want a.Source == nil && a.Target == nil", name, a)
			}
			if d := expect[*amqp.Detach](p); d.Error == nil || d.Error.Condition != test.symbol || !strings.HasPrefix(d.Error.Description, test.text+" TrackingId:") || !d.Closed {
				t.Errorf(`%s: %+v; want d.Error != nil && d.Error.Condition == test.symbol && strings.HasPrefix(d.Error.Description, test.text+" TrackingId:") && d.Closed`, name, d.Error)
			}
			p.net.Close()
		}
		for _, text := range []string{noDynamicText, noRelayText} {
			if !strings.Contains(text, "not implemented") {
				t.Errorf(`%+v; want strings.Contains(text, "not implemented")`, text)
			}
		}
	})
}

// 4.1, WP-152: a filter that the broker does not know is refused by its name, on links of every
// kind, never left out. The kind of a filter is its descriptor or, without one, its key.
func TestUnknownFilters(t *testing.T) {
	const selector, noLocal = "apache.org:selector-filter:string", "apache.org:no-local-filter:list"
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		b.topic("t", nil)
		b.subscription("t", "s", nil)
		for _, test := range []struct {
			key, value any
			names      []string
		}{
			{amqp.Symbol("jms-selector"), amqp.Described{Descriptor: amqp.Symbol(selector), Value: "colour = 'blue'"}, []string{"'jms-selector'", selector}},
			{amqp.Symbol(selector), amqp.Described{Descriptor: uint64(0x0000468C00000004), Value: "colour = 'blue'"}, []string{"'" + selector + "'"}},
			{amqp.Symbol("s"), amqp.Described{Descriptor: uint64(0x0000468C00000004), Value: "colour = 'blue'"}, []string{"'s'", selector}},
			{amqp.Symbol("no-local"), amqp.Described{Descriptor: amqp.Symbol(noLocal), Value: amqp.List{}}, []string{"'no-local'", noLocal}},
			{amqp.Symbol("no-local"), amqp.Described{Descriptor: uint64(0x0000468C00000003), Value: amqp.List{}}, []string{"'no-local'", noLocal}},
			{amqp.Symbol("plain"), "x", []string{"'plain'"}},
			{amqp.Symbol("n"), amqp.Described{Descriptor: uint64(77), Value: nil}, []string{"'n'", "0x4d"}},
			{amqp.Symbol(keySessionFilter), amqp.Described{Descriptor: amqp.Symbol(selector), Value: "a"}, []string{keySessionFilter, selector}},
			{amqp.Symbol(keyNonExclusiveFilter), amqp.Described{Descriptor: uint64(0x137000000E), Value: amqp.List{nil, nil}}, []string{keyNonExclusiveFilter}},
			{amqp.Symbol(keyNonExclusiveFilter), nil, nil},
			{amqp.Symbol("none"), nil, nil},
		} {
			for i, address := range []string{"q", "q/$DeadLetterQueue", "t/Subscriptions/s", "q/$management", "$cbs", "s"} {
				p := b.root()
				filter := amqp.Map{{Key: test.key, Value: test.value}}
				if session := (amqp.Pair{Key: amqp.Symbol(keySessionFilter), Value: "a"}); address == "s" && test.key != session.Key {
					filter = append(amqp.Map{session}, filter...)
				}
				a := p.receiverOf(&amqp.Source{Address: address, Filter: filter}, nil, amqp.Some(amqp.SenderSettled))
				if refused := a.Source == nil; refused != (test.names != nil) {
					t.Errorf("%s, %v: %+v; want refused == (test.names != nil)", address, test.key, a)
				}
				if a.Source != nil && i < 5 && a.Source.Filter != nil || a.Source != nil && address == "s" && len(a.Source.Filter) != 1 {
					t.Errorf("%s, %v: filters %+v; want one of them at s, and none where none was asked for", address, test.key, a.Source.Filter)
				}
				if test.names != nil {
					d := expect[*amqp.Detach](p)
					for _, name := range append(test.names, "not implemented") {
						if d.Error == nil || d.Error.Condition != amqp.CondNotImplemented || !strings.Contains(d.Error.Description, name) {
							t.Errorf("%s, %v: %+v; want d.Error != nil && d.Error.Condition == amqp.CondNotImplemented && strings.Contains(d.Error.Description, name)", address, test.key, d.Error)
						}
					}
				}
				p.net.Close()
				synctest.Wait() // a session it holds is released
			}
		}
		twice := b.root()
		twice.receiverOf(&amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: "a"}, {Key: amqp.Symbol("k"), Value: described("b")}}}, nil, amqp.Some(amqp.SenderSettled))
		if d := expect[*amqp.Detach](twice); d.Error.Condition != amqp.CondArgumentError {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondArgumentError", d.Error)
		}
		other := b.root() // a session filter under another name is one
		a := other.receiverOf(&amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol("k"), Value: described("a")}}}, nil, amqp.Some(amqp.SenderUnsettled))
		if want := (amqp.Map{{Key: amqp.Symbol("k"), Value: described("a")}}); !cmp.Equal(a.Source.Filter, want) {
			t.Errorf("%+v (-want +got):\n%s", a, cmp.Diff(want, a.Source.Filter))
		}
	})
}

// browse attaches a browser as handle 2.
func (p *peerConn) browse(address string, mode amqp.Opt[amqp.SenderSettleMode]) {
	p.Helper()
	if a := p.receiverOf(&amqp.Source{Address: address, DistributionMode: "copy"}, nil, mode); a.Source == nil || a.Source.DistributionMode != "copy" || a.SenderSettleMode != mode {
		p.Fatalf(`%+v; want a.Source != nil && a.Source.DistributionMode == "copy" && a.SenderSettleMode == mode`, a)
	}
}

// shows wants a browser to be shown the messages with these ids, and nothing after them.
func (p *peerConn) shows(ids ...string) (got []openedMessage) {
	p.Helper()
	for _, id := range ids {
		m := p.receive()
		if _, locked := m.annotations.Get(keyLockedUntil); m.properties.MessageID != id || locked {
			p.Errorf("%+v instead of %s", m, id)
		}
		got = append(got, m)
	}
	p.quiet(time.Second)
	return got
}

// A receiver that asks a queue for copies browses: it gets all messages as a peek would, from the
// first one on, and later ones, as far as its credit allows. It locks nothing, counts nothing and
// takes nothing, whatever it answers.
func TestBrowse(t *testing.T) {
	for name, mode := range map[string]amqp.Opt[amqp.SenderSettleMode]{
		"unsettled": amqp.Some(amqp.SenderUnsettled), "settled": amqp.Some(amqp.SenderSettled), "mixed": amqp.Some(amqp.SenderMixed), "null": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				unsettled := mode == amqp.Some(amqp.SenderUnsettled)
				b.put("q", newMessage("locked", "x"), newMessage("deferred", "x"), newMessage("active", "x"))
				r := b.root()
				r.attachReceiver(2, "q", amqp.SenderUnsettled)
				r.credit(2, 0, 2, false)
				locked, deferred := r.receive(), r.receive()
				r.settle(deferred.id, amqp.Modified{UndeliverableHere: true}, false)
				r.outcome(deferred.id, amqp.Modified{UndeliverableHere: true})
				b.put("q", scheduled("scheduled", time.Now().Add(time.Hour)))
				for range 4 { // more looks than there may be deliveries
					p := b.root()
					p.browse("Q", mode)
					p.quiet(time.Second)
					p.credit(2, 0, 3, false)
					got := p.shows("locked", "deferred", "active")
					for i, m := range got {
						if state, _ := m.annotations.Get(keyState); m.settled == unsettled || m.header.DeliveryCount.Value != map[int]uint32{0: 0, 1: 1, 2: 0}[i] || state != []any{int32(0), int32(1), int32(0)}[i] {
							t.Errorf("%+v; want m.settled != unsettled && m.header.DeliveryCount.Value == map[int]uint32{0: 0, 1: 1, 2: 0}[i] && state == []any{int32(0), int32(1), int32(0)}[i]", m)
						}
					}
					for i, state := range []amqp.DeliveryState{amqp.Rejected{Error: &amqp.Error{Condition: deadLetterCondition}}, amqp.StateAccepted, amqp.Modified{DeliveryFailed: true}} {
						if p.settle(got[i].id, state, false); unsettled {
							p.outcome(got[i].id, []amqp.DeliveryState{amqp.Rejected{}, amqp.StateAccepted, amqp.Modified{}}[i])
						}
					}
					p.credit(2, 3, 100, false)
					p.shows("scheduled")
					b.put("q2", newMessage("elsewhere", "x"))
					p.quiet(time.Second)
					p.detach(2)
				}
				p := b.root()
				p.browse("q", mode)
				p.credit(2, 0, 10, false)
				p.shows("locked", "deferred", "active", "scheduled")
				b.put("q", newMessage("new", "x"), scheduled("later", time.Now().Add(time.Minute)))
				p.shows("new", "later")
				r.settle(locked.id, amqp.StateAccepted, false)
				r.outcome(locked.id, amqp.StateAccepted)
				time.Sleep(time.Minute)
				p.shows("later") // under its new number
				r.credit(2, 2, 10, false)
				for _, id := range []string{"active", "new", "later"} {
					if m := r.receive(); m.properties.MessageID != id || m.header.DeliveryCount.Value != 0 {
						t.Errorf("%+v instead of %s", m, id)
					}
				}
				r.quiet(time.Second)
				p.attachReceiver(3, "q/$DeadLetterQueue", amqp.SenderSettled)
				p.credit(3, 0, 1, false)
				p.quiet(time.Second)
			})
		})
	}
}

// Browsers of queues with sessions see all of them, those of dead-letter queues the dead letters;
// forwarding and a status that forbids receiving hold for them as for others; there is none with a
// session filter, and none of a topic.
func TestBrowseElsewhere(t *testing.T) {
	sessions(t, func(b *bench, p *peerConn) {
		p.send(1, 0, inSession("a", "1", "x"))
		p.send(1, 1, inSession("b", "2", "x"))
		holder := b.root()
		holder.acceptSession(2, "s", "a")
		p.browse("s", amqp.Opt[amqp.SenderSettleMode]{})
		p.credit(2, 0, 10, false)
		p.shows("1", "2")
		p.detach(2)
		holder.credit(2, 0, 1, false)
		holder.settle(holder.receive().id, amqp.Rejected{}, true)
		p.quiet(time.Second)
		for range 5 {
			p.browse("s/$deadletterqueue", amqp.Some(amqp.SenderUnsettled))
			p.credit(2, 0, 10, false)
			m := p.shows("1")[0]
			p.settle(m.id, amqp.Rejected{}, false)
			p.outcome(m.id, amqp.Rejected{})
			p.detach(2)
		}
		refused := func(address string, filter amqp.Map, symbol amqp.Symbol) {
			t.Helper()
			if a := p.receiverOf(&amqp.Source{Address: address, DistributionMode: "copy", Filter: filter}, nil, amqp.Some(amqp.SenderSettled)); a.Source != nil {
				t.Errorf("%s: %+v; want a.Source == nil", address, a)
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != symbol {
				t.Errorf("%s: %+v; want d.Error.Condition == symbol", address, d.Error)
			}
			p.write(0, &amqp.Detach{Handle: 2, Closed: true}, nil)
		}
		for _, value := range []any{"a", nil} {
			refused("s", amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: value}}, amqp.CondNotImplemented)
		}
		b.topic("t", nil)
		refused("t", nil, amqp.CondNotAllowed)
		b.queue("forwards", func(p *event.Properties) { p.ForwardTo = "q" })
		refused("forwards", nil, amqp.CondNotAllowed)
		b.queue("q2", func(p *event.Properties) { p.Status = event.ReceiveDisabled })
		refused("q2", nil, amqp.CondEntityDisabled)
		none := b.root()
		none.net.Close()
		sender := b.login("send", "send-key")
		if a := sender.receiverOf(&amqp.Source{Address: "q", DistributionMode: "copy"}, nil, amqp.Some(amqp.SenderSettled)); a.Source != nil {
			t.Errorf("%+v; want a.Source == nil", a)
		}
		if d := expect[*amqp.Detach](sender); d.Error.Condition != amqp.CondUnauthorizedAccess {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess", d.Error)
		}
	})
}

// On a subscription a receiver that asks for copies is answered that it takes, and does.
func TestCopyOnSubscriptionMoves(t *testing.T) {
	topics(t, func(b *bench) {
		b.put("t", newMessage("1", "x"))
		p := b.root()
		if a := p.receiverOf(&amqp.Source{Address: "t/Subscriptions/u", DistributionMode: "copy", Durable: amqp.Some(uint32(2)), ExpiryPolicy: "never"}, nil, amqp.Some(amqp.SenderUnsettled)); a.Source.DistributionMode != "move" {
			t.Fatalf(`%+v; want a.Source.DistributionMode == "move"`, a.Source)
		}
		p.credit(2, 0, 10, false)
		m := p.receive()
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcome(m.id, amqp.StateAccepted)
		if got := b.held("t/Subscriptions/u"); got != "" {
			t.Errorf(`%+v, want ""`, got)
		}
	})
}

// A drain shows a browser all messages, as far as its credit allows, whatever their number, and
// tells it when that is done (4.3).
func TestBrowseDrains(t *testing.T) {
	for _, mode := range []amqp.SenderSettleMode{amqp.SenderUnsettled, amqp.SenderSettled} {
		bubble(t, nil, func(b *bench) {
			const many = 5 * browseAhead
			var all [][]byte
			for i := range many {
				all = append(all, newMessage(fmt.Sprint(i), "x"))
			}
			b.put("q", all...)
			for _, credit := range []uint32{1, browseAhead, browseAhead + 1, many - 1, many, many + 1, 5000, 100_000} {
				p := b.root()
				p.browse("q", amqp.Some(mode))
				p.credit(2, 0, credit, true)
				seen := min(credit, many)
				for i := range seen {
					if m := p.receive(); m.properties.MessageID != fmt.Sprint(i) {
						t.Fatalf("credit %d: %+v instead of %d", credit, m, i)
					}
				}
				for r := p.next(); ; r = p.next() {
					f, ok := r.p.(*amqp.Flow)
					if !ok {
						t.Fatalf("credit %d: %+v", credit, r.p)
					}
					if f.Handle.Set && f.Drain {
						if f.LinkCredit.Value != 0 || f.DeliveryCount.Value != credit {
							t.Errorf("credit %d: %+v", credit, f)
						}
						break
					}
				}
				p.credit(2, credit, 10, false)
				if seen < many {
					if m := p.receive(); m.properties.MessageID != fmt.Sprint(seen) {
						t.Errorf("credit %d: %+v goes on after the drain", credit, m)
					}
				}
				p.net.Close()
			}
		})
	}
}

// Credit that a browser withdraws costs it nothing: the messages follow with the next credit.
func TestBrowseCreditTakenBack(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for i := range 100 {
			b.put("q", newMessage(fmt.Sprint(i), "x"))
		}
		p := b.root()
		p.browse("q", amqp.Some(amqp.SenderUnsettled))
		seen := uint32(0)
		for step := range uint32(200) {
			p.credit(2, seen, 50, false)
			if step%2 == 0 {
				synctest.Wait() // what there is for that credit is on its way
			}
			p.credit(2, seen, step%3, false)
			synctest.Wait()
			for len(p.in) > 0 {
				if r := p.next(); r.err != nil {
					t.Fatal(r.err)
				} else if _, ok := r.p.(*amqp.Transfer); !ok {
					t.Fatalf("%+v; want ok", r.p)
				} else if m := decodeMessage(t, r.payload); m.properties.MessageID != fmt.Sprint(seen) {
					t.Fatalf("%v instead of %d", m.properties.MessageID, seen)
				}
				seen++
			}
		}
		if seen != 100 {
			t.Errorf("%d messages shown", seen)
		}
	})
}
