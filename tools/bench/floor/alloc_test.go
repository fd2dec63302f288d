package floor

import (
	"net"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// sink is a connection that accepts everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

// A server that allocates per message would not be a lower bound.
func TestNothingIsAllocatedPerMessage(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), message: encodeMessage(1024)}
	c := newConn(s, sink{})
	c.maxFrame = maxFrameSize
	for _, p := range []amqp.Performative{
		&amqp.Begin{IncomingWindow: 5000, OutgoingWindow: 5000},
		&amqp.Attach{Name: "out", Handle: 0, Role: amqp.RoleSender, Source: &amqp.Source{}, Target: &amqp.Target{Address: "q"}},
		&amqp.Attach{Name: "in", Handle: 1, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}, Target: &amqp.Target{}},
	} {
		if err := c.frame(amqp.AppendFrame(nil, 0, p, nil)); err != nil {
			t.Fatal(err)
		}
	}
	const messages = 50
	var sent, given uint32
	var frame []byte
	turn := func() {
		flow := amqp.Flow{
			NextIncomingID: amqp.Some(given), IncomingWindow: 5000, OutgoingWindow: 5000,
			Handle: amqp.Some[uint32](1), DeliveryCount: amqp.Some(given), LinkCredit: amqp.Some[uint32](messages),
		}
		if err := c.frame(amqp.AppendFlow(frame[:0], 0, &flow)); err != nil {
			t.Fatal(err)
		}
		for range messages {
			transfer := amqp.Transfer{DeliveryID: amqp.Some(sent), DeliveryTag: []byte{1, 2, 3, 4}, MessageFormat: amqp.Some[uint32](0)}
			frame = append(amqp.AppendTransferHeader(frame[:0], 0, &transfer, len(s.message)), s.message...)
			if err := c.frame(frame); err != nil {
				t.Fatal(err)
			}
			sent++
			settle := amqp.Disposition{Role: amqp.RoleReceiver, First: given, State: amqp.StateAccepted}
			if err := c.frame(amqp.AppendDisposition(frame[:0], 0, &settle)); err != nil {
				t.Fatal(err)
			}
			given++
		}
		if err := c.answer(); err != nil {
			t.Fatal(err)
		}
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, turn); n > 1 {
		t.Errorf("%v allocations for %d messages each way", n, messages)
	}
}

func TestDiskMeasuresAndTidiesUp(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // a file left behind would be in the way
		r, err := Disk(t.Context(), dir, 1024, 1)
		if err != nil || r.Writes < 1 || r.Median <= 0 || r.PerSecond <= 0 {
			t.Fatalf("%+v, %v; want r.Writes >= 1 && r.Median > 0 && r.PerSecond > 0", r, err)
		}
	}
}
