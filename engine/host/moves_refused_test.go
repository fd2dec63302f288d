package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// deadLetters makes a fleet dead-letter everything in the main queue of an entity.
func (f *fleet) deadLetters(path string) {
	f.t.Helper()
	e := f.directory.find(path)
	for i, h := range e.Hosts {
		id := event.Slice{Entity: e.ID, Partition: uint8(i)}
		for f.rules[h].Index().Count(id, event.Main, index.Active) > 0 {
			token := event.LockToken{1, byte(f.rng.IntN(256)), byte(f.rng.IntN(256))}.In(id.Partition)
			if r := f.ask(h, &engine.Receive{Slice: id, Token: token}); r.Delivery() == nil {
				f.t.Fatalf("%+v; want r.Delivery() != nil", r.Err)
			}
			f.must(f.ask(h, &engine.Settle{Entity: e, Slice: id, Token: token, Outcome: engine.MoveToDeadLetter}).Err)
		}
	}
}

// via sends a message to an entity through another.
func (f *fleet) via(through, to, id string) engine.Reply {
	e := f.directory.find(through)
	d := f.directory.find(to)
	if d == nil {
		d = &engine.Entity{ID: 9999, Path: to, Properties: testQueue()}
	}
	return f.ask(e.Hosts[0], &engine.Send{Entity: e, Slice: event.Slice{Entity: e.ID}, Destination: d,
		Messages: []engine.Message{{ID: []byte(id[:min(len(id), 16)]), Body: []byte(id)}}})
}

// SM-117, SM-118, SM-119, SM-270, SM-271, S2-33 to S2-35: the fate of a message whose destination
// does not accept it, for each way of moving it, and with both settings of where failures are put.
// A "+" after the source says that it waits.
func TestRefusedMoves(t *testing.T) {
	t.Parallel()
	const (
		full     = "QuotaExceededException"
		disabled = "MessagingEntityDisabledException: The messaging entity 'b' is disabled for sending."
		gone     = "MessagingEntityNotFoundException: The messaging entity 'b' could not be found."
		session  = "InvalidOperationException: The SessionId was not set on a message, and it cannot be sent to the entity. "
		large    = "MessageSizeExceededException: The message of 2001 bytes exceeds the limit of 1024 bytes of 'b'."
	)
	with := func(change func(*event.Properties)) event.Properties {
		p := testQueue()
		change(&p)
		return p
	}
	for _, c := range []struct {
		name                  string
		p                     event.Properties
		gone                  bool
		forward, dead, via    string
		why                   string
		forwardTDLQ, deadTDLQ string
	}{
		{name: "full", p: with(func(p *event.Properties) { p.MaxSizeMegabytes = 0 }), forward: "a/dead", dead: "a+", via: "a+", why: full,
			forwardTDLQ: "a/transfer-dead", deadTDLQ: "a+"},
		{name: "disabled", p: with(func(p *event.Properties) { p.Status = event.Disabled }), forward: "a/dead", dead: "a+", via: "a/transfer-dead", why: disabled,
			forwardTDLQ: "a/transfer-dead", deadTDLQ: "a+"},
		{name: "send-disabled", p: with(func(p *event.Properties) { p.Status = event.SendDisabled }), forward: "a/dead", dead: "a+", via: "a/transfer-dead", why: disabled,
			forwardTDLQ: "a/transfer-dead", deadTDLQ: "a+"},
		{name: "deleted", gone: true, forward: "a/dead", dead: "a/dead", via: "a/transfer-dead", why: gone, forwardTDLQ: "a/transfer-dead", deadTDLQ: "a/dead"},
		{name: "sessions", p: with(func(p *event.Properties) { p.RequiresSession = true }), forward: "a/dead", dead: "a/dead", via: "a/transfer-dead", why: session,
			forwardTDLQ: "a/transfer-dead", deadTDLQ: "a/transfer-dead"},
		{name: "small", p: with(func(p *event.Properties) { p.MaxMessageSizeKilobytes = 1 }), forward: "a/dead", dead: "a/dead", why: large,
			forwardTDLQ: "a/transfer-dead", deadTDLQ: "a/transfer-dead"},
	} {
		for trigger, usual := range map[string]string{"forward": c.forward, "dead": c.dead, "via": c.via} {
			for _, failures := range []event.SubQueue{event.DeadLetter, event.TransferDeadLetter} {
				want := usual
				if want == "" {
					continue // refused by the via entity
				}
				if failures == event.TransferDeadLetter {
					want = map[string]string{"forward": c.forwardTDLQ, "dead": c.deadTDLQ, "via": c.via}[trigger]
				}
				t.Run(fmt.Sprintf("%s %s %d", c.name, trigger, failures), func(t *testing.T) {
					t.Parallel()
					f := newFleet(t, 7, 2)
					f.failures = failures
					f.restart()
					f.put(event.Queue, "filler", testQueue())
					if !c.gone {
						f.put(event.Queue, "b", c.p)
					}
					body := "1" + strings.Repeat("x", 2000)
					f.sets(trigger, body)
					f.settle()
					f.are(map[string]string{body: want})
					if strings.HasSuffix(want, "dead") && !(c.gone && trigger == "dead") {
						f.says(want, trigger, c.why)
					}
				})
			}
		}
	}
}

