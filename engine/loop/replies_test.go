package loop

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// slowDiskTest is a loop on a disk that syncs when it is told to.
type slowDiskTest struct {
	t       testing.TB
	loop    *Loop
	now     event.Time
	heard   []string
	tokens  map[event.SequenceNumber]event.LockToken // of the newest deliveries
	session event.LockToken
}

func onSlowDisk(t *testing.T, p event.Properties) *slowDiskTest {
	t.Helper()
	d := logdir.Open(t, "/data", log.Options{FS: faultfs.New(), Partitions: 1, Manual: true})
	plog, writer := d.Lead(0)
	s := &slowDiskTest{t: t, now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), tokens: map[event.SequenceNumber]event.LockToken{}}
	s.loop = New(engine.NewPartition(0, 1, index.New()), plog, writer, Options{Clock: func() event.Time { return s.now }, Tokens: newTokens(),
		Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1, Inline: true})
	s.loop.configure(&configureCommand{entity: &engine.Entity{ID: 1, Kind: event.Queue, Path: "orders", Properties: p}})
	t.Cleanup(d.Close)
	return s
}

// Post implements [engine.Sink].
func (s *slowDiskTest) Post(rs []engine.Reply) {
	for i := range rs {
		r := &rs[i]
		switch {
		case r.Err != nil:
			s.heard = append(s.heard, fmt.Sprintf("%d refused", r.Tag))
		case r.Delivery() != nil:
			s.tokens[r.Delivery().Sequence] = r.Delivery().Token
			s.heard = append(s.heard, fmt.Sprintf("%d:%d", r.Tag, r.Delivery().Sequence))
		case r.SessionGrant() != nil:
			s.session = r.SessionGrant().Token
			s.heard = append(s.heard, fmt.Sprintf("%d has %s", r.Tag, r.SessionGrant().ID))
		default:
			s.heard = append(s.heard, fmt.Sprint(r.Tag))
		}
	}
}

// asks passes commands to the loop in one turn; a tag of 0 asks for no answer.
func (s *slowDiskTest) asks(tag uint64, cmds ...engine.Command) {
	s.t.Helper()
	var requests []engine.Request
	for _, cmd := range cmds {
		r := engine.Request{Command: cmd, Tag: tag}
		if tag != 0 {
			r.Sink = s
		}
		requests = append(requests, r)
	}
	s.loop.Turn(requests)
}

// syncs makes the disk do everything it was asked to.
func (s *slowDiskTest) syncs() {
	for s.loop.frames.writer.(log.ManualWriter).Work() {
	}
	s.loop.Committed()
}

// hears compares what has been posted since the last call.
func (s *slowDiskTest) hears(what string, want ...string) {
	s.t.Helper()
	if !slices.Equal(s.heard, want) {
		s.t.Errorf("%s: heard %q, want %q", what, s.heard, want)
	}
	s.heard = nil
}

func (s *slowDiskTest) send(id string, more ...func(*engine.Message)) *engine.Send {
	m := engine.Message{ID: []byte(id), Body: []byte(id)}
	for _, change := range more {
		change(&m)
	}
	return &engine.Send{Slice: handEntity, Messages: []engine.Message{m}}
}

func (s *slowDiskTest) receiver(tag uint64, mode engine.ReceiveMode) *engine.Receiver {
	e, _ := s.loop.part.Entity(handEntity)
	return &engine.Receiver{Entity: e, Slice: handEntity, Mode: mode, Sink: s, Tag: tag}
}

