package sdkgo

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var deferring = group{
	"defer-receive":     deferReceive,
	"defer-not-found":   deferNotFound,
	"defer-settle":      deferSettle,
	"defer-lock-expiry": deferLockExpiry,
}

// wantDeferred checks that all that can be peeked are these messages, deferred, with a count.
func (b *bus) wantDeferred(counted int, bodies ...string) {
	b.Helper()
	all := b.peekAll(peekLock)
	b.wantTexts(all, bodies...)
	for _, m := range all {
		b.wantState(m, azservicebus.MessageStateDeferred)
		b.wantCount(m, counted)
	}
}

func deferReceive(b *bus) {
	b.send("A", "B", "C", "D")
	r := b.receiver()
	all := b.take(r, "A", "B", "C", "D")
	b.postpone(r, all...)
	b.nothing(r)
	b.wantDeferred(1, "A", "B", "C", "D")
	got := b.deferred(r, number(all[2]), number(all[0]))
	b.wantTexts(got, "C", "A")
	for _, m := range got {
		b.wantLocked(m, time.Minute, 2*time.Second)
		b.wantCount(m, 1)
	}
	b.complete(r, got...)
	remover := b.remover()
	b.wantTexts(b.deferred(remover, number(all[3])), "D")
	b.wantMissing(remover, number(all[3]))
	b.wantDeferred(1, "B")
}

func deferNotFound(b *bus) {
	b.send("A", "B", "C")
	r := b.receiver()
	got := b.take(r, "A", "B")
	a, locked := number(got[0]), number(got[1])
	active := number(b.peekAll(peekLock)[2])
	b.postpone(r, got[0])
	for _, missing := range []int64{999_999, locked, active} {
		b.wantMissing(r, missing)
	}
	b.wantMissing(r, a, 999_999)
	m := b.deferred(r, a)
	b.wantTexts(m, "A")
	b.wantMissing(r, a)
	b.complete(r, m...)
}

func deferSettle(b *bus) {
	b.send("A", "B")
	r := b.receiver()
	got := b.take(r, "A", "B")
	numbers := []int64{number(got[0]), number(got[1])}
	b.postpone(r, got...)
	b.wantDeferred(1, "A", "B")

	b.abandon(r, b.deferred(r, numbers[0])...)
	b.wantCounts(2, 1)
	b.nothing(r)
	a := b.deferred(r, numbers[0])
	b.wantCount(a[0], 2)
	b.postpone(r, a...)
	b.wantCounts(3, 1)

	got = b.deferred(r, numbers...)
	b.wantTexts(got, "A", "B")
	for _, m := range got {
		before := *m.LockedUntil
		b.renew(r, m)
		b.wantAfter("renewed lock", *m.LockedUntil, before)
	}
	b.buryFor("reason", r, got[0])
	b.complete(r, got[1])
	b.empty(peekLock)
	dead := b.one(b.deadLetters(), "A")
	b.wantReason(dead, "reason")
	b.wantCount(dead, 3)
}

// wantCounts checks that A and B are deferred, with these counts.
func (b *bus) wantCounts(counts ...int) {
	b.Helper()
	all := b.peekAll(peekLock)
	b.wantTexts(all, "A", "B")
	for i, m := range all {
		b.wantState(m, azservicebus.MessageStateDeferred)
		b.wantCount(m, counts[i])
	}
}

func deferLockExpiry(b *bus) {
	b.send("A")
	r := b.receiver()
	m := b.one(r, "A")
	b.postpone(r, m)
	old := b.deferred(r, number(m))[0]
	b.nothingUntil(b.receiver(), deref(old.LockedUntil).Add(100*time.Millisecond))
	b.wantError("lock-lost", r.CompleteMessage(b.patient(), old, nil))
	b.wantDeferred(2, "A")
	b.complete(r, b.deferred(r, number(m))...)
	b.empty(peekLock)
}
