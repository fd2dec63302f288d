package loop

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestF22WhatIsRefused: without memory, commands that take lasting memory are refused as busy, also
// in transactions; settlements, receives and browsing continue, and make room.
func TestF22WhatIsRefused(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	none := false
	h.loop.limits.memory = func() bool { return none }
	found, _ := h.loop.part.Index().Catalogue.Find("orders")
	entity := engine.View(found, nil)
	send := func() engine.Command {
		return &engine.Send{Entity: entity, Slice: handEntity, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}}
	}
	for range 2 {
		if r := h.ask(send()); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	none = true
	receiver := h.receiver(1, event.Main)
	h.turn(&engine.Attach{Receiver: receiver}, &engine.Flow{Receiver: receiver, Limit: 2})
	var tokens []event.LockToken
	for _, r := range h.got {
		if d := r.Delivery(); r.Kind == engine.ReplyDelivery {
			tokens = append(tokens, d.Token)
		}
	}
	h.got = nil
	if len(tokens) != 2 {
		t.Fatalf("%d messages were delivered, of 2", len(tokens))
	}
	for _, c := range []struct {
		name    string
		cmd     engine.Command
		refused bool
	}{
		{"send", send(), true},
		{"send in a transaction", &engine.Stage{Transaction: event.TransactionID{1}, Operation: send(), Bytes: 10}, true},
		{"new entity", &engine.PutEntity{Kind: event.Queue, Path: "new", Properties: testQueue()}, true},
		{"update of an entity", &engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: func() event.Properties {
			p := testQueue()
			p.MaxDeliveryCount++
			return p
		}()}, false},
		{"complete", &engine.Settle{Entity: entity, Slice: handEntity, Token: tokens[0], Outcome: engine.Complete}, false},
		{"renew", &engine.Renew{Slice: handEntity, Tokens: []event.LockToken{tokens[1]}}, false},
		{"abandon", &engine.Settle{Entity: entity, Slice: handEntity, Token: tokens[1], Outcome: engine.Abandon}, false},
		{"peek", &engine.Peek{Slice: handEntity, From: 1, Count: 1, MaxBytes: 100}, false},
	} {
		if r := h.ask(c.cmd); isBusy(r.Err) != c.refused || !c.refused && r.Err != nil {
			t.Errorf("%s is answered %v", c.name, r.Err)
		}
	}
	none = false
	if r := h.ask(send()); r.Err != nil {
		t.Errorf("with memory a send is answered %v", r.Err)
	}
}

// TestF11WhatIsRefused: while a disk hangs, new sends, including those of transactions, and
// requests that lock messages by number are refused before the mailbox; settlements wait for the
// disk.
func TestF11WhatIsRefused(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	disk := &ailingDisk{Writer: h.loop.frames.writer}
	for _, c := range []struct {
		name   string
		cmd    engine.Command
		passes bool
	}{
		{"send", &engine.Send{}, false},
		{"send in a transaction", &engine.Stage{Operation: &engine.Send{}}, false},
		{"settlement in a transaction", &engine.Stage{Operation: &engine.Settle{}}, true},
		{"commit", &engine.Commit{}, true},
		{"new entity", &engine.PutEntity{}, false},
		{"new rule", &engine.PutRule{}, false},
		{"deferred messages", &engine.ReceiveDeferred{}, false},
		{"complete", &engine.Settle{}, true},
		{"renew", &engine.Renew{}, true},
		{"attach", &engine.Attach{}, true},
	} {
		for _, hangs := range []bool{false, true} {
			disk.hangs = time.Time{}
			if hangs {
				disk.hangs = time.Now()
			}
			got := new(keptReplies)
			kept, refused, why := splitRequests(disk, []engine.Request{{Command: c.cmd, Sink: got}})
			TurnAway(refused, why)
			if passes := c.passes || !hangs; (len(kept) == 1) != passes || passes != (len(got.got) == 0) {
				t.Errorf("%s, the disk hangs %v: %d of 1 pass, %d answers", c.name, hangs, len(kept), len(got.got))
			}
			for _, r := range got.got {
				if !isBusy(r.Err) {
					t.Errorf("%s, the disk hangs: %v", c.name, r.Err)
				}
			}
		}
	}
}

// TestF11NoLocks: while a disk hangs no lock of a message or of a session is granted: it could end
// before it is written. Waiting receivers get their locks when the disk answers, and a drain is
// answered then.
func TestF11NoLocks(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		p := testQueue()
		p.RequiresSession = sessions
		h := byHand(t, p)
		disk := &ailingDisk{Writer: h.loop.frames.writer}
		h.loop.frames.writer = disk
		if sessions {
			h.send(0, "A")
		} else {
			h.fill(1, 0)
		}
		h.got = nil
		disk.hangs = time.Now()
		r := h.receiver(1, event.Main)
		// one turn: the loop would continue as long as the disk hangs
		turn := func(cmds ...engine.Command) {
			var requests []engine.Request
			for _, cmd := range cmds {
				requests = append(requests, engine.Request{Command: cmd, Sink: h, Tag: 1})
			}
			h.loop.Turn(requests)
			h.land()
		}
		if sessions {
			r = &engine.Receiver{Entity: r.Entity, Sink: h, Tag: 7, Origin: r.Origin, Session: &engine.SessionRequest{Any: true, Wait: time.Minute}}
			turn(&engine.Attach{Receiver: r})
		} else {
			turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 5, Drain: true})
		}
		for range 3 {
			turn()
		}
		for _, got := range h.got {
			if got.Kind == engine.ReplyDelivery || got.SessionGrant() != nil || got.Kind == engine.ReplyDrained {
				t.Errorf("sessions %v: while the disk hangs there is a grant: %v", sessions, h.heard())
			}
		}
		if wait := h.loop.nextWake(); wait != haltedFor {
			t.Errorf("sessions %v: the loop looks again after %v", sessions, wait)
		}
		disk.hangs = time.Time{}
		h.got = nil
		h.turn()
		if got := h.heard(); len(got) == 0 || sessions && got[0] != "1:A" && got[0] != "7:A" || !sessions && (got[0] != "1:1" || got[len(got)-1] != "1:drained") {
			t.Errorf("sessions %v: when the disk answers: %v", sessions, got)
		}
	}
}
