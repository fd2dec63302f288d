package host

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Decision 35: streams do not wait for each other. Messages that one destination has no room for do
// not hold up those for another, whether these are sent through the same entity, or are forwarded
// by the same queue since its ForwardTo was changed.
func TestFullDestinationKeepsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, crowd := range map[string]func(*fleet){
		"sent through": func(f *fleet) {
			f.put(event.Queue, "a", testQueue())
			for i := range maxOpenTransfers + 10 {
				f.must(f.via("a", "full", fmt.Sprint(i)).Err)
			}
			f.settle()
			f.must(f.via("a", "b", "free").Err)
		},
		"dead letters": func(f *fleet) {
			f.put(event.Queue, "a", testQueue())
			for i := range maxOpenTransfers + 10 {
				f.send("a", fmt.Sprint(i))
			}
			f.deadLetters("a")
			p := testQueue()
			p.ForwardDeadLetteredMessagesTo = "full"
			f.put(event.Queue, "a", p)
			f.settle()
			p.ForwardDeadLetteredMessagesTo = "b"
			f.put(event.Queue, "a", p)
			f.send("a", "free")
			f.deadLetters("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 17, 1)
			full := testQueue()
			full.MaxSizeMegabytes = 0
			f.put(event.Queue, "full", full)
			f.put(event.Queue, "b", testQueue())
			crowd(f)
			f.settle()
			if got := f.places()["free"]; len(got) != 1 || got[0] != "b" {
				t.Fatalf("it is at %v", got)
			}
		})
	}
}
