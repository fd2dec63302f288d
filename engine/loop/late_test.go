package loop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// keptReplies is a sink that keeps all replies.
type keptReplies struct{ got []engine.Reply }

func (p *keptReplies) Post(rs []engine.Reply) { p.got = append(p.got, rs...) }

// tags returns the tags of the replies, in order.
func (p *keptReplies) tags() (tags []uint64) {
	for _, r := range p.got {
		tags = append(tags, r.Tag)
	}
	return tags
}

// asked returns requests of one sink, with tags from 1 on.
func (p *keptReplies) asked(n int, cmd func(i int) engine.Command) (requests []engine.Request) {
	for i := range n {
		requests = append(requests, engine.Request{Command: cmd(i), Sink: p, Tag: uint64(i + 1)})
	}
	return requests
}

// crowd returns a loop with a queue of n sessions of a message each, and one more with n messages.
func crowd(t *testing.T, n int) *drivenLoop {
	t.Helper()
	h := byHand(t, sessionQueue())
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("s%06d", i), "long")
	}
	for part := range slices.Chunk(ids, 10_000) {
		h.send(0, part...)
	}
	h.now++
	return h
}

// Reliability.md P23: whatever a peer asks for, and however much of it at once, a turn visits a
// bounded number of entries, and cheap requests are answered in the turn in which they came. The
// others are answered in order, and take turns.
func TestCostlyRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, cmd := range costlyRequests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesTurns(t, cmd)
		})
	}
}

const manySessions = 10_000

var longSession = []byte("long")

// costlyRequests are commands that may visit many entries, the first, the second, and so on.
var costlyRequests = map[string]func(i int) engine.Command{
	"sessions": func(int) engine.Command { return &engine.ListSessions{Slice: handEntity, All: true, Top: manySessions} },
	"states":   func(int) engine.Command { return &engine.ListSessions{Slice: handEntity, Top: 1} },
	"peek":     func(int) engine.Command { return &engine.Peek{Slice: handEntity, Count: 1000, MaxBytes: 1 << 20} },
	"peek in session": func(int) engine.Command {
		return &engine.Peek{Slice: handEntity, SubQueue: event.DeadLetter, SessionID: longSession, HasSession: true, Count: 1, MaxBytes: 1}
	},
	"delete in session": func(int) engine.Command {
		return &engine.BatchDelete{Slice: handEntity, SubQueue: event.DeadLetter, SessionID: longSession, HasSession: true, Count: 1, Before: event.EndOfTime}
	},
	"receive by number": func(int) engine.Command {
		return &engine.ReceiveDeferred{Slice: handEntity, SubQueue: event.DeadLetter, Sequences: make([]event.SequenceNumber, 1000)}
	},
	"renew many": func(int) engine.Command {
		return &engine.Renew{Slice: handEntity, SubQueue: event.DeadLetter, Tokens: make([]event.LockToken, 3000)}
	},
	"settle many": func(int) engine.Command {
		return &engine.Settle{Slice: handEntity, Outcome: engine.Complete, More: make([]event.LockToken, 3000)}
	},
	"cancel many": func(int) engine.Command {
		return &engine.CancelScheduled{Slice: handEntity, Sequences: make([]event.SequenceNumber, 3000)}
	},
	"states, one by one": func(i int) engine.Command {
		return &engine.ListSessions{Slice: handEntity, Since: event.Time(i), Skip: i, Top: 1}
	},
	"delete what is left": func(int) engine.Command {
		return &engine.BatchDelete{Slice: handEntity, SubQueue: event.DeadLetter, Count: 4000}
	},
}

func sendOne(int) engine.Command {
	return &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x"), HasSession: true}}}
}

