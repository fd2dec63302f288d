package loop

import (
	"errors"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ailingDisk is a writer whose disk has as much room as the test says.
type ailingDisk struct {
	log.Writer
	room  log.Room
	hangs time.Time
}

func (s *ailingDisk) DiskState() log.DiskState { return log.DiskState{Room: s.room, Hangs: s.hangs} }

// erasedLog is a log that no longer keeps any body.
type erasedLog struct{ log.Partition }

func (erasedLog) ReadInto(event.Blob, []byte) (int, error) { return 0, event.ErrErased }

func (erasedLog) ReadBlob(_ event.Blob, dst []byte) ([]byte, error) { return dst, event.ErrErased }

func isBusy(err error) bool {
	var refusal *engine.Error
	return errors.As(err, &refusal) && refusal.Code == engine.Busy
}
