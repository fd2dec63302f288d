package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Events from before a log's base show the clock of their time: the base already has the later
// clock decisions.
func TestClocksInFrontOfTheBase(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	d.cut(0)
	old := d.now
	for i := range uint64(2) {
		d.do(0, &event.ClockSet{Number: i + 1, Basis: event.BasisWall, From: d.now + 1000, To: d.now + 500, Wall: d.now})
		d.now -= 500
	}
	s := replay.Begin(d.part[0])
	if err := s.Run(t.Context(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	_, end := d.part[0].Bounds()
	d.Save(d.part[0], end, s.Index.Encode(nil))
	if _, err := replay.Cut(t.Context(), d.part[0], end, true); !errors.Is(err, log.ErrTooLittle) {
		t.Fatal(err)
	}
	b := d.bookOf(0)
	list, err := b.clockSets(t.Context(), &names{clocks: []era{{number: 2}}})
	if base, _ := b.Base(); err != nil || base.LSN != end || len(list) != 3 {
		t.Fatalf("%v, a base at %d of %d: %v", list, base.LSN, end, err)
	}
	for i, c := range list {
		if c.Number != uint64(i) || c.Shift != int64(-500*i) {
			t.Errorf("%v", list)
		}
	}
	if first := b.tick(0, old); first.compare(b.tick(end, d.now)) >= 0 || b.tick(end, d.now).since(first) != 2*time.Second {
		t.Errorf("%v, then %v", first, b.tick(end, d.now))
	}
}

// A log may still have events before its base, whose effects the base already has: each entity and
// each clock decision is known once.
func TestNamesInFrontOfTheBase(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	d.cut(0)
	properties := event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}
	for i, path := range []string{"lives", "lived"} {
		d.do(0, &event.EntityCreated{Envelope: queue(i + 2), EntityKind: event.Queue, Path: path, HashVersion: 1, Hosts: []byte{0}, Properties: properties})
	}
	d.do(0, &event.EntityDeleted{Envelope: queue(3), EntityKind: event.Queue})
	deleted := d.now
	d.do(0, &event.ClockSet{Number: 1, Basis: event.BasisWall, From: d.now + 1000, To: d.now + 500, Wall: d.now})
	d.now -= 500
	s := replay.Begin(d.part[0])
	if err := s.Run(t.Context(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	_, end := d.part[0].Bounds()
	d.Save(d.part[0], end, s.Index.Encode(nil))
	if _, err := replay.Cut(t.Context(), d.part[0], end, true); !errors.Is(err, log.ErrTooLittle) {
		t.Fatal(err)
	}
	d.do(0, &event.EntityCreated{Envelope: queue(4), EntityKind: event.Queue, Path: "lived", HashVersion: 1, Hosts: []byte{0}, Properties: properties})
	d.do(0, &event.EntityDeleted{Envelope: queue(2), EntityKind: event.Queue})
	n, err := New(d, func(Line) error { return nil }).catalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lives := n.byPath["lives"]; len(lives) != 1 || lives[0].deleted != d.now {
		t.Errorf("lives: %d entities, the first deleted at %s", len(lives), lives[0].deleted)
	}
	if lives := n.byPath["lived"]; len(lives) != 2 || lives[0].deleted != deleted || lives[1].deleted != 0 {
		t.Errorf("lived: %d entities, the first deleted at %s", len(lives), lives[0].deleted)
	}
	if len(n.clocks) != 2 || n.clocks[0].number != 0 || n.clocks[1].number != 1 {
		t.Errorf("clocks %+v", n.clocks)
	}
	if e := n.byPath["lived"][0]; e.since != 0 || e.until != 0 {
		t.Errorf("the one that lived: of the clocks %d to %d", e.since, e.until)
	}
}

// Nothing is known of a place before the base, even if the base begins at the same time: only a
// place distinguishes frames of one millisecond.
func TestPlaceInFrontOfTheBase(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	var sent []event.Event
	for i := range 3 {
		sent = append(sent, &event.MessageEnqueued{Envelope: queue(0), Sequence: event.SequenceNumber(i + 1), MessageID: []byte("m")})
	}
	d.cut(0, sent...)
	asked := 0
	base, _ := d.part[0].(log.Bases).Base()
	first, _ := d.part[0].Bounds()
	for rec, err := range replay.Records(t.Context(), d.part[0], first) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := rec.Events[0].(*event.MessageEnqueued); !ok || rec.Events[0].Common().Slice != queue(0).Slice || rec.LSN >= base.LSN {
			continue
		}
		asked++
		place := address.At(log.PartitionID(0), rec.LSN)
		var lines []Line
		if err := New(d, keep(&lines)).At(t.Context(), Instant{Place: &place}, "orders", false); !errors.Is(err, ErrNothing) || column(lines, "Active") != nil {
			t.Errorf("at %s, and the base is at %d: active %v, %v", place, base.LSN, column(lines, "Active"), err)
		}
	}
	if asked != 3 {
		t.Errorf("%d of 3 frames are there in front of the base, at %d", asked, base.LSN)
	}
}
