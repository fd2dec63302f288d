package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-030, WP-032, WP-034, WP-035: many spellings, one queue; the reply carries the address as it
// was sent.
func TestAddresses(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("a/b-1", nil)
		p := b.root()
		handle := uint32(0)
		for _, at := range []string{"q", "/q", "Q", "q/", "amqps://any:1/q", "sb://h/q", "%71", "a/b-1", "/A/B-1", "a%2Fb-1"} {
			handle++
			if a := p.attachSender(handle, at); a.Target == nil || a.Target.(*amqp.Target).Address != at {
				t.Errorf("%q: %+v; want a.Target != nil && a.Target.(*amqp.Target).Address == at", at, a)
			}
		}
		for _, at := range []string{"q/$DeadLetterQueue", "/q/$deadletterqueue", "q/$Transfer/$DeadLetterQueue", "q/$management", "q/$DeadLetterQueue/$management"} {
			handle++
			if a := p.attachReceiver(handle, at, amqp.SenderUnsettled); a.Source == nil || a.Source.Address != at {
				t.Errorf("%q: %+v; want a.Source != nil && a.Source.Address == at", at, a)
			}
		}
		// decoded once, they name nothing
		for _, at := range []string{"%2571", "sb://h/%2571", "a%252Fb-1", "%252Fq"} {
			handle++
			if a := p.attachSender(handle, at); a.Target != nil {
				t.Errorf("%q: %+v; want a.Target == nil", at, a)
				continue
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondNotFound {
				t.Errorf("%q: %+v; want d.Error.Condition == amqp.CondNotFound", at, d.Error)
			}
		}
	})
}

// MA-144, over AMQP: what does not decode to text is echoed as it was sent.
func TestAddressWithPercentSign(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		for i, at := range []string{"per%cent", "/per%cent", "sb://h/per%cent"} {
			p.attachSender(uint32(i+1), at)
			d := expect[*amqp.Detach](p)
			if text := d.Error.Description; !utf8.ValidString(text) || !strings.Contains(text, "/per%cent' could not be found") || !strings.Contains(text, ":per%cent, Timestamp") {
				t.Errorf("%q: %q", at, text)
			}
		}
	})
}

// WP-033: every form of an address followed by /$management is the management node of the named
// entity.
func TestManagementAddresses(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("a/b-1", nil)
		b.put("q", newMessage("in q", "x"), newMessage("to the dead letters", "x"))
		b.put("a/b-1", newMessage("in a/b-1", "x"))
		p := b.root()
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 2, false)
		p.receive()
		p.settle(p.receive().id, amqp.Rejected{}, false)
		p.outcome(1, amqp.Rejected{})
		for at, want := range map[string]string{
			"q": "[in q]", "/q": "[in q]", "Q": "[in q]", "amqps://any:1/q": "[in q]", "sb://h/q": "[in q]", "%71": "[in q]",
			"a/b-1": "[in a/b-1]", "/A/B-1": "[in a/b-1]", "a%2Fb-1": "[in a/b-1]",
			"q/$DeadLetterQueue": "[to the dead letters]", "/q/$deadletterqueue": "[to the dead letters]",
			"sb://h/Q/$DEADLETTERQUEUE": "[to the dead letters]", "q/$Transfer/$DeadLetterQueue": "[]", "/Q/$transfer/$deadletterqueue": "[]",
		} {
			for _, suffix := range []string{"/$management", "/$Management", "/$management/", "%2F%24management"} {
				p := b.root()
				for _, a := range []*amqp.Attach{p.attachSender(200, at+suffix), p.attachReceiver(201, at+suffix, amqp.SenderSettled)} {
					if a.Target == nil || a.Source == nil {
						t.Fatalf("%s%s: %+v, %+v; want a.Target != nil && a.Source != nil", at, suffix, a, p.next().p)
					}
				}
				p.credit(201, 0, 10, false)
				if got := p.peekIDs(); fmt.Sprint(got) != want {
					t.Errorf("%s%s: %v, want %s", at, suffix, got, want)
				}
			}
		}
	})
}

