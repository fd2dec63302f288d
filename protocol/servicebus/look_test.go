package servicebus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
	"github.com/ledgerbus/ledgerbus/protocol/ledger"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/sas"
)

// look asks for the receivers of an entity as an operator does, once everything is idle.
func (b *bench) look(entity string) (all rows.Receivers) {
	b.Helper()
	h := ledger.New(ledger.Options{Live: b.ns, Receivers: b.server.Receivers, Now: b.ns.Now, Logger: slog.New(slog.DiscardHandler),
		Callers: &caller.Authenticator{Access: testAccess(nil), Logger: slog.New(slog.DiscardHandler)}})
	r := httptest.NewRequestWithContext(context.Background(), "GET", wire.Prefix+"/v1/receivers?"+url.Values{"entity": {entity}}.Encode(), nil)
	r.Host = "ns"
	r.Header.Set("Authorization", sas.Token("sb://ns", "root", "root-key", b.ns.Now().Std().Add(time.Hour)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != 200 {
		b.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return all
}

// says wants an entity to have receivers with these verdicts, in any order.
func (b *bench) says(entity string, verdicts ...string) rows.Receivers {
	b.Helper()
	all := b.look(entity)
	got := []string{}
	for _, r := range all.Receivers {
		got = append(got, r.Verdict)
	}
	slices.Sort(got)
	slices.Sort(verdicts)
	if !slices.EqualFunc(got, verdicts, func(got, want string) bool { return strings.HasPrefix(got, want) }) {
		b.Errorf("%s: the receivers are told %q; want that they begin with %q\n%+v", entity, got, verdicts, all)
	}
	return all
}

// because wants one of the causes that hold for all receivers to have a text in it.
func (b *bench) because(all rows.Receivers, text string) {
	b.Helper()
	if !slices.ContainsFunc(all.Why, func(why string) bool { return strings.Contains(why, text) }) {
		b.Errorf("%s: why is %q; want %q in it", all.Entity, all.Why, text)
	}
}

// turnedAway expects one of the refusals to have a condition and a text.
func (b *bench) turnedAway(all rows.Receivers, condition amqp.Symbol, text string) {
	b.Helper()
	if !slices.ContainsFunc(all.Refused, func(r rows.RefusedReceiver) bool {
		return r.Condition == string(condition) && strings.Contains(r.Text, text)
	}) {
		b.Errorf("%s: refused are %+v; want one with %s and %q", all.Entity, all.Refused, condition, text)
	}
}

// receives attaches a receiver with credit as the next handle of a new connection.
func (b *bench) receives(entity string, credit uint32) *peerConn {
	b.Helper()
	p := b.root()
	p.attachReceiver(2, entity, amqp.SenderUnsettled)
	if credit > 0 {
		p.credit(2, 0, credit, false)
	}
	synctest.Wait()
	return p
}

// causes produces causes, each on a new broker.
func causes(t *testing.T, all map[string]func(b *bench)) {
	t.Helper()
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, nil, test)
		})
	}
}

// TestLookAtCredit checks the verdicts on receivers and their connections, for each cause of
// guide/waiting.md.
func TestLookAtCredit(t *testing.T) {
	causes(t, map[string]func(b *bench){
		"nobody receives": func(b *bench) { b.because(b.says("q"), "no receiver is attached") },
		"no credit":       func(b *bench) { b.receives("q", 0); b.put("q", newMessage("1", "x")); b.says("q", "no credit") },
		"nothing to deliver": func(b *bench) {
			b.receives("q", 5)
			all := b.says("q", "nothing to deliver: it gets the next message")
			if r := all.Receivers[0]; *r.Credit != 5 || *r.Passed != 5 || *r.InLoop != 5 || *r.Unsettled != 0 || r.By != "root" || len(all.Why) > 0 {
				t.Errorf("%+v %q", r, all.Why)
			}
		},
		"others came first": func(b *bench) {
			b.receives("q", 1)
			b.receives("q", 7)
			b.receives("q", 7)
			b.says("q", "nothing to deliver: it gets the next message", "nothing to deliver; 1 other is served first", "nothing to deliver; 2 others are served first")
		},
		"its window is closed": func(b *bench) {
			p := b.receives("q", 1)
			p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), OutgoingWindow: 5000}, nil)
			synctest.Wait()
			b.says("q", "its client takes no transfers")
		},
		"its body cannot be read": func(b *bench) {
			b.put("q", newMessage("1", strings.Repeat("x", 100)))
			b.broker.starved.Store(true)
			p := b.receives("q", 1)
			b.says("q", "the body of its next message cannot be read now")
			b.broker.starved.Store(false)
			p.receive()
			synctest.Wait()
		},
		"its body is being read": func(b *bench) {
			b.put("q", newMessage("1", strings.Repeat("x", 100)))
			b.broker.slow.Store(int64(time.Minute))
			p := b.receives("q", 1)
			if all := b.says("q", "unknown: its connection does not answer"); len(all.Silent) != 1 {
				t.Errorf("%+v", all)
			}
			p.receive()
			synctest.Wait()
		},
	})
}

