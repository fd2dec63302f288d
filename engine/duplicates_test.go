package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Reliability.md P23: a full duplicate history forgets nothing early. A send that would not fit is
// refused and stores nothing; the client must send it again later. Ids that leave the window make
// room.
func TestFullDuplicateHistory(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Minute
	s := newScript()
	s.put(new(strings.Builder), &PutEntity{Kind: event.Queue, Path: "orders", Properties: p})
	if s.part.settings.history != 8<<20 {
		t.Fatalf("a history holds %d ids", s.part.settings.history)
	}
	s.part.settings.history = 3
	stored := func() int {
		return s.part.index.Count(testSlice, event.Main, index.Active) + s.part.index.Count(testSlice, event.Main, index.Scheduled)
	}
	send := func(want Code, at event.Time, ids ...string) {
		t.Helper()
		cmd := &Send{Slice: testSlice}
		for _, id := range ids {
			cmd.Messages = append(cmd.Messages, Message{ID: []byte(id), Body: []byte("x"), ScheduledFor: at})
		}
		before := stored()
		r := s.ask(cmd)
		if code(r.Err) != want {
			t.Fatalf("%v: %v, want code %d", ids, r.Err, want)
		}
		if n := stored() - before; want != 0 && n != 0 {
			t.Errorf("%v: %d are stored", ids, n)
		}
	}
	send(0, 0, "a")
	s.now = s.now.Add(30 * time.Second)
	send(Busy, 0, "b", "c", "d")
	send(0, 0, "b", "c")
	send(Busy, 0, "d")
	send(Busy, s.now.Add(time.Hour), "d")
	s.now = s.now.Add(29 * time.Second)
	send(Busy, 0, "d")
	s.now = s.now.Add(time.Second) // a leaves
	send(0, s.now.Add(time.Hour), "d")
	send(Busy, 0, "e")
	s.restart(t)
	s.part.settings.history = 3
	send(Busy, 0, "e")
	s.now = s.now.Add(30 * time.Second) // b and c
	send(0, 0, "e", "b")
	if n := s.part.index.Remembered(testSlice); n != 3 {
		t.Errorf("%d ids are remembered", n)
	}
}
