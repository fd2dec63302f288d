package host

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// said is what the catalogue says of how long history is kept, for whoever asks beside partition 0. It is changed as the catalogue is, under [admin.mu].
type said struct {
	now atomic.Pointer[engine.HistoryPolicies]
}

// HistoryPolicies implements [engine.Histories].
func (s *said) HistoryPolicies() *engine.HistoryPolicies { return s.now.Load() }

// PutHistoryPolicy implements [engine.Histories].
func (a *admin) PutHistoryPolicy(ctx context.Context, cmd engine.PutHistoryPolicy) error {
	ctx, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer a.mu.Unlock()
	if err := engine.CheckReason(cmd.Why.Reason); err != nil {
		return err
	}
	if ev, err := cmd.Event(a.HistoryPolicies()); err != nil {
		return err
	} else if ev == nil {
		return nil
	}
	if err := a.store.Use(log.Policies); err != nil {
		return err
	}
	replies, err := a.partitions.askAll(ctx, 0, []engine.Command{&cmd, &askHistory{}})
	if err != nil {
		return err
	}
	if s, ok := replies[1].Answer.(saidOfHistory); ok {
		a.said.now.Store(s.now)
	}
	return errors.Join(replies[0].Err, replies[1].Err)
}

// sayHistory says what settings do of the history of the namespace.
func (a *admin) sayHistory(ctx context.Context, cmd engine.PutHistoryPolicy) error {
	cmd.Why = event.ReasonGiven{Reason: "settings of the start"}
	return a.PutHistoryPolicy(ctx, cmd)
}

// askHistory asks the catalogue what is said of history.
type askHistory struct{ engine.Internal }

type saidOfHistory struct {
	engine.Internal
	now *engine.HistoryPolicies
}