// P6, P16: a delivery waits until its lock is written and what it shows is durable, and for no
// other sync.
func TestDeliveryWaitsForItsOwn(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	r := s.receiver(7, engine.PeekLock)
	s.asks(1, s.send("a"))
	s.hears("before the sync")
	s.syncs()
	s.hears("after it", "1")
	s.asks(2, s.send("b")) // and the disk takes its time
	durable := s.loop.frames.writer.Durable()
	s.asks(0, &engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
	s.hears("a durable message while another is synced", "7:1")
	if s.loop.frames.writer.Durable() != durable || s.loop.frames.writer.Written() < s.loop.frames.end {
		t.Errorf("durable to %d, it was %d; written to %d of %d", s.loop.frames.writer.Durable(), durable, s.loop.frames.writer.Written(), s.loop.frames.end)
	}
	s.asks(3, &engine.Renew{Slice: handEntity, Tokens: []event.LockToken{s.tokens[1]}})
	s.hears("a renewal", "3")
	s.asks(4, &engine.Peek{Slice: handEntity, Count: 5})
	s.hears("a look at what is not durable")
	s.asks(0, &engine.Flow{Receiver: r, Limit: 2})
	s.hears("a message that is being synced")
	s.syncs()
	s.hears("when that is over", "2", "4", "7:2")
	s.asks(5, &engine.Settle{Slice: handEntity, Token: s.tokens[1], Outcome: engine.Abandon})
	s.asks(0, &engine.Flow{Receiver: r, Limit: 3})
	s.hears("an abandoned message")
	s.syncs()
	s.hears("once that is durable", "5", "7:1")
}

// A message that is sent while a receiver waits takes one sync: its own. A settlement in the same
// frame does not change that.
func TestDeliveryTakesOneSync(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	r := s.receiver(7, engine.PeekLock)
	s.asks(0, &engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 10})
	s.asks(1, s.send("a"))
	s.asks(2, s.send("b")) // for the next sync
	work := 0
	for s.loop.frames.writer.(log.ManualWriter).Work() {
		work++
	}
	s.loop.Committed()
	s.hears("after one sync", "1", "7:1")
	if work != 2 {
		t.Errorf("%d pieces of work, it must be a write and a sync", work)
	}
	s.asks(3, &engine.Settle{Slice: handEntity, Token: s.tokens[1], Outcome: engine.Complete})
	s.syncs()
	s.hears("after the next", "2", "7:2")
	s.syncs()
	s.hears("the settlement", "3")
}

// Other messages that are not shown before they are durable: one that became active, one whose lock
// has ended, one that is received and deleted, and a delivery that would reach a receiver out of
// order.
func TestDeliveryWaitsForTheLastEvent(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	r := s.receiver(7, engine.PeekLock)
	s.asks(0, &engine.Attach{Receiver: r}, s.send("later", func(m *engine.Message) { m.ScheduledFor = s.now + 1000 }), s.send("a"))
	s.syncs()
	s.now += 1000
	s.asks(0, &engine.Flow{Receiver: r, Limit: 1}) // a is first
	s.hears("a message before the one that has become active", "7:2")
	s.asks(0, &engine.Flow{Receiver: r, Limit: 2})
	s.hears("one that has just become active")
	s.syncs()
	s.hears("when that is durable", "7:3")
	s.now = s.now.Add(time.Hour)
	s.asks(0, &engine.Flow{Receiver: r, Limit: 3})
	s.hears("one whose lock has just ended")
	s.syncs()
	s.hears("when that is durable", "7:2")
	d := s.receiver(8, engine.ReceiveAndDelete)
	s.asks(0, &engine.Attach{Receiver: d}, &engine.Flow{Receiver: d, Limit: 1})
	s.hears("one that is taken for good")
	s.syncs()
	s.hears("when it is gone", "8:3")
}

// docs/decisions/0003: a settlement without an answer is not answered, and its sync waits a moment;
// any reply that waits makes it start at once.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := onSlowDisk(t, testQueue())
		s.loop.frames.pace.on = true
		r := s.receiver(7, engine.PeekLock)
		s.asks(0, &engine.Attach{Receiver: r}, s.send("a"), s.send("b"), &engine.Flow{Receiver: r, Limit: 2})
		s.syncs()
		s.hears("both", "7:1", "7:2")
		s.asks(0, &engine.Settle{Slice: handEntity, Token: s.tokens[1], Outcome: engine.Complete}, &engine.Flow{Receiver: r, Limit: 3})
		if wait := s.loop.nextWake(); s.loop.frames.syncing() || wait != maxPatience {
			t.Errorf("a settlement nobody waits for: a sync goes on: %v; the loop sleeps for %v", s.loop.frames.syncing(), wait)
		}
		s.asks(5, &engine.Settle{Slice: handEntity, Token: s.tokens[2], Outcome: engine.Complete})
		if !s.loop.frames.syncing() {
			t.Error("somebody waits, and no sync goes on")
		}
		s.syncs()
		s.hears("one answer", "5")
		s.asks(0, s.send("c")) // the receiver waits for it
		if !s.loop.frames.syncing() {
			t.Error("a receiver waits for a message, and no sync goes on")
		}
		s.syncs()
		s.hears("the message", "7:3")
		s.asks(0, s.send("d"))
		time.Sleep(maxPatience)
		if wait := s.loop.nextWake(); wait != 0 {
			t.Errorf("after the wait the loop sleeps for %v", wait)
		}
		s.loop.Turn(nil)
		if !s.loop.frames.syncing() {
			t.Error("no sync goes on after the wait")
		}
		s.syncs()
	})
}