// TestLookAtMessages checks the texts about messages and their places, for each cause of
// guide/waiting.md.
func TestLookAtMessages(t *testing.T) {
	causes(t, map[string]func(b *bench){
		"other states": func(b *bench) {
			b.put("q", newMessage("1", "x"))
			p := b.receives("q", 1)
			p.settle(p.receive().id, amqp.Modified{UndeliverableHere: true}, true)
			p.attachManagement("q")
			p.managedWith(200, "", "schedule-message", scheduleBody(scheduled("s", time.Now().Add(time.Hour))))
			p.credit(2, 1, 1, false)
			synctest.Wait()
			if n := b.says("q", "nothing to deliver").Messages; n.Messages != 2 || n.Active != 1 || n.Deferred != 1 || n.Scheduled != 1 {
				t.Errorf("%+v", n)
			}
		},
		"another sub-queue": func(b *bench) {
			b.put("q", newMessage("1", "x"))
			p := b.receives("q", 2)
			p.settle(p.receive().id, amqp.Rejected{}, true)
			synctest.Wait()
			if n := b.says("q", "nothing to deliver").Messages; n.Messages != 1 || n.DeadLetter != 1 || n.Active != 0 {
				t.Errorf("%+v", n)
			}
			if all := b.says("q/$dlq"); all.Messages.DeadLetter != 1 || *all.Available != 1 || all.Entity != "q/$DeadLetterQueue" {
				t.Errorf("%+v", all)
			}
		},
		"its partition is fenced": func(b *bench) {
			path := ""
			for i := 0; path == ""; i++ {
				at := fmt.Sprint("at", i)
				b.queue(at, nil)
				if of, _ := b.ns.Resolve(at); of.Entity.Hosts[0] == 1 {
					path = at
				}
			}
			if err := b.ns.FencePartition(context.Background(), 1, nil, event.ReasonGiven{}); err != nil {
				t.Fatal(err)
			}
			b.because(b.look(path), "partition 1 is fenced")
		},
		"a topic": func(b *bench) { b.topic("t", nil); b.because(b.says("t"), "it is a topic") },
	})
}

