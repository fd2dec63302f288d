package servicebus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// scheduled makes an encoded message for later.
func scheduled(id any, at time.Time) []byte {
	m := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyScheduled), Value: timestampOf(at)}})
	if id != nil {
		return append(m, newMessage(id, "x")...)
	}
	return amqp.AppendData(m, []byte("x"))
}

func scheduleBody(messages ...[]byte) amqp.Map {
	var list amqp.List
	for i, m := range messages {
		list = append(list, amqp.Map{{Key: "message-id", Value: fmt.Sprint(i)}, {Key: "message", Value: m}, {Key: "session-id", Value: nil}})
	}
	return amqp.Map{{Key: "messages", Value: list}}
}

func numbers(values ...any) amqp.Map {
	return amqp.Map{{Key: "sequence-numbers", Value: amqp.Array{Elem: amqp.CodeLong, Values: values}}}
}

// WP-169, WP-170, SM-090 to SM-096: both ways to schedule; cancel; activation.
func TestSchedule(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachManagement("q")
		later := time.Now().Add(30 * time.Second)
		answer := p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("a", later), scheduled(nil, later)))
		if want := numbers(int64(1), int64(2)); !cmp.Equal(answer, want) {
			t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(want, answer))
		}
		b.put("q", scheduled("b", later.Add(time.Second)), scheduled("past", time.Now()))
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 10, false)
		past := p.receive() // SM-096
		if past.properties.MessageID != "past" {
			t.Errorf(`%+v; want past.properties.MessageID == "past"`, past)
		}
		p.quiet(25 * time.Second)
		peeked := p.peekAll()
		for i, state := range []int32{2, 2, 2, 0} {
			got, _ := peeked[i].annotations.Get(keyState)
			at, _ := peeked[i].annotations.Get(keyScheduled)
			if got != state || state == 2 && i < 2 && at != timestampOf(later) {
				t.Errorf("%d: %+v; want got == state && ((state != 2 || i >= 2) || at == timestampOf(later))", i, peeked[i].annotations)
			}
		}
		p.managedWith(404, amqp.CondMessageNotFound, "cancel-scheduled-message", numbers(int64(2), int64(99)))
		p.managedWith(404, amqp.CondMessageNotFound, "cancel-scheduled-message", numbers(int64(4)))
		if answer := p.managedWith(200, "", "cancel-scheduled-message", amqp.Map{{Key: "sequence-numbers", Value: amqp.List{int32(2)}}}); answer != nil {
			t.Errorf("%+v, want nil", answer)
		}
		p.managedWith(404, amqp.CondMessageNotFound, "cancel-scheduled-message", numbers(int64(2)))
		p.settle(past.id, amqp.StateAccepted, true)
		var got []openedMessage
		for range 2 {
			got = append(got, p.receive())
		}
		for i, id := range []string{"a", "b"} {
			seq, _ := got[i].annotations.Get(keySequence)
			at, _ := got[i].annotations.Get(keyEnqueuedTime)
			due := timestampOf(later.Add(time.Duration(i) * time.Second))
			if got[i].properties.MessageID != id || seq != int64(5+i) || at.(amqp.Timestamp) < due || at.(amqp.Timestamp) > due+1000 {
				t.Errorf("%+v; want got[i].properties.MessageID == id && seq == int64(5 + i) && at.(amqp.Timestamp) >= due && at.(amqp.Timestamp) <= due + 1000", got[i])
			}
		}
		p.quiet(10 * time.Second)
		// SM-094: active by now
		p.managedWith(404, amqp.CondMessageNotFound, "cancel-scheduled-message", numbers(int64(1)))
	})
}

// semantics.md 2.1: a message that was scheduled is delivered with state 2, however often and from
// wherever; one with a time that had passed is not. A peek shows the state it is in, and so does
// the answer that gives a deferred one.
func TestScheduledState(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("t", nil)
		b.subscription("t", "s", nil)
		state := func(what string, m openedMessage, want any) {
			t.Helper()
			if got, _ := m.annotations.Get(keyState); got != want {
				t.Errorf("%s: %v: state %#v", what, m.properties.MessageID, got)
			}
		}
		later := time.Now().Add(30 * time.Second)
		p := b.node("q")
		p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("call", later), scheduled("late", time.Now())))
		b.put("q", scheduled("sent", later), scheduled("past", time.Now().Add(-time.Hour)), newMessage("plain", "x"))
		b.put("t", scheduled("copy", later), scheduled("past", time.Now()))
		time.Sleep(31 * time.Second)
		want := map[any]any{"call": int32(2), "sent": int32(2), "late": nil, "past": nil, "plain": nil}
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 5, false)
		var call openedMessage
		for range 5 {
			m := p.receive()
			state("received", m, want[m.properties.MessageID])
			if m.properties.MessageID == "call" {
				call = m
				continue
			}
			p.settle(m.id, amqp.StateAccepted, true)
		}
		state("peeked, locked", p.peekAll()[0], int32(0))
		p.settle(call.id, amqp.Modified{}, true)
		p.credit(2, 5, 1, false)
		call = p.receive()
		state("received again", call, int32(2))
		p.settle(call.id, amqp.Modified{UndeliverableHere: true}, true)
		number, _ := call.annotations.Get(keySequence)
		taken := openedMessages(t, p.managedWith(200, "", "receive-by-sequence-number", byNumber(uint32(1), number)))[0]
		state("deferred", taken, int32(1))
		token, _ := taken.delivery.Get(keyLockToken)
		p.disposed(200, "", "suspended", []amqp.UUID{token.(amqp.UUID)})
		dead := b.root()
		dead.attachReceiver(2, "q/$DeadLetterQueue", amqp.SenderSettled)
		dead.credit(2, 0, 1, false)
		state("dead letter", dead.receive(), int32(2))
		dead.attachReceiver(3, "t/Subscriptions/s", amqp.SenderSettled)
		dead.credit(3, 0, 2, false)
		for _, want := range []any{nil, int32(2)} {
			state("a topic's copy", dead.receive(), want)
		}
	})
}