// takesTurns makes two peers ask for the same thing a hundred times, and another peer, in each
// turn, make a cheap request.
func takesTurns(t *testing.T, cmd func(int) engine.Command) {
	h := crowd(t, manySessions)
	flooding, other, honest := &keptReplies{}, &keptReplies{}, &keptReplies{}
	const many = 100
	requests := append(flooding.asked(many, cmd), other.asked(many, cmd)...)
	requests = append(requests, honest.asked(1, sendOne)...)
	most := 0
	for turns := 1; ; turns++ {
		h.loop.Turn(requests)
		if h.land(); len(honest.got) != turns {
			t.Fatalf("turn %d: %d honest requests are answered", turns, len(honest.got))
		}
		// 8192, and what one step goes beyond it
		if most = max(most, h.loop.late.looked); most > 12_500 {
			t.Fatalf("turn %d looked at %d", turns, most)
		}
		if a, b := len(flooding.got), len(other.got); b > 0 && b < many && a < many && max(a-b, b-a) > many/2 {
			t.Fatalf("turn %d: %d and %d are answered", turns, a, b)
		}
		if !h.loop.unfinished() {
			break
		}
		requests = honest.asked(1, sendOne)
	}
	for _, p := range []*keptReplies{flooding, other} {
		if len(p.got) != many || !slices.IsSorted(p.tags()) {
			t.Errorf("%d answers, by tag: %v", len(p.got), p.tags())
		}
	}
	if h.loop.late.any() || len(h.loop.late.of) != 0 {
		t.Errorf("%d are late for ever", h.loop.late.count)
	}
}

// A request that is carried out in steps finds what it would find in one step, and later requests
// of its sink are answered after it.
func TestCutRequests(t *testing.T) {
	t.Parallel()
	const n = 3 * lookStep
	h := crowd(t, n)
	long := []byte("long")
	p := &keptReplies{}
	cmds := []engine.Command{
		&engine.ListSessions{Slice: handEntity, All: true, Skip: 1, Top: n + 9},
		&engine.Peek{Slice: handEntity, SessionID: long, HasSession: true, Count: lookStep + 5, MaxBytes: 1 << 30},
		&engine.Peek{Slice: handEntity, SessionID: long, HasSession: true, Count: 1 << 20, MaxBytes: lookStep + 9},
		&engine.BatchDelete{Slice: handEntity, SessionID: long, HasSession: true, Count: lookStep + 7},
		&engine.BatchDelete{Slice: handEntity, SessionID: []byte("s000001"), HasSession: true, Count: 9},
		&engine.Peek{Slice: handEntity, SessionID: long, HasSession: true, Count: 1, MaxBytes: 1},
	}
	requests := p.asked(len(cmds), func(i int) engine.Command { return cmds[i] })
	h.loop.Turn(requests)
	if len(p.got) == len(cmds) {
		t.Error("nothing was cut")
	}
	h.now++
	h.send(0, "s000001") // messages sent while the deletion waits are not deleted
	h.turn()
	if !slices.Equal(p.tags(), []uint64{1, 2, 3, 4, 5, 6}) {
		t.Fatalf("%+v; want slices.Equal(p.tags(), []uint64{1, 2, 3, 4, 5, 6})", p.tags())
	}
	ids := p.got[0].SessionIDs().IDs
	if len(ids) != n || ids[0] != "s000000" || ids[n-1] != fmt.Sprintf("s%06d", n-1) || !slices.IsSorted(ids) {
		t.Errorf("%d sessions, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
	sees := func(i, count, step int) {
		t.Helper()
		seen := p.got[i].Messages()
		if len(seen) != count {
			t.Fatalf("%d messages, not %d", len(seen), count)
		}
		for k := range seen {
			if want := event.SequenceNumber(2 * (k + 1 + step)); seen[k].Sequence != want {
				t.Fatalf("message %d, not %d", seen[k].Sequence, want)
			}
		}
	}
	sees(1, lookStep+5, 0)
	sees(2, lookStep+9, 0)
	if p.got[3].Deleted() != lookStep+7 || p.got[4].Deleted() != 1 {
		t.Errorf("%d and %d are deleted", p.got[3].Deleted(), p.got[4].Deleted())
	}
	sees(5, 1, lookStep+7)
	if s, _ := h.loop.part.Index().Session(handEntity, []byte("s000001")); s.Active != 1 {
		t.Errorf("%d messages are left in the session", s.Active)
	}
}

// A stop carries out the late requests that change something, and answers every request.
func TestStopWithLateRequests(t *testing.T) {
	t.Parallel()
	h := crowd(t, 5000)
	p := &keptReplies{}
	requests := p.asked(9, func(i int) engine.Command {
		if i == 8 {
			return &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x"), HasSession: true, SessionID: []byte("last")}}}
		}
		return &engine.ListSessions{Slice: handEntity, Top: 1}
	})
	h.loop.Turn(requests)
	h.loop.drain()
	if len(p.got) != 9 || p.got[8].Err != nil || h.loop.late.any() {
		t.Errorf("%d answers, %+v", len(p.got), p.got[len(p.got)-1])
	}
	if s, ok := h.loop.part.Index().Session(handEntity, []byte("last")); !ok || s.Active != 1 {
		t.Error("what was sent last is not stored")
	}
	if n := h.count(event.Main, index.Active); n != 10_001 {
		t.Errorf("%d messages", n)
	}
}

// A stop also answers every request if costly requests come up during it: those that waited for
// room in a frame.
func TestStopWithFullFrame(t *testing.T) {
	t.Parallel()
	h := crowd(t, 5000)
	p, senders := &keptReplies{}, &keptReplies{}
	large := func(int) engine.Command {
		return &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: make([]byte, 200_000), HasSession: true, SessionID: []byte("last")}}}
	}
	h.loop.Turn(senders.asked(1, large))
	h.loop.Turn(senders.asked(30, large))
	if !h.loop.frames.full() {
		t.Fatal("the frame is not full")
	}
	const many = 40
	for range 2 {
		h.loop.mail.put(p.asked(many, func(i int) engine.Command {
			if i%2 == 1 {
				return large(i)
			}
			return &engine.ListSessions{Slice: handEntity, Top: 1}
		}))
	}
	h.loop.drain()
	if len(p.got) != 2*many || len(senders.got) != 31 || h.loop.late.any() || len(h.loop.backlog) > 0 {
		t.Errorf("%d and %d answers", len(p.got), len(senders.got))
	}
	stored := 0
	for _, r := range p.got {
		if r.Tag%2 == 0 && r.Err == nil {
			stored++
		}
	}
	if s, _ := h.loop.part.Index().Session(handEntity, []byte("last")); s.Active != 31+many || stored != many {
		t.Errorf("%d messages are stored, %d of %d sends are told so", s.Active, stored, many)
	}
}

