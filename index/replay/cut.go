package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// worthRatio is how many times its own size a base must free (decision 48). Checkpoints must be
// worth their size as well.
const worthRatio = 16

// Cut frees the space of history. It removes sealed files and chapters that end before a base,
// which is at or before upTo. If a few bodies of a file are still needed, only they stay. If many
// are, the whole file stays, and so do all later chapters ([log.Bases]).
//
// Cut makes the base from the newest usable checkpoint if the log has no base, or if another one
// would free much more: 16 times the size of the base, or any amount when forced. It takes long and
// works beside the partition, which may be read and written meanwhile. It can be repeated after an
// error and after the process died.
//
// It returns how many bytes were freed. An error that wraps [log.ErrHeld] or [log.ErrTooLittle]
// only says why it could free nothing: nothing is wrong.
func Cut(ctx context.Context, p log.Partition, upTo event.LSN, forced bool) (freed int64, err error) {
	b, ok := p.(log.Bases)
	if !ok {
		return 0, fmt.Errorf("%w: partition %d: the log does not support bases", log.ErrTooLittle, p.ID())
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
	c.order()
	return b.DropFiles(ctx, func(first, end event.LSN) (all bool, bodies []log.KeptBody) {
		if end > upTo { // the base may be from a time with a shorter retention
			return true, nil
		}
		return c.needs(first, end)
	})
}

// maxKept is how many needed bodies of files before the base are held in memory at a time: 16 MiB.
const maxKept = 1 << 19

type cut struct {
	log   log.Partition
	bases log.Bases
	files []fileNeeds // before the base, by address
	held  int         // number of bodies of all of them
	most  int         // largest number of bodies
}

// fileNeeds is what the base needs of a file, or of a chapter, which may have several files.
type fileNeeds struct {
	first, end event.LSN
	bodies     []log.KeptBody
	all        bool // too much of it for a list
}

// next returns the checkpoint for a new base, if one is worth it: the newest usable one.
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

// gain returns how many bytes a base at an LSN would free: of files that are not kept only for
// their bodies.
func (c *cut) gain(at event.LSN) (bytes int64) {
	first, _ := c.log.Bounds()
	list := c.log.Segments()
	chapter := int64(0) // bytes of the current unsealed chapter so far
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

// usable reports whether a replay can be compared with a checkpoint. A checkpoint in the encoding
// of another version has another hash.
func (c *cut) usable(ckpt log.CheckpointInfo) bool {
	r, err := c.log.OpenCheckpoint(ckpt.LSN)
	if err != nil {
		return false
	}
	defer r.Close()
	var first [1]byte
	_, err = io.ReadFull(r, first[:])
	return err == nil && checkEncoding(first[0]) == nil
}

// make makes a base from a checkpoint. A replay must yield the same state.
func (c *cut) make(ctx context.Context, of log.CheckpointInfo) error {
	s := Begin(c.log)
	if err := s.applyUntil(ctx, of.LSN); err != nil {
		return err
	}
	if hashOf(s.Index) != of.Hash {
		return fmt.Errorf("%w: partition %d: replay up to LSN %d and the checkpoint there yield different states", log.ErrInternal, c.log.ID(), of.LSN)
	}
	c.begin(of.LSN)
	info := log.BaseInfo{LSN: of.LSN, Hash: of.Hash, Encoding: index.EncodingVersion}
	write := func(w io.Writer) error {
		state := s.Index.Snapshot()
		err := WriteBase(ctx, state.Base(), s.Index.LastAt(), w)
		state.Close()
		s.Index = nil // frees memory for the state that is read back
		return err
	}
	return c.bases.SaveBase(ctx, info, write, func(r io.Reader) error {
		x, err := readBase(ctx, r, c.see)
		if err == nil && hashOf(x) != of.Hash {
			err = fmt.Errorf("%w: the base as written yields another state", log.ErrInternal)
		}
		return err
	})
}

// look finds out which bodies the base of the log needs.
func (c *cut) look(ctx context.Context) error {
	has, ok := c.bases.Base()
	if !ok {
		return fmt.Errorf("%w: partition %d has no checkpoint that is worth making a base from", log.ErrTooLittle, c.log.ID())
	}
	c.begin(has.LSN)
	if len(c.files) == 0 { // no files to check
		return nil
	}
	_, _, err := loadBase(ctx, c.log, c.see)
	return err
}

// begin lists the files before a base.
func (c *cut) begin(at event.LSN) {
	c.files, c.held, c.most = nil, 0, cmp.Or(c.most, maxKept)
	chapter := uint32(0)
	for _, s := range c.log.Segments() {
		if s.First >= at {
			break
		}
		if n := len(c.files); n > 0 && s.Chapter == chapter {
			c.files[n-1].end = s.End
			continue
		}
		c.files, chapter = append(c.files, fileNeeds{first: s.First, end: s.End}), s.Chapter
	}
}

// see records the needs of an event of the base.
func (c *cut) see(ev event.Event) {
	switch ev := ev.(type) {
	case *event.RowsRestored:
		for i := range ev.Rows {
			row := &ev.Rows[i]
			c.need(row.Body, ev.Slice, row.Sequence)
			for _, b := range row.Changes {
				c.need(b, ev.Slice, row.Sequence)
			}
		}
	case *event.SessionsRestored:
		for i := range ev.Sessions {
			c.need(ev.Sessions[i].State, ev.Slice, 0)
		}
	}
}

func (c *cut) need(b event.BodyRef, of event.Slice, number event.SequenceNumber) {
	if b.Size == 0 {
		return
	}
	at := event.LSN(b.Position)
	i := sort.Search(len(c.files), func(i int) bool { return c.files[i].end > at })
	if i == len(c.files) || at < c.files[i].first || c.files[i].all {
		return
	}
	f := &c.files[i]
	f.bodies = append(f.bodies, log.KeptBody{Position: b.Position, Size: b.Size, Sum: b.Sum, Slice: of, Number: number})
	if c.held++; c.held > c.most {
		c.order()
		c.shrink(c.most / 2)
	}
}

// order sorts the bodies of each file and removes duplicates. A file of which more than half is
// needed is marked as needed whole.
func (c *cut) order() {
	c.held = 0
	for i := range c.files {
		f := &c.files[i]
		slices.SortStableFunc(f.bodies, func(a, b log.KeptBody) int { return cmp.Compare(a.Position, b.Position) })
		f.bodies = slices.CompactFunc(f.bodies, func(a, b log.KeptBody) bool { return a.Position == b.Position })
		size := event.LSN(0)
		for j := range f.bodies {
			size += event.LSN(f.bodies[j].Size)
		}
		if size > (f.end-f.first)/2 {
			f.all, f.bodies = true, nil
		}
		c.held += len(f.bodies)
	}
}

// shrink drops the bodies of the last files until at most most are left. Those files stay whole
// this time.
func (c *cut) shrink(most int) {
	for i := len(c.files) - 1; i >= 0 && c.held > most; i-- {
		f := &c.files[i]
		if n := len(f.bodies); n > 0 {
			f.all, f.bodies = true, nil
			c.held -= n
		}
	}
}

// needs returns what the base needs of a file. A file that did not exist when the base was read is
// needed whole.
func (c *cut) needs(first, end event.LSN) (all bool, bodies []log.KeptBody) {
	i := sort.Search(len(c.files), func(i int) bool { return c.files[i].end > first })
	if i == len(c.files) || c.files[i].first != first || c.files[i].end != end {
		return true, nil
	}
	all, bodies = c.files[i].all, c.files[i].bodies
	return all, bodies
}

// errThere ends a replay at its target.
var errThere = errors.New("there")

// applyUntil applies all records below an LSN.
func (s *State) applyUntil(ctx context.Context, at event.LSN) error {
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
