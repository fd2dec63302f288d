package ledger

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// horizons tells, in notes, where the history of logs begins if older history was removed, and
// until when it has no bodies.
func (l *Ledger) horizons(ctx context.Context, books ...*book) error {
	for _, b := range books {
		if at, place, gone := horizon(b); gone {
			begins := fmt.Sprintf("%s, %s", at.at, place)
			if at.at == 0 { // no event came before
				begins = place.String()
			}
			if err := l.note("history of partition %d begins at %s: of earlier events only the resulting state is known", b.ID(), begins); err != nil {
				return err
			}
		}
		until, err := bodiless(ctx, b)
		if err == nil && until != 0 {
			err = l.note("history of partition %d before %s has headers only: not all bodies are kept", b.ID(), until)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// horizon returns where the history of a log begins, and whether older history was removed.
func horizon(b *book) (at tick, place address.Address, gone bool) {
	bases, ok := b.Partition.(log.Bases)
	if !ok {
		return tick{}, address.Address{}, false
	}
	base, ok := bases.Base()
	if !ok || base.LSN <= format.FirstLSN { // of a slice that has all of it
		return tick{}, address.Address{}, false
	}
	if b.begins == (tick{}) { // the state is read once
		x := replay.Begin(b).Index
		b.base, b.begins = base.LSN, tick{x.LastAt(), x.Clock()}
	}
	return b.begins, address.At(b.ID(), base.LSN), true
}

// bodiless returns until when sealed files of a log have lost bodies; 0: none has.
func bodiless(ctx context.Context, b *book) (until event.Time, err error) {
	some := false
	for _, s := range b.Segments() {
		some = some || s.Erased > 0
	}
	if !some {
		return 0, nil
	}
	for s, err := range b.Summaries(ctx) {
		if err != nil {
			return 0, err
		}
		if !s.Sealed { // this would read their records, and they lose no bodies
			break
		}
		if s.ErasedBytes > 0 && !s.Cold {
			until = max(until, s.Highest)
		}
	}
	return until, nil
}