// WP-070, WP-071, WP-085, WP-129, SM-009: the answer to an attach.
func TestSenderAttach(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.write(0, &amqp.Attach{Name: "s", Handle: 4, Role: amqp.RoleSender, SenderSettleMode: amqp.Some(amqp.SenderMixed),
			ReceiverSettleMode: amqp.Some(amqp.ReceiverFirst), Target: &amqp.Target{Address: "q"}}, nil)
		a := expect[*amqp.Attach](p)
		if a.Role != amqp.RoleReceiver || a.Name != "s" || a.MaxMessageSize.Value != 256<<10 || a.Source == nil ||
			a.SenderSettleMode != amqp.Some(amqp.SenderMixed) || a.ReceiverSettleMode != amqp.Some(amqp.ReceiverFirst) {
			t.Errorf("%+v", a)
		}
		f := expect[*amqp.Flow](p)
		if f.LinkCredit.Value != 1000 || !f.DeliveryCount.Set || !f.NextIncomingID.Set {
			t.Errorf("%+v; want f.LinkCredit.Value == 1000 && f.DeliveryCount.Set && f.NextIncomingID.Set", f)
		}
		refused := func(a amqp.Attach, symbol amqp.Symbol, text string) {
			t.Helper()
			a.Name, a.Handle = "refused", 5
			p.write(0, &a, nil)
			reply := expect[*amqp.Attach](p)
			d := expect[*amqp.Detach](p)
			if reply.Source != nil || reply.Target != nil || reply.Role == a.Role || reply.Name != a.Name || !d.Closed ||
				d.Error.Condition != symbol || !strings.Contains(d.Error.Description, text) {
				t.Errorf("%+v %+v; want reply.Source == nil && reply.Target == nil && reply.Role != a.Role && reply.Name == a.Name && d.Closed && d.Error.Condition == symbol && strings.Contains(d.Error.Description, text)", reply, d.Error)
			}
			if t, ok := a.Target.(*amqp.Target); a.Role == amqp.RoleSender && (!ok || t.Address == nil) {
				p.suffix(d.Error.Description) // of no entity
			} else {
				p.tracked(d.Error.Description)
			}
			p.write(0, &amqp.Detach{Handle: 5, Closed: true}, nil)
		}
		to := func(at any) amqp.Attach { return amqp.Attach{Role: amqp.RoleSender, Target: &amqp.Target{Address: at}} }
		refused(to("nothing"), amqp.CondNotFound, "could not be found")
		refused(to("q/$DeadLetterQueue"), amqp.CondNotAllowed, "sub-queue")
		refused(to(nil), amqp.CondNotImplemented, "anonymous relay")
		session := amqp.Attach{Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q", Filter: amqp.Map{{Key: amqp.Symbol(keyNonExclusiveFilter), Value: amqp.Described{
			Descriptor: uint64(0x000000137000000E), Value: amqp.List{"s", nil}}}}}}
		refused(session, amqp.CondNotImplemented, "session-filter")
	})
}

// WP-072, SM-005: credit never runs out for a peer that waits for its answers; without credit the
// link is detached.
func TestSenderCredit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.SenderCredit = 4 }, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		credit, sent := uint32(4), uint32(0)
		for sent < 50 {
			if credit == 0 {
				t.Fatal("out of credit")
			}
			p.transfer(1, sent, newMessage("a", "x"))
			sent++
			credit--
			for done := false; !done; {
				switch f := p.next().p.(type) {
				case *amqp.Flow:
					if f.Handle.Set {
						credit = f.DeliveryCount.Value + f.LinkCredit.Value - sent
					}
				case *amqp.Disposition:
					done = true
				}
			}
		}
	})
	bubble(t, func(o *Options) { o.Limits.SenderCredit = 2 }, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		b.broker.hold(func() {
			for i := range uint32(3) {
				p.transfer(1, i, newMessage("a", "x"))
			}
			synctest.Wait()
		})
		for {
			switch f := p.next().p.(type) {
			case *amqp.Detach:
				if f.Error.Condition != amqp.CondTransferLimit {
					t.Errorf("%+v; want f.Error.Condition == amqp.CondTransferLimit", f)
				}
				return
			case nil:
				t.Fatal("no detach")
			}
		}
	})
}

// WP-073, WP-074, WP-076, SM-002, SM-006: one disposition, none for settled and aborted deliveries.
func TestTransfers(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), Settled: amqp.Some(true)}, newMessage("settled", "x"))
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), Settled: amqp.Some(true)}, []byte("rubbish"))
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(2)), More: true}, newMessage("aborted", "x"))
		p.write(0, &amqp.Transfer{Handle: 1, Aborted: true}, nil)
		p.send(1, 3, newMessage("kept", "y"))
		p.transfer(1, 4, []byte("rubbish"))
		p.rejected(4, amqp.CondDecodeError)
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(5)), MessageFormat: amqp.Some(uint32(77))}, newMessage("z", "y"))
		p.rejected(5, amqp.CondNotImplemented)
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(6)), State: amqp.TransactionalState{TxnID: []byte{1}}}, newMessage("z", "y"))
		p.rejected(6, amqp.CondTransactionUnknownID)
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.credit(2, 0, 10, false)
		for _, want := range []string{"settled", "kept"} {
			if m := p.receive(); m.properties.MessageID != want {
				t.Errorf("%+v; want m.properties.MessageID == want", m)
			}
		}
		p.quiet(time.Second)
	})
}