// sets makes a message move from a to b, which need not exist.
func (f *fleet) sets(trigger, body string) {
	f.t.Helper()
	switch trigger {
	case "forward":
		f.put(event.Queue, "a", forwardTo("b"))
		f.send("a", body)
	case "dead":
		f.put(event.Queue, "a", testQueue())
		f.send("a", body)
		f.deadLetters("a")
		p := testQueue()
		p.ForwardDeadLetteredMessagesTo = "b"
		f.put(event.Queue, "a", p)
	case "via":
		f.put(event.Queue, "a", testQueue())
		f.must(f.via("a", "b", body).Err)
	}
}

// says checks the reason that the message in a dead-letter queue of a has.
func (f *fleet) says(where, trigger, why string) {
	f.t.Helper()
	q := event.DeadLetter
	if strings.HasSuffix(where, "transfer-dead") {
		q = event.TransferDeadLetter
	}
	_, reason, text := f.first("a", q)
	if trigger == "via" {
		text = strings.ReplaceAll(text, "with id 9999", "'b'")
	}
	if !strings.HasPrefix(reason+": "+text, why) {
		f.t.Errorf("it says %s: %s", reason, text)
	}
}

// restart starts again in order.
func (f *fleet) restart() {
	f.t.Helper()
	f.settle()
	for _, w := range f.writers {
		f.must(w.Close())
	}
	f.must(f.store.Close())
	f.must(f.start())
}

// SM-119, SM-270: a message that waits for room moves when there is room, in order; one from a
// dead-letter queue names it.
func TestWaitingMovesGoOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 2)
	p := testQueue()
	p.MaxSizeMegabytes = 0
	f.put(event.Queue, "b", p)
	q := testQueue()
	f.put(event.Queue, "a", q)
	f.send("a", "1", "2")
	f.deadLetters("a")
	q.ForwardDeadLetteredMessagesTo = "b"
	f.put(event.Queue, "a", q)
	f.must(f.via("a", "b", "3").Err)
	f.settle()
	f.are(map[string]string{"1": "a+", "2": "a+", "3": "a+"})
	r := f.rules[1].Runtimes([]event.Slice{{Entity: f.directory.find("a").ID}})
	if f.directory.find("a").Hosts[0] == 0 {
		r = f.rules[0].Runtimes([]event.Slice{{Entity: f.directory.find("a").ID}})
	}
	if r[0].Transfer != 1 || r[0].DeadLetter != 2 || r[0].Active != 0 {
		t.Errorf("counts %+v", r[0])
	}
	f.put(event.Queue, "b", testQueue())
	f.pass(time.Second)
	f.are(map[string]string{"1": "b", "2": "b", "3": "b"})
	m, _, _ := f.first("b", event.Main)
	if m.DeadLetterSource != "a" && m.EnqueuedSequence != 3 || m.Hops != 1 {
		t.Errorf("it arrived as %+v", m)
	}
}

