package sdkgo

import (
	"fmt"
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
	b.wantError("not-settleable", r.CompleteMessage(b.patient(), got[0], nil))
	b.send("D")
	b.one(r, "D")
}

func receiveWaiting(b *bus) {
	var receivers []*azservicebus.Receiver
	var calls []*call
	for range 4 {
		r := b.receiver()
		b.warmUp(r)
		receivers = append(receivers, r)
	}
	for _, r := range receivers {
		calls = append(calls, b.waiting(r))
		time.Sleep(quiet) // so that this one's credit is the next to arrive
	}
	b.send("0", "1", "2", "3")
	sent := time.Now()
	for i, c := range calls {
		b.complete(receivers[i], b.ended(c, fmt.Sprint(i)))
		b.wantBefore("a message", c.at, sent.Add(promptly))
	}
	b.empty(peekLock)
}
