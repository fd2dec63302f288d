package sdkgo

import (
	"bytes"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var peeking = group{
	"peek-states": peekStates,
	"peek-pages":  peekPages,
	"peek-large":  peekLarge,
}

func peekStates(b *bus) {
	b.empty(peekLock)
	b.send("L", "D", "A")
	b.schedule(soon(time.Hour), text("S"))
	r := b.receiver()
	got := b.take(r, "L", "D")
	b.postpone(r, got[1])
	want := []struct {
		state   azservicebus.MessageState
		counted int
	}{{azservicebus.MessageStateActive, 0}, {azservicebus.MessageStateDeferred, 1}, {azservicebus.MessageStateActive, 0}, {azservicebus.MessageStateScheduled, 0}}
	for range 2 {
		peeked := b.peekAll(peekLock)
		b.wantTexts(peeked, "L", "D", "A", "S")
		for i, m := range peeked {
			b.wantState(m, want[i].state)
			b.wantCount(m, want[i].counted)
			if m.LockToken != [16]byte{} || m.LockedUntil != nil {
				b.Errorf("%q: locked until %v by %x", m.Body, m.LockedUntil, m.LockToken)
			}
			if i > 0 && number(m) <= number(peeked[i-1]) {
				b.Errorf("%q: number %d after %d", m.Body, number(m), number(peeked[i-1]))
			}
		}
	}
	b.complete(r, got[0])
	b.wantCount(b.one(r, "A"), 0)
}

func peekPages(b *bus) {
	b.sendAll(texts(230))
	r := b.receiver()
	var all []*received
	for _, page := range b.peekPages(r, 50) {
		if len(page) > 50 {
			b.Errorf("a page of %d", len(page))
		}
		all = append(all, page...)
	}
	b.wantTexts(all, texts(230)...)
	b.wantTexts(b.peekFrom(r, 2, number(all[100])), "100", "101")
	b.wantTexts(b.peekFrom(r, 2, number(all[229])+1))
}

func peekLarge(b *bus) {
	var sent [][]byte
	for i := range 12 {
		sent = append(sent, noise(204_800))
		b.post(&message{Body: sent[i], Subject: to.Ptr(fmt.Sprint(i))})
	}
	pages := b.peekPages(b.receiver(), 100)
	if len(pages) == 0 || len(pages[0]) >= len(sent) {
		b.Errorf("%d pages, too large", len(pages))
	}
	var all []*received
	for _, page := range pages {
		all = append(all, page...)
	}
	if len(all) != len(sent) {
		b.Fatalf("%d messages of %d", len(all), len(sent))
	}
	for i, m := range all {
		if deref(m.Subject) != fmt.Sprint(i) || !bytes.Equal(m.Body, sent[i]) {
			b.Errorf("place %d: subject %q, %d bytes", i, deref(m.Subject), len(m.Body))
		}
	}
}
