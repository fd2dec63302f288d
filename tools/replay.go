package tools

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// replay applies every event of a log and compares the state with the states of the given
// checkpoints (reliability.md 3.4 step 7). A checkpoint with correct checksums and a wrong state
// counts as damage, because the next start would trust it. A record that does not fit the state or
// cannot be decoded also counts as damage, and the replay ends there. A record of a newer program
// is an error. The replay needs as much memory as a broker: a row per live message.
func (v *verifier) replay(p log.Partition, states []log.CheckpointInfo) error {
	err := replay.Begin(p).Run(v.ctx, replay.Watch{Checkpoints: states, Look: v.unlistedCapabilities(p), Differs: func(c log.CheckpointInfo) error {
		return v.damage(&log.CorruptError{Partition: p.ID(), File: c.File, LSN: c.LSN, Reason: "the state differs from the state of the log up to this LSN"})
	}})
	if c := (*log.CorruptError)(nil); errors.As(damagedPlace(p, err), &c) {
		return v.damage(c)
	}
	return err
}

// damagedPlace turns an error about a record that no program can have written into a damaged place.
// A record of a newer program is not damage.
func damagedPlace(p log.Partition, err error) error {
	wrong := (*replay.Error)(nil)
	if !errors.As(err, &wrong) || errors.Is(err, event.ErrUnknown) {
		return err
	}
	c := &log.CorruptError{Partition: wrong.Partition, LSN: wrong.LSN, Reason: fmt.Sprintf("record %d: %v", wrong.Number, wrong.Reason)}
	for _, s := range p.Segments() {
		if s.First <= c.LSN && c.LSN < s.End {
			c.File, c.Offset = s.File, int64(c.LSN-s.First)
		}
	}
	return c
}
