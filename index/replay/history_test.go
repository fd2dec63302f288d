package replay_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

type hash = [sha256.Size]byte

// written is a record as it was written, and the hashes of the states before it and after each of
// its events, of an index filled directly.
type written struct {
	lsn, next event.LSN
	number    int
	last      bool
	at        event.Time
	kinds     []event.Kind
	states    []hash
}

func (w *written) before() hash { return w.states[0] }
func (w *written) after() hash  { return w.states[len(w.states)-1] }

// history writes a log by hand, and feeds an index with the same events.
type history struct {
	t       testing.TB
	dir     *logdir.Dir
	part    log.Partition
	writer  log.Writer
	rng     *rand.Rand
	x       *index.Index
	now     event.Time
	last    event.SequenceNumber
	live    []event.SequenceNumber
	records []written
	saved   []event.LSN // checkpoints that are kept, oldest first
}

// newHistory is a log of three runs, with up to four records in a frame, up to five events in a
// record, and two checkpoints: one in the middle of a run and one between two runs.
func newHistory(t testing.TB) *history {
	t.Helper()
	h := &history{t: t, rng: rand.New(rand.NewPCG(4, 2)), x: index.New(), now: 1000}
	dir := t.TempDir()
	for run := range 3 {
		h.dir = logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 2000, ChapterBytes: 6000})
		h.part, h.writer = h.dir.Lead(0)
		for frame := range 12 {
			end := h.frame()
			if run == 0 && frame == 11 || run == 1 && frame == 6 {
				h.dir.Save(h.part, end, h.x.Encode(nil))
				h.saved = append(h.saved, end)
			}
		}
		if run < 2 {
			h.dir.Close()
		}
	}
	t.Cleanup(h.dir.Close)
	return h
}

// frame writes a frame of some records.
func (h *history) frame() (end event.LSN) {
	h.t.Helper()
	first := len(h.records)
	lsn := h.writer.Batch().LSN()
	var last []event.Event
	for n := range 1 + h.rng.IntN(4) {
		if n > 0 {
			h.writer.Batch().AppendRecord(h.now, last, log.Durable)
			h.apply(last)
		}
		h.now += event.Time(h.rng.IntN(3) * 500)
		last = h.decide()
		h.records = append(h.records, written{lsn: lsn, number: n + 1, at: h.now})
	}
	end = h.dir.Append(h.writer, h.now, last...)
	h.apply(last)
	for i := range h.records[first:] {
		h.records[first+i].next = end
	}
	h.records[len(h.records)-1].last = true
	return end
}

// apply feeds the index with the events of the last record.
func (h *history) apply(events []event.Event) {
	r := &h.records[len(h.records)-1]
	r.states = append(r.states, h.hash())
	for _, ev := range events {
		r.kinds = append(r.kinds, ev.Kind())
		h.x.Apply(r.at, ev)
		r.states = append(r.states, h.hash())
	}
}

func (h *history) hash() hash { return sha256.Sum256(h.x.Encode(nil)) }

// decide returns the contents of a record: messages are added, and some existing ones are removed.
func (h *history) decide() (events []event.Event) {
	env := event.Envelope{Slice: event.Slice{Entity: 4}}
	for range 1 + h.rng.IntN(3) {
		if len(h.live) > 2 && h.rng.IntN(2) == 0 {
			seq := h.live[0]
			h.live = h.live[1:]
			token := event.LockToken{1, byte(seq), byte(seq >> 8)}
			events = append(events, &event.MessageLocked{Envelope: env, Sequence: seq, Token: token, LockedUntil: h.now + 5000},
				&event.MessageCompleted{Envelope: env, Sequence: seq, Token: token})
			continue
		}
		h.last++
		h.live = append(h.live, h.last)
		events = append(events, &event.MessageEnqueued{Envelope: env, Sequence: h.last, EnqueuedAt: h.now, TimeToLive: event.Forever,
			Body: event.Blob{Data: []byte(fmt.Sprint("body of ", h.last))}})
	}
	return events
}

// run takes a state to the end of its log.
func run(t testing.TB, s *replay.State, w replay.Watch) {
	t.Helper()
	if err := s.Run(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}
