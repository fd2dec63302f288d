package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
)

// stuckSink holds up the loop that answers to it.
type stuckSink chan struct{}

func (s stuckSink) Post([]engine.Reply) { <-s }

// MA-003: a health check while a partition's mailbox is full is answered in time, and reports the
// partition healthy if the mailbox has room before the check's time has run out.
func TestHealthOfAFullMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, t.TempDir())
		defer b.close(t)
		stuck := make(stuckSink)
		b.Submit(1, []engine.Request{{Command: loop.Ping(), Sink: stuck}})
		synctest.Wait()
		var many []engine.Request
		for range 16 << 10 {
			many = append(many, engine.Request{Command: loop.Ping(), Sink: deafSink{}})
		}
		b.Submit(1, many)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a partition that does not answer is healthy: %v", err)
		}
		time.AfterFunc(500*time.Millisecond, func() { close(stuck) })
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Health(ctx); err != nil {
			t.Error(err)
		}
	})
}

// deafSink ignores answers.
type deafSink struct{}

func (deafSink) Post([]engine.Reply) {}