// The replies to one receiver leave in order: a durable message after one that is not, the end of a
// drain after both.
func TestReceiverHearsInOrder(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	r, other := s.receiver(7, engine.PeekLock), s.receiver(8, engine.PeekLock)
	s.asks(0, &engine.Attach{Receiver: r}, &engine.Attach{Receiver: other}, s.send("a"), s.send("b"), s.send("c"))
	s.syncs()
	s.asks(0, &engine.Flow{Receiver: other, Limit: 1})
	s.hears("the first", "8:1")
	s.asks(1, &engine.Settle{Slice: handEntity, Token: s.tokens[1], Outcome: engine.Abandon}, &engine.Flow{Receiver: r, Limit: 2})
	s.asks(0, &engine.Flow{Receiver: other, Limit: 2})
	s.hears("the third, whatever the first waits for", "8:3")
	s.asks(0, &engine.Flow{Receiver: r, Limit: 5, Drain: true})
	s.hears("the others")
	s.syncs()
	s.hears("in their order", "1", "7:1", "7:2", "7")
}

// After a sync that made more durable than was requested, nothing keeps the loop from sleeping.
func TestLoopRestsAfterALargeSync(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	r := s.receiver(7, engine.PeekLock)
	s.asks(0, &engine.Attach{Receiver: r}, s.send("a"))
	s.syncs()
	s.asks(0, s.send("b"))
	s.asks(0, s.send("c"), &engine.Flow{Receiver: r, Limit: 1}) // written before the sync has begun
	s.syncs()
	if s.loop.Busy() || s.loop.frames.records != 0 || s.loop.nextWake() < time.Second {
		t.Errorf("busy %v, %+v, sleeps %v", s.loop.Busy(), s.loop.frames, s.loop.nextWake())
	}
}

// semantics.md 5.1: answers of one partition follow the log, each as soon as its group is durable.
// When the log fails, every waiting caller is told that the outcome is unknown.
func TestAnswersFollowTheLog(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	s.asks(1, s.send("a"))
	s.asks(2, s.send("b")) // of the next group
	s.asks(3, &engine.Settle{Slice: handEntity, Token: event.LockToken{1}, Outcome: engine.Complete})
	s.asks(4, s.send("c"))
	s.syncs()
	s.hears("the first group is durable", "1")
	s.asks(5, s.send("d"))
	s.syncs()
	s.hears("the second group is durable", "2", "3 refused", "4")
	s.loop.recorder.fail(errors.New("planted"))
	s.loop.abort()
	s.hears("nobody knows about the third", "5 refused")
}

// Staged operations are only in memory, so their answers wait for no sync; answers with numbers, a
// refusal and the commit do.
func TestStagedWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	s.asks(1, s.send("a")) // and the disk takes its time
	s.asks(2, stage(s.send("b")))
	s.hears("what was staged while something is synced", "2")
	numbered := s.send("c", func(m *engine.Message) { m.ScheduledFor = s.now.Add(time.Hour) })
	numbered.Numbers = true
	s.asks(3, stage(numbered))
	s.hears("numbers that are not durable")
	s.asks(4, stage(&engine.Settle{Slice: handEntity, Token: event.LockToken{1}, Outcome: engine.Complete}))
	s.hears("a refusal, which follows from what is not durable")
	s.asks(5, &engine.Rollback{Transaction: handTransaction})
	s.syncs()
	s.syncs()
	s.hears("in the end", "1", "3", "4 refused", "5")
	s.asks(6, stage(s.send("d")))
	s.hears("after its end", "6 refused")
}
