package loop

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

var handTransaction = event.TransactionID{15: 1}

// stage makes an operation part of the transaction of a test.
func stage(op engine.Command) *engine.Stage {
	return &engine.Stage{Transaction: handTransaction, Operation: op, Bytes: 100}
}

func sendOf(ids ...string) *engine.Send {
	cmd := &engine.Send{Slice: handEntity}
	for _, id := range ids {
		cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte(id), Body: []byte(id)})
	}
	return cmd
}

// staged makes an operation part of the transaction, and fails the test if it is refused.
func (h *drivenLoop) staged(op engine.Command) {
	h.t.Helper()
	if r := h.ask(stage(op)); r.Err != nil {
		h.t.Fatal(r.Err)
	}
}

// locked locks the next message and returns its token.
func (h *drivenLoop) locked() event.LockToken {
	h.t.Helper()
	r := h.receiver(1000+h.tag, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
	for i := range h.got {
		if d := h.got[i].Delivery(); d != nil {
			token := d.Token
			h.got = nil
			return token
		}
	}
	h.t.Fatal("there is no message")
	return event.LockToken{}
}

func (h *drivenLoop) commit() engine.Code { h.t.Helper(); return h.commits(handTransaction) }

func (h *drivenLoop) commits(id event.TransactionID) engine.Code {
	h.t.Helper()
	r := h.ask(&engine.Commit{Transaction: id, Slice: handEntity})
	var e *engine.Error
	if r.Err != nil && !errors.As(r.Err, &e) {
		h.t.Fatalf("%v; want no error or one of the engine", r.Err)
	}
	if e == nil {
		return 0
	}
	return e.Code
}

// SM-235: by the loop's clock a transaction may take two minutes, to the tenth of a second. The
// loop wakes after that and records it; the locks that the transaction relied on end at their own
// times.
func TestTransactionTimeLimit(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(1, 0)
	h.staged(sendOf("a"))
	h.after(119900 * time.Millisecond)
	if code := h.commit(); code != 0 {
		t.Fatalf("commit after 1:59.9: refused with %d", code)
	}
	h.locked()
	h.after(time.Minute) // so that no lock is in the way
	began := h.now
	late := event.TransactionID{15: 2}
	if r := h.ask(&engine.Stage{Transaction: late, Operation: &engine.Settle{Slice: handEntity, Token: h.locked(), Outcome: engine.Complete}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if at, want := h.loop.part.NextDeadline(), began.Add(2*time.Minute); at != want {
		t.Fatalf("the partition wants to be told of %v, not of %v", at, want)
	}
	h.after(119 * time.Second)
	if n := h.count(event.Main, index.Locked); n != 1 {
		t.Fatalf("%d messages are locked after 1:59", n)
	}
	h.after(1100 * time.Millisecond)
	if n := h.count(event.Main, index.Locked); n != 0 {
		t.Errorf("%d messages are locked after 2:00.1", n)
	}
	if code := h.commits(late); code != engine.UnknownTransaction {
		t.Errorf("commit after 2:00.1: %d", code)
	}
	h.send(0)
	aborted := kept[event.TransactionAborted](h)
	if len(aborted) != 1 || aborted[0].ID != late || aborted[0].Cause != event.AbortTimedOut {
		t.Errorf("the log says %+v", aborted)
	}
	if n := len(kept[event.LockExpired](h)); n != 2 {
		t.Errorf("%d locks have expired", n)
	}
}

// SM-370: a start knows of no transaction. Staged operations are gone, and the locks that the
// transaction relied on end if their time has ended.
func TestTransactionsVanishWithTheProcess(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(2, 0)
	over, live := h.locked(), event.LockToken{}
	h.staged(&engine.Settle{Slice: handEntity, Token: over, Outcome: engine.Complete})
	h.staged(sendOf("a"))
	h.after(20 * time.Second)
	live = h.locked()
	h.staged(&engine.Settle{Slice: handEntity, Token: live, Outcome: engine.Complete})
	h.after(20 * time.Second)
	h.restart()
	if code := h.commit(); code != engine.UnknownTransaction {
		t.Errorf("commit after the start: %d", code)
	}
	if a, l := h.count(event.Main, index.Active), h.count(event.Main, index.Locked); a != 1 || l != 1 {
		t.Errorf("%d messages are active and %d locked", a, l)
	}
	if r := h.ask(&engine.Settle{Slice: handEntity, Token: live, Outcome: engine.Complete}); r.Err != nil {
		t.Errorf("the lock that was not over: %v", r.Err)
	}
}

// A link that is detached returns the deliveries that it never passed on, but nothing that a
// transaction settles. With its session the transaction loses what it relies on.
func TestLinksAndTransactions(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.fill(1, 0)
	token := h.locked()
	r := h.receiver(7, event.Main)
	h.turn(&engine.Attach{Receiver: r})
	h.staged(&engine.Settle{Slice: handEntity, Token: token, Outcome: engine.Complete})
	h.turn(&engine.Detach{Receiver: r, Unsent: []event.LockToken{token}})
	if code := h.commit(); code != 0 {
		t.Errorf("the commit was refused with %d", code)
	}
	s := byHand(t, sessionQueue())
	s.send(0, "A", "B")
	r = s.accepts(8, "A")
	s.got = nil
	s.turn(&engine.Flow{Receiver: r, Limit: 1})
	token = s.got[0].Delivery().Token
	s.staged(&engine.Settle{Slice: handEntity, Token: token, Outcome: engine.Complete})
	s.turn(&engine.Detach{Receiver: r, Cause: event.ReleaseLinkLost})
	if code := s.commit(); code != engine.TransactionFailed {
		t.Errorf("the commit without the session: %d", code)
	}
	if n := s.count(event.Main, index.Active); n != 2 {
		t.Errorf("%d messages are active", n)
	}
}

// A commit stores messages only if the partition accepts them: after stored data has turned out to
// be damaged, staged messages are refused.
func TestDamageStopsCommits(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.staged(sendOf("a"))
	h.turn(&damageCommand{err: errors.New("checksum")})
	if r := h.ask(stage(sendOf("b"))); r.Err == nil {
		t.Error("a message was staged")
	}
	if code := h.commit(); code != engine.TransactionFailed {
		t.Errorf("commit: %d", code)
	}
	if n := h.count(event.Main, index.Active); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// The directory is marked as having transactions before anything is staged. If it cannot be marked,
// no transaction begins, not even with a later operation of the same transaction.
func TestTransactionsAreMarkedFirst(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	var words []string
	full := syscall.ENOSPC
	h.loop.capabilities.use = func(word string) error {
		words = append(words, word)
		if full != 0 {
			return full
		}
		return h.store.Use(word)
	}
	var e *engine.Error
	if r := h.ask(stage(sendOf("a"))); !errors.As(r.Err, &e) || e.Code != engine.Busy {
		t.Errorf("staged in an unmarked directory: %v", r.Err)
	}
	full = 0
	if r := h.ask(stage(sendOf("b"))); !errors.As(r.Err, &e) || e.Code != engine.UnknownTransaction {
		t.Errorf("the second operation of a transaction without its first: %v", r.Err)
	}
	handSecond := &engine.Stage{Transaction: event.TransactionID{15: 2}, Operation: sendOf("c")}
	if r := h.ask(handSecond); r.Err != nil {
		t.Error(r.Err)
	}
	h.ask(handSecond)
	full = syscall.ENOSPC
	via := sendOf("d")
	via.Destination = &engine.Entity{ID: 1, Path: "orders", Properties: testQueue()}
	if r := h.ask(&engine.Stage{Transaction: event.TransactionID{15: 2}, Operation: via}); !errors.As(r.Err, &e) || e.Code != engine.Busy {
		t.Errorf("staged for another entity in a directory that does not say so: %v", r.Err)
	}
	if code := h.commits(event.TransactionID{15: 2}); code != engine.TransactionFailed {
		t.Errorf("commit without the message for another entity: %d", code)
	}
	if !slices.Equal(words, []string{"transactions", "transactions", "moves"}) || !slices.Contains(h.store.Namespace().Capabilities, "transactions") {
		t.Errorf("asked for %q; the directory says %q", words, h.store.Namespace().Capabilities)
	}
}

// SM-230, SM-231, SM-244: whatever call of the file system a process dies in, between the first
// operation and the answer to the commit, a start finds all of the transaction or nothing of it;
// all, if the commit was answered. Numbers that a client was told are not used again.
func TestCommitIsAllOrNothing(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for k := 1; ; k++ {
		for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.PowerLoss} {
			c := newCrash(t, k)
			c.run()
			what := c.found(mode)
			found[fmt.Sprintf("%s, answered %t", what, c.committed)]++
			if c.committed && what != "all" {
				t.Fatalf("call %d, %v: committed, and a start finds %s", k, mode, what)
			}
			if c.committed && c.disk.Calls()-c.before < k { // the process survived
				if found["nothing, answered false"] == 0 || found["all, answered false"] == 0 {
					t.Errorf("not every case was met: %v", found)
				}
				return
			}
		}
	}
}

// crashTest is a process that dies in a transaction.
type crashTest struct {
	t         *testing.T
	k         int
	disk      *faultfs.FS
	before    int // calls of the disk
	store     log.Store
	loop      *Loop
	got       []engine.Reply
	token     event.LockToken
	number    event.SequenceNumber // that the client was told; 0: none
	committed bool
}

func (c *crashTest) Post(rs []engine.Reply) { c.got = append(c.got, rs...) }

const crashTime = event.Time(1_000_000)

// newCrash returns a broker with a queue of two messages, one of them locked, that dies in the k-th
// call of the disk from now on.
func newCrash(t *testing.T, k int) *crashTest {
	t.Helper()
	c := &crashTest{t: t, k: k, disk: faultfs.New(), token: event.LockToken{15: 9}}
	plog := c.open()
	writer, err := plog.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.loop = New(engine.NewPartition(0, 1, index.New()), plog, writer, Options{Clock: func() event.Time { return crashTime },
		Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1, Inline: true, Tokens: newTokens(), Use: c.store.Use})
	c.loop.configure(&configureCommand{entity: &engine.Entity{ID: 1, Kind: event.Queue, Path: "orders", Properties: testQueue()}})
	c.ask(sendOf("a", "b"))
	r := &engine.Receiver{Entity: &engine.Entity{ID: 1}, Slice: handEntity, Sink: c}
	c.ask(&engine.Attach{Receiver: r})
	c.ask(&engine.Flow{Receiver: r, Limit: 1})
	for i := range c.got {
		if d := c.got[i].Delivery(); d != nil {
			c.token = d.Token
		}
	}
	c.ask(sendOf("c"))
	c.before = c.disk.Calls()
	c.disk.CrashAt(k)
	return c
}

func (c *crashTest) open() log.Partition {
	c.t.Helper()
	store, err := log.Open(c.t.Context(), "/data", log.Options{FS: c.disk, Partitions: 1, Manual: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.store = store
	plog, err := store.Open(c.t.Context(), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	return plog
}

// ask carries out a command as far as the disk allows; nil: there is no answer.
func (c *crashTest) ask(cmd engine.Command) *engine.Reply {
	c.loop.Turn([]engine.Request{{Command: cmd, Sink: c, Tag: 77}})
	for c.loop.Busy() && c.loop.recorder.err == nil {
		c.loop.await()
	}
	for i := range c.got {
		if r := &c.got[i]; r.Tag == 77 && r.Kind == engine.ReplyDone {
			c.got = c.got[i+1:]
			return r
		}
	}
	return nil
}

// run carries out the transaction.
func (c *crashTest) run() {
	scheduled := sendOf("s")
	scheduled.Messages[0].ScheduledFor, scheduled.Numbers = crashTime+1_000_000, true
	via := sendOf("v")
	via.Destination = &engine.Entity{ID: 2, Kind: event.Queue, Path: "billing", Properties: testQueue()}
	for _, op := range []engine.Command{sendOf("d", "e"), via, scheduled, &engine.Settle{Slice: handEntity, Token: c.token, Outcome: engine.Complete}} {
		r := c.ask(stage(op))
		if r == nil || r.Err != nil {
			return // a client that is refused does not commit; nor does one that hears nothing
		}
		if n := r.Numbers(); n != nil {
			c.number = n[0]
		}
	}
	r := c.ask(&engine.Commit{Transaction: handTransaction, Slice: handEntity})
	if c.committed = r != nil && r.Err == nil; r != nil && !c.committed {
		c.t.Errorf("call %d: %v", c.k, r.Err)
	}
}

// found returns what a start finds of the transaction.
func (c *crashTest) found(mode faultfs.Mode) string {
	c.t.Helper()
	dead := *c
	dead.disk = c.disk.Crash(rand.New(rand.NewPCG(uint64(c.k), 1)), mode)
	x := replayed(c.t, dead.open()).Index
	if next := x.NextSequence(handEntity); c.number != 0 && next <= c.number {
		c.t.Errorf("call %d, %v: number %d was told, and %d is next", c.k, mode, c.number, next)
	}
	_, first := x.Message(handEntity, 1)
	sent := x.Count(handEntity, event.Main, index.Active) + x.Count(handEntity, event.Main, index.Locked)
	later, away := x.Count(handEntity, event.Main, index.Scheduled), len(x.Transfers())
	switch {
	case first && sent == 3 && later == 0 && away == 0:
		return "nothing"
	case !first && sent == 4 && later == 1 && away == 1:
		if words := dead.store.Namespace().Capabilities; !slices.Equal(words, []string{"moves", "transactions"}) {
			c.t.Errorf("call %d, %v: the directory has a transaction with a message that moves, and says %q", c.k, mode, words)
		}
		return "all"
	}
	c.t.Fatalf("call %d, %v: a part of it: the first message is there: %t, %d messages, %d scheduled, %d in transfer", c.k, mode, first, sent, later, away)
	return ""
}
