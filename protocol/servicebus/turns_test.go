package servicebus

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Frames are handled in their order, whether run or the reader handles them. Frames that arrive
// while there is no room for their answers wait.
func TestTurns(t *testing.T) {
	const messages = 600
	for name, change := range map[string]func(*Options){
		"room": nil, "no room": func(o *Options) { o.Limits.BufferedOut = 1 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, change, func(b *bench) {
				p := b.root()
				p.attachSender(1, "q")
				c, stop := b.conn(), make(chan struct{})
				var busy sync.WaitGroup
				busy.Go(func() { // has a turn in between, as run does
					for {
						select {
						case <-stop:
							return
						default:
							c.turn.Lock()
							runtime.Gosched()
							c.turn.Unlock()
							runtime.Gosched()
						}
					}
				})
				for id := range uint32(messages) {
					p.transfer(1, id, newMessage("x", fmt.Sprint(id)))
				}
				for answered := 0; answered < messages; {
					d := expect[*amqp.Disposition](p)
					answered += int(d.Last.Or(d.First)-d.First) + 1
				}
				close(stop)
				busy.Wait()
				r := b.root()
				r.attachReceiver(2, "q", amqp.SenderSettled)
				r.credit(2, 0, messages, false)
				for id := range messages {
					if m := r.receive(); string(m.body) != fmt.Sprint(id) {
						t.Fatalf("message %q comes where %d should", m.body, id)
					}
				}
			})
		})
	}
}

// The reader has no turn while another goroutine has it. It handles nothing before the results of
// earlier reads, while the peer has to wait, or after the end.
func TestReaderMustWait(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.root()
		c := b.conn()
		for _, test := range []struct {
			name   string
			before func()
			behind uint64 // number of reads that are not handled
			want   bool
		}{
			{"nobody has it", func() {}, 0, true},
			{"a read is with run", func() {}, 1, false},
			{"frames wait", func() { c.in.keep(readResult{chunk: newChunk(1)}) }, 0, false},
			{"they do not any more", func() { c.in.takeRest().chunk.Release() }, 0, true},
			{"too much is not answered", func() { c.pendings.bytes += 1 << 30 }, 0, false},
			{"it is", func() { c.pendings.bytes -= 1 << 30 }, 0, true},
			{"run is over", func() { c.done = true }, 0, false},
		} {
			synctest.Wait() // until run has nothing to do
			c.turn.Lock()
			test.before()
			in := readResult{chunk: newChunk(1)}
			if c.readTurn(in, c.in.taken+1+test.behind) {
				t.Errorf("%s: two have the turn", test.name)
			}
			next := c.in.taken + 1 + test.behind
			c.turn.Unlock()
			if got := c.readTurn(in, next); got != test.want {
				t.Errorf("%s: %t, want %t", test.name, got, test.want)
			} else if !got {
				in.chunk.Release()
			}
		}
		c.turn.Lock()
		c.done = false
		c.turn.Unlock()
	})
}
