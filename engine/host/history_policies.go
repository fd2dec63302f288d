package host

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// historyPolicies holds the history policies of the catalogue for readers outside the loop of
// partition 0. It changes together with the catalogue, under [admin.mu].
type historyPolicies struct {
	now atomic.Pointer[engine.HistoryPolicies]
}

// HistoryPolicies implements [engine.Histories].
func (s *historyPolicies) HistoryPolicies() *engine.HistoryPolicies { return s.now.Load() }

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
	var now *engine.HistoryPolicies
	look := loop.Do(func(p *engine.Partition) engine.Reply { now = p.HistoryPolicies(); return engine.Reply{} })
	replies, err := a.partitions.askAll(ctx, 0, []engine.Command{&cmd, look})
	if err != nil {
		return err
	}
	if replies[1].Err == nil {
		a.historyPolicies.now.Store(now)
	}
	return errors.Join(replies[0].Err, replies[1].Err)
}

// keepHistory writes the policy of the settings into the catalogue, as the policy of the namespace,
// and starts to delete history that no policy keeps. At the very first start it writes an event
// even if the settings have no policy. The time of that event separates history from before an
// upgrade from later history (docs/decisions/0061).
func keepHistory(ctx context.Context, n *Namespace) error {
	cmd := n.opts.History
	given := !cmd.Policy.IsZero() || cmd.Share != 0 || cmd.BeforeSends != engine.BeforeSendsNotGiven
	if given {
		cmd.Why = event.ReasonGiven{Reason: "settings of the start"}
	}
	err := n.PutHistoryPolicy(ctx, cmd)
	// on a full disk a start continues without it: no history is deleted until a later start can
	// write the event
	if !given && errors.Is(err, log.ErrNoRoom) {
		n.logger.Warn("default retention not recorded in the log yet; no history is deleted", "error", err)
		err = nil
	}
	if err != nil {
		close(n.historyEnded)
		return err
	}
	k := background.NewRetention(n.surroundings())
	go n.runAttendant(func() {
		defer close(n.historyEnded)
		if !n.opts.keepAllHistory {
			k.Run(n.closing)
		}
	})
	return nil
}
