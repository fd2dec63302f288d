package servicebus

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The messages of a transaction stay unchanged until its partition has handled it, whatever other
// transactions send meanwhile. They stay so permanently if it is unknown whether the partition
// still has the transaction.
func TestMemoryOfTransactions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.transactor()
		p.attachSender(1, "q")
		first, second := p.declare(), p.declare()
		var want []string
		for i := range 10 {
			id := fmt.Sprintf("first%d", i)
			want = append(want, id)
			p.send(first, 1, newMessage(id, "a"))
		}
		b.broker.hold(func() {
			p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: first})
			for i := range 10 {
				p.put(second, 1, amqp.MessageFormatPlain, newMessage(fmt.Sprintf("other%d", i), "b"))
			}
		})
		for answers := 0; answers < 11; {
			d := expect[*amqp.Disposition](p.peerConn)
			answers += int(d.Last.Or(d.First)-d.First) + 1
		}
		b.shows("q", fmt.Sprint(want))
		p.rollBack(second)

		third, bodies := p.declare(), [][]byte{}
		var kept []*engine.Send
		b.broker.refuse(func(cmd engine.Command) error {
			switch cmd := cmd.(type) {
			case *engine.Stage:
				kept = append(kept, cmd.Operation.(*engine.Send))
				bodies = append(bodies, slices.Clone(kept[len(kept)-1].Messages[0].Body))
			case *engine.Commit:
				return engine.ErrUnknown
			}
			return nil
		})
		for i := range 10 {
			p.send(third, 1, newMessage(fmt.Sprintf("third%d", i), "c"))
		}
		p.control(coordinatorHandle, p.next(), &amqp.Discharge{TxnID: third})
		expect[*amqp.Detach](p.peerConn)
		q := b.transactor()
		q.attachSender(1, "q")
		fourth := q.declare()
		for i := range 10 {
			q.send(fourth, 1, newMessage(fmt.Sprintf("fourth%d", i), "d"))
		}
		for i, send := range kept[:10] {
			if !bytes.Equal(send.Messages[0].Body, bodies[i]) {
				t.Errorf("message %d was written over: %q", i, send.Messages[0].Body)
			}
		}
	})
}

// The memory of a transaction's sends is counted when it is taken, and the parts of a send are
// together.
func TestStagingCounts(t *testing.T) {
	var g stagingMemory
	if n := g.pay(); n != 0 {
		t.Errorf("nothing costs %d", n)
	}
	g.newSend()
	if n := g.pay(); n != blockCost {
		t.Errorf("the first send costs %d, want %d", n, blockCost)
	}
	small, large := g.carve(maxInBlock), g.carve(blockBytes)
	if n := g.pay(); n != blockBytes || cap(small) != maxInBlock || cap(large) != blockBytes {
		t.Errorf("%d and %d bytes cost %d", cap(small), cap(large), n)
	}
	for range blockSends - 1 {
		g.newSend()
	}
	if n := g.pay(); n != 0 || len(g.blocks) != 1 {
		t.Errorf("%d sends cost %d more, in %d blocks", blockSends, n, len(g.blocks))
	}
	g.newSend()
	if n := g.pay(); n != blockCost || len(g.blocks) != 2 {
		t.Errorf("one more costs %d, in %d blocks", n, len(g.blocks))
	}
	if g.free(); len(g.blocks) != 0 || g.pay() != 0 {
		t.Errorf("what is free is kept: %+v", g)
	}
}
