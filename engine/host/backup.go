package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// The copies of several logs fit together if nothing after the mark of one log caused anything
// before the mark of another. So the loops stop together for a moment: each writes its mark, alone
// at the end of a frame, and continues when all marks are written. Everything that goes from log to
// log, or to a client and back, therefore passes before all marks or after all of them
// (docs/decisions/0047).

const (
	// markTime bounds how long the loops stop, from before the first one is told. If a loop does
	// not arrive in time, the others continue, and another attempt is made.
	markTime = 40 * time.Millisecond
	// markAttempts is the number of attempts. firstMarkRest is the pause after the first one; it
	// doubles each time, up to a second.
	markAttempts  = 12
	firstMarkRest = 50 * time.Millisecond
)

// barrier makes loops wait for each other.
type barrier struct {
	arrivals chan time.Time // when each loop arrived
	released chan struct{}  // closed when all loops have arrived, or the time has run out
	deadline *time.Timer    // fires when the time runs out
}

// newBarrier returns a barrier whose time starts now.
func newBarrier(loops int) *barrier {
	return &barrier{make(chan time.Time, loops), make(chan struct{}), time.NewTimer(markTime)}
}

// await waits until that many loops have arrived, and releases them. It reports whether they
// arrived in time, and how long the first one waited.
func (m *barrier) await(ctx context.Context, loops int) (met bool, stood time.Duration) {
	defer close(m.released)
	defer m.deadline.Stop()
	var first time.Time
	for range loops {
		select {
		case came := <-m.arrivals:
			if first.IsZero() || came.Before(first) {
				first = came
			}
		case <-m.deadline.C:
			return false, 0
		case <-ctx.Done():
			return false, 0
		}
	}
	return true, time.Since(first)
}

// ended reports whether the loops have been released.
func (m *barrier) ended() bool {
	select {
	case <-m.released:
		return true
	default:
		return false
	}
}

// meet waits until all loops have arrived, or the time has run out.
func (m *barrier) meet() {
	m.arrivals <- time.Now()
	<-m.released
}

// Backup implements [engine.Backups].
func (n *Namespace) Backup(ctx context.Context, by *engine.Origin, why event.ReasonGiven) (engine.Backup, error) {
	if err := engine.CheckReason(why.Reason); err != nil {
		return nil, err
	}
	store, ok := n.store.(log.Copier)
	if !ok {
		return nil, engine.Refuse(engine.NotImplemented, "The logs of this broker cannot be copied.")
	}
	if !n.copying.CompareAndSwap(false, true) {
		return nil, engine.Refuse(engine.Busy, "Another backup is being made.")
	}
	b := &backup{n: n, store: store, release: store.Hold()}
	err := n.store.Use(log.Backups)
	if err == nil {
		err = b.mark(ctx, by, why)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	n.logger.Info("backup started", "id", b.id, "bytes", b.Bytes(), "paused", b.stood)
	return b, nil
}

// backup is a copy that is being made.
type backup struct {
	n     *Namespace
	store log.Copier
	id    event.BackupID
	at    event.Time
	ends  []event.LSN
	stood time.Duration // how long the loops stopped, until all had arrived and could continue
	// release allows files of the logs to be replaced again. Until then they must stay: a rewritten
	// file may lose bodies before its mark.
	release func()
}

// mark makes attempts to mark all logs, until one succeeds.
func (b *backup) mark(ctx context.Context, by *engine.Origin, why event.ReasonGiven) error {
	rest := firstMarkRest
	for range markAttempts {
		met, err := b.try(ctx, by, why)
		if met || err != nil {
			return err
		}
		select {
		case <-time.After(rest):
			rest = min(2*rest, time.Second)
		case <-ctx.Done():
			return ctx.Err()
		case <-b.n.closing.Done():
			return engine.ErrUnknown
		}
	}
	return engine.Refuse(engine.Busy, "The partitions did not reach a common moment for the backup within %v, in %d attempts. A disk may be slow.", markTime, markAttempts)
}

// try makes one attempt. It reports whether all loops wrote their marks while all were stopped.
func (b *backup) try(ctx context.Context, by *engine.Origin, why event.ReasonGiven) (met bool, err error) {
	n := b.n
	all := n.partitions.loops()
	loops := len(all)
	rand.Read(b.id[:])
	b.at = n.Now()
	meet, answers, marks := newBarrier(loops), make(answer, loops), make([]*loop.Mark, loops)
	offered := 0
	for i, l := range all {
		marks[i] = &loop.Mark{Fact: event.BackupMarked{ID: b.id, Logs: uint32(loops)}, By: by, Over: meet.ended, Meet: meet.meet}
		if i == 0 {
			marks[i].Why = why
		}
		if l == nil || !l.Offer(engine.Request{Command: marks[i], Sink: answers}) {
			break
		}
		offered++
	}
	if offered == loops {
		met, b.stood = meet.await(ctx, loops)
	} else {
		close(meet.released)
	}
	// waits after a failed attempt as well: its marks are facts without a meaning
	for range offered {
		select {
		case r := <-answers:
			err = errors.Join(err, r.Err)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-n.closing.Done(): // the loops may not answer any more
			return false, engine.ErrUnknown
		}
	}
	switch {
	case offered < loops:
		return false, engine.Refuse(engine.Busy, "Partition %d does not serve: a copy without it would be incomplete.", offered)
	case err != nil:
		return false, fmt.Errorf("engine: cannot write the marks of a backup: %w", err)
	case !met:
		return false, nil
	}
	b.ends = make([]event.LSN, loops)
	for i, m := range marks {
		b.ends[i] = m.End
	}
	return true, nil
}

// ID implements [engine.Backup].
func (b *backup) ID() event.BackupID { return b.id }

// At implements [engine.Backup].
func (b *backup) At() event.Time { return b.at }

// Bytes implements [engine.Backup].
func (b *backup) Bytes() (sum int64) {
	for _, end := range b.ends {
		sum += int64(end)
	}
	return sum
}

// Files implements [engine.Backup].
func (b *backup) Files(ctx context.Context, put func(name string, size int64, contents io.Reader) error) error {
	err := b.store.Copy(ctx, b.ends, func(c log.CopyEntry) error {
		if c.Dir {
			return put(c.Name, 0, nil)
		}
		return put(c.Name, c.Size, c.Contents)
	})
	if err != nil {
		b.n.logger.Warn("backup not finished", "id", b.id, "error", err)
		return err
	}
	b.n.logger.Info("backup finished", "id", b.id)
	return nil
}

// Close implements [engine.Backup].
func (b *backup) Close() {
	b.release()
	b.n.copying.Store(false)
}
