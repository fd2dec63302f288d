package excerpt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A logCopy writes a part of one log.
type logCopy struct {
	log.Partition
	of     *ledger.Extent
	bodies Bodies
	masks  *masks

	chapters []log.Stretch
	begin    event.LSN // position of the base
	end      event.LSN // end of the copied log
	last     place     // place of the first record that is too late; zero: none
	named    map[event.OriginID]bool
	needed   map[event.Position]neededBytes // bytes that the base points to
	gaps     bool                           // the original lacks some bodies
	summary  Log

	buf []byte
	dec event.Decoder
}

type place struct {
	lsn    event.LSN
	number int
}

// A neededBytes is bytes before the base that the base points to.
type neededBytes struct {
	event.BodyRef
	role role
}

// plan determines the end of the log and the origins of the wanted events.
func (c *logCopy) plan(ctx context.Context, clock uint64) error {
	first, end := c.Bounds()
	c.end, c.named = end, make(map[event.OriginID]bool)
	for rec, err := range replay.Records(ctx, c, c.begin) {
		if err != nil {
			return err
		}
		if c.of.Beyond(&clock, rec) {
			if c.last = (place{rec.LSN, rec.Number}); rec.Number == 1 {
				c.end = rec.LSN
			} else {
				c.end = rec.Next
			}
			break
		}
		wanted := 0
		for i, ev := range rec.Events {
			if c.isWanted(rec.Events, i) {
				wanted++
				c.named[ev.Common().Origin] = true
			}
		}
		if c.summary.Events += wanted; wanted > 0 {
			if c.summary.To = rec.At.String(); c.summary.From == "" {
				c.summary.From = c.summary.To
			}
		}
	}
	for _, s := range c.Segments() {
		c.gaps = c.gaps || s.Erased > 0
		n := len(c.chapters)
		switch {
		case s.First < first || s.End == s.First || s.First >= max(c.end, c.begin+1):
		case n > 0 && c.summary.chapter == s.Chapter:
			c.chapters[n-1].To = s.End
		default:
			c.summary.chapter = s.Chapter
			c.chapters = append(c.chapters, log.Stretch{From: s.First, To: s.End})
		}
	}
	for len(c.chapters) > 1 && c.chapters[1].From < c.begin {
		c.chapters = c.chapters[1:]
	}
	return nil
}

// minFrameAddresses is the minimum number of address bytes of a frame; a log without frames gets
// one frame.
const minFrameAddresses = 104

// bound ends the chapters at the end of the log. At least one chapter is needed: its sealed file
// tells a start where to continue.
func (c *logCopy) bound(ctx context.Context) (before log.Epoch, err error) {
	if len(c.chapters) == 0 {
		c.chapters = []log.Stretch{{From: c.begin, To: c.begin + minFrameAddresses}}
		return 1, nil
	}
	last := &c.chapters[len(c.chapters)-1]
	for f, err := range c.Read(ctx, c.chapters[0].From) {
		if err != nil {
			return 0, err
		}
		if before = f.Epoch; f.Kind == log.EpochStart {
			before--
		}
		if last.To = min(last.To, c.end); c.end <= c.chapters[0].From {
			last.To = f.Next
		}
		return before, nil
	}
	return 0, fmt.Errorf("%w: there is no frame at LSN %d", log.ErrInternal, c.chapters[0].From)
}

// isWanted reports whether an event is wanted, except for origins and reasons, about which the
// callers decide.
func (c *logCopy) isWanted(events []event.Event, i int) bool {
	if c.of.Entities == nil {
		return true
	}
	ev := events[i]
	if e := ev.Common().Slice.Entity; e != 0 {
		return c.of.Entities[e]
	}
	switch ev.(type) {
	case *event.OriginDefined:
		return false // frame adds the named origins
	case *event.ReasonGiven:
		return slices.ContainsFunc(events, func(other event.Event) bool { return c.of.Entities[other.Common().Slice.Entity] })
	case *event.ClockSet, *event.RunStarted, *event.BackupMarked, *event.PartitionFenced, *event.PartitionRestarted, *event.HistoryPolicySet:
		return true
	}
	return false
}