// Answers with contiguous delivery-ids leave as one range.
func TestDispositionRange(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		var out []byte
		for i := range uint32(20) {
			out = amqp.AppendFrame(out, 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(i)}, newMessage("a", "x"))
		}
		p.raw(out)
		frames := 0
		for next := uint32(0); next < 20; frames++ {
			d := expect[*amqp.Disposition](p)
			if d.First != next {
				t.Fatalf("%+v; want d.First == next", d)
			}
			next = d.Last.Value + 1
		}
		if frames > 5 {
			t.Errorf("%d frames", frames)
		}
	})
}

// SM-008, WP-077: a message over the limit is rejected, whatever it came in, and the next send on
// the link succeeds (docs/decisions/0005).
func TestMessageSize(t *testing.T) {
	bubble(t, func(o *Options) {}, func(b *bench) {
		b.queue("small", nil)
		p := b.root()
		p.attachSender(1, "q")
		p.attachSender(2, "q2")
		// exactly at the limit
		big := newMessage("big", strings.Repeat("x", 256<<10-len(newMessage("big", ""))-3))
		if len(big) != 256<<10 {
			t.Fatalf("%+v, want %+v", len(big), 256<<10)
		}
		send := func(handle uint32, m []byte) {
			for i := 0; i < len(m); i += 60000 {
				p.write(0, &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(uint32(7)), More: i+60000 < len(m)}, m[i:min(i+60000, len(m))])
			}
		}
		send(1, big)
		expect[*amqp.Disposition](p)
		send(1, append(big, 0))
		if r, _ := expect[*amqp.Disposition](p).State.(amqp.Rejected); r.Error == nil || r.Error.Condition != amqp.CondMessageSizeExceeded {
			t.Errorf("the delivery over the limit was answered with %+v", r)
		}
		p.send(2, 9, newMessage("a", "x"))
		p.send(1, 10, newMessage("a", "x"))
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(11)), More: true}, make([]byte, 60000))
		for range 5 {
			p.write(0, &amqp.Transfer{Handle: 1, More: true}, make([]byte, 60000))
		}
		// it is over the limit already, without a refusal so far
		p.write(0, &amqp.Transfer{Handle: 1, Aborted: true}, nil)
		p.send(1, 12, newMessage("a", "x"))
	})
}

// WP-078, WP-079, SM-010, SM-011: a batch is all or nothing.
func TestBatch(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		batch := func(id uint32, messages ...[]byte) {
			m := newMessage("envelope", "")[:0]
			for _, one := range messages {
				m = amqp.AppendData(m, one)
			}
			p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(id), MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, m)
		}
		batch(0, newMessage("1", "a"), newMessage("2", "b"), []byte("rubbish"))
		p.rejected(0, amqp.CondDecodeError)
		batch(1, newMessage("1", "a"), amqp.AppendData(nil, []byte("no id")), newMessage("3", "c"))
		if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
			t.Fatalf("%+v; want d.State == amqp.StateAccepted", d)
		}
		batch(2)
		if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
			t.Fatalf("%+v; want d.State == amqp.StateAccepted", d)
		}
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.credit(2, 0, 10, false)
		for i, want := range []string{"a", "no id", "c"} {
			m := p.receive()
			if seq, _ := m.annotations.Get(keySequence); m.body != want || seq != int64(i+1) {
				t.Errorf("%+v; want m.body == want && seq == int64(i+1)", m)
			}
			if id, ok := m.properties.MessageID.(string); !ok || id == "" {
				t.Errorf("id %v", m.properties.MessageID)
			}
		}
		p.quiet(time.Second)
	})
}

