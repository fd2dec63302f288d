package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// subscription makes a subscription with one rule.
func (f *fleet) subscription(path, condition, action, forwardTo string) {
	f.t.Helper()
	p := testQueue()
	p.ForwardTo, p.DeadLetteringOnFilterError = forwardTo, true
	f.must(f.ask(0, &engine.PutEntity{Kind: event.Subscription, Path: path, Properties: p, Rules: []event.Rule{{Name: "only",
		Filter: event.Filter{Kind: event.SQLFilter, Text: condition}, Action: event.Action{Text: action}}}}).Err)
	f.enforce()
}

// encodedMessage returns a message as a client sends it.
func encodedMessage(id, session string) []byte {
	p := amqp.Properties{MessageID: id}
	if session != "" {
		p.GroupID = amqp.Some(session)
	}
	at := amqp.Timestamp(event.TimeOf(time.Date(2030, 1, 1, 0, 1, 0, 0, time.UTC)))
	b := amqp.AppendSection(amqp.AppendProperties(nil, &p), amqp.SectionApplicationProperties, amqp.Map{{Key: "at", Value: at}})
	return amqp.AppendData(b, []byte("body"))
}

// SM-267, SM-261: a topic is a destination like a queue, its rules see the message with its changes
// on the way, and a subscription forwards its copies. Numbers, moves and changes move with the
// message; a scheduled one is published with them when its time comes.
func TestMovesOverTopics(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		f := newFleet(t, 11, 2)
		f.reread = message.Reread
		f.restart()
		topic := testQueue()
		f.put(event.Topic, "t", topic)
		f.put(event.Topic, "u", topic)
		action := "SET color = 'red'; SET sys.SessionId = 'seven'"
		if later {
			action += "; SET sys.ScheduledEnqueueTimeUtc = user.at"
		}
		f.subscription("t/Subscriptions/s1", "1=1", action, "u")
		f.subscription("u/Subscriptions/red", "color = 'red' AND sys.SessionId = 'seven' AND user.RuleName = 'only'", "", "")
		f.subscription("u/Subscriptions/blue", "color = 'blue'", "", "")
		f.put(event.Queue, "a", forwardTo("t"))
		body := encodedMessage("m", "one")
		f.must(f.sendOne("a", engine.Message{ID: []byte("m"), Body: body, SessionID: []byte("one"), HasSession: true}).Err)
		f.settle()
		if later {
			f.are(map[string]string{string(body): "u"})
			f.pass(time.Minute)
			f.pass(time.Second)
		}
		f.are(map[string]string{string(body): "u/Subscriptions/red"})
		m, _, _ := f.first("u/subscriptions/red", event.Main)
		if m.Hops != 2 || m.EnqueuedSequence != 1 || len(m.Changes) != 1 {
			t.Errorf("later %v: it arrived as %+v", later, m)
		}
	}
}

// SM-167, SM-261: duplicates, sessions and schedules are handled where a message arrives. Its time
// to live, as cut by its source entity, starts again there; a queue that forwards does not apply
// its own.
func TestDoorOfTheDestination(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 12, 2)
	f.reread = func(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (engine.Message, []byte, error) {
		m, merged, err := rereads(stored, changes, ttl, see)
		if strings.HasPrefix(string(stored), "later") {
			m.ScheduledFor = event.TimeOf(time.Date(2030, 1, 1, 0, 1, 0, 0, time.UTC))
		}
		m.ID, m.SessionID, m.HasSession = []byte(strings.TrimRight(string(m.ID), "'")), []byte("s"), true
		return m, merged, err
	}
	f.restart()
	p := sessionQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Hour
	f.put(event.Queue, "b", p)
	q := testQueue()
	q.DefaultMessageTimeToLive = time.Minute
	f.put(event.Queue, "a", q)
	f.must(f.sendOne("a", engine.Message{ID: []byte("cut"), Body: []byte("cut"), TimeToLive: time.Hour}).Err)
	f.now = f.now.Add(30 * time.Second)
	q.ForwardTo = "b"
	f.put(event.Queue, "a", q)
	f.send("a", "1", "1'", "1''", "later")
	f.must(f.sendOne("a", engine.Message{ID: []byte("own"), Body: []byte("own"), TimeToLive: time.Hour}).Err)
	f.settle()
	f.are(map[string]string{"1": "b", "later": "b", "cut": "b", "own": "b"})
	b := f.directory.find("b")
	x := f.rules[b.Hosts[0]].Index()
	var got []string
	for m := range x.Browse(event.Slice{Entity: b.ID}, event.Main, 0) {
		var ttl time.Duration
		if m.ExpiresAt != 0 {
			ttl = m.ExpiresAt.Sub(m.EnqueuedAt)
		}
		got = append(got, fmt.Sprintf("%v %v %v", m.State, m.InSession, ttl))
	}
	if want := []string{"active true 1m0s", "active true 0s", "scheduled true 0s", "active true 1h0m0s"}; !slices.Equal(got, want) {
		t.Errorf("%q; want slices.Equal(got, want)", got)
	}
	f.pass(31 * time.Second)
	if n := x.Count(event.Slice{Entity: b.ID}, event.Main, index.Scheduled); n != 0 {
		t.Errorf("%d are still scheduled", n)
	}
}

// Messages that were handed over in a batch and one by one arrive in order, whatever waits to move
// through another entity; scheduled ones of the source follow when they become active, and locked
// ones when they are released.
func TestMovesFollowWhenTheyCan(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 13, 2)
	f.put(event.Queue, "b", testQueue())
	f.put(event.Queue, "a", testQueue())
	a := f.directory.find("a")
	id := event.Slice{Entity: a.ID}
	f.send("a", "locked")
	token := event.LockToken{1}
	f.ask(a.Hosts[0], &engine.Receive{Slice: id, Token: token})
	f.must(f.sendOne("a", engine.Message{ID: []byte("later"), Body: []byte("later"), ScheduledFor: f.now.Add(time.Minute)}).Err)
	f.put(event.Queue, "a", forwardTo("b"))
	f.settle()
	f.are(map[string]string{"locked": "a", "later": "a"})
	f.must(f.ask(a.Hosts[0], &engine.Settle{Entity: a, Slice: id, Token: token, Outcome: engine.Abandon}).Err)
	f.settle()
	f.are(map[string]string{"locked": "b", "later": "a"})
	if m, _, _ := f.first("b", event.Main); m.DeliveryCount != 0 {
		t.Errorf("delivered %d times", m.DeliveryCount)
	}
	f.pass(time.Minute)
	f.pass(time.Second)
	f.are(map[string]string{"locked": "b", "later": "b"})
}