// state returns the wanted part of the original's state at the base.
func (c *logCopy) state(ctx context.Context) (*index.Snapshot, event.Time, uint64, error) {
	s := replay.Newest(c, c.begin, nil)
	for rec, err := range s.Records(ctx) {
		if err == nil && rec.LSN >= c.begin {
			break
		}
		if err == nil {
			err = s.Apply(rec)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	return s.Index.Snapshot(), s.Index.LastAt(), s.Index.Clock().Number, nil
}

// events yields the events of the base.
func (c *logCopy) events(s *index.Snapshot, fail *error) iter.Seq[event.Event] {
	return func(yield func(event.Event) bool) {
		for ev := range s.Base() {
			if e := ev.Common().Slice.Entity; e != 0 && c.of.Entities != nil && !c.of.Entities[e] {
				continue
			}
			if *fail = c.change(ev); *fail != nil || !yield(ev) {
				return
			}
		}
	}
}

// change replaces bodies and keys in an event of the base, and records the bytes that the event
// needs.
func (c *logCopy) change(ev event.Event) (err error) {
	ref := func(r *event.BodyRef, of role) {
		if r.Size != 0 && err == nil {
			c.needed[r.Position] = neededBytes{*r, of}
			r.Sum, err = c.sum(event.Blob{Position: r.Position, Size: r.Size, Sum: r.Sum}, of)
		}
	}
	switch ev := ev.(type) {
	case *event.CatalogueRestored:
		ev.Properties.AccessRules = c.masks.rules(ev.Properties.AccessRules)
	case *event.RowsRestored:
		c.summary.Messages += len(ev.Rows)
		for i := range ev.Rows {
			ref(&ev.Rows[i].Body, isBody)
			for k := range ev.Rows[i].Changes {
				ref(&ev.Rows[i].Changes[k], isChanges)
			}
		}
	case *event.SessionsRestored:
		for i := range ev.Sessions {
			ref(&ev.Sessions[i].State, isState)
		}
	}
	return err
}

// sum returns the checksum of a blob's replacement.
func (c *logCopy) sum(b event.Blob, of role) (uint32, error) {
	if c.bodies == Keep {
		return b.Sum, nil
	}
	p, err := c.content(b, of)
	return event.Sum(p), err
}

// content returns the replacement of a blob.
func (c *logCopy) content(b event.Blob, of role) ([]byte, error) {
	if c.bodies == Keep || c.bodies == Hash && of == isBody {
		p, err := c.ReadBlob(b, c.buf[:0])
		if errors.Is(err, event.ErrErased) && c.bodies == Hash {
			return substitute(of, int(b.Size), goneNote), nil
		}
		if c.buf = p; err != nil || c.bodies == Keep {
			return p, err
		}
		return substitute(of, int(b.Size), digest(p)), nil
	}
	return substitute(of, int(b.Size), droppedNote), nil
}

// Notes that replace a body in a slice, if they fit.
const (
	droppedNote = "ledgerbus slice: this body was dropped"
	goneNote    = "ledgerbus slice: history did not keep this body"
)

// isKept reports whether bytes must be written for a blob. Bytes that the original has not kept are
// not written.
func (c *logCopy) isKept(b event.Blob) (bool, error) {
	if c.bodies != Keep || !c.gaps {
		return true, nil
	}
	var one [1]byte
	_, err := c.ReadInto(b, one[:])
	if errors.Is(err, event.ErrErased) {
		return false, nil
	}
	return err == nil, err
}

// piece returns bytes to write.
func (c *logCopy) piece(b event.Blob, of role) log.ExcerptBody {
	return log.ExcerptBody{Position: b.Position, Size: b.Size, Read: func() ([]byte, error) { return c.content(b, of) }}
}

// write writes the log.
func (c *logCopy) write(ctx context.Context, to *log.Excerpt) error {
	state, at, clock, err := c.state(ctx)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := c.plan(ctx, clock); err != nil {
		return err
	}
	before, err := c.bound(ctx)
	if err != nil {
		return err
	}
	base := log.BaseInfo{LSN: c.begin, Encoding: index.EncodingVersion}
	c.needed = make(map[event.Position]neededBytes)
	restored := index.Restore()
	for ev := range c.events(state, &err) {
		if bad := restored.Apply(at, ev); bad != nil {
			return fmt.Errorf("%w: base: %w", log.ErrInternal, bad)
		}
	}
	if err != nil {
		return err
	}
	if base.Hash, err = hashOf(restored); err != nil {
		return err
	}
	l := &log.ExcerptLog{Chapters: c.chapters, Before: before, Base: base, Frames: c.frames, Records: func(w io.Writer) error {
		var fail error
		return errors.Join(replay.WriteBase(ctx, c.events(state, &fail), at, w), fail)
	}}
	if l.Bodies, err = c.leadingBodies(); err != nil {
		return err
	}
	messages := c.summary.Messages
	err = to.Log(ctx, l)
	c.summary.Messages = messages // because the events were produced twice
	c.summary.Partition, c.summary.Base, c.summary.End = uint64(c.ID()), uint64(c.begin), uint64(c.chapters[len(c.chapters)-1].To)
	return err
}

func hashOf(r *index.Restorer) (sum [32]byte, err error) {
	x, err := r.Index()
	if err != nil {
		return sum, fmt.Errorf("%w: base: %w", log.ErrInternal, err)
	}
	s := x.Snapshot()
	defer s.Close()
	h := sha256.New()
	if _, err := s.Encode(h); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// leadingBodies returns the bytes before the chapters that the base points to.
func (c *logCopy) leadingBodies() (list []log.ExcerptBody, err error) {
	first := event.Position(c.chapters[0].From)
	for at, n := range c.needed {
		b := event.Blob{Position: at, Size: n.Size, Sum: n.Sum}
		if at >= first {
			continue
		}
		ok, err := c.isKept(b)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, c.piece(b, n.role))
		}
	}
	slices.SortFunc(list, func(a, b log.ExcerptBody) int {
		if a.Position < b.Position {
			return -1
		}
		return 1
	})
	return list, nil
}

// frames yields the frames that contain wanted events.
func (c *logCopy) frames(ctx context.Context, yield func(*log.ExcerptFrame) error) error {
	for f, err := range c.Read(ctx, c.chapters[0].From) {
		if err != nil {
			return err
		}
		if f.LSN >= c.chapters[len(c.chapters)-1].To {
			return nil
		}
		e := log.ExcerptFrame{Frame: f}
		switch f.Kind {
		case log.EpochStart:
		case log.Events:
			if err := c.frame(&e); err != nil {
				return fmt.Errorf("frame at LSN %d: %w", f.LSN, err)
			}
			if e.Count == 0 && len(e.Kept) == 0 {
				continue
			}
		default:
			if c.of.Entities != nil {
				continue
			}
		}
		if err := yield(&e); err != nil {
			return err
		}
	}
	return nil
}

// frame removes unwanted events from a frame.
func (c *logCopy) frame(e *log.ExcerptFrame) error {
	rest, count := e.Records, int(e.Count)
	e.Records, e.Count, e.Time = nil, 0, 0
	for number := 1; number <= count; number++ {
		rec, left, err := c.dec.Record(e.Base, e.Bodies, rest)
		if err != nil {
			return err
		}
		raw := rest[:len(rest)-len(left)]
		rest = left
		if e.LSN == c.last.lsn && number >= c.last.number {
			break
		}
		p, events, err := c.record(e, &rec, raw)
		if err != nil {
			return err
		}
		if events == 0 {
			continue
		}
		e.Records = binary.AppendUvarint(e.Records, uint64(rec.At))
		e.Records = binary.AppendUvarint(e.Records, uint64(events))
		e.Records = append(e.Records, p...)
		if e.Count++; e.Count == 1 {
			e.Time = rec.At
		}
		e.Newest = rec.At
	}
	if e.Count == 0 {
		e.Kind = log.Skip
	}
	return nil
}

// record returns the bytes of a record with only the wanted events, as they must be written, and
// the number of these events.
func (c *logCopy) record(e *log.ExcerptFrame, rec *event.Record, raw []byte) (p []byte, events int, err error) {
	blobs, sums, sizes := c.dec.Blobs(), c.dec.Sums(), c.dec.Sizes()
	at := uvarintSize(int(rec.At)) + uvarintSize(len(rec.Events))
	for i, ev := range rec.Events {
		bytes, n := raw[at:at+sizes[i].Record], sizes[i].Blobs
		mine, where := blobs[:n], sums[:n]
		blobs, sums = blobs[n:], sums[n:]
		from := at
		at += len(bytes)
		wanted := e.LSN >= c.begin && c.isWanted(rec.Events, i)
		if o, ok := ev.(*event.OriginDefined); ok {
			wanted = c.named[o.ID] || wanted && c.of.Entities == nil
		}
		begin := len(p)
		if wanted {
			p = append(p, bytes...)
			events++
			c.hide(p[begin:], ev)
		}
		for k, b := range mine {
			of := roleOf(ev, b)
			_, needed := c.needed[b.Position]
			if !wanted && !needed {
				continue
			}
			ok, err := c.isKept(b)
			if err != nil {
				return nil, 0, err
			}
			if ok {
				e.Kept = append(e.Kept, c.piece(b, of))
			}
			if wanted && c.bodies != Keep {
				sum, err := c.sum(b, of)
				if err != nil {
					return nil, 0, err
				}
				binary.LittleEndian.PutUint32(p[begin+where[k]-from:], sum)
			}
		}
	}
	return p, events, nil
}

// hide replaces the keys in the bytes of an event.
func (c *logCopy) hide(p []byte, ev event.Event) {
	switch ev := ev.(type) {
	case *event.EntityCreated:
		c.masks.inPlace(p, ev.Properties.AccessRules)
	case *event.EntityUpdated:
		c.masks.inPlace(p, ev.Properties.AccessRules, ev.Before.AccessRules)
	case *event.EntityDeleted:
		c.masks.inPlace(p, ev.Before.AccessRules)
	}
}
