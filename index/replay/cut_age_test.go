package replay_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// busy writes a log with many checkpoints, sealed except for its end, in one run. save has the
// states of the checkpoints.
func (c *cutting) busy(rounds int, save func(state []byte) []byte) {
	c.t.Helper()
	err := c.open()
	if err == nil {
		var w log.Writer
		if w, err = c.part.Lead(c.t.Context()); err == nil {
			c.w = w.(log.ManualWriter)
		}
	}
	for i := 0; err == nil && i < rounds; i++ {
		if err = c.write(150); err == nil {
			err = c.part.SaveCheckpoint(c.w.Durable(), func(w io.Writer) error {
				_, err := w.Write(save(c.x.Encode(nil)))
				return err
			})
		}
		if err == nil {
			err = c.seal()
		}
	}
	if err != nil {
		c.failf("%v", err)
	}
}

// A log that is written all the time can be cut at an age: a base is made from the newest
// checkpoint that is old enough, of those that were kept with history (decision 54).
func TestCutAtAnAge(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 7)
	c.busy(40, slices.Clone[[]byte])
	_, end := c.part.Bounds()
	for _, upTo := range []event.LSN{end / 2, end / 2, end - end/4} {
		had, _ := c.part.(log.Bases).Base()
		freed, err := replay.Cut(t.Context(), c.part, upTo, false)
		if has, _ := c.part.(log.Bases).Base(); upTo > had.LSN+end/4 {
			if err != nil || freed == 0 || has.LSN > upTo || has.LSN < upTo-end/8 {
				t.Fatalf("up to %d of %d: %d bytes, a base at %d; %v", upTo, end, freed, has.LSN, err)
			}
			for _, kept := range c.part.Checkpoints() {
				if kept.LSN < has.LSN {
					t.Errorf("a checkpoint at %d is kept before the base at %d", kept.LSN, has.LSN)
				}
			}
		} else if !errors.Is(err, log.ErrTooLittle) || has != had {
			t.Fatalf("up to %d once more: a base at %d, then at %d, %v", upTo, had.LSN, has.LSN, err)
		}
		if err := c.check(); err != nil {
			c.failf("%v", err)
		}
	}
	if s := replay.Newest(c.part, end-end/8, nil); s.From < end-end/4 {
		t.Errorf("a question of %d begins at %d", end-end/8, s.From)
	}
}

// A checkpoint that another version wrote in its own encoding says nothing of a replay: it is
// passed over, and is no fault of the program.
func TestCutPassesOtherEncodings(t *testing.T) {
	t.Parallel()
	c := newCutting(t, "", 8)
	n := 0
	c.busy(20, func(state []byte) []byte {
		if n++; n > 10 {
			state = append([]byte{state[0] - 1}, state[1:]...)
		}
		return state
	})
	_, end := c.part.Bounds()
	if _, err := replay.Cut(t.Context(), c.part, end, true); err != nil {
		t.Fatal(err)
	}
	if has, _ := c.part.(log.Bases).Base(); has.LSN == 0 || has.LSN > end/2+1000 {
		t.Errorf("a base at %d of %d", has.LSN, end)
	}
}