// TestLookAtRefused checks the texts about refused receivers, and about sessions, for each cause of
// guide/waiting.md.
func TestLookAtRefused(t *testing.T) {
	causes(t, map[string]func(b *bench){
		"nobody may receive": func(b *bench) {
			p := b.receives("q", 1)
			b.queue("q", func(p *event.Properties) { p.Status = event.ReceiveDisabled })
			p.detached(amqp.CondDetachForced, "is force detached by the broker", 2)
			p.attachReceiver(3, "q", amqp.SenderUnsettled)
			synctest.Wait()
			all := b.look("q")
			b.because(all, "its status is ReceiveDisabled")
			b.turnedAway(all, amqp.CondEntityDisabled, "")
		},
		"it forwards": func(b *bench) {
			b.queue("q", func(p *event.Properties) { p.ForwardTo = "q2" })
			p := b.root()
			p.attachReceiver(2, "q", amqp.SenderUnsettled)
			synctest.Wait()
			all := b.look("q")
			b.because(all, "it forwards to q2")
			b.turnedAway(all, amqp.CondNotAllowed, "")
		},
		"it has sessions and the receiver none": func(b *bench) {
			b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
			p := b.root()
			p.attachReceiver(2, "s", amqp.SenderUnsettled)
			synctest.Wait()
			all := b.look("s")
			b.because(all, "it has sessions")
			b.turnedAway(all, amqp.CondNotAllowed, "session")
		},
		"the receiver wants sessions and it has none": func(b *bench) {
			p := b.root()
			p.wantSession(2, "q", nil)
			synctest.Wait()
			b.turnedAway(b.look("q"), amqp.CondNotAllowed, "session")
		},
		"sessions that others hold": func(b *bench) {
			b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
			b.put("s", inSession("A", "1", "x"))
			b.root().acceptSession(2, "s", "A")
			holder := b.root()
			holder.acceptSession(2, "s", "B")
			holder.credit(2, 0, 1, false)
			b.root().wantSession(2, "s", nil)
			synctest.Wait()
			all := b.says("s", "no credit", `gets the next message of its session "B" only`, "waits for a session")
			if *all.Receivers[1].Session != "B" || all.Receivers[1].LockedUntil == nil || all.Messages.Active != 1 {
				t.Errorf("%+v", all)
			}
			p := b.root()
			p.wantSession(2, "s", "A")
			synctest.Wait()
			b.turnedAway(b.look("s"), amqp.CondSessionCannotBeLocked, "")
		},
	})
}

// TestLookAtUnsettled: a connection that has as many deliveries to settle as it may says so.
func TestLookAtUnsettled(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *Options) { o.Limits.Locked = 2 }, func(b *bench) {
		b.put("q", newMessage("1", "x"), newMessage("2", "x"), newMessage("3", "x"))
		attached := b.ns.Now().Std()
		b.receives("q", 5)
		time.Sleep(time.Second)
		all := b.says("q", "its connection holds 2 of 2 unsettled")
		n, r := all.Messages, all.Receivers[0]
		if n.Active != 3 || *all.Available != 1 || n.Locked != 2 || *r.Credit != 3 || *r.Unsettled != 2 {
			t.Errorf("%+v %+v", n, r)
		}
		if *r.Locks != 2 || !r.Since.Equal(attached) || !r.LockedUntil.Equal(attached.Add(30*time.Second)) {
			t.Errorf("%d locks until %v, since %v; want 2 locks of %v", *r.Locks, r.LockedUntil, r.Since, attached)
		}
		time.Sleep(31 * time.Second) // the locks end, the deliveries stay unsettled
		if r := b.look("q").Receivers[0]; *r.Locks != 0 || r.LockedUntil != nil || *r.Unsettled != 2 {
			t.Errorf("%+v; want no locks and 2 unsettled", r)
		}
	})
}

// deaf is a socket that takes nothing while it is said to.
type deaf struct {
	net.Conn
	is   atomic.Bool
	over chan struct{}
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.is.Load() {
		<-d.over
	}
	return d.Conn.Write(p)
}

// TestSocketTakesNothing: a client that does not read is told from one that has nothing to read.
func TestSocketTakesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(b *bench) {
		d := &deaf{over: make(chan struct{})}
		p := b.dialAs(func(nc net.Conn) net.Conn { d.Conn = nc; return d }).logIn("root", "root-key")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.credit(2, 0, 10, false)
		synctest.Wait()
		d.is.Store(true)
		b.put("q", newMessage("1", "x"))
		time.Sleep(time.Second)
		b.says("q", "waits for its socket: ")
		close(d.over)
		p.receive()
		synctest.Wait()
		b.says("q", "nothing to deliver")
	})
}

// TestNoMemoryToDeliver: a message for which there is no memory is what its receiver waits for.
func TestNoMemoryToDeliver(t *testing.T) {
	t.Parallel()
	scarce(t, func(b *bench, _ *budget.Budget, others *budget.Share) {
		p := b.root()
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderMixed)
		p.send(1, 0, bodyOf(200_000))
		others.Owe(most)
		p.credit(2, 0, 1, false)
		synctest.Wait()
		b.says("q", "there is no memory for its next message")
		others.Give(most)
	})
}

