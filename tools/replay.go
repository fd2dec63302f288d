package tools

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// replay applies every event of a log and compares the state with that of the given checkpoints on the way (reliability.md 3.4
// step 7). A checkpoint whose checksums hold and whose state is another would be believed by the next start, so that counts
// as damage, as does a record that does not fit the state or cannot be decoded, where the replay ends. One that a newer program wrote is an
// error. It holds what a broker would: a row per message that is live at the time.
func (v *verifier) replay(p log.Partition, states []log.CheckpointInfo) error {
	err := replay.Begin(p).Run(v.ctx, replay.Watch{Checkpoints: states, Differs: func(c log.CheckpointInfo) error {
		return v.damage(&log.CorruptError{Partition: p.ID(), File: c.File, LSN: c.LSN, Reason: "the state is not that of the log up to this LSN"})
	}})
	corrupt, wrong := (*log.CorruptError)(nil), (*replay.Error)(nil)
	switch {
	case errors.As(err, &corrupt):
		return v.damage(corrupt)
	case errors.As(err, &wrong) && !errors.Is(err, event.ErrUnknown):
		return v.damage(place(p, wrong.LSN, fmt.Sprintf("record %d: %v", wrong.Number, wrong.Reason)))
	}
	return err
}

// place is a damaged place at an LSN.
func place(p log.Partition, lsn event.LSN, reason string) *log.CorruptError {
	c := &log.CorruptError{Partition: p.ID(), LSN: lsn, Reason: reason}
	for _, s := range p.Segments() {
		if s.First <= lsn && lsn < s.End {
			c.File, c.Offset = s.File, int64(lsn-s.First)
		}
	}
	return c
}
