package loop

import (
	"errors"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestF8WhatIsRefused: with little room, commands that make the log grow are refused as busy; with
// less, also those that can wait; with none, all that write. A refused command has no effect, and
// all commands are accepted again when there is room.
func TestF8WhatIsRefused(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	disk := &ailingDisk{Writer: h.loop.frames.writer}
	h.loop.frames.writer = disk
	found, _ := h.loop.part.Index().Catalogue.Find("orders")
	entity := engine.View(found, nil)
	changed := testQueue()
	changed.MaxDeliveryCount++
	path := "orders"
	commands := []struct {
		name  string
		taken log.Room // the least room with which the command is accepted
		cmd   func() engine.Command
	}{
		{"send", log.RoomEnough, func() engine.Command {
			return &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}}
		}},
		{"a new entity", log.RoomEnough, func() engine.Command {
			path += "-new"
			return &engine.PutEntity{Kind: event.Queue, Path: path, Properties: testQueue()}
		}},
		{"the same entity", log.RoomNone, func() engine.Command {
			return &engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()}
		}},
		{"an update", log.RoomLow, func() engine.Command {
			changed.MaxDeliveryCount++
			return &engine.PutEntity{Kind: event.Queue, Path: "others", Properties: changed}
		}},
		{"complete", log.RoomCritical, func() engine.Command {
			return &engine.Settle{Entity: entity, Slice: handEntity, Token: event.LockToken{1}, Outcome: engine.Complete}
		}},
		{"delete", log.RoomCritical, func() engine.Command {
			return &engine.BatchDelete{Entity: entity, Slice: handEntity, Count: 1}
		}},
		{"peek", log.RoomNone, func() engine.Command {
			return &engine.Peek{Slice: handEntity, From: 1, Count: 1, MaxBytes: 1000}
		}},
	}
	if r := h.ask(&engine.PutEntity{Kind: event.Queue, Path: "others", Properties: changed}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, room := range []log.Room{log.RoomEnough, log.RoomLow, log.RoomCritical, log.RoomNone, log.RoomEnough} {
		for _, c := range commands {
			disk.room = room
			before := disk.Batch().LSN()
			r := h.ask(c.cmd())
			refusal := (*engine.Error)(nil)
			busy := errors.As(r.Err, &refusal) && refusal.Code == engine.Busy
			if want := room > c.taken; busy != want {
				t.Errorf("%s, with %v room: answered %v", c.name, room, r.Err)
			}
			if busy && disk.Batch().LSN() != before {
				t.Errorf("%s, with %v room: refused, and the log is longer", c.name, room)
			}
		}
	}
}
