package sdkgo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Topics of a broker that is killed.
var topicsKilled = group{
	"topic-survives-kill": topicSurvivesKill,
	"topic-kill-fan-out":  topicKillFanOut,
}

func topicSurvivesKill(b *bus) {
	b.send("A", "B", "C")
	one, two := b.on("one"), b.on("two")
	r := one.receiver()
	got := one.take(r, "A", "B")
	one.complete(r, got[0])
	one.buryFor("reason", r, got[1])
	other := two.receiver()
	held := two.take(other, "A", "B")
	two.postpone(other, held[0])
	two.abandon(other, held[1])
	b.kill(nil)

	peeked := one.peekAll(peekLock)
	one.wantTexts(peeked, "C")
	one.wantNumbers(peeked, 3)
	dead := one.peekAll(deadLetters)
	one.wantTexts(dead, "B")
	one.wantReason(dead[0], "reason")
	peeked = two.peekAll(peekLock)
	two.wantTexts(peeked, "A", "B", "C")
	two.wantNumbers(peeked, 1, 2, 3)
	two.wantState(peeked[0], azservicebus.MessageStateDeferred)
	two.wantCount(peeked[1], 1)

	r, other = one.receiver(), two.receiver()
	one.complete(r, one.one(r, "C"))
	two.complete(other, two.take(other, "B", "C")...)
	two.complete(other, two.deferred(other, number(held[0]))...)
	b.kill(nil)
	one.empty(peekLock)
	two.empty(peekLock)
	one.wantTexts(one.peekAll(deadLetters), "B")
	b.send("D")
	for _, s := range b.both() {
		r := s.receiver()
		got := s.take(r, "D")
		s.wantNumbers(got, 4)
		s.complete(r, got...)
	}
}

func topicKillFanOut(b *bus) {
	l := &load{bus: b, received: map[string]bool{}, completed: map[int64]bool{}}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var sending sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		sending.Go(func() { l.send(ctx, name) })
	}
	for _, n := range []int64{100, 250} {
		for l.sent.Load() < n && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		b.kill(nil)
	}
	sending.Wait()
	var first []string
	for i, name := range []string{"one", "two", "three"} {
		s := b.on(name)
		got := s.drainUntilQuiet()
		slices.Sort(got)
		if i == 0 {
			first = got
		} else if !slices.Equal(got, first) {
			b.Errorf("%s has %d copies, one has %d, and not the same", name, len(got), len(first))
		}
		s.empty(deadLetters)
	}
	for _, name := range []string{"a", "b"} {
		for i := range 200 {
			if _, there := slices.BinarySearch(first, fmt.Sprint(name, i)); !there {
				b.Errorf("%s%d was acknowledged and is not there", name, i)
			}
		}
	}
}

// drainUntilQuiet receives and deletes until a second passes without a message, although there was
// nothing to peek before.
func (b *bus) drainUntilQuiet() (all []string) {
	b.Helper()
	r := b.remover()
	for end := time.Now().Add(patience); ; {
		left := b.peekFrom(r, 1, 0) // which makes the link, however long that takes
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		some, err := r.ReceiveMessages(ctx, 100, nil)
		cancel()
		all = append(all, bodies(some)...)
		switch {
		case len(some) > 0:
			end = time.Now().Add(patience)
		case len(left) == 0 && !lost(err):
			return all
		case time.Now().After(end):
			b.Fatalf("%q stays where it is", bodies(left))
		}
	}
}
