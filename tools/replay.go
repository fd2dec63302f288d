package tools

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// replay applies every event of a log and compares the state with that of the given checkpoints on the way (reliability.md 3.4
// step 7). A checkpoint whose checksums hold and whose state is another would be believed by the next start, so that counts
// as damage, as does an event that does not fit the state, where replay ends. It holds what a broker would: a row per message that is
// live at the time.
func replay(ctx context.Context, p log.Partition, states map[event.LSN]log.CheckpointInfo, damage func(*log.CorruptError) error) error {
	x := index.New()
	compare := func(lsn event.LSN) error {
		c, ok := states[lsn]
		if !ok || sha256.Sum256(x.Encode(nil)) == c.Hash {
			return nil
		}
		return damage(&log.CorruptError{Partition: p.ID(), File: c.File, LSN: lsn, Reason: "the state is not that of the log up to this LSN"})
	}
	var dec event.Decoder
	for f, err := range p.Read(ctx, 0) {
		if err != nil {
			if c := (*log.CorruptError)(nil); errors.As(err, &c) {
				return damage(c)
			}
			return err
		}
		if f.Kind != log.Events {
			continue
		}
		if err := compare(f.LSN); err != nil {
			return err
		}
		err := apply(x, &dec, f)
		switch {
		case errors.Is(err, event.ErrUnknown):
			return fmt.Errorf("partition %d LSN %d: %w", p.ID(), f.LSN, err)
		case err != nil:
			return damage(at(p, f.LSN, err.Error()))
		}
	}
	_, end := p.Bounds()
	return compare(end)
}

// apply applies the records of a frame. The error says what does not fit: the index panics at that.
func apply(x *index.Index, dec *event.Decoder, f log.Frame) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	rest := f.Records
	for range f.Count {
		var rec event.Record
		if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
			return err
		}
		for _, ev := range rec.Events {
			x.Apply(rec.At, ev)
		}
	}
	return nil
}

// at is a damaged place at an LSN.
func at(p log.Partition, lsn event.LSN, reason string) *log.CorruptError {
	c := &log.CorruptError{Partition: p.ID(), LSN: lsn, Reason: reason}
	for _, s := range p.Segments() {
		if s.First <= lsn && lsn < s.End {
			c.File, c.Offset = s.File, int64(lsn-s.First)
		}
	}
	return c
}
