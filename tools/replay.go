package tools

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// replay applies every event of a log and compares the state with that of the given checkpoints on the way (reliability.md 3.4
// step 7). A checkpoint whose checksums hold and whose state is another would be believed by the next start, so that counts
// as damage. It holds what a broker would: a row per message that is live at the time.
func replay(ctx context.Context, p log.Partition, states map[event.LSN]log.CheckpointInfo) (err error) {
	x := index.New()
	at := event.LSN(0)
	defer func() {
		if v := recover(); v != nil { // the index panics at an event that does not fit the state
			err = &log.CorruptError{Partition: p.ID(), File: "log", LSN: at, Reason: fmt.Sprint(v)}
		}
	}()
	compare := func(lsn event.LSN) error {
		c, ok := states[lsn]
		if !ok || sha256.Sum256(x.Encode(nil)) == c.Hash {
			return nil
		}
		return &log.CorruptError{Partition: p.ID(), File: c.File, LSN: lsn, Reason: "the state is not that of the log up to this LSN"}
	}
	var dec event.Decoder
	for f, err := range p.Read(ctx, 0) {
		if err != nil {
			return err
		}
		if at = f.LSN; f.Kind != log.Events {
			continue
		}
		if err := compare(at); err != nil {
			return err
		}
		rest := f.Records
		for range f.Count {
			var rec event.Record
			if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
				return fmt.Errorf("partition %d LSN %d: %w", p.ID(), at, err)
			}
			for _, ev := range rec.Events {
				x.Apply(rec.At, ev)
			}
		}
	}
	_, end := p.Bounds()
	return compare(end)
}
