package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// ailingDisk is a writer whose disk has as much room as the test says.
type ailingDisk struct {
	log.Writer
	room  log.Room
	hangs time.Time
}

func (s *ailingDisk) DiskState() log.DiskState { return log.DiskState{Room: s.room, Hangs: s.hangs} }

// TestF8WhatIsRefused: with little room, commands that make the log grow are refused as busy; with less, also those that can wait; with none, all
// that write. A refused command has no effect, and all commands are taken again when there is room.
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
		taken log.Room // the least room with which the command is taken
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

// TestF8StopWithoutRoom: what waits for room is not answered while it waits, and what is new is refused at once; a stop does not wait for room that may never
// come, and says so.
func TestF8StopWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		store, err := log.Open(t.Context(), "/data", log.Options{FS: disk, Partitions: 1, RoomBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(t.Context(), store, Options{Time: &hands{wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, CheckpointBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		e, err := n.PutEntity(t.Context(), engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		disk.Limit(disk.Used())
		send := func() answer {
			a := make(answer, 1)
			n.Submit(0, []engine.Request{{Sink: a, Command: &engine.Send{Slice: event.Slice{Entity: e.ID},
				Messages: []engine.Message{{ID: []byte("m"), Body: make([]byte, 1000)}}}}})
			synctest.Wait()
			return a
		}
		waits := send()
		if list := n.Conditions(); len(waits) > 0 || len(list) != 1 || list[0].State != diskFull {
			t.Errorf("%d answers, conditions %v", len(waits), list)
		}
		refusal := (*engine.Error)(nil)
		if r := <-send(); !errors.As(r.Err, &refusal) || refusal.Code != engine.Busy {
			t.Errorf("a new send is answered %v", r.Err)
		}
		time.Sleep(time.Minute)
		if len(waits) > 0 {
			t.Error("answered without room")
		}
		if err := errors.Join(n.Live(), n.Ready()); err != nil { // MA-162
			t.Error(err)
		}
		if err := n.Close(); !errors.Is(err, log.ErrNoRoom) {
			t.Errorf("stopped with %v", err)
		}
		if r := <-waits; !errors.Is(r.Err, engine.ErrUnknown) {
			t.Errorf("what waited is answered %v", r.Err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
