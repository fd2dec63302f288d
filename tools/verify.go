package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
)

// maxDamaged is the number of damaged places that a Report remembers. Verify prints all of them.
const maxDamaged = 1000

// VerifyOptions are the options of Verify.
type VerifyOptions struct {
	JSON   bool // one object per line instead of text
	Beside      // options for a directory that a broker may be using
}

// A Report is the result of Verify.
type Report struct {
	Frames, Records uint64 // intact ones
	Bytes           int64  // of intact frames
	// Refused are the partitions that the broker would not serve. If All is true, the broker would
	// serve no partition, because a file that concerns all of them is damaged.
	Refused []log.PartitionID
	All     bool
	Places  uint64              // damaged places
	Damaged []*log.CorruptError // the first damaged places, 1,000 at most
	States  int                 // number of checkpoint states compared with the replay
	// Tail is the number of bytes that the next start will cut off; they were never acknowledged.
	Tail int64
	// Discarded are unusable checkpoints and notes. They only make a start slower.
	Discarded []log.Discard
}

// Verify compares every checksum of the directory, replays every event, compares the states of
// checkpoints with the states of the replay, and prints a line for each partition and each damaged
// place. Recovery decides whether a partition is refused. After the first damage, where recovery
// stops, a [log.Survey] continues and reports every other place, also in later files and chapters.
// A checkpoint in the encoding of an older or newer program is unusable but not damage. Verify
// returns an error only if it cannot verify: directory in use, newer format, no directory.
//
// It needs as much memory as a broker: a row per message that is waiting, of one partition, and a
// window of the log.
func Verify(w io.Writer, dir string, opts VerifyOptions) (Report, error) {
	ctx := context.Background()
	v := verifier{ctx: ctx, out: w, opts: opts, dir: dir}
	err := v.run()
	if v.survey != nil {
		err = errors.Join(err, v.survey.Close())
	}
	if err != nil {
		err = fmt.Errorf("tools: %w", err)
	}
	return v.report, err
}

type verifier struct {
	ctx    context.Context
	out    io.Writer
	opts   VerifyOptions
	dir    string
	listed []string    // capabilities of the directory
	survey *log.Survey // opened at the first damage
	report Report
	line   []byte
}

