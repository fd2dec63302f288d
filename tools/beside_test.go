package tools_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// TestBeside: the output for a directory in use by a broker equals, byte by byte, the output for a
// directory that was stopped at its last durable point, and the notes report that point.
func TestBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 3000, ChapterBytes: 8000, Manual: true})
	defer d.Close()
	p, w := d.Lead(0)
	manual := w.(log.ManualWriter)
	next := event.SequenceNumber(0)
	send := func(n int) {
		for range n {
			next++
			w.Batch().AppendRecord(1000, []event.Event{&event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: next,
				EnqueuedAt: 1000, Body: event.Blob{Data: bytes.Repeat([]byte("body"), 100)}}}, log.Durable)
			w.Append(w.Batch())
		}
		for manual.Work() {
		}
	}
	d.Save(p, 8, []byte("of another version"))
	send(26)
	manual.Tick()
	stopped := t.TempDir()
	if err := os.CopyFS(stopped, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	send(3) // in the chapter that is open: what is before the next would be durable
	same := func() {
		t.Helper()
		for _, bodies := range []bool{false, true} {
			var want, got, notes bytes.Buffer
			if err := tools.Dump(&want, stopped, tools.DumpOptions{Bodies: bodies}); err != nil {
				t.Fatal(err)
			}
			if err := tools.Dump(&got, dir, tools.DumpOptions{Bodies: bodies, Beside: tools.Beside{Notes: &notes}}); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() || strings.Count(got.String(), "\n") < 26 {
				t.Errorf("dump beside the broker, -of the stopped directory +beside:\n%s", cmp.Diff(want.String(), got.String()))
			}
			if s := notes.String(); !strings.HasPrefix(s, "partition 0: read up to durable LSN ") {
				t.Errorf("it says %q", s)
			}
		}
		var want, got bytes.Buffer
		before, err := tools.Verify(&want, stopped, tools.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now, err := tools.Verify(&got, dir, tools.VerifyOptions{})
		if err != nil || got.String() != want.String() || now.Frames != before.Frames {
			t.Errorf("%v: verify beside the broker:\n%s\nof the stopped directory:\n%s", err, got.String(), want.String())
		}
	}
	same()
	var live bytes.Buffer // the copy is unused, and a broker may lock it while it is read
	if err := tools.Dump(&live, stopped, tools.DumpOptions{Beside: tools.Beside{Live: true, Notes: stopper{t, stopped}}}); err != nil || strings.Count(live.String(), "\n") < 26 {
		t.Errorf("%v\n%.1000s; want strings.Count(live.String(), \"\\n\") >= 26", err, live.String())
	}
	if err := tools.Dump(&live, dir, tools.DumpOptions{Partition: 7}); !errors.Is(err, tools.ErrNoPartition) {
		t.Errorf("%+v; want errors.Is(err, tools.ErrNoPartition)", err)
	}
}

// stopper locks a directory, like a starting broker, when a note about it is written.
type stopper struct {
	t   *testing.T
	dir string
}

func (s stopper) Write(p []byte) (int, error) {
	store, err := log.Open(s.t.Context(), s.dir, log.Options{})
	if err == nil {
		err = store.Close()
	}
	return len(p), err
}

// Durable damage is reported as damage, with its place, also while a broker uses the directory.
func TestBesideDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1, SegmentBytes: 1000})
	_, w := d.Lead(0)
	for i := range event.SequenceNumber(12) {
		d.Append(w, 1000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: i + 1, Body: event.Blob{Data: make([]byte, 300)}})
	}
	d.Close()
	harm := func(file int) {
		name := dir + "/partitions/00/wal/0000000001/"
		entries, err := os.ReadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		name += entries[file].Name()
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p[len(p)-200] ^= 1
		if err := os.WriteFile(name, p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harm(1)
	harm(2)
	var want, got bytes.Buffer
	stopped, err := tools.Verify(&want, dir, tools.VerifyOptions{})
	if err != nil || stopped.Places != 2 {
		t.Fatalf("%+v %+v; want stopped.Places == 2", err, want.String())
	}
	beside, err := tools.Verify(&got, dir, tools.VerifyOptions{Beside: tools.Beside{Live: true}})
	if err != nil || beside.Places != 2 || got.String() != want.String() {
		t.Errorf("%v\n%s\nof the stopped directory:\n%s", err, got.String(), want.String())
	}
}
