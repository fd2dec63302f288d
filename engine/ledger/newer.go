package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Values with which [Question.After] can begin, besides the places that an answer has named.
const (
	FromNow       = "now"       // tell only where the logs end
	FromBeginning = "beginning" // tell everything
)

// newer tells the events after some places, each log up to its present end, and last the places to
// continue from. Asking again from there tells every event exactly once. A subject that can only be
// asked about later, such as an entity that does not exist yet, is no error.
func (l *Ledger) newer(ctx context.Context, r Range, after string) error {
	if r.Until != nil {
		return fmt.Errorf("%w: a follow has no end; leave out until", ErrQuestion)
	}
	ids := l.src.Partitions()
	begin, err := parsePlaces(after, len(ids))
	if err != nil {
		return err
	}
	r.After, r.before = make(map[log.PartitionID]event.LSN), make(map[log.PartitionID]event.LSN)
	moved := false
	for _, id := range ids {
		from, known := begin[id]
		b, err := l.book(ctx, id)
		if err != nil { // a log that cannot be read now: the next answer continues there
			if known {
				r.After[id], r.before[id] = from, from
			}
			continue
		}
		l.memory.recall(b)
		first, end := b.Bounds()
		switch {
		case !known && after == FromBeginning:
			if err := l.horizons(ctx, b); err != nil {
				return err
			}
			from = first
		case !known:
			if after != FromNow { // the previous answer could not read it
				if err := l.note("partition %d can be read again; its events before %s are missing from this answer", id, address.At(id, end)); err != nil {
					return err
				}
			}
			from = end
		case from > end:
			return fmt.Errorf("%w after %s: the log of partition %d ends at LSN %d, and is not the one that was followed", ErrNothing, address.At(id, from), id, end)
		case known && from < first:
			if err := l.note("partition %d: the events from %s up to LSN %d were removed before they could be shown", id, address.At(id, from), first); err != nil {
				return err
			}
			from = first
		}
		r.After[id], r.before[id] = from, end
		moved = moved || from < end
	}
	if after == FromNow || moved { // the first look also checks the question
		if err := l.Events(ctx, r); errors.Is(err, ErrNothing) {
			err = l.note("%s so far", strings.TrimPrefix(err.Error(), "ledger: "))
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	for _, b := range l.books {
		l.memory.keep(b)
	}
	next := places(r.before)
	return l.answer(print.Object{print.Named(NextField, next)}, "up to %s", next)
}

// NextField is a field in the last line of the answer to a question with [Question.After]: the
// value of After for the next question.
const NextField = "Next"

// places returns the ends of logs as a text, which parsePlaces parses.
func places(ends map[log.PartitionID]event.LSN) string {
	var list []string
	for id, lsn := range ends {
		list = append(list, address.At(id, lsn).String())
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// parsePlaces parses places in the logs of a namespace that has the given number of logs. [FromNow]
// and [FromBeginning] return none.
func parsePlaces(text string, logs int) (map[log.PartitionID]event.LSN, error) {
	ends := make(map[log.PartitionID]event.LSN)
	if text == FromNow || text == FromBeginning {
		return ends, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		a, err := address.Parse(one)
		if err == nil && (!a.Place || int(a.Partition) >= logs) {
			err = fmt.Errorf("%s is not a place in one of the %d logs", a, logs)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: after: %w; use places, %s or %s", ErrQuestion, err, FromNow, FromBeginning)
		}
		ends[log.PartitionID(a.Partition)] = a.LSN
	}
	return ends, nil
}
