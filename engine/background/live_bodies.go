package background

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sort"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Which bodies in sealed files are needed (docs/decisions/0050): the bodies that a durable state of
// the partition points to. No later state points to any other body that was in the log then.

const (
	// readingTime is how long a read may last that was in progress when the state was taken.
	readingTime = 30 * time.Second
	// maxLiveSpans bounds the spans of bodies that are held at a time for all files of a partition:
	// 16 MiB.
	maxLiveSpans = 1 << 20
	// liveBodiesMemory is the memory, in bytes, for finding out which bodies are needed:
	// [maxLiveSpans] spans and a sample of [maxSample] bodies.
	liveBodiesMemory = 16*maxLiveSpans + 8<<20
)

// liveBodies holds the bodies in sealed files that the state of a partition needs.
type liveBodies struct {
	files  []liveFile          // by address
	after  time.Time           // when no reader needs more than the state does
	memory loop.SnapshotMemory // has to be freed
}

// liveFile holds the needed bodies of a sealed file.
type liveFile struct {
	log.SegmentInfo
	bytes int64 // needed bytes of bodies, about; shared bodies count once
	known bool  // the spans are complete; false: the file was not chosen, or it has too many
	spans []span
}

// span is a range of addresses; to is exclusive.
type span struct{ from, to event.Position }

// has reports whether a body is needed.
func (f *liveFile) has(b event.Blob) bool {
	i := sort.Search(len(f.spans), func(i int) bool { return f.spans[i].to > b.Position })
	return !f.known || i < len(f.spans) && f.spans[i].from < b.Position+event.Position(b.Size)
}

// noMemory refuses work for lack of memory.
var noMemory = engine.Refuse(engine.Busy, "The server is busy: it has no memory for this now. Please retry the operation.")

// liveBodiesOf finds out which bodies in sealed files, ordered by address, the state of a partition
// needs. It finds about how many bytes of each file, and the bodies of the files that choose
// accepts, as far as memory allows.
func liveBodiesOf(ctx context.Context, from log.Memory, state stateReader, files []log.SegmentInfo, choose func(*liveFile) bool) (*liveBodies, error) {
	n := &liveBodies{files: make([]liveFile, len(files)), memory: loop.SnapshotMemory{From: from}}
	for i, f := range files {
		n.files[i].SegmentInfo = f
	}
	err := state(ctx, func(s *index.Snapshot, read []event.Blob) error {
		if !n.memory.Take(min(1<<20+64*s.Live(), liveBodiesMemory), int(s.Copied()), false) {
			return noMemory
		}
		n.after = time.Now().Add(readingTime)
		sample := sampleOf(maxSample)
		if err := n.each(ctx, s, read, func(_ *liveFile, b event.Blob) { sample.add(b) }); err != nil {
			return err
		}
		for at, size := range sample.sizes {
			n.find(event.LSN(at)).bytes += int64(size) * sample.rate
		}
		for i := range n.files {
			n.files[i].known = choose(&n.files[i])
		}
		return n.collect(ctx, s, read)
	})
	return n, err
}

// collect finds the needed bodies of the chosen files. If memory runs short, the last files are not
// known.
func (n *liveBodies) collect(ctx context.Context, s *index.Snapshot, read []event.Blob) error {
	held := 0
	err := n.each(ctx, s, read, func(f *liveFile, b event.Blob) {
		if !f.known {
			return
		}
		if last := len(f.spans) - 1; last >= 0 && f.spans[last].to == b.Position {
			f.spans[last].to += event.Position(b.Size)
			return
		}
		f.spans = append(f.spans, span{b.Position, b.Position + event.Position(b.Size)})
		if held++; held > maxLiveSpans {
			held = n.shrink(maxLiveSpans / 2)
		}
	})
	n.shrink(maxLiveSpans)
	return err
}

// shrink joins spans and forgets those of the last files until at most most are left. It returns
// how many are left.
func (n *liveBodies) shrink(most int) (held int) {
	for i := range n.files {
		f := &n.files[i]
		f.spans = joinSpans(f.spans)
		if held+len(f.spans) > most {
			f.known, f.spans = false, nil
		}
		held += len(f.spans)
	}
	return held
}

// joinSpans sorts spans and joins adjacent ones.
func joinSpans(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := list[:0]
	for _, s := range list {
		if n := len(out) - 1; n >= 0 && s.from <= out[n].to {
			out[n].to = max(out[n].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return slices.Clip(out)
}

// each calls do with every blob in one of the files that the state points to, or that is still
// being read.
func (n *liveBodies) each(ctx context.Context, s *index.Snapshot, read []event.Blob, do func(*liveFile, event.Blob)) error {
	count := 0
	var f *liveFile
	for b := range s.Blobs() {
		if count++; count%(1<<16) == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n.memory.Follow(s)
			runtime.Gosched()
		}
		if at := event.LSN(b.Position); f == nil || at < f.First || at >= f.End {
			if f = n.find(at); f == nil {
				continue
			}
		}
		do(f, b)
	}
	for _, b := range read {
		if f := n.find(event.LSN(b.Position)); f != nil {
			do(f, b)
		}
	}
	return nil
}

// find returns the file that has an address; nil: none.
func (n *liveBodies) find(at event.LSN) *liveFile {
	i := sort.Search(len(n.files), func(i int) bool { return n.files[i].End > at })
	if i == len(n.files) || at < n.files[i].First {
		return nil
	}
	return &n.files[i]
}

// maxSample bounds the bodies that are counted exactly; more are sampled.
const maxSample = 1 << 17

// sample holds one in rate of the bodies, each once. A hash of their positions selects them.
type sample struct {
	most  int
	rate  int64
	sizes map[event.Position]uint32
}

func sampleOf(most int) *sample {
	return &sample{most: most, rate: 1, sizes: map[event.Position]uint32{}}
}

func (s *sample) add(b event.Blob) {
	if s.skips(b.Position) {
		return
	}
	s.sizes[b.Position] = b.Size
	for len(s.sizes) > s.most {
		s.rate *= 2
		maps.DeleteFunc(s.sizes, func(at event.Position, _ uint32) bool { return s.skips(at) })
	}
}

// skips reports whether the sample leaves out a position. The hash spreads positions evenly,
// whatever they have in common.
func (s *sample) skips(at event.Position) bool {
	return (uint64(at)*0x9e3779b97f4a7c15)>>32%uint64(s.rate) != 0
}
