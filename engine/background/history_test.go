package background

import (
	"context"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
)

// summaryLog is a log of sealed files and a newest unsealed one. It counts how often they are read.
type summaryLog struct {
	log.Partition
	names []string
	reads int
}

func (p *summaryLog) Segments() (list []log.SegmentInfo) {
	for _, name := range p.names {
		list = append(list, log.SegmentInfo{File: name})
	}
	return append(list, log.SegmentInfo{File: "newest"})
}

func (p *summaryLog) Summaries(context.Context) iter.Seq2[log.Summary, error] {
	return func(yield func(log.Summary, error) bool) {
		p.reads++
		for _, s := range p.Segments() {
			if !yield(log.Summary{SegmentInfo: s, Sealed: s.File != "newest"}, nil) {
				return
			}
		}
	}
}

// Sealed files are read once, until there is another one; removed ones are forgotten.
func TestSealedFilesAreKnown(t *testing.T) {
	t.Parallel()
	k, p := NewRetention(nil), &summaryLog{names: []string{"a.lbs", "b.lbs"}}
	look := func(reads int) {
		t.Helper()
		for range 2 {
			files, err := k.sealedFiles(t.Context(), 0, p)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range files {
				names = append(names, f.name)
			}
			k.forgetRemoved(files)
			if known := slices.Sorted(maps.Keys(k.files)); !slices.Equal(names, p.names) || !slices.Equal(known, p.names) || p.reads != reads {
				t.Fatalf("%v of %v, %v are known after %d reads, want %d", names, p.names, known, p.reads, reads)
			}
		}
	}
	look(1)
	p.names = append(p.names, "c.lbs")
	look(2)
	p.names = p.names[1:]
	look(2)
}