// SM-116, SM-266, SM-269, S2-23: the fifth move is not made: the message moves to the dead-letter
// queue of the entity that it has reached, and is not forwarded from there.
func TestTooManyMoves(t *testing.T) {
	t.Parallel()
	for _, failures := range []event.SubQueue{event.DeadLetter, event.TransferDeadLetter} {
		f := newFleet(t, 5, 2)
		f.failures = failures
		f.restart()
		for i := 6; i > 0; i-- {
			p := testQueue()
			if i < 6 {
				p.ForwardTo, p.ForwardDeadLetteredMessagesTo = fmt.Sprint("q", i+1), "other"
			}
			f.put(event.Queue, fmt.Sprint("q", i), p)
		}
		f.put(event.Queue, "other", testQueue())
		f.send("q1", "1")
		f.send("q2", "2")
		f.settle()
		want := "q5/dead"
		if failures == event.TransferDeadLetter {
			want = "q5/transfer-dead"
		}
		f.are(map[string]string{"1": want, "2": "q6"})
		_, reason, text := f.first("q5", failures)
		if reason != "MaxTransferHopCountExceeded" || text != "The maximum number of allowed hops when forwarding between queues has been exceeded." {
			t.Errorf(`%s: %s; want reason == "MaxTransferHopCountExceeded" && text == "The maximum number of allowed hops when forwarding between queues has been exceeded."`, reason, text)
		}
		for _, ring := range []string{"x", "y"} {
			f.put(event.Queue, ring, testQueue())
		}
		f.put(event.Queue, "x", forwardTo("y"))
		f.put(event.Queue, "y", forwardTo("x"))
		f.send("x", "ring")
		f.settle()
		f.are(map[string]string{"1": want, "2": "q6", "ring": "x" + strings.TrimPrefix(want, "q5")})
	}
}

// SM-263, T8: existing messages move when ForwardTo is set; messages in transfer when it is cleared
// still move, and no others do.
func TestForwardSetAndUnset(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9, 2)
	f.put(event.Queue, "b", testQueue())
	f.put(event.Queue, "a", testQueue())
	f.send("a", "1", "2")
	f.put(event.Queue, "a", forwardTo("b"))
	e := f.directory.find("a")
	l := f.loops[e.Hosts[0]]
	l.Turn(nil) // they are in transfer, but not announced
	if n, _ := f.rules[e.Hosts[0]].Index().OpenTransfers(event.Slice{Entity: e.ID}, event.TriggerForward); n != 2 {
		t.Fatalf("%d are in transfer", n)
	}
	f.put(event.Queue, "a", testQueue())
	f.send("a", "3")
	f.settle()
	f.are(map[string]string{"1": "b", "2": "b", "3": "a"})
	f.put(event.Queue, "a", forwardTo("B")) // in any letter case
	f.settle()
	f.are(map[string]string{"1": "b", "2": "b", "3": "b"})
}

// An expired message expires instead of moving; a disabled queue moves nothing until it is open
// again.
func TestForwardOfExpiredAndDisabled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9, 2)
	f.put(event.Queue, "b", testQueue())
	f.put(event.Queue, "a", testQueue())
	f.must(f.sendOne("a", engine.Message{ID: []byte("1"), Body: []byte("1"), TimeToLive: time.Second}).Err)
	f.send("a", "2")
	f.pass(2 * time.Second)
	p := forwardTo("b")
	p.Status = event.ReceiveDisabled
	f.put(event.Queue, "a", p)
	f.settle()
	f.are(map[string]string{"1": "a", "2": "a"})
	f.put(event.Queue, "a", forwardTo("b"))
	f.settle()
	f.are(map[string]string{"2": "b"})
}

// Either end is deleted during the move: messages in transfer from a deleted source are gone or
// have arrived, once; the destination forgets the source at the next start.
func TestDeletionOnTheWay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		f := newFleet(t, seed, 2)
		f.put(event.Queue, "b", testQueue())
		f.put(event.Queue, "a", forwardTo("b"))
		f.send("a", "1", "2", "3")
		for range seed {
			f.step()
		}
		f.remove("a")
		f.settle()
		for id, at := range f.places() {
			if fmt.Sprint(at) != "[b]" {
				t.Errorf("seed %d: %s is at %v", seed, id, at)
			}
		}
		f.restart()
		f.settle()
		b := f.directory.find("b")
		if from := f.rules[b.Hosts[0]].Index().ArrivalSources(event.Slice{Entity: b.ID}); len(from) > 0 {
			t.Errorf("seed %d: it remembers %v", seed, from)
		}
		f.put(event.Queue, "a", forwardTo("b"))
		f.send("a", "4", "5")
		for range seed {
			f.step()
		}
		f.remove("b")
		f.put(event.Queue, "b", testQueue())
		f.settle()
		for id, at := range f.places() {
			if at := fmt.Sprint(at); at != "[b]" && at != "[a/dead]" {
				t.Errorf("seed %d: %s is at %v", seed, id, at)
			}
		}
	}
}
