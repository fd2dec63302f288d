package servicebus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// eventsOf returns every event of a data directory, partition after partition, by its record.
func eventsOf(t *testing.T, dir string, disk disk.FS) (all []event.Event) {
	t.Helper()
	store, err := log.Open(t.Context(), dir, log.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, id := range store.Partitions() {
		p, err := store.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range p.Read(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			var dec event.Decoder // a separate one for each frame: its results are kept
			rest := f.Records
			for range f.Count {
				var rec event.Record
				if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
					t.Fatal(err)
				}
				for _, ev := range rec.Events {
					all = append(all, copied(ev))
				}
			}
		}
	}
	return all
}

// copied is an event of the kinds that the tests of facts look at, apart from the decoder's memory;
// others are as they are.
func copied(ev event.Event) event.Event {
	switch ev := ev.(type) {
	case *event.OriginDefined:
		c := *ev
		return &c
	case *event.EntityCreated:
		c := *ev
		return &c
	case *event.LinkOpened:
		c := *ev
		c.SessionID = slices.Clone(ev.SessionID)
		return &c
	case *event.LinkClosed:
		c := *ev
		return &c
	case *event.ReasonGiven:
		c := *ev
		return &c
	case *event.TransactionAborted:
		c := *ev
		return &c
	case *event.TransactionCommitted:
		c := *ev
		return &c
	}
	return ev
}

// linkFacts returns the log's facts about links: a line each, with the name of the link and its
// entity. It leaves out the parts of texts that differ each time.
func linkFacts(t *testing.T, dir string, disk disk.FS) (lines []string) {
	t.Helper()
	paths := map[event.EntityID]string{}
	var links map[event.OriginID]event.Origin
	for _, ev := range eventsOf(t, dir, disk) {
		of := ev.Common()
		who := func() string { return links[of.Origin].Link + " " + paths[of.Slice.Entity] }
		switch ev := ev.(type) {
		case *event.OriginDefined:
			if ev.ID == 1 { // the first of a partition
				links = map[event.OriginID]event.Origin{}
			}
			links[ev.ID] = ev.Origin
			if o := ev.Origin; o.Connection == 0 || o.ContainerID != "test" || o.Principal == "" {
				t.Errorf("an origin is %+v", o)
			}
		case *event.EntityCreated:
			paths[ev.Common().Slice.Entity] = ev.Path
		case *event.LinkOpened:
			line := fmt.Sprintf("%s opened %v", who(), ev.Role)
			if ev.SubQueue != event.Main {
				line += " " + ev.SubQueue.String()
			}
			if ev.InSession {
				line += fmt.Sprintf(" %q", ev.SessionID)
			}
			lines = append(lines, line)
		case *event.LinkClosed:
			text, _, _ := strings.Cut(ev.Description, " TrackingId:")
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s closed %v %s %s", who(), ev.Cause, ev.Condition, text)))
		}
	}
	slices.Sort(lines) // partitions, and links of a connection, are in no order
	return lines
}

// failing is a connection that ends with an error when its peer has gone.
type failing struct {
	net.Conn
	err error
}

