package servicebus

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-144, SM-208, docs/guide/limits.md: peek by the id of a session looks into the partition where
// a link of the connection holds that session, and else into the partition of its id. The two
// differ for a session that a rule has made: its messages stay in the partitions of theirs. A peek
// that goes on from a number behind that partition has nothing to show.
func TestPeekGoesWhereTheSessionIsHeld(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.topic("news", partitioned(nil))
		b.subscription("news", "all", ofSession, event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.SQLFilter, Text: "1=1"}, Action: event.Action{Text: "SET sys.SessionId = 'moved'"}})
		const path = "news/subscriptions/all"
		e, ok := b.ns.Find(path)
		if !ok {
			t.Fatal("there is no such subscription")
		}
		at := engine.Target{Entity: e}
		own := at.OfSession([]byte("moved"))
		session := func(fits func(partition uint8) bool) string {
			for n := 0; ; n++ {
				if id := fmt.Sprint("s", n); fits(at.OfSession([]byte(id))) {
					return id
				}
			}
		}
		before := session(func(partition uint8) bool { return partition < own })
		b.put("news", keyedMessage("home", session(func(partition uint8) bool { return partition == own }), ""), keyedMessage("before", before, ""),
			keyedMessage("other", session(func(partition uint8) bool { return partition > own }), ""))
		ofID, free := b.root(), b.root()
		ofID.acceptSession(2, path, "moved")
		shown := map[string]*peerConn{"[home]": ofID}
		for range 2 { // the sessions of that id in the two other partitions
			p := b.root()
			p.acceptSession(2, path, nil)
			p.credit(2, 0, 1, false)
			shown[fmt.Sprint([]any{p.receive().properties.MessageID})] = p
		}
		of := amqp.Pair{Key: "session-id", Value: "moved"}
		other := shown["[other]"]
		if len(shown) != 3 || other == nil || shown["[before]"] == nil {
			t.Fatalf("%v", shown)
		}
		for want, p := range shown {
			if p.attachManagement(path); fmt.Sprint(p.peekIDs(of)) != want {
				t.Errorf("who holds the session of %s is shown %v", want, p.peekIDs(of))
			}
			if all := p.peekIDs(); fmt.Sprint(all) != "[before home other]" {
				t.Errorf("without a session %v are shown", all)
			}
		}
		free.attachManagement(path)
		if ids := free.peekIDs(of); fmt.Sprint(ids) != "[home]" {
			t.Errorf("who holds none is shown %v", ids)
		}
		from := func(n int64) amqp.Map {
			return amqp.Map{{Key: "from-sequence-number", Value: n}, {Key: "message-count", Value: int32(9)}, of}
		}
		first := int64(own) << 48 // in the partition of the id
		if got := openedMessages(t, other.managedWith(200, "", "peek-message", from(first+5))); len(got) != 1 {
			t.Errorf("from a number of a partition before, %d messages are shown", len(got))
		}
		shown["[before]"].managedWith(204, "", "peek-message", from(first))
		free.managedWith(204, "", "peek-message", from(first+2))
	})
}

// peekFrom is one answer to a peek from a number.
func (p *peerConn) peekFrom(from int64, count int32) []openedMessage {
	p.Helper()
	_, _, answer := p.manage(operationPrefix+"peek-message", amqp.Map{{Key: "from-sequence-number", Value: from}, {Key: "message-count", Value: count}})
	return openedMessages(p, answer)
}

// SM-143, SM-380, S4-63, S4-64: a client that continues after the last message it has seen gets
// every message of a partitioned queue once, even if an answer ends in the middle of a partition
// because it has reached its limit of bytes.
func TestPeekOfPartitionsSkipsNothing(t *testing.T) {
	for _, size := range []int{1, 5000, 100_000, 200_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.queue("wide", partitioned(nil))
				const messages = 40
				for i := range messages {
					b.put("wide", newMessage(fmt.Sprint(i), string(make([]byte, size))))
				}
				p := b.root()
				p.attachManagement("wide")
				var numbers []int64
				for from := int64(1); ; from = numbers[len(numbers)-1] + 1 {
					seen := p.peekFrom(from, 1000)
					if len(seen) == 0 {
						break
					}
					bytes := 0
					for _, m := range seen {
						seq, _ := m.annotations.Get(keySequence)
						numbers, bytes = append(numbers, seq.(int64)), bytes+len(m.body)
					}
					if bytes > 256<<10 {
						t.Errorf("an answer has %d bytes", bytes)
					}
				}
				if len(numbers) != messages || !slices.IsSorted(numbers) || len(slices.Compact(numbers)) != messages {
					t.Errorf("%d messages are shown of %d: %v", len(numbers), messages, numbers)
				}
			})
		})
	}
}
