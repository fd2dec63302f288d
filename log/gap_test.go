package log_test

import (
	"errors"
	"io"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// A body that history no longer keeps is erased, also if it was after a file that is kept for its
// bodies.
func TestBodyInAGap(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	var sent [2]event.MessageEnqueued
	for run := 0; ; run++ {
		d := logdir.Open(t, "/data", log.Options{FS: disk, Partitions: 1})
		p, w := d.Lead(0)
		if run < len(sent) { // each run begins a chapter
			m := &sent[run]
			m.Sequence, m.Body.Data = event.SequenceNumber(run+1), make([]byte, 3000)
			d.Append(w, 1, m, &event.MessageEnqueued{Sequence: 9, Body: event.Blob{Data: make([]byte, 12_000)}})
			d.Close()
			continue
		}
		list := p.Segments()
		kept := log.KeptBody{Position: sent[0].Body.Position, Size: sent[0].Body.Size, Sum: sent[0].Body.Sum, Number: 1}
		bases := p.(log.Bases)
		err := bases.SaveBase(t.Context(), log.BaseInfo{LSN: list[len(list)-1].First, Encoding: 1}, func(w io.Writer) error { _, err := w.Write([]byte("base")); return err },
			func(io.Reader) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bases.DropFiles(t.Context(), func(first, _ event.LSN) (bool, []log.KeptBody) {
			if first == list[0].First {
				return false, []log.KeptBody{kept}
			}
			return false, nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, event.ErrErased} {
			sent[i].Body.Data = nil
			if _, err := p.ReadBlob(sent[i].Body, nil); !errors.Is(err, want) {
				t.Errorf("body %d: %v, want %v", i, err, want)
			}
		}
		d.Close()
		return
	}
}
