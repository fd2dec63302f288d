package host

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// panickingLog is a partition whose checkpoints cannot be written.
type panickingLog struct{ log.Partition }

func (panickingLog) Checkpoints() []log.CheckpointInfo { return nil }
func (panickingLog) SaveCheckpoint(event.LSN, func(io.Writer) error) error {
	panic("no checkpoint today")
}

// A checkpoint is never the truth: whatever becomes of one, the broker goes on (F21).
func TestCheckpointPanics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSaver(panickingLog{}, nil, LoopOptions{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	s.save(8, []byte("state"))
	s.wait()
	if !strings.Contains(out.String(), "no checkpoint today") || s.running() {
		t.Errorf("running: %v, log: %s", s.running(), out.String())
	}
}
