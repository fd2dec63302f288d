package host

import (
	"context"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A chapter of the log can be read alone: the origins of its events are defined in it, ahead of
// those events, whether it begins with a start or in the middle of a run. An origin keeps its
// number for the run.
func TestChaptersDefineTheirOrigins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lives, sends = 2, 60
	for life := range lives {
		store, err := log.Open(context.Background(), dir, log.Options{Partitions: 1, SegmentBytes: 1 << 10, ChapterBytes: 2 << 10})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(context.Background(), store, Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := &broker{n, store}
		q := b.queue(t, "orders", testQueue())
		in := newInbox()
		links := []*engine.Origin{{Link: fmt.Sprint("one of ", life)}, {Link: fmt.Sprint("another of ", life)}}
		r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Origin: &engine.Origin{Link: fmt.Sprint("receiver of ", life)}}
		b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: sends / 2}}})
		for i := range sends { // one after the other: many frames
			b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Origin: links[i%len(links)],
				Messages: []engine.Message{{ID: []byte("m"), Body: []byte("body")}}}}})
			for reply := in.wait(1)[0]; reply.Kind == engine.ReplyDelivery; reply = in.wait(1)[0] {
			}
		}
		b.close(t)
	}
	store, err := log.Open(context.Background(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, err := store.Open(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	chapters, again := 0, 0
	numbers := map[string]event.OriginID{} // by link
	for _, events := range byChapter(t, p) {
		chapters++
		defined := map[event.OriginID]bool{}
		for _, ev := range events {
			if def, ok := ev.(*event.OriginDefined); ok {
				defined[def.ID] = true
				if before, is := numbers[def.Origin.Link]; is && before != def.ID {
					t.Errorf("%q was %d and is %d", def.Origin.Link, before, def.ID)
				} else if is {
					again++
				}
				numbers[def.Origin.Link] = def.ID
				continue
			}
			if by := ev.Common().Origin; by != 0 && !defined[by] {
				t.Errorf("chapter %d: %v names origin %d, which the chapter does not define", chapters, ev.Kind(), by)
			}
		}
	}
	if chapters < 4*lives || again < lives {
		t.Errorf("%d chapters, %d origins defined again: not what was to be shown", chapters, again)
	}
}

// byChapter reads a log chapter by chapter.
func byChapter(t *testing.T, p log.Partition) (chapters [][]event.Event) {
	t.Helper()
	segments := p.Segments()
	last := uint32(0)
	for f, err := range p.Read(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for f.LSN >= segments[0].End {
			segments = segments[1:]
		}
		if segments[0].Chapter != last {
			last = segments[0].Chapter
			chapters = append(chapters, nil)
		}
		if f.Kind != log.Events {
			continue
		}
		for rest := f.Records; len(rest) > 0; {
			var dec event.Decoder // it reuses the events that it returns
			var rec event.Record
			if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
				t.Fatal(err)
			}
			chapters[len(chapters)-1] = append(chapters[len(chapters)-1], rec.Events...)
		}
	}
	return chapters
}
