package loop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// drivenLoop drives a loop directly, on a log of its own: time stops between turns.
type drivenLoop struct {
	t     testing.TB
	store log.Store
	plog  log.Partition
	loop  *Loop
	now   event.Time
	got   []engine.Reply // posted replies that the test has not read
	tag   uint64
	turns int
	// courier is told what is in transfer; nil: nothing moves
	courier engine.Sink
}

var handEntity = event.Slice{Entity: 1}

// newTokens returns a source of random lock tokens.
func newTokens() func() event.LockToken {
	return func() (t event.LockToken) {
		binary.LittleEndian.PutUint64(t[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(t[8:], rand.Uint64())
		t[6], t[8] = t[6]&0x0f|0x40, t[8]&0x3f|0x80
		return t
	}
}

// byHand returns a driven loop with one queue.
func byHand(t testing.TB, p event.Properties) *drivenLoop {
	t.Helper()
	return byHandOn(t, p, log.Options{Partitions: 1})
}

// byHandAlone returns a driven loop whose log does nothing between turns: it is written and synced
// when the test calls land.
func byHandAlone(t testing.TB, p event.Properties) *drivenLoop {
	t.Helper()
	return byHandOn(t, p, log.Options{Partitions: 1, Manual: true})
}

func byHandOn(t testing.TB, p event.Properties, opts log.Options) *drivenLoop {
	t.Helper()
	store, err := log.Open(t.Context(), t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	h := &drivenLoop{t: t, store: store, now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	if h.plog, err = store.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	h.lead(index.New())
	t.Cleanup(func() {
		if err := errors.Join(h.loop.frames.writer.Close(), h.store.Close()); err != nil {
			t.Error(err)
		}
	})
	if r := h.ask(&engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: p}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.configure()
	return h
}

// lead makes a loop over a state, which begins to write.
func (h *drivenLoop) lead(x *index.Index) {
	h.t.Helper()
	writer, err := h.plog.Lead(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.loop = New(engine.NewPartition(0, 1, x), h.plog, writer, Options{
		Clock: func() event.Time { return h.now }, Logger: slog.New(slog.DiscardHandler), CheckpointBytes: -1, Inline: true,
		Tokens: newTokens(), Courier: h.courier})
	h.configure()
}

func (h *drivenLoop) configure() {
	for _, e := range h.loop.part.Index().Catalogue.All() {
		h.loop.configure(&configureCommand{entity: engine.View(e, nil)})
	}
}

// restart replays the log with a new loop, as a start after a crash does.
func (h *drivenLoop) restart() {
	h.t.Helper()
	if err := h.loop.frames.writer.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.lead(replayed(h.t, h.plog).Index)
	h.loop.Recover()
}

// replayed returns the state that a start finds in a log.
func replayed(t testing.TB, p log.Partition) *replay.State {
	t.Helper()
	s := replay.Newest(p, 0, nil)
	if err := s.Run(context.Background(), replay.Watch{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Post implements [engine.Sink].
func (h *drivenLoop) Post(rs []engine.Reply) { h.got = append(h.got, rs...) }

// turn passes requests to the loop and gets everything that follows from them into the log, in as
// many turns as the loop wants.
func (h *drivenLoop) turn(cmds ...engine.Command) {
	h.t.Helper()
	var requests []engine.Request
	for _, cmd := range cmds {
		requests = append(requests, engine.Request{Command: cmd})
	}
	h.requests(requests)
}

func (h *drivenLoop) requests(requests []engine.Request) {
	h.t.Helper()
	for more := true; more; requests = nil {
		h.loop.Turn(requests)
		h.turns++
		h.land()
		at := h.loop.NextDeadline()
		more = h.loop.unfinished() || at != 0 && at <= h.now
		if h.loop.recorder.err != nil {
			h.t.Fatal(h.loop.recorder.err)
		}
	}
}

// land gets everything that is decided into the log.
func (h *drivenLoop) land() {
	for h.loop.Busy() && h.loop.recorder.err == nil {
		h.loop.await()
	}
}

// activate makes a receiver active, with no credit left.
func (h *drivenLoop) activate(r *engine.Receiver) {
	h.t.Helper()
	h.loop.receivers.activate(h.loop.receivers.receiver(r), 1)
	h.turn()
}

// ask carries out one command and returns its reply.
func (h *drivenLoop) ask(cmd engine.Command) engine.Reply {
	h.t.Helper()
	tag := h.put(cmd)
	for i, r := range h.got {
		if r.Kind == engine.ReplyDone && r.Tag == tag {
			h.got = append(h.got[:i], h.got[i+1:]...)
			return r
		}
	}
	h.t.Fatalf("%T is not answered", cmd)
	return engine.Reply{}
}

// put passes a command whose reply may come later, and returns its tag.
func (h *drivenLoop) put(cmd engine.Command) uint64 {
	h.t.Helper()
	h.tag++
	tag := 1<<32 | h.tag
	h.requests([]engine.Request{{Command: cmd, Sink: h, Tag: tag}})
	return tag
}

// heard returns all new replies as text: "7:A" is a session for the request or receiver 7, "7:3"
// the message 3, "7:3+1" after a failed delivery, "7:drained", "7:!15" a refusal with code 15,
// "7:ended" the loss of a session.
func (h *drivenLoop) heard() (out []string) {
	for _, r := range h.got {
		tag, what := r.Tag&0xffffffff, "done"
		var e *engine.Error
		switch {
		case r.Kind == engine.ReplyEnded && errors.As(r.Err, &e) && e.Code == engine.SessionLockLost:
			what = "ended"
		case errors.As(r.Err, &e):
			what = fmt.Sprintf("!%d", e.Code)
		case r.Kind == engine.ReplyDelivery:
			what = fmt.Sprint(r.Delivery().Sequence)
			if n := r.Delivery().DeliveryCount; n > 0 {
				what += fmt.Sprintf("+%d", n)
			}
		case r.Kind == engine.ReplyDrained:
			what = "drained"
		case r.SessionGrant() != nil:
			what = r.SessionGrant().ID
		}
		out = append(out, fmt.Sprintf("%d:%s", tag, what))
	}
	h.got = nil
	return out
}

func (h *drivenLoop) hears(want ...string) {
	h.t.Helper()
	if got := h.heard(); !slices.Equal(got, want) {
		h.t.Fatalf("heard %v, want %v", got, want)
	}
}

// after advances the time and makes the loop do what is due.
func (h *drivenLoop) after(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	h.turn()
}

// send stores messages: one for each session named, or n without a session.
func (h *drivenLoop) send(ttl time.Duration, sessions ...string) {
	h.t.Helper()
	cmd := &engine.Send{Slice: handEntity}
	for _, s := range sessions {
		cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte("x"), Body: []byte("x"), SessionID: []byte(s), HasSession: true, TimeToLive: ttl})
	}
	if r := h.ask(cmd); r.Err != nil {
		h.t.Fatal(r.Err)
	}
}

// fill stores n messages.
func (h *drivenLoop) fill(n int, ttl time.Duration) {
	h.t.Helper()
	for n > 0 {
		cmd := &engine.Send{Slice: handEntity}
		for ; n > 0 && len(cmd.Messages) < 10_000; n-- {
			cmd.Messages = append(cmd.Messages, engine.Message{ID: []byte("x"), Body: []byte("x"), TimeToLive: ttl})
		}
		if r := h.ask(cmd); r.Err != nil {
			h.t.Fatal(r.Err)
		}
	}
}

// receiver returns a receiver that is not attached yet; its deliveries have the tag.
func (h *drivenLoop) receiver(tag uint64, q event.SubQueue) *engine.Receiver {
	return &engine.Receiver{Entity: &engine.Entity{ID: 1, Path: "orders"}, Slice: handEntity, SubQueue: q, Sink: h, Tag: tag}
}

// wants attaches a receiver that waits for the next available session. The answer has the
// receiver's tag.
func (h *drivenLoop) wants(tag uint64, wait time.Duration) *engine.Receiver {
	h.t.Helper()
	r := h.receiver(tag, event.Main)
	r.Session = &engine.SessionRequest{Any: true, Wait: wait}
	h.requests([]engine.Request{{Command: &engine.Attach{Receiver: r}, Sink: h, Tag: tag}})
	return r
}

// accepts attaches a receiver for a named session.
func (h *drivenLoop) accepts(tag uint64, id string) *engine.Receiver {
	h.t.Helper()
	r := h.receiver(tag, event.Main)
	r.Session = &engine.SessionRequest{ID: []byte(id)}
	h.requests([]engine.Request{{Command: &engine.Attach{Receiver: r}, Sink: h, Tag: tag}})
	return r
}

func (h *drivenLoop) count(q event.SubQueue, st index.State) int {
	return h.loop.part.Index().Count(handEntity, q, st)
}

// Limits of the rules, as their own tests know them.
const (
	sweepEnds       = 1024
	lookStep        = 2048
	maxBatchDelete  = 4000
	maxUnderSession = 1 << 16
)

func testQueue() event.Properties {
	return event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 3, MaxSizeMegabytes: 1024,
		MaxMessageSizeKilobytes: 256, DefaultMessageTimeToLive: event.Forever, AutoDeleteOnIdle: event.Forever}
}

func sessionQueue() event.Properties {
	p := testQueue()
	p.RequiresSession = true
	return p
}