// SM-014, SM-412: the sections before the body may have 64 KiB together. A message with more is
// refused alone, in a batch and in a request.
func TestHeaderTooLarge(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		withHeader := func(properties int) []byte {
			var m amqp.Map
			for i := range properties {
				m = append(m, amqp.Pair{Key: fmt.Sprint("k", i), Value: strings.Repeat("x", 16<<10)})
			}
			return with("a", m...)
		}
		p.send(1, 0, withHeader(3))
		p.transfer(1, 1, withHeader(4))
		if e := p.rejected(1, amqp.CondMessageSizeExceeded); !strings.HasPrefix(e.Description, "The size quota for this stream (65536) has been exceeded. TrackingId:") {
			t.Errorf("%v", e)
		}
		batch := amqp.AppendData(amqp.AppendData(nil, newMessage("fine", "x")), withHeader(4))
		p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(2)), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(uint32(amqp.MessageFormatBatch)), More: true}, batch[:60_000])
		p.write(0, &amqp.Transfer{Handle: 1}, batch[60_000:])
		p.rejected(2, amqp.CondMessageSizeExceeded)
		b.node("q").managedWith(403, amqp.CondMessageSizeExceeded, "schedule-message", scheduleBody(withHeader(2), withHeader(4)))
		b.shows("q", "[a]")
	})
}

// SM-013, SM-014, SM-017, WP-083, WP-084: invalid messages are refused on arrival, each at its
// limit and one above.
func TestIngestLimits(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		id := uint32(0)
		annotated := func(key string, v any) []byte {
			m := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(key), Value: v}})
			return append(m, newMessage("a", "x")...)
		}
		properties := func(pr amqp.Properties) []byte { return amqp.AppendData(amqp.AppendProperties(nil, &pr), []byte("x")) }
		application := func(m amqp.Map) []byte {
			return amqp.AppendData(amqp.AppendSection(newMessage("a", "")[:len(newMessage("a", ""))-5], amqp.SectionApplicationProperties, m), nil)
		}
		text := func(n int) string { return strings.Repeat("é", n) }
		long := func(n int) string { return strings.Repeat("x", n) }
		many := func(n int) (m amqp.Map) {
			for i := range n {
				m = append(m, amqp.Pair{Key: fmt.Sprint("k", i), Value: long(16 << 10)})
			}
			return m
		}
		for _, good := range [][]byte{
			properties(amqp.Properties{MessageID: text(128)}),
			properties(amqp.Properties{MessageID: "a", GroupID: amqp.Some(text(128)), ReplyToGroupID: amqp.Some(text(128))}),
			annotated(keyPartitionKey, text(128)), annotated(keyPartitionKey, nil), annotated("x-opt-deadletter-source", nil),
			annotated(keyScheduled, amqp.Timestamp(1)), annotated(keyState, int32(7)), annotated(keySequence, int64(99)), annotated(keyLockedUntil, nil),
			application(amqp.Map{{Key: "k", Value: long(32<<10 - 6)}}), application(many(3)),
			application(amqp.Map{{Key: "k", Value: amqp.Described{Descriptor: amqp.Symbol("com.microsoft:uri"), Value: "u"}}}),
			properties(amqp.Properties{MessageID: uint64(1 << 63)}), properties(amqp.Properties{MessageID: amqp.UUID{1}}), properties(amqp.Properties{MessageID: []byte{1}}),
			// WP-214
			properties(amqp.Properties{MessageID: "t", AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(253402300800000)), CreationTime: amqp.Some(amqp.Timestamp(0))}),
			{}, // no section at all
		} {
			p.send(1, id, good)
			id++
		}
		for _, bad := range [][]byte{
			properties(amqp.Properties{MessageID: text(129)}), properties(amqp.Properties{GroupID: amqp.Some(text(129))}),
			properties(amqp.Properties{ReplyToGroupID: amqp.Some(text(129))}), annotated(keyPartitionKey, text(129)),
			annotated(keyScheduled, nil), annotated(keyState, nil), annotated(keyEnqueueSequence, nil), annotated(keyPartitionKey, int32(1)),
			application(amqp.Map{{Key: "k", Value: long(32<<10 + 1)}}), application(amqp.Map{{Key: "k", Value: amqp.List{"x"}}}),
			properties(amqp.Properties{Subject: amqp.Some(long(32<<10 + 1))}),
		} {
			p.transfer(1, id, bad)
			p.rejected(id, amqp.CondArgumentError)
			id++
		}
		// SM-209, semantics.md 10.2, D-23: on every kind of entity
		keyed := func(key string) []byte {
			m := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyPartitionKey), Value: key}})
			return append(m, properties(amqp.Properties{GroupID: amqp.Some("s")})...)
		}
		p.send(1, id, keyed("s"))
		p.transfer(1, id+1, keyed("p"))
		p.rejected(id+1, amqp.CondNotAllowed)
		p.send(1, id+2, newMessage("a", "x"))
	})
}

