package ledger

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// one is a slice with one message, in a sub-queue and a state.
type one struct {
	queue event.SubQueue
	state index.State
}

func (o one) Bytes(event.Slice) int64 { return 7 }

func (o one) Count(_ event.Slice, q event.SubQueue, st index.State) int {
	if q == o.queue && st == o.state {
		return 1
	}
	return 0
}

// TestCountsOfEveryState checks under which columns [Ledger.At] counts a message, for every sub-queue and
// state that it can be in, when the sub-queue is asked about. A deferred message that is locked is
// locked, and still deferred.
func TestCountsOfEveryState(t *testing.T) {
	t.Parallel()
	for of, want := range map[one]count{
		{event.Main, index.Active}:                       {Tally: index.Tally{Active: 1}},
		{event.Main, index.Locked}:                       {Tally: index.Tally{Active: 1}, Locked: 1},
		{event.Main, index.Deferred}:                     {Tally: index.Tally{Active: 1}, Deferred: 1},
		{event.Main, index.DeferredLocked}:               {Tally: index.Tally{Active: 1}, Locked: 1, Deferred: 1},
		{event.Main, index.Scheduled}:                    {Tally: index.Tally{Scheduled: 1}},
		{event.Main, index.Transferring}:                 {Tally: index.Tally{Transfer: 1}},
		{event.DeadLetter, index.Active}:                 {Tally: index.Tally{DeadLetter: 1}},
		{event.DeadLetter, index.Locked}:                 {Tally: index.Tally{DeadLetter: 1}, Locked: 1},
		{event.DeadLetter, index.Deferred}:               {Tally: index.Tally{DeadLetter: 1}, Deferred: 1},
		{event.DeadLetter, index.DeferredLocked}:         {Tally: index.Tally{DeadLetter: 1}, Locked: 1, Deferred: 1},
		{event.DeadLetter, index.Transferring}:           {Tally: index.Tally{DeadLetter: 1}},
		{event.TransferDeadLetter, index.Active}:         {Tally: index.Tally{TransferDeadLetter: 1}},
		{event.TransferDeadLetter, index.Locked}:         {Tally: index.Tally{TransferDeadLetter: 1}, Locked: 1},
		{event.TransferDeadLetter, index.Deferred}:       {Tally: index.Tally{TransferDeadLetter: 1}, Deferred: 1},
		{event.TransferDeadLetter, index.DeferredLocked}: {Tally: index.Tally{TransferDeadLetter: 1}, Locked: 1, Deferred: 1},
	} {
		var got count
		add(&got, of, event.Slice{}, of.queue)
		got.Bytes = 0
		if got != want {
			t.Errorf("sub-queue %v, state %v: %+v, want %+v", of.queue, of.state, got, want)
		}
	}
}