// The first step of a deletion decides which messages it deletes: those that existed then. If it
// cannot continue it says how many it has deleted.
func TestDeletionInSteps(t *testing.T) {
	t.Parallel()
	long := []byte("long")
	for name, disabled := range map[string]bool{"in force": false, "disabled meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := crowd(t, lookStep+1)
			part := h.loop.part
			cmd := &engine.BatchDelete{Slice: handEntity, SessionID: long, HasSession: true, Count: maxBatchDelete}
			out := part.Decide(h.now, cmd)
			if h.loop.recorder.write(h.now, out); !out.Again {
				t.Fatal("it is done in one step")
			}
			h.now++
			h.send(0, "long")
			h.now++
			want := lookStep + 1
			if disabled {
				now, _ := part.Entity(handEntity)
				e := *now
				e.Properties.Status = event.Disabled
				part.Configure(&e)
				want = lookStep
			}
			out = part.Decide(h.now, out.Rest)
			if h.loop.recorder.write(h.now, out); out.Again || out.Reply.Err != nil || out.Reply.Deleted() != want {
				t.Errorf("%d are deleted, not %d: %v", out.Reply.Deleted(), want, out.Reply.Err)
			}
			left := lookStep + 1 + 1 - want
			if s, _ := part.Index().Session(handEntity, long); s.Active != left {
				t.Errorf("%d are left, not %d", s.Active, left)
			}
			h.turn()
		})
	}
}

// Even requests that find no entry cost a decision each: a turn takes a bounded number of those as
// well.
func TestManyIdleRequests(t *testing.T) {
	t.Parallel()
	h := crowd(t, 10)
	p := &keptReplies{}
	requests := p.asked(5000, func(int) engine.Command { return &engine.BatchDelete{Slice: handEntity, Count: 1, Before: 1} })
	for most := maxLooks / leastLooks; len(p.got) < 5000; requests = nil {
		before := len(p.got)
		h.loop.Turn(requests)
		h.land()
		if n := len(p.got) - before; n == 0 || n > most {
			t.Fatalf("a turn answered %d requests", n)
		}
	}
}
