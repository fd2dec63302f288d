package loop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// released releases deliveries as a client does, after the receiver has stepped back.
func (h *drivenLoop) released(r *engine.Receiver, tokens ...event.LockToken) {
	h.t.Helper()
	cmds := []engine.Command{&engine.StepBack{Receiver: r}}
	for _, token := range tokens {
		cmds = append(cmds, &engine.Settle{Entity: r.Entity, Slice: r.Slice, Token: token, Outcome: engine.Release})
	}
	h.turn(cmds...)
}

// tokens returns the deliveries that came; other replies are an error.
func (h *drivenLoop) tokens() (tokens []event.LockToken) {
	h.t.Helper()
	for _, r := range h.got {
		if r.Kind != engine.ReplyDelivery {
			h.t.Fatalf("%+v", r)
		}
		tokens = append(tokens, r.Delivery().Token)
	}
	h.got = nil
	return tokens
}

// waits attaches a receiver and gives it credit.
func (h *drivenLoop) waits(tag uint64, credit uint32) *engine.Receiver {
	h.t.Helper()
	r := h.receiver(tag, event.Main)
	h.turn(&engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: credit})
	return r
}

// SM-415: each link that releases the message steps behind the others; the order of messages stays,
// and all credit counts.
func TestStepBack(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	stale, other, honest := h.waits(1, 25), h.waits(2, 25), h.waits(3, 1)
	next := func(want ...string) []event.LockToken {
		t.Helper()
		got := slices.Clone(h.got)
		tokens := h.tokens()
		h.got = got
		h.hears(want...)
		return tokens
	}
	h.fill(1, 0)
	h.released(stale, next("1:1")...)
	h.released(other, next("2:1")...)
	taken := next("3:1")
	h.turn(&engine.Flow{Receiver: honest, Limit: 2}) // it comes behind both
	h.fill(3, 0)
	tokens := next("1:2", "1:3", "1:4")
	h.released(stale, tokens...)
	tokens = next("2:2", "2:3", "2:4")
	h.released(other, tokens[0]) // the receiver that waited longest gets the first one
	h.released(other, append(taken, next("3:2")...)...)
	h.hears("1:1", "1:2") // of a link that has not stepped back
	h.fill(40, 0)
	if got := h.heard(); len(got) != (25-6)+(25-4) {
		t.Errorf("%d deliveries for what was left of the credit: %v", len(got), got)
	}
}

// SM-415: if no other link waits, a link gets the message again at once.
func TestStepBackAlone(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	alone := h.waits(1, 3)
	h.waits(2, 0)
	h.fill(1, 0)
	for range 3 {
		got := h.tokens()
		if len(got) != 1 {
			t.Fatalf("%d deliveries", len(got))
		}
		h.released(alone, got...)
	}
	h.hears()
}

// SM-415: a link that has stepped back, and withdraws its credit before that is done, waits in turn
// with new credit.
func TestStepBackOfWithdrawnCredit(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	changes, steps := h.waits(1, 1), h.waits(2, 1)
	h.turn(&engine.StepBack{Receiver: changes}, &engine.Flow{Receiver: changes, Limit: 0})
	h.turn(&engine.Flow{Receiver: changes, Limit: 1})
	h.waits(3, 1)
	h.turn(&engine.StepBack{Receiver: steps})
	h.fill(3, 0)
	h.hears("1:1", "3:2", "2:3")
}

// SM-415: a thousand messages are released at a time while 5,000 links wait. Each of the other
// links gets one, in the order in which they came, and all that step back in one turn are moved
// behind them together.
func TestManyStepBack(t *testing.T) {
	t.Parallel()
	const links, messages = 5000, 1000
	h := byHand(t, testQueue())
	stale := h.waits(1, 2*messages)
	h.fill(messages, 0)
	tokens := h.tokens()
	all := []*engine.Receiver{stale}
	for i := range uint64(links - 1) {
		all = append(all, h.receiver(2+i, event.Main))
	}
	var cmds []engine.Command
	for _, r := range all[1:] {
		cmds = append(cmds, &engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: 1})
	}
	h.turn(cmds...)
	h.released(stale, tokens...)
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprintf("%d:%d", 2+i, 1+i))
	}
	h.hears(want...)
	cmds = cmds[:0]
	for _, r := range all[messages+1:] {
		cmds = append(cmds, &engine.StepBack{Receiver: r}, &engine.StepBack{Receiver: r})
	}
	h.turn(cmds...)
	h.fill(2, 0)
	h.hears("1:1001", "1:1002")
}
