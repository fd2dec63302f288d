package servicebus

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// oneOfEachLog makes the partitioned queue "wide" and returns a partition key for each log.
func (b *bench) oneOfEachLog() (keys [2]string) {
	b.Helper()
	b.queue("wide", partitioned(nil))
	e, ok := b.ns.Find("wide")
	if !ok {
		b.Fatal("there is no such queue")
	}
	for i := range 100 {
		key := fmt.Sprint("k", i)
		keys[e.Hosts[engine.Target{Entity: e}.OfSession([]byte(key))]] = key
	}
	return keys
}

// takes receives and completes n messages with that much credit at any time, and returns their ids.
// Each time it gives credit it waits until all loops are idle.
func (p *peerConn) takes(n int, credit uint32) (ids []string) {
	p.Helper()
	p.credit(2, 0, credit, false)
	synctest.Wait()
	for count := uint32(1); len(ids) < n; count++ {
		m := p.receive()
		ids = append(ids, m.properties.MessageID.(string))
		p.settle(m.id, amqp.StateAccepted, true)
		p.credit(2, count, credit, false)
		synctest.Wait()
	}
	return ids
}

// SM-211, SM-384: however little credit a receiver gives at a time, a partition that is full does
// not hold back the messages of other logs, whichever of the logs is the full one.
func TestReceiverTakesFromLogsInTurn(t *testing.T) {
	const many = 300
	for _, credit := range []uint32{1, 20} {
		for full := range 2 {
			t.Run(fmt.Sprint("credit ", credit, ", log ", full), func(t *testing.T) {
				bubble(t, nil, func(b *bench) {
					keys := b.oneOfEachLog()
					for range many {
						b.put("wide", keyedMessage("many", "", keys[full]))
					}
					b.put("wide", keyedMessage("single", "", keys[1-full]))
					p := b.root()
					p.attachReceiver(2, "wide", amqp.SenderUnsettled)
					for i, id := range p.takes(many+1, credit) {
						if most := int(credit) + 2*8; id == "single" && i > most {
							t.Errorf("the message comes behind %d others, %d at most", i, most)
						}
					}
				})
			})
		}
	}
}

// SM-384: while both logs have messages, each gives its share of those delivered in turn, which is
// one of eight.
func TestReceiverTakesFromFullLogsInTurn(t *testing.T) {
	const many, some = 220, 80
	for _, credit := range []uint32{1, 20} {
		t.Run(fmt.Sprint("credit ", credit), func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				keys := b.oneOfEachLog()
				for range many {
					b.put("wide", keyedMessage("0", "", keys[0]), keyedMessage("1", "", keys[1]))
				}
				for range 2 {
					p := b.root()
					p.attachReceiver(2, "wide", amqp.SenderUnsettled)
					of := map[string]int{}
					for _, id := range p.takes(some+int(credit), credit)[credit:] {
						of[id]++
					}
					if of["0"] < some/16-1 || of["1"] < some/16-1 {
						t.Errorf("of %d messages the logs give %v", some, of)
					}
					p.net.Close()
				}
			})
		})
	}
}
