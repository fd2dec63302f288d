package servicebus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// taken is the message-ids of all deliveries that come before the connection falls silent or ends.
// Each is in one frame.
func (p *peerConn) taken() (ids []any) {
	p.Helper()
	for {
		select {
		case r, ok := <-p.in:
			if !ok || r.err != nil {
				return ids
			}
			if _, ok := r.p.(*amqp.Transfer); ok {
				ids = append(ids, decodeMessage(p, r.payload).properties.MessageID)
			}
		case <-time.After(time.Second):
			return ids
		}
	}
}

// SM-022, restart included: when the process or the power is gone while a receive-and-delete is on
// its way, no message that has reached the wire comes again: neither when the removal is just being
// synced nor right after the delivery. The planted bug M20 lets a delivery out before the removal
// is durable, and this test fails.
func TestReceiveAndDeleteCrash(t *testing.T) {
	const sent, wanted = 12, 5
	for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
		for _, syncing := range []bool{true, false} {
			for seed := range uint64(8) {
				t.Run(fmt.Sprint(mode, " syncing ", syncing, seed), func(t *testing.T) {
					t.Parallel()
					dir, disk := t.TempDir(), &stallingDisk{FS: faultfs.New()}
					var before []any
					var left *faultfs.FS
					bubbleIn(t, dir, disk, nil, func(b *bench) {
						for i := range sent {
							b.put("q", newMessage(fmt.Sprint(i), "x"))
						}
						p := b.root()
						p.attachReceiver(2, "q", amqp.SenderSettled)
						crash := func() {
							before = p.taken()
							left = disk.Crash(rand.New(rand.NewPCG(seed, 22)), mode)
						}
						if !syncing {
							p.credit(2, 0, wanted, false)
							crash()
							return
						}
						stall := disk.hold()
						p.credit(2, 0, wanted, false)
						<-stall.entered
						crash()
						close(stall.over)
					})
					if len(before) != map[bool]int{true: 0, false: wanted}[syncing] {
						t.Errorf("%v before the crash", before)
					}
					bubbleIn(t, dir, left, nil, func(b *bench) {
						p := b.root()
						p.attachReceiver(2, "q", amqp.SenderSettled)
						p.credit(2, 0, 2*sent, false)
						after := p.taken()
						for i, id := range after {
							if slices.Contains(before, id) || slices.Contains(after[:i], id) {
								t.Errorf("%v came twice: %v, then %v", id, before, after)
							}
						}
						if n := len(after); n < sent-wanted || n > sent-len(before) {
							t.Errorf("%v before the crash, %v after it", before, after)
						}
					})
				})
			}
		}
	}
}