// TestWhatPartitionsWaitFor: a slow, backlogged or hanging disk, and a full mailbox, are reported
// although the partition does not answer. State that is not durable is not reported.
func TestWhatPartitionsWaitFor(t *testing.T) {
	for want, test := range map[string]func(b *bench, send func(messages int), idle []engine.Request){
		"1 delivery waits for the disk":           func(*bench, func(int), []engine.Request) {},
		"partition 0 waits for its disk":          func(_ *bench, send func(int), _ []engine.Request) { send(25) },
		"the disk of partition 0 does not answer": func(*bench, func(int), []engine.Request) { time.Sleep(time.Minute) },
		"the mailbox of partition 0 is full": func(b *bench, send func(int), idle []engine.Request) {
			send(25)
			synctest.Wait()
			b.ns.Submit(0, idle)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			disk := &stallingDisk{FS: faultfs.New()}
			bubbleOn(t, disk, nil, func(b *bench) {
				b.receives("q", 5)
				of, err := b.ns.Resolve("q")
				if err != nil || of.Entity.Hosts[0] != 0 {
					t.Fatalf("%+v, %v", of.Entity, err)
				}
				// more than 20 are more than may be written and not synced
				send := func(messages int) {
					cmd := &engine.Send{Entity: of.Entity, Slice: of.Slice(0)}
					for range messages {
						cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte("m"), Body: make([]byte, 200_000)})
					}
					b.ns.Submit(0, []engine.Request{{Command: cmd}})
				}
				idle := make([]engine.Request, 16<<10)
				for i := range idle {
					idle[i].Command = &engine.StepBack{Receiver: &engine.Receiver{Entity: of.Entity}}
				}
				s := disk.hold()
				send(1)
				<-s.entered
				synctest.Wait()
				test(b, send, idle)
				synctest.Wait()
				all := b.says("q", want)
				if all.Messages != nil {
					t.Errorf("what is not durable is told: %+v", all.Messages)
				}
				if strings.HasPrefix(want, "the ") {
					b.because(all, want)
				}
				close(s.over)
				synctest.Wait()
				if n := b.look("q").Messages; n == nil || n.Active+n.Locked == 0 {
					t.Errorf("%+v", n)
				}
			})
		})
	}
}

// TestLooksAreBounded: a look that a connection has not answered is dropped by the next one, and an
// answer has the newest refusals and no more receivers than may be.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(b *bench) {
		p := b.root()
		for i := range uint32(keptRefusals + 5) {
			p.wantSession(i%200+2, "q", nil)
			expect[*amqp.Attach](p)
			expect[*amqp.Detach](p)
			p.write(0, &amqp.Detach{Handle: i%200 + 2, Closed: true}, nil)
		}
		synctest.Wait()
		if n := len(b.server.refusals); n != keptRefusals {
			t.Errorf("%d refusals are kept", n)
		}
		if n := len(b.look("q").Refused); n != 10 {
			t.Errorf("%d refusals are told", n)
		}
		for i := range uint32(rows.Max + 10) {
			p.attachReceiver(i+2, "q2", amqp.SenderUnsettled)
		}
		synctest.Wait()
		if all := b.look("q2"); len(all.Receivers) != rows.Max || all.More != 10 {
			t.Errorf("%d receivers and %d more", len(all.Receivers), all.More)
		}
	})
}

// TestLooksAmongTraffic: looks and deliveries do not disturb each other, and every look shows each
// receiver once.
func TestLooksAmongTraffic(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(b *bench) {
		p := b.receives("q", 200)
		over := make(chan struct{})
		go func() {
			defer close(over)
			for range 100 {
				if all := b.look("q"); len(all.Receivers) != 1 {
					t.Errorf("%+v", all)
				}
			}
		}()
		for i := range 200 {
			b.put("q", newMessage(fmt.Sprint(i), "x"))
			p.settle(p.receive().id, amqp.StateAccepted, true)
		}
		<-over
	})
}
