package servicebus

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// S1-12, SM-004: answers to sends without a key arrive in any order, because each log answers
// separately, and all of them arrive once. The logged figure is the number of answers that arrived
// after the answer to a later send; with one partition it is 0.
func TestAnswersInAnyOrder(t *testing.T) {
	const sends, ahead = 10_000, 500
	for _, queue := range []string{"q", "wide"} {
		t.Run(queue, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("wide", partitioned(nil))
				p := b.root()
				p.attachSender(1, queue)
				answered, last, behind := map[uint32]bool{}, uint32(0), 0
				for sent := range uint32(sends) {
					p.transfer(1, sent, newMessage(fmt.Sprint(sent), "x"))
					for open := int(sent) + 1 - len(answered); open >= ahead || int(sent) == sends-1 && open > 0; open = int(sent) + 1 - len(answered) {
						d := expect[*amqp.Disposition](p)
						if _, ok := d.State.(amqp.Accepted); !ok || !d.Settled {
							t.Fatalf("%+v", d)
						}
						for id := d.First; id <= d.Last.Or(d.First); id++ {
							if answered[id] || id > sent {
								t.Fatalf("send %d has a second answer, or one before it was sent", id)
							}
							answered[id] = true
							if id < last {
								behind++
							}
							last = max(last, id)
						}
					}
				}
				t.Logf("%d of %d answers came behind one to a later send", behind, sends)
				if queue == "q" && behind > 0 {
					t.Error("one partition answers out of order")
				}
			})
		})
	}
}