// WP-080, WP-081, WP-083, SM-012, SM-015, SM-016: a received message is the sent one, with the
// broker's own annotations.
func TestFidelity(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		application := amqp.Map{
			{Key: "ubyte", Value: uint8(1)}, {Key: "ushort", Value: uint16(1)}, {Key: "uint", Value: uint32(1)}, {Key: "ulong", Value: uint64(1)},
			{Key: "byte", Value: int8(-1)}, {Key: "short", Value: int16(-1)}, {Key: "int", Value: int32(-1)}, {Key: "long", Value: int64(-1)},
			{Key: "float", Value: float32(1.5)}, {Key: "double", Value: 1.5}, {Key: "bool", Value: true}, {Key: "string", Value: "s"},
			{Key: "timestamp", Value: amqp.Timestamp(5)}, {Key: "uuid", Value: amqp.UUID{1}}, {Key: "binary", Value: []byte{1}}, {Key: "null", Value: nil},
			{Key: "described", Value: amqp.Described{Descriptor: amqp.Symbol("com.microsoft:timespan"), Value: int64(9)}},
		}
		for i, body := range [][]byte{
			amqp.AppendData(amqp.AppendData(nil, []byte("one")), []byte("two")),
			amqp.AppendSection(nil, amqp.SectionValue, amqp.Map{{Key: "k", Value: amqp.List{int32(1)}}}),
			amqp.AppendSection(amqp.AppendSection(nil, amqp.SectionSequence, amqp.List{"a"}), amqp.SectionSequence, amqp.List{"b"}),
			nil,
		} {
			m := amqp.AppendHeader(nil, &amqp.Header{Priority: amqp.Some(uint8(9)), DeliveryCount: amqp.Some(uint32(5))})
			m = amqp.AppendSection(m, amqp.SectionDeliveryAnnotations, amqp.Map{{Key: amqp.Symbol("d"), Value: "x"}, {Key: amqp.Symbol(keyLockToken), Value: amqp.UUID{}}})
			m = amqp.AppendSection(m, amqp.SectionMessageAnnotations, amqp.Map{
				{Key: amqp.Symbol("user"), Value: "u"}, {Key: uint64(77), Value: "n"}, {Key: amqp.Symbol(keySequence), Value: int64(999)}, {Key: amqp.Symbol(keyLockedUntil), Value: amqp.Timestamp(1)},
				{Key: amqp.Symbol(keyEnqueuedTime), Value: amqp.Timestamp(1)}, {Key: amqp.Symbol(keyPartitionKey), Value: nil}, {Key: amqp.Symbol(keyDeadLetterSource), Value: nil},
			})
			m = amqp.AppendProperties(m, &amqp.Properties{Subject: amqp.Some("subject"), To: amqp.Some("to")})
			tail := append(amqp.AppendSection(nil, amqp.SectionApplicationProperties, application), body...)
			tail = amqp.AppendSection(tail, amqp.SectionFooter, amqp.Map{{Key: amqp.Symbol("f"), Value: "y"}})
			p.send(1, uint32(i), append(m, tail...))
			if i == 0 {
				p.attachReceiver(2, "q", amqp.SenderUnsettled)
			}
			p.credit(2, uint32(i), 1, false)
			_, got := expectFrame[*amqp.Transfer](p)
			if !strings.HasSuffix(string(got), string(tail)) {
				t.Errorf("tail changed:\n% x\n% x", tail, got)
			}
			d := decodeMessage(t, got)
			seq, _ := d.annotations.Get(keySequence)
			at, _ := d.annotations.Get(keyEnqueuedTime)
			until, _ := d.annotations.Get(keyLockedUntil)
			user, _ := d.annotations.Get("user")
			key, ok := d.annotations.Get(keyPartitionKey)
			source, there := d.annotations.Get(keyDeadLetterSource)
			// unknown ones come through, whatever their key
			numbered := slices.Contains(d.annotations, amqp.Pair{Key: uint64(77), Value: "n"})
			now := timestampOf(time.Now())
			if seq != int64(i+1) || at != now || until != now+30000 || user != "u" || key != nil || !ok || source != nil || !there || !numbered || len(d.annotations) != 7 {
				t.Errorf(`%+v; want seq == int64(i + 1) && at == now && until == now + 30000 && user == "u" && key == nil && ok && source == nil && there && numbered && len(d.annotations) == 7`, d.annotations)
			}
			if d.header.Priority.Value != 9 || d.header.DeliveryCount != amqp.Some(uint32(0)) || d.header.TTL.Set || d.properties.Subject.Value != "subject" {
				t.Errorf(`%+v %+v; want d.header.Priority.Value == 9 && d.header.DeliveryCount == amqp.Some(uint32(0)) && !d.header.TTL.Set && d.properties.Subject.Value == "subject"`, d.header, d.properties)
			}
			if id, ok := d.properties.MessageID.(string); !ok || len(id) != 36 {
				t.Errorf("id %v", d.properties.MessageID)
			}
		}
	})
}

