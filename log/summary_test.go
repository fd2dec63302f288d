package log_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/sealed"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// total is the sum of summaries, which does not depend on how chapters are kept.
func total(t *testing.T, p log.Partition) (all log.Summary, files int) {
	t.Helper()
	kinds, slicesOf := map[event.Kind]sealed.KindCount{}, map[event.Slice]sealed.SliceCount{}
	end, _ := p.Bounds()
	for s, err := range p.Summaries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.First != end {
			t.Errorf("%s begins at %d, the one before it ends at %d", s.File, s.First, end)
		}
		end, files = s.End, files+1
		all.Frames, all.Records, all.Events = all.Frames+s.Frames, all.Records+s.Records, all.Events+s.Events
		all.BodyBytes, all.Highest = all.BodyBytes+s.BodyBytes, max(all.Highest, s.Highest)
		for _, k := range s.Kinds {
			was := kinds[k.Kind]
			kinds[k.Kind] = sealed.KindCount{Kind: k.Kind, Events: was.Events + k.Events, Bytes: was.Bytes + k.Bytes}
		}
		for _, c := range s.Slices {
			was := slicesOf[c.Slice]
			slicesOf[c.Slice] = sealed.SliceCount{Slice: c.Slice, Events: was.Events + c.Events, Bytes: was.Bytes + c.Bytes, Bodies: was.Bodies + c.Bodies, BodyBytes: was.BodyBytes + c.BodyBytes}
		}
	}
	if _, committed := p.Bounds(); end != committed {
		t.Errorf("summaries end at %d, the log at %d", end, committed)
	}
	for _, k := range kinds {
		all.Kinds = append(all.Kinds, k)
	}
	slices.SortFunc(all.Kinds, func(a, b sealed.KindCount) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, c := range slicesOf {
		all.Slices = append(all.Slices, c)
	}
	slices.SortFunc(all.Slices, func(a, b sealed.SliceCount) int { return cmp.Compare(a.Slice.Entity, b.Slice.Entity) })
	return all, files
}

// The summaries of a log have the same sum whether it is sealed or not, and nothing between the
// ends of a sealed file is read for them. TestSummariesOfEmptyLog: a log that died while its first
// frame was written may have a segment and no frame. It has a summary of nothing, and no fault.
func TestSummariesOfEmptyLog(t *testing.T) {
	t.Parallel()
	empty := 0
	for k, more := 1, true; more; k++ {
		w := newWorld(t, t.Name(), 8)
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		w.fs.CrashAt(k)
		more = w.lead() != nil
		w.crash(faultfs.PowerLoss)
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		files, frames := 0, uint64(0)
		for s, err := range w.part.Summaries(t.Context()) {
			if err != nil {
				t.Fatalf("died at call %d: %v", k, err)
			}
			files, frames = files+1, frames+s.Frames
		}
		if files > 0 && frames == 0 {
			empty++
		}
	}
	if empty == 0 {
		t.Error("no log had a segment without frames")
	}
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Name(), 8)
	if err := w.life(); err != nil {
		t.Fatal(err)
	}
	before, files := total(t, w.part)
	if before.Events == 0 || before.BodyBytes == 0 || len(before.Kinds) == 0 || len(before.Slices) == 0 {
		t.Fatalf("nothing is known of %d files: %+v", files, before)
	}
	w.opts.SealAfter = -1
	if err := errors.Join(w.stop(), w.open(), w.lead()); err != nil {
		t.Fatal(err)
	}
	reopened, _ := total(t, w.part)
	if err := w.seal(); err != nil {
		t.Fatal(err)
	}
	if after, _ := total(t, w.part); after.Frames != reopened.Frames || after.Events != reopened.Events || after.BodyBytes != reopened.BodyBytes ||
		!slices.Equal(after.Kinds, reopened.Kinds) || !slices.EqualFunc(after.Slices, reopened.Slices, func(a, b sealed.SliceCount) bool {
		return a.Slice == b.Slice && a.Events == b.Events && a.Bytes == b.Bytes && a.Bodies == b.Bodies && a.BodyBytes == b.BodyBytes
	}) {
		t.Errorf("sealed:\n%+v\nbefore:\n%+v", after, reopened)
	}
	var name string
	for s, err := range w.part.Summaries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Sealed {
			name = simDir + "/" + s.File
			break
		}
	}
	if err := w.fs.Flip(name, sealed.HeaderSize+10, 1); err != nil { // the first block
		t.Fatal(err)
	}
	total(t, w.part)
	file, err := w.fs.ReadFile(name)
	if err == nil {
		err = w.fs.Flip(name, int64(len(file)-10), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range w.part.Summaries(t.Context()) {
		var c *log.CorruptError
		if !errors.As(err, &c) || simDir+"/"+c.File != name {
			t.Errorf("of a footer that is damaged: %v", err)
		}
		return
	}
}