func (f failing) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = f.err
	}
	return n, err
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 1}, Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// linkEnds are the ways in which links end, and the causes in the log: of both links or, where
// there are two, of the receiver and of the sender.
var linkEnds = map[string]struct {
	ends func(b *bench, p *peerConn)
	wrap func(net.Conn) net.Conn
	want []string
}{
	"detach": {want: []string{"peer"}, ends: func(_ *bench, p *peerConn) { p.detach(1); p.detach(2) }},
	"detach with an error": {want: []string{"peer", "peer my:error it broke"}, ends: func(_ *bench, p *peerConn) {
		p.write(0, &amqp.Detach{Handle: 1, Closed: true, Error: &amqp.Error{Condition: "my:error", Description: "it broke"}}, nil)
		expect[*amqp.Detach](p)
		p.detach(2)
	}},
	"end": {want: []string{"peer"}, ends: func(_ *bench, p *peerConn) {
		p.write(0, &amqp.End{}, nil)
		expect[*amqp.End](p)
	}},
	"close": {want: []string{"peer"}, ends: func(_ *bench, p *peerConn) {
		p.write(0, &amqp.Close{}, nil)
		expect[*amqp.Close](p)
	}},
	"the entity is updated": {
		want: []string{
			"broker amqp:link:detach-forced The link 'r2' is force detached by the broker due to errors occurred in consumer(link2). Detach origin: the messaging entity was updated.",
			"broker amqp:link:detach-forced The link 's1' is force detached by the broker due to errors occurred in publisher(link1). Detach origin: the messaging entity was updated."},
		ends: func(b *bench, p *peerConn) {
			b.queue("q", func(p *event.Properties) { p.LockDuration = time.Minute })
			p.detached(amqp.CondDetachForced, "was updated", 1, 2)
		}},
	"the entity is deleted": {
		want: []string{"broker amqp:not-found The messaging entity 'sb://ns/q' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions."},
		ends: func(b *bench, p *peerConn) {
			b.remove("q")
			p.detached(amqp.CondNotFound, "could not be found", 1, 2)
		}},
	"the session is ended": {want: []string{"broker amqp:session:handle-in-use The handle is in use."}, ends: func(_ *bench, p *peerConn) {
		p.write(0, &amqp.Attach{Name: "again", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, nil)
		expect[*amqp.End](p)
	}},
	"the protocol is broken": {want: []string{"broker amqp:not-allowed The connection is open already."}, ends: func(_ *bench, p *peerConn) {
		p.write(0, &amqp.Open{ContainerID: "test"}, nil)
		expect[*amqp.Close](p)
	}},
	"no heartbeat": {
		want: []string{"connection-lost amqp:connection:forced The connection was inactive for more than the allowed 240000 milliseconds."},
		ends: func(_ *bench, p *peerConn) { time.Sleep(5 * time.Minute); p.closed() }},
	"the socket is closed": {want: []string{"connection-lost  read: EOF"}, ends: func(_ *bench, p *peerConn) { p.net.Close() }},
	"the socket is reset": {want: []string{"connection-lost  read: connection reset by peer"},
		wrap: func(nc net.Conn) net.Conn { return failing{nc, errReset} }, ends: func(_ *bench, p *peerConn) { p.net.Close() }},
	"the broker stops": {want: []string{"stop"}, ends: func(b *bench, p *peerConn) {
		go b.server.Close(context.Background())
		expect[*amqp.Close](p)
		p.net.Close()
	}},
}

// Each way in which links end has its cause in the log. A sender and a receiver are there before.
func TestLinkClosedCauses(t *testing.T) {
	for name, test := range linkEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			bubbleIn(t, dir, nil, nil, func(b *bench) {
				p := b.rootAs(test.wrap)
				p.attachSender(1, "q")
				p.attachReceiver(2, "q", amqp.SenderUnsettled)
				time.Sleep(time.Second)
				test.ends(b, p)
				time.Sleep(time.Second)
			})
			want := []string{"r2 q closed " + test.want[0], "r2 q opened receiver", "s1 q closed " + test.want[len(test.want)-1], "s1 q opened sender"}
			if got := linkFacts(t, dir, nil); !slices.Equal(got, want) {
				t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// remove deletes an entity.
func (b *bench) remove(path string) {
	b.Helper()
	if err := b.ns.DeleteEntity(context.Background(), engine.DeleteEntity{Path: path}); err != nil {
		b.Fatal(err)
	}
}

// rootAs is root with the broker's end of the connection.
func (b *bench) rootAs(wrap func(net.Conn) net.Conn) *peerConn {
	b.Helper()
	if wrap == nil {
		return b.root()
	}
	return b.dialAs(wrap).logIn("root", "root-key")
}

// Every kind of link to an entity is told of, under the entity or subscription that it leads to.
// Links to nodes are not, nor is one that never came about: refused, or without a session.
func TestLinkOpenedKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bubbleIn(t, dir, nil, nil, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		b.topic("t", nil)
		b.subscription("t", "u", nil)
		p := b.root()
		p.attachSender(1, "t")
		p.attachReceiver(2, "q", amqp.SenderSettled)
		p.attachReceiver(3, "t/subscriptions/u/$deadletterqueue", amqp.SenderUnsettled)
		p.acceptSession(4, "s", "a")
		p.acceptSession(5, "s", "")
		p.write(0, &amqp.Attach{Name: "browser", Handle: 6, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q2", DistributionMode: "copy"}, Target: &amqp.Target{}}, nil)
		expect[*amqp.Attach](p)
		p.attachManagement("q")
		p.attachSender(7, "none")
		expect[*amqp.Detach](p)
		p.wantSession(8, "s", "a") // another has it
		p.refused(8, amqp.CondSessionCannotBeLocked, "")
		p.wantSession(9, "s", nil) // none comes
		p.write(0, &amqp.Detach{Handle: 9, Closed: true}, nil)
		expect[*amqp.Attach](p)
		expect[*amqp.Detach](p)
		p.write(0, &amqp.Attach{Name: "r2", Handle: 10, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}, Target: &amqp.Target{}}, nil)
		p.detached(amqp.CondLinkStolen, "same name", 2)
		b.server.Close(context.Background()) // before the connection is gone
	})
	want := []string{
		"browser q2 closed stop", "browser q2 opened browser",
		"r2 q closed broker amqp:link:stolen The link was attached again under the same name.", "r2 q closed stop", "r2 q opened receiver", "r2 q opened receiver-deleting",
		"r3 t/Subscriptions/u closed stop", "r3 t/Subscriptions/u opened receiver dead-letter",
		"r4 s closed stop", `r4 s opened receiver "a"`, "r5 s closed stop", `r5 s opened receiver ""`, "s1 t closed stop", "s1 t opened sender",
	}
	if got := linkFacts(t, dir, nil); !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The text that the client of a link got is the text in the log, including the tracking id, so that
// one can be found by the other.
func TestLinkClosedHasTheWholeText(t *testing.T) {
	t.Parallel()
	dir, told := t.TempDir(), ""
	bubbleIn(t, dir, nil, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		b.remove("q")
		told = expect[*amqp.Detach](p).Error.Description
	})
	for _, ev := range eventsOf(t, dir, nil) {
		if closed, ok := ev.(*event.LinkClosed); ok && closed.Description != told {
			t.Errorf("the log says\n%q, the client was told\n%q", closed.Description, told)
		}
	}
}

// A broker that is killed says nothing of the ends of its links: they are there until the log says
// that another run began.
func TestLinkFactsOfAKilledBroker(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), faultfs.New()
	var left *faultfs.FS
	bubbleIn(t, dir, disk, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		time.Sleep(2 * time.Second)
		left = disk.Crash(rand.New(rand.NewPCG(1, 2)), faultfs.Kill)
	})
	bubbleIn(t, dir, left, nil, func(b *bench) {
		b.root().attachSender(7, "q")
		b.server.Close(context.Background()) // before the connection is gone
	})
	want := []string{"r2 q opened receiver", "s1 q opened sender", "s7 q closed stop", "s7 q opened sender"}
	if got := linkFacts(t, dir, left); !slices.Equal(got, want) {
		t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What a lost connection ended with is said without the addresses, which are in the origin.
func TestLostConnectionTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":                                       nil,
		"read: EOF":                              io.EOF,
		"write: i/o timeout":                     &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded},
		"write: broken pipe":                     &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)},
		"websocket: read: i/o timeout":           fmt.Errorf("websocket: %w", errors.New("read: i/o timeout")),
		"servicebus: internal error":             errPanic,
		"read: use of closed network connection": &net.OpError{Op: "read", Err: net.ErrClosed},
	} {
		c := &conn{failed: err}
		if got := c.lost(); got.Description != want || got.Cause != event.ClosedConnection {
			t.Errorf("%v: %+v; want got.Description == want && got.Cause == event.ClosedConnection", err, got)
		}
	}
}
