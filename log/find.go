package log

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// Finder selects the parts of a log that a search must read. The partitions of a store are finders.
type Finder interface {
	// Find returns, in order and without overlap, the stretches that may contain matches. Outside
	// of them nothing durable matches. Inside there may be other events as well, because sealed
	// files have indexes by block and the rest of the log has none.
	Find(s Search) ([]Stretch, error)
}

// Search selects events that match all of its fields. The zero value selects all events.
type Search struct {
	Begin       event.LSN  // files that end there or earlier are left out; 0: none is
	From, Until event.Time // of the record, both inclusive; 0: any
	// only events that name Slice and, if Number is set, that number: see [event.Named]
	Named  bool
	Slice  event.Slice
	Number event.SequenceNumber // 0: any
	// only events of which [event.MessageIDOf], as text, is this; nil: any
	MessageID []byte
	Kinds     []event.Kind     // only events of these kinds; nil: any
	Origins   []event.OriginID // only stretches that define one of these; nil: anywhere
}

// Stretch is a range of addresses of a log.
type Stretch struct {
	From, To event.LSN
	// Events is how many events of the wanted kinds the stretch has. After they have been read, the
	// rest of it can be skipped. 0: unknown.
	Events uint64
}

// Find implements [Finder].
func (p *partition) Find(q Search) ([]Stretch, error) {
	for {
		list, missing, err := p.find(&q)
		if again, err := p.retry(missing, err); !again {
			return list, err
		}
	}
}

// find does the same as Find for the current segments. If one of them cannot be read, missing is
// that segment.
func (p *partition) find(q *Search) (list []Stretch, missing *segment, err error) {
	_, end := p.Bounds()
	add := func(from, to event.LSN, events uint64) {
		if n := len(list); n > 0 && list[n-1].To >= from && events == 0 && list[n-1].Events == 0 {
			list[n-1].To = max(list[n-1].To, to)
			return
		}
		list = append(list, Stretch{from, to, events})
	}
	for _, e := range p.extents(q.Begin, end) {
		f, err := p.files.get(p.store.opts.FS, p.dir, e.seg)
		if err != nil {
			return nil, e.seg, fmt.Errorf("log: partition %d: %w", p.id, err)
		}
		if c, ok := f.content.(*sealedContent); ok {
			err = c.find(q, add)
		} else {
			add(e.seg.base, e.end, 0)
		}
		p.files.done(f)
		if err != nil {
			return nil, e.seg, fmt.Errorf("log: partition %d: %s: %w", p.id, e.seg.kind.path(), err)
		}
	}
	return list, nil, nil
}

// find adds the stretches of a sealed file. The index lists an event by the block in which the
// records of its frame begin. It lists a time by the block in which the frame begins, which is the
// same block or the one before.
func (c *sealedContent) find(q *Search, add func(from, to event.LSN, events uint64)) error {
	foot := &c.sealed.Footer
	if foot.Alone || !q.overlaps(foot.Lowest, foot.Highest) {
		return nil
	}
	if q.onlyKinds() && q.covers(foot.Lowest, foot.Highest) {
		have, err := c.sealed.Kinds()
		if n := countKinds(have, q.Kinds); err == nil && n > 0 {
			add(foot.First, foot.End, n)
		}
		return err
	}
	about, err := c.matchingBlocks(q)
	if err != nil || about != nil && !slices.Contains(about, true) {
		return err
	}
	blocks, err := c.part(sealed.Records)
	if err != nil {
		return err
	}
	for i := range blocks {
		if about != nil && !about[i] || !q.overlaps(blocks[i].Lowest, blocks[i].Highest) && (i == 0 || !q.overlaps(blocks[i-1].Lowest, blocks[i-1].Highest)) {
			continue
		}
		to := foot.End
		if i+1 < len(blocks) {
			to = blocks[i+1].First
		}
		add(c.frameStart(blocks[i].First), to, 0)
	}
	return nil
}

// overlaps reports whether a stretch between two times may have wanted events. A stretch without
// records has no times.
func (q *Search) overlaps(lowest, highest event.Time) bool {
	if q.From == 0 && q.Until == 0 {
		return true
	}
	return highest > 0 && highest >= q.From && (q.Until == 0 || lowest <= q.Until)
}

// matchingBlocks returns which blocks may have wanted events, whatever their time; nil: all may.
func (c *sealedContent) matchingBlocks(q *Search) ([]bool, error) {
	n := c.sealed.RecordBlocks()
	var found []bool
	if q.MessageID != nil {
		list, err := c.sealed.Find(q.MessageID)
		if err != nil {
			return nil, err
		}
		found = make([]bool, n)
		for _, i := range list {
			found[i] = true
		}
	}
	if !q.Named && q.Kinds == nil && q.Origins == nil {
		return found, nil
	}
	what, err := c.sealed.About(q.Slice)
	if err != nil {
		return nil, err
	}
	if q.Kinds != nil && countKinds(what.Kinds, q.Kinds) == 0 {
		return make([]bool, n), nil
	}
	if q.Origins != nil {
		defined := make([]bool, n)
		for _, o := range what.Origins {
			defined[o.Block] = defined[o.Block] || (found == nil || found[o.Block]) && slices.Contains(q.Origins, o.Origin)
		}
		found = defined
	}
	if !q.Named || what.Unlisted {
		return found, nil
	}
	named := make([]bool, n)
	s, _ := what.Of(q.Slice)
	for _, b := range s.Blocks {
		named[b.Block] = (found == nil || found[b.Block]) && (q.Number == 0 || b.Lowest <= q.Number && q.Number <= b.Highest)
	}
	return named, nil
}

// onlyKinds reports whether the search is for kinds only, apart from times. The file does not say
// which blocks have events of a kind, but how many events there are.
func (q *Search) onlyKinds() bool {
	return q.Kinds != nil && !q.Named && q.MessageID == nil && q.Origins == nil
}

// covers reports whether every time of a file, whose records have these times, is wanted.
func (q *Search) covers(lowest, highest event.Time) bool {
	return q.From <= lowest && (q.Until == 0 || highest <= q.Until)
}

// countKinds returns how many events of some kinds a file has.
func countKinds(all []sealed.KindCount, kinds []event.Kind) (n uint64) {
	for _, have := range all {
		if slices.Contains(kinds, have.Kind) {
			n += have.Events
		}
	}
	return n
}