func (v *verifier) run() error {
	s, err := v.opts.open(v.ctx, v.dir, true)
	if c := (*log.CorruptError)(nil); errors.As(err, &c) {
		return v.damagedForAll(c)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	v.listed = s.Namespace().Capabilities
	for _, id := range s.Partitions() {
		p, err := s.Open(v.ctx, id)
		c := (*log.CorruptError)(nil)
		switch {
		case errors.As(err, &c):
			err = v.refusedPartition(id, c)
		case err == nil:
			v.opts.tell(p)
			err = v.partition(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// damagedForAll reports damage in files that concern all partitions, for which every partition is
// refused, and surveys the partitions.
func (v *verifier) damagedForAll(c *log.CorruptError) error {
	v.report.All = true
	if err := v.place("all", nil, c); err != nil {
		return err
	}
	if err := v.openSurvey(); err != nil {
		return err
	}
	for _, id := range v.survey.Partitions() {
		if err := v.refusedPartition(id, nil); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) openSurvey() (err error) {
	if v.survey == nil {
		v.survey, err = log.OpenSurvey(v.dir, log.Options{Shared: v.opts.Live})
	}
	return err
}

// refusedPartition surveys a partition that recovery refuses. because is the damage, if it is not
// nil.
func (v *verifier) refusedPartition(id log.PartitionID, because *log.CorruptError) error {
	if err := v.openSurvey(); err != nil {
		return err
	}
	before := v.report.Places
	if because != nil {
		if err := v.damage(because); err != nil {
			return err
		}
	}
	found, err := v.survey.Partition(v.ctx, id, func(c *log.CorruptError) error {
		if because != nil && c.File == because.File && c.Offset == because.Offset {
			return nil
		}
		return v.damage(c)
	})
	if err != nil {
		return err
	}
	r := &v.report
	r.Refused = append(r.Refused, id)
	r.Frames, r.Records, r.Bytes = r.Frames+found.Frames, r.Records+found.Records, r.Bytes+found.Bytes
	discarded := found.Discarded
	for _, c := range found.Checkpoints {
		if d := unusable(c, v.survey.OpenCheckpoint); d != nil {
			discarded = append(discarded, *d)
		}
	}
	places := r.Places - before
	if err := v.print(fmt.Sprintf("refused partition %d: %d damaged places, %d good frames, %d records, %d bytes",
		id, places, found.Frames, found.Records, found.Bytes), print.Object{print.Named("Found", "refused"), print.Named("Partition", uint64(id)), print.Named("Places", places),
		print.Named("Frames", found.Frames), print.Named("Records", found.Records), print.Named("Bytes", uint64(found.Bytes))}); err != nil {
		return err
	}
	return v.unusedFiles(discarded)
}

// damage reports a damaged place of one partition.
func (v *verifier) damage(c *log.CorruptError) error {
	return v.place(fmt.Sprint(c.Partition), uint64(c.Partition), c)
}

// place reports a damaged place, with its partition as text and as a number.
func (v *verifier) place(partition string, number any, c *log.CorruptError) error {
	r := &v.report
	if r.Places++; len(r.Damaged) < maxDamaged {
		r.Damaged = append(r.Damaged, c)
	}
	reason := c.Reason
	if c.Cause != nil {
		reason += ": " + c.Cause.Error()
	}
	return v.print(fmt.Sprintf("DAMAGED partition %s file %+q byte %d LSN %d: %+q", partition, c.File, c.Offset, c.LSN, reason),
		print.Object{print.Named("Found", "damage"), print.Named("Partition", number), print.Named("File", c.File), print.Named("Byte", uint64(c.Offset)), print.Named("LSN", uint64(c.LSN)),
			print.Named("Reason", print.Text([]byte(reason)))})
}

func (v *verifier) partition(p log.Partition) error {
	rec := p.Recovery()
	r := &v.report
	r.Frames += rec.Frames
	r.Records += rec.Records
	r.Bytes += rec.Bytes
	discarded := slices.Clone(rec.Discarded)
	var states []log.CheckpointInfo // to compare
	for _, c := range p.Checkpoints() {
		if d := unusable(c, func(c log.CheckpointInfo) (io.ReadCloser, error) { return p.OpenCheckpoint(c.LSN) }); d != nil {
			discarded = append(discarded, *d)
		} else {
			states = append(states, c)
		}
	}
	before := r.Places
	if err := v.base(p); err != nil {
		return err
	}
	if err := v.replay(p, states); err != nil {
		return err
	}
	r.States += len(states)
	if r.Places > before {
		if err := v.print(fmt.Sprintf("unsound partition %d: %d damaged places, though all %d frames are good", p.ID(), r.Places-before, rec.Frames),
			print.Object{print.Named("Found", "unsound"), print.Named("Partition", uint64(p.ID())), print.Named("Places", r.Places-before), print.Named("Frames", rec.Frames),
				print.Named("Records", rec.Records), print.Named("Bytes", uint64(rec.Bytes))}); err != nil {
			return err
		}
		return v.unusedFiles(discarded)
	}
	first, end := p.Bounds()
	err := v.print(fmt.Sprintf("ok partition %d LSN %d to %d epoch %d: %d frames, %d records, %d bytes, newest %s",
		p.ID(), first, end, rec.Epoch, rec.Frames, rec.Records, rec.Bytes, rec.Newest), print.Object{print.Named("Found", "ok"), print.Named("Partition", uint64(p.ID())),
		print.Named("LSN", uint64(first)), print.Named("End", uint64(end)), print.Named("Epoch", uint64(rec.Epoch)), print.Named("Frames", rec.Frames), print.Named("Records", rec.Records),
		print.Named("Bytes", uint64(rec.Bytes)), print.Named("Newest", rec.Newest.String())})
	if err == nil && rec.CutBytes > 0 {
		r.Tail += rec.CutBytes
		err = v.print(fmt.Sprintf("tail partition %d LSN %d: %d unacknowledged bytes: %+q", p.ID(), end, rec.CutBytes, rec.CutReason),
			print.Object{print.Named("Found", "tail"), print.Named("Partition", uint64(p.ID())), print.Named("LSN", uint64(end)), print.Named("Bytes", uint64(rec.CutBytes)), print.Named("Reason", rec.CutReason)})
	}
	if err == nil {
		err = v.erasedFiles(p)
	}
	if err != nil {
		return err
	}
	return v.unusedFiles(discarded)
}

// unusedFiles reports files that a start does not need.
func (v *verifier) unusedFiles(files []log.Discard) error {
	v.report.Discarded = append(v.report.Discarded, files...)
	for _, d := range files {
		if err := v.print(fmt.Sprintf("unused file %+q: %+q", d.File, d.Reason),
			print.Object{print.Named("Found", "unused"), print.Named("File", d.File), print.Named("Reason", print.Text([]byte(d.Reason)))}); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) print(line string, o print.Object) (err error) {
	if v.line = append(v.line[:0], line...); v.opts.JSON {
		if v.line, err = o.AppendJSON(v.line[:0]); err != nil {
			return err
		}
	}
	v.line = append(v.line, '\n')
	_, err = v.out.Write(v.line)
	return err
}

// unusable reads a checkpoint to its end and returns the problem; nil: a start can use it.
func unusable(c log.CheckpointInfo, open func(log.CheckpointInfo) (io.ReadCloser, error)) *log.Discard {
	f, err := open(c)
	if err == nil {
		err = errors.Join(replay.Usable(f), f.Close())
	}
	if err == nil {
		return nil
	}
	return &log.Discard{File: c.File, Reason: err.Error()}
}
