package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var receiving = group{
	"receive-and-delete": receivingAndDeleting,
	"receive-waiting":    receiveWaiting,
}

func receivingAndDeleting(b *bus) {
	b.send("A", "B", "C")
	r := b.remover()
	got := b.take(r, "A", "B", "C")
	for _, m := range got {
		if m.LockedUntil != nil {
			b.Errorf("%q: locked until %s", m.Body, clock(*m.LockedUntil))
		}
	}
	b.empty(peekLock)
	b.wantError("any", r.CompleteMessage(b.patient(), got[0], nil), "not settleable")
	b.send("D")
	b.one(r, "D")
}

func receiveWaiting(b *bus) {
	var receivers []*azservicebus.Receiver
	var calls []*call
	for range 4 {
		r := b.receiver()
		receivers, calls = append(receivers, r), append(calls, b.waiting(r))
	}
	time.Sleep(time.Second)
	b.send("0", "1", "2", "3")
	sent := time.Now()
	var got []string
	for i, c := range calls {
		<-c.done
		b.must(c.err)
		b.wantBefore("a message", c.at, sent.Add(time.Second))
		if len(c.got) != 1 {
			b.Errorf("a receiver got %q", bodies(c.got))
		}
		got = append(got, bodies(c.got)...)
		b.complete(receivers[i], c.got...)
	}
	b.wantEach(got, texts(4))
	b.empty(peekLock)
}