// WP-086, WP-089, reliability.md 1.1: refusals of the engine, and an unknown outcome that must not
// be called a rejection.
func TestEngineRefusals(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		var err error
		b.broker.refuse(func(c engine.Command) error {
			if _, ok := c.(*engine.Send); ok {
				return err
			}
			return nil
		})
		p := b.root()
		p.attachSender(1, "q")
		for code, symbol := range map[engine.Code]amqp.Symbol{
			engine.QuotaExceeded: amqp.CondResourceLimit, engine.Disabled: amqp.CondEntityDisabled, engine.Busy: amqp.CondServerBusy,
			engine.InvalidArgument: amqp.CondArgumentError, engine.MessageTooLarge: amqp.CondMessageSizeExceeded, engine.NotAllowed: amqp.CondNotAllowed, engine.NotImplemented: amqp.CondNotImplemented,
		} {
			err = &engine.Error{Code: code, Text: "No."}
			p.transfer(1, 1, newMessage("a", "x"))
			p.rejected(1, symbol)
		}
		for i, e := range []error{fmt.Errorf("%w", engine.ErrUnknown), &engine.Error{Code: engine.NotFound}} {
			err = e
			handle := uint32(10 + i)
			p.attachSender(handle, "q")
			p.transfer(handle, 1, newMessage("a", "x"))
			want := []amqp.Symbol{amqp.CondDetachForced, amqp.CondNotFound}[i]
			if d := expect[*amqp.Detach](p); d.Error.Condition != want || d.Handle != handle {
				t.Errorf("%+v; want d.Error.Condition == want && d.Handle == handle", d.Error)
			}
		}
		p.quiet(time.Second)
	})
}

// WP-216: what clients leave out, and the long forms they may write.
func TestLenientDecoding(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		// attach: name, handle, role, cut after target; source is list0, descriptors are ulong and
		// symbol
		body := []byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x12}
		fields := []byte{0xA1, 1, 'x', 0x52, 3, 0x42, 0x40, 0x40, 0, 0x53, 0x28, 0x45}
		fields = append(fields, 0, 0xA3, 16)
		fields = append(fields, "amqp:target:list"...)
		fields = append(fields, 0xC0, 4, 1, 0xA1, 1, 'q')
		body = append(body, 0xC0, byte(len(fields)+1), 7)
		body = append(body, fields...)
		frame := append([]byte{0, 0, 0, byte(len(body) + 8), 2, 0, 0, 0}, body...)
		p.raw(frame)
		if a := expect[*amqp.Attach](p); a.Target == nil || a.Source == nil || a.Handle != 3 {
			t.Errorf("%+v; want a.Target != nil && a.Source != nil && a.Handle == 3", a)
		}
		// a message whose sections have ulong descriptors is stored with small ones
		m := append([]byte{0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x75, 0xA0, 1}, 'b')
		p.send(3, 0, m)
		p.attachReceiver(4, "q", amqp.SenderSettled)
		p.credit(4, 0, 1, false)
		if d := p.receive(); d.body != "b" {
			t.Errorf(`%+v; want d.body == "b"`, d)
		}
	})
}

// AMQP 2.7.5: any frame of a delivery may say that it is settled; then nothing is answered,
// whatever comes of it.
func TestSettledInALaterFrame(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		for id, body := range [][]byte{newMessage("a", "x"), []byte("no message")} {
			for i, part := range [][]byte{body[:1], body[1:2], body[2:]} {
				f := &amqp.Transfer{Handle: 1, More: i < 2}
				if i == 0 {
					f.DeliveryID, f.DeliveryTag = amqp.Some(uint32(id)), []byte{1}
				} else {
					f.Settled = amqp.Some(i == 1)
				}
				p.write(0, f, part)
			}
		}
		p.noAnswer(p)
		p.attachManagement("q")
		if ids := p.peekIDs(); fmt.Sprint(ids) != "[a]" {
			t.Errorf("%v is there", ids)
		}
	})
}
