package servicebus

import (
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// stallingDisk is a disk whose syncs of data a test can hold up.
type stallingDisk struct {
	*faultfs.FS
	mu    sync.Mutex
	stall *stall // nil: none
	fault error  // of every sync from now on; nil: none
}

type stall struct{ entered, over chan struct{} }

// hold makes syncs wait. The first one that does closes entered.
func (d *stallingDisk) hold() *stall {
	s := &stall{make(chan struct{}), make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stall = s
	return s
}

func (d *stallingDisk) Create(name string) (disk.File, error) { return d.wrap(d.FS.Create(name)) }

func (d *stallingDisk) Open(name string) (disk.File, error) { return d.wrap(d.FS.Open(name)) }

func (d *stallingDisk) wrap(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return stallingFile{f, d}, nil
}

type stallingFile struct {
	disk.File
	disk *stallingDisk
}

func (f stallingFile) Datasync() error {
	d := f.disk
	d.mu.Lock()
	s, fault := d.stall, d.fault
	d.stall = nil
	d.mu.Unlock()
	if s != nil {
		close(s.entered)
		<-s.over
	}
	if fault != nil {
		return fault
	}
	return f.File.Datasync()
}

// SM-003, WP-073: while storage stalls no accepted is sent; it follows once storage continues. The
// connection continues.
func TestStalledStorage(t *testing.T) {
	disk := &stallingDisk{FS: faultfs.New()}
	bubbleOn(t, disk, nil, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		p.attachManagement("q")
		p.send(1, 0, newMessage("before", "x"))
		stall := disk.hold()
		for i := range uint32(3) {
			p.transfer(1, 1+i, newMessage(fmt.Sprint(i), "x"))
		}
		p.request("m", "com.microsoft:schedule-message", scheduleBody(scheduled("s", time.Now().Add(time.Hour))))
		<-stall.entered
		for range 20 { // whatever the connection has to say it has said by then; time stands still
			p.write(0, &amqp.Flow{IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
			if r := p.next(); r.raw == nil {
				t.Fatalf("%+v; want r.raw != nil", r)
			} else if _, ok := r.p.(*amqp.Flow); !ok {
				t.Fatalf("%+v; want ok", r.p)
			}
		}
		b.refusesNew(p, 4)
		close(stall.over)
		accepted := uint32(0)
		for answered := false; accepted < 3 || !answered; {
			switch f := p.next().p.(type) {
			case *amqp.Disposition:
				if f.First != 1+accepted || f.State != amqp.StateAccepted {
					t.Errorf("%+v; want f.First == 1 + accepted && f.State == amqp.StateAccepted", f)
				}
				accepted += f.Last.Value - f.First + 1
			case *amqp.Transfer:
				answered = true
			case *amqp.Flow:
			default:
				t.Fatalf("%+v", f)
			}
		}
	})
}

// refusesNew sends once more when the disk has been hanging for a second: that is refused, at once.
func (b *bench) refusesNew(p *peerConn, id uint32) {
	b.Helper()
	time.Sleep(time.Second)
	if list := b.ns.Conditions(); len(list) != 1 || list[0].State != "disk-hangs" || time.Since(list[0].Since) > 1100*time.Millisecond {
		b.Errorf("conditions %v", list)
	}
	if err := b.ns.Health(b.Context()); err == nil {
		b.Error("healthy while the disk hangs")
	}
	p.transfer(1, id, newMessage("new", "x"))
	d := expect[*amqp.Disposition](p)
	if rejected, ok := d.State.(amqp.Rejected); !ok || d.First != id || rejected.Error.Condition != amqp.CondServerBusy {
		b.Errorf("a new send is answered %+v", d)
	}
}

// SM-377, SM-376: a sync that fails, because the disk is broken or full, is never followed by an
// accepted, not even when the disk is well again. The link ends instead, which a client takes for
// an invitation to try again.
func TestFailedSync(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		disk := &stallingDisk{FS: faultfs.New()}
		bubbleOn(t, disk, nil, func(b *bench) {
			p := b.root()
			p.attachSender(1, "q")
			p.send(1, 0, newMessage("before", "x"))
			set := func(fault error) {
				disk.mu.Lock()
				defer disk.mu.Unlock()
				disk.fault = fault
			}
			set(fault)
			for i := range uint32(3) {
				p.transfer(1, 1+i, newMessage(fmt.Sprint(i), "x"))
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondDetachForced {
				t.Errorf("%+v; want d.Error.Condition == amqp.CondDetachForced", d.Error)
			}
			set(nil)
			p.quiet(30 * time.Second)
			if err := <-b.ns.Failed(); err == nil {
				t.Error("the partition goes on")
			}
		})
	}
}

// slowConn is one end of a path on which every byte takes a while. Writes do not wait for it.
type slowConn struct {
	net.Conn
	delay time.Duration
	out   chan late
}

type late struct {
	at   time.Time
	data []byte
}

func newSlowConn(nc net.Conn, delay time.Duration) *slowConn {
	c := &slowConn{Conn: nc, delay: delay, out: make(chan late, 10_000)}
	go func() {
		for l := range c.out {
			time.Sleep(time.Until(l.at))
			if _, err := c.Conn.Write(l.data); err != nil {
				for range c.out { // until Close
				}
				return
			}
		}
	}()
	return c
}

const pathDelay = 70 * time.Millisecond

func (c *slowConn) Write(b []byte) (int, error) {
	c.out <- late{time.Now().Add(c.delay), append([]byte(nil), b...)}
	return len(b), nil
}

// SM-004: 100 overlapped sends on one link over a path of 70 ms, there and back, end in less than a
// second.
func TestSendsOverlap(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		near, far := net.Pipe()
		client, server := newSlowConn(near, pathDelay), newSlowConn(far, pathDelay)
		go b.server.ServeConn(server)
		p := &peerConn{bench: b, net: client, in: make(chan received, 10000)}
		go p.read()
		b.clients = append(b.clients, client)
		p.raw(amqp.ProtocolSASL[:])
		p.next()
		expect[*amqp.SASLMechanisms](p)
		p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")}))
		expect[*amqp.SASLOutcome](p)
		p.open()
		p.attachSender(1, "q")
		start := time.Now()
		const n = 100
		for i := range uint32(n) {
			p.transfer(1, i, newMessage(fmt.Sprint(i), "x"))
		}
		for answered := uint32(0); answered < n; {
			d := expect[*amqp.Disposition](p)
			if d.First != answered || d.State != amqp.StateAccepted {
				t.Fatalf("%+v; want d.First == answered && d.State == amqp.StateAccepted", d)
			}
			answered = d.Last.Value + 1
		}
		if took := time.Since(start); took < pathDelay || took >= time.Second {
			t.Errorf("took %v", took)
		}
		p.net.Close()
		synctest.Wait()
		close(client.out)
		close(server.out)
	})
}

// WP-126, SM-029: credit is served in the order in which it arrived, over the links of an entity.
func TestCreditInOrder(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		first, second := b.root(), b.root()
		for _, p := range []*peerConn{first, second} {
			p.attachReceiver(2, "q", amqp.SenderSettled)
		}
		first.credit(2, 0, 2, false)
		synctest.Wait()
		second.credit(2, 0, 3, false)
		synctest.Wait()
		first.credit(2, 0, 4, false) // two more, after those of the other
		synctest.Wait()
		for i, p := range []*peerConn{first, first, second, second, second, first, first} {
			b.put("q", newMessage(fmt.Sprint(i), "x"))
			if m := p.receive(); m.properties.MessageID != fmt.Sprint(i) {
				t.Errorf("%+v; want m.properties.MessageID == fmt.Sprint(i)", m)
			}
		}
		b.put("q", newMessage("last", "x"))
		first.quiet(time.Second)
		second.quiet(time.Second)
	})
}