// SM-092: the time to live counts from activation.
func TestScheduledTimeToLive(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachManagement("q")
		later := time.Now().Add(time.Minute)
		m := append(amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(60000))}), scheduled("a", later)...)
		p.managedWith(200, "", "schedule-message", scheduleBody(m))
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 1, false)
		if d := p.receive(); d.properties.AbsoluteExpiryTime.Value < timestampOf(later.Add(time.Minute)) || d.header.TTL != amqp.Some(uint32(60000)) {
			t.Errorf("%+v; want d.properties.AbsoluteExpiryTime.Value >= timestampOf(later.Add(time.Minute)) && d.header.TTL == amqp.Some(uint32(60000))", d)
		}
	})
}

// What schedule-message and cancel-scheduled-message refuse; nothing of a refused request is
// stored.
func TestScheduleRefusals(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p.attachManagement("q")
		later := time.Now().Add(time.Hour)
		good := scheduled("a", later)
		null := append(amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyScheduled), Value: nil}}), newMessage("a", "x")...)
		for _, bad := range []amqp.Map{nil, scheduleBody(), {{Key: "messages", Value: amqp.List{"x"}}}, {{Key: "messages", Value: amqp.List{amqp.Map{}}}}, scheduleBody(good, null)} {
			p.managedWith(400, amqp.CondArgumentError, "schedule-message", bad)
		}
		p.managedWith(400, amqp.CondDecodeError, "schedule-message", scheduleBody(good, []byte("no message")))
		p.managedWith(403, amqp.CondMessageSizeExceeded, "schedule-message", scheduleBody(append(scheduled("a", later), amqp.AppendData(nil, make([]byte, 256<<10))...)))
		for _, bad := range []amqp.Map{nil, {{Key: "sequence-numbers", Value: amqp.List{}}}, {{Key: "sequence-numbers", Value: amqp.List{"1"}}}} {
			p.managedWith(400, amqp.CondArgumentError, "cancel-scheduled-message", bad)
		}
		if got := p.peekIDs(); got != nil {
			t.Errorf("%+v, want nil", got)
		}
		// the entity's limit is the only one
		p.managedWith(200, "", "schedule-message", scheduleBody(append(scheduled("a", later), amqp.AppendData(nil, make([]byte, 255<<10))...)))
		dead := b.root()
		dead.attachManagement("q/$DeadLetterQueue")
		dead.managedWith(400, amqp.CondNotAllowed, "schedule-message", scheduleBody(good))
		dead.managedWith(400, amqp.CondNotAllowed, "cancel-scheduled-message", numbers(int64(1)))
		other := b.root()
		other.attachManagement("s")
		// no session id
		other.managedWith(400, amqp.CondNotAllowed, "schedule-message", scheduleBody(good))
	})
}

// SM-160 to SM-164, SM-170: the duplicate history, by text and type of the id; an id made by the
// broker has no duplicate.
func TestDuplicates(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("d", func(p *event.Properties) {
			p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Minute
		})
		p := b.root()
		p.attachManagement("d")
		ids := []any{"12", uint64(12), amqp.UUID{12}, []byte{12}, amqp.UUID{12}.String(), "0c"}
		for range 2 {
			for _, id := range ids {
				b.put("d", newMessage(id, "x"))
			}
		}
		b.put("d", newMessage(nil, "x"), newMessage(nil, "x"))
		if got := p.peekIDs(); len(got) != len(ids)+2 || !cmp.Equal(got[:len(ids)], ids) {
			t.Errorf("%+v (-want +got):\n%s", got, cmp.Diff(ids, got[:len(ids)]))
		}
		later := time.Now().Add(time.Hour)
		answer := p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("12", later), scheduled("new", later), scheduled("new", later)))
		if want := numbers(int64(0), int64(9), int64(9)); !cmp.Equal(answer, want) {
			t.Errorf("%+v (-want +got):\n%s", answer, cmp.Diff(want, answer))
		}
		b.put("d", newMessage("new", "other")) // SM-164
		batch := amqp.AppendData(amqp.AppendData(nil, newMessage("twice", "x")), newMessage("twice", "y"))
		sender := b.root()
		sender.attachSender(1, "d")
		sender.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batch)
		if d := expect[*amqp.Disposition](sender); d.State != amqp.StateAccepted {
			t.Errorf("%+v; want d.State == amqp.StateAccepted", d)
		}
		if got := p.peekIDs(); len(got) != len(ids)+4 {
			t.Errorf("%+v; want len(got) == len(ids)+4", got)
		}
		time.Sleep(time.Minute)
		b.put("d", newMessage("12", "x")) // SM-162
		if got := p.peekIDs(); len(got) != len(ids)+5 {
			t.Errorf("%+v; want len(got) == len(ids)+5", got)
		}
	})
}
