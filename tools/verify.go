package tools

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Report is what Verify found.
type Report struct {
	Frames, Records uint64
	Bytes           int64 // read and compared
	// Damaged places: the broker would refuse these partitions. Behind the first damage of a log nothing is looked at.
	Damaged []*log.CorruptError
	// Tail is what the next start will cut off, bytes: nobody was promised it.
	Tail int64
	// Discarded are checkpoints and notes that are no good. Only a slower start follows.
	Discarded []log.Discard
}

// Verify compares every checksum of the directory, replays every event, compares the states of checkpoints with those of
// the replay, and prints one line per partition and per damaged place. It gives recovery's verdict. A checkpoint that an
// older or newer program wrote in another encoding is no use to this one and no damage. The error is about the verification
// itself: directory in use, newer format, no directory.
func Verify(w io.Writer, dir string) (Report, error) {
	ctx := context.Background()
	var r Report
	s, err := log.Open(ctx, dir, log.Options{ReadOnly: true})
	var c *log.CorruptError
	if errors.As(err, &c) {
		return r, r.damage(w, c)
	}
	if err != nil {
		return r, fmt.Errorf("tools: %w", err)
	}
	defer s.Close()
	for _, id := range s.Partitions() {
		p, err := s.Open(ctx, id)
		if err == nil {
			err = r.partition(w, p)
		}
		if errors.As(err, &c) {
			err = r.damage(w, c)
		}
		if err != nil {
			return r, fmt.Errorf("tools: %w", err)
		}
	}
	return r, nil
}

func (r *Report) damage(w io.Writer, c *log.CorruptError) error {
	r.Damaged = append(r.Damaged, c)
	_, err := fmt.Fprintf(w, "DAMAGED partition %d file %+q byte %d LSN %d: %+q\n", c.Partition, c.File, c.Offset, c.LSN, c.Reason)
	return err
}

func (r *Report) partition(w io.Writer, p log.Partition) error {
	rec := p.Recovery()
	r.Frames += rec.Frames
	r.Records += rec.Records
	r.Bytes += rec.Bytes
	r.Tail += rec.CutBytes
	discarded := rec.Discarded
	states := map[event.LSN]log.CheckpointInfo{} // to be compared
	for _, c := range p.Checkpoints() {
		version, err := readAll(p, c.LSN)
		switch {
		case err != nil:
			discarded = append(discarded, log.Discard{File: c.File, Reason: err.Error()})
		case version != index.EncodingVersion:
			discarded = append(discarded, log.Discard{File: c.File,
				Reason: fmt.Sprintf("the state has encoding version %d, this program reads and writes %d", version, index.EncodingVersion)})
		default:
			states[c.LSN] = c
		}
	}
	r.Discarded = append(r.Discarded, discarded...)
	if err := replay(context.Background(), p, states); err != nil {
		return err
	}
	first, end := p.Bounds()
	_, err := fmt.Fprintf(w, "ok partition %d LSN %d to %d epoch %d: %d frames, %d records, %d bytes, newest %s\n",
		p.ID(), first, end, rec.Epoch, rec.Frames, rec.Records, rec.Bytes, rec.Newest)
	if err == nil && rec.CutBytes > 0 {
		_, err = fmt.Fprintf(w, "tail partition %d LSN %d: %d unacknowledged bytes: %+q\n", p.ID(), end, rec.CutBytes, rec.CutReason)
	}
	for _, d := range discarded {
		if err == nil {
			_, err = fmt.Fprintf(w, "unused file %+q: %+q\n", d.File, d.Reason)
		}
	}
	return err
}

// readAll reads a whole checkpoint, which compares its checksums, and returns the version of the state's encoding.
func readAll(p log.Partition, at event.LSN) (version byte, err error) {
	f, err := p.OpenCheckpoint(at)
	if err != nil {
		return 0, err
	}
	var first [1]byte
	n, err := io.ReadFull(f, first[:])
	if n == 1 {
		_, err = io.Copy(io.Discard, f)
	}
	return first[0], errors.Join(err, f.Close())
}
