package servicebus

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// woken is a connection whose waiting read can be woken, as those of sockets can.
type woken struct{ net.Conn }

func (c woken) WakeReader() error { return c.SetReadDeadline(time.Unix(1, 0)) }

func (c woken) Awake() error { return c.SetReadDeadline(time.Time{}) }

// F22: a reader that waits with more memory than it needs gives it back when memory is short, and
// reads on where it was.
func TestMemoryOfReadersThatWait(t *testing.T) {
	for name, sent := range map[string]int{"idle": 0, "in a frame": 30_000} {
		t.Run(name, func(t *testing.T) {
			scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
				p := b.rootAs(func(c net.Conn) net.Conn { return woken{c} })
				p.attachSender(1, "q")
				frame := amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(3)), DeliveryTag: []byte{1}}, bodyOf(40_000))
				for id := range uint32(3) {
					p.send(1, id, bodyOf(20_000))
				}
				p.raw(frame[:sent])
				synctest.Wait()
				his := func() int64 { return memory.Taken() - int64(others.Has()) }
				if his() < largeChunk {
					t.Fatalf("the peer has %d bytes: its reader has no large chunk", his())
				}
				others.Owe(most)
				memory.Look(time.Now())
				synctest.Wait()
				if his() > budget.Promised {
					t.Errorf("the peer has %d bytes", his())
				}
				p.raw(frame[sent:])
				p.accepted(3)
				p.send(1, 4, bodyOf(10))
			})
		})
	}
}

// F22: connections that exceed their guaranteed share, and do not free it, do not keep others out:
// the largest one is closed after its time to free memory, and the others stay.
func TestMemoryIsForWhoeverComes(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		hog, modest, honest := b.root(), b.root(), b.root()
		for handle := range uint32(2500) {
			hog.attachSender(10+handle, "q2")
		}
		for handle := range uint32(100) {
			modest.attachSender(10+handle, "q2")
		}
		honest.attachSender(1, "q")
		for memory.Missing() == 0 {
			others.Owe(64 << 10)
		}
		for began := time.Now(); time.Since(began) < stuckTime; time.Sleep(time.Second) {
			memory.Look(time.Now())
			if synctest.Wait(); hog.toldToGo() {
				t.Fatalf("the connection that has most had %s", time.Since(began))
			}
		}
		memory.Look(time.Now())
		synctest.Wait()
		if !hog.toldToGo() {
			t.Error("the connection that has most is there")
		}
		synctest.Wait()
		if memory.Look(time.Now()); memory.Missing() > 0 {
			t.Errorf("%d bytes are missing", memory.Missing())
		}
		if modest.toldToGo() {
			t.Error("the connection with less is gone, too")
		}
		honest.send(1, 0, bodyOf(10))
		late := b.root()
		late.attachSender(1, "q")
		late.send(1, 0, bodyOf(10))
	})
}

// toldToGo reports whether the broker has closed the connection because memory is short.
func (p *peerConn) toldToGo() bool {
	for {
		select {
		case r := <-p.in:
			if c, ok := r.p.(*amqp.Close); ok {
				return c.Error != nil && c.Error.Condition == amqp.CondConnectionForced
			}
		default:
			return false
		}
	}
}
