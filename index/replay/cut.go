package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// worthRatio is how many times its own size a base must free (decision 48), as checkpoints, too, must be worth their size.
const worthRatio = 16

// Cut gives the space of history back: it removes whole sealed files and chapters that end in front of a base, which is at or before upTo, except for those with a body that is still
// needed, and for chapters behind such a one.
// It makes the base from the newest usable checkpoint, when the log has none or when another one would free much more: 16 times the size of the base, or anything at all when
// forced. It takes long, works beside the partition, which may be read and written meanwhile, and can be tried again after an error and after the process died. It returns how
// many bytes were freed. An error that wraps [log.ErrHeld] or [log.ErrTooLittle] only says what stands in the way: nothing is wrong.
func Cut(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error) {
	b, ok := p.(log.Bases)
	if !ok {
		return 0, fmt.Errorf("%w: partition %d is of a log that has no bases", log.ErrTooLittle, p.ID())
	}
	c := cut{log: p, bases: b}
	if next, ok := c.next(upTo, forced); ok {
		err = c.make(ctx, next)
	} else {
		err = c.look(ctx)
	}
	if err != nil {
		return 0, err
	}
	return b.DropFiles(ctx, func(first, end event.LSN) bool {
		return end > upTo && !mutant.On(mutant.CutBeyond) || c.wanted(first, end) // the base may be of a time when less was to be kept
	})
}

type cut struct {
	log   log.Partition
	bases log.Bases
	// needed are the first addresses of the segments that have a body which the base needs.
	needed map[event.LSN]struct{}
	starts []event.LSN // of the segments in front of the base, ascending
}

// next is the checkpoint to make a base of, if that is worth it: the newest one that can be used.
func (c *cut) next(upTo event.LSN, forced bool) (log.CheckpointInfo, bool) {
	has, _ := c.bases.Base()
	for _, ckpt := range c.log.Checkpoints() { // newest first
		if ckpt.LSN > upTo {
			continue
		}
		gain := c.gain(ckpt.LSN)
		if ckpt.LSN <= has.LSN || gain == 0 || !forced && gain < worthRatio*ckpt.Size {
			break
		}
		if c.usable(ckpt) {
			return ckpt, true
		}
	}
	return log.CheckpointInfo{}, false
}

// gain is how many bytes a base at an LSN would give back: of files that are not only there for their bodies.
func (c *cut) gain(at event.LSN) (bytes int64) {
	first, _ := c.log.Bounds()
	list := c.log.Segments()
	chapter := int64(0) // bytes of the one that is not sealed, as far as the loop has come
	for i, s := range list {
		switch {
		case s.First < first:
		case s.Sealed > 0 && s.End <= at:
			bytes += s.Sealed
		case s.Sealed == 0:
			chapter += int64(s.End - s.First)
			if i+1 < len(list) && list[i+1].Chapter != s.Chapter {
				if s.End <= at {
					bytes += chapter
				}
				chapter = 0
			}
		}
	}
	return bytes
}

// usable reports whether a replay can be compared with a checkpoint: one in the encoding of another version has another hash.
func (c *cut) usable(ckpt log.CheckpointInfo) bool {
	r, err := c.log.OpenCheckpoint(ckpt.LSN)
	if err != nil {
		return false
	}
	defer r.Close()
	var first [1]byte
	_, err = io.ReadFull(r, first[:])
	return err == nil && known(first[0]) == nil
}

// make makes a base of a checkpoint, which a replay has to come to.
func (c *cut) make(ctx context.Context, of log.CheckpointInfo) error {
	s := Begin(c.log)
	if err := s.until(ctx, of.LSN); err != nil {
		return err
	}
	if hashOf(s.Index) != of.Hash {
		return fmt.Errorf("%w: partition %d: a replay up to LSN %d gives another state than the checkpoint there", log.ErrInternal, c.log.ID(), of.LSN)
	}
	c.begin(of.LSN)
	info := log.BaseInfo{LSN: of.LSN, Hash: of.Hash, Encoding: index.EncodingVersion}
	write := func(w io.Writer) error {
		state := s.Index.Snapshot()
		err := WriteBase(ctx, state.Base(), s.Index.LastAt(), w)
		state.Close()
		s.Index = nil // makes room in memory for the state that is read back
		return err
	}
	return c.bases.SaveBase(ctx, info, write, func(r io.Reader) error {
		x, err := readBase(ctx, r, c.see)
		if err == nil && hashOf(x) != of.Hash {
			err = fmt.Errorf("%w: what was written as a base gives another state", log.ErrInternal)
		}
		return err
	})
}

// look finds out which bodies the base of the log needs.
func (c *cut) look(ctx context.Context) error {
	has, ok := c.bases.Base()
	if !ok {
		return fmt.Errorf("%w: partition %d has no checkpoint that a base would be worth to be made of", log.ErrTooLittle, c.log.ID())
	}
	c.begin(has.LSN)
	if len(c.starts) == 0 || len(c.starts) == 1 && mutant.On(mutant.CutUnasked) { // nothing to look for
		return nil
	}
	_, _, err := loadBase(ctx, c.log, c.see)
	return err
}

// begin notes which segments there are in front of a base.
func (c *cut) begin(at event.LSN) {
	c.needed, c.starts = map[event.LSN]struct{}{}, nil
	for _, s := range c.log.Segments() {
		if s.First < at {
			c.starts = append(c.starts, s.First)
		}
	}
}

// see notes what an event of the base needs.
func (c *cut) see(ev event.Event) {
	switch ev := ev.(type) {
	case *event.RowsRestored:
		for i := range ev.Rows {
			c.need(ev.Rows[i].Body)
			for _, b := range ev.Rows[i].Changes {
				c.need(b)
			}
		}
	case *event.SessionsRestored:
		for i := range ev.Sessions {
			c.need(ev.Sessions[i].State)
		}
	}
}

func (c *cut) need(b event.BodyRef) {
	if b.Size == 0 {
		return
	}
	i, exact := slices.BinarySearch(c.starts, event.LSN(b.Position))
	if !exact {
		i--
	}
	if i >= 0 {
		c.needed[c.starts[i]] = struct{}{}
	}
}

// wanted reports whether the base needs a body of a sealed file. When the base was looked at the file may still have been several segments; one
// that was not there yet counts as wanted.
func (c *cut) wanted(first, end event.LSN) bool {
	i, there := slices.BinarySearch(c.starts, first)
	for ; there && i < len(c.starts) && c.starts[i] < end; i++ {
		if _, needed := c.needed[c.starts[i]]; needed {
			return true
		}
	}
	return !there
}

// errThere ends a replay where it was to end.
var errThere = errors.New("there")

// until applies what is below an LSN.
func (s *State) until(ctx context.Context, at event.LSN) error {
	err := s.Run(ctx, Watch{Look: func(rec *Record) error {
		if rec.LSN >= at {
			return errThere
		}
		return nil
	}})
	if errors.Is(err, errThere) {
		err = nil
	}
	return err
}
