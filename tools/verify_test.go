package tools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// long creates a log of two partitions with n messages in each, all alike and settled, in files of
// about eight frames.
func long(t testing.TB, n, size int) string {
	t.Helper()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 2, SegmentBytes: 8 * (size + 176), ChapterBytes: 20 * (size + 176), BootID: "boot-1", Manual: true})
	body := bytes.Repeat([]byte("x"), size)
	env := event.Envelope{Slice: event.Slice{Entity: 4}}
	for _, id := range d.Partitions() {
		_, w := d.Lead(id)
		for i := range n {
			b, number := w.Batch(), event.SequenceNumber(i+1)
			b.AppendRecord(2000, []event.Event{&event.MessageEnqueued{Envelope: env, Sequence: number, EnqueuedAt: 2000, Body: event.Blob{Data: body}},
				&event.MessageReceivedAndDeleted{Envelope: env, Sequence: number}}, log.Durable)
			w.Append(b)
			for w.(log.ManualWriter).Work() {
			}
		}
	}
	d.Close()
	return dir
}

// frames returns the places of the frames with records in the log of a partition.
func frames(t testing.TB, dir string, id log.PartitionID) (list []log.CorruptError) {
	t.Helper()
	s, err := log.Open(t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range p.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, seg := range p.Segments() {
			if f.Kind == log.Events && seg.First <= f.LSN && f.LSN < seg.End {
				list = append(list, log.CorruptError{Partition: id, File: seg.File, Offset: int64(f.LSN - seg.First), LSN: f.LSN})
			}
		}
	}
	return list
}

func flip(t testing.TB, dir, name string, at int64) {
	t.Helper()
	name = filepath.Join(dir, name)
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p[at] ^= 4
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, dir string, opts tools.VerifyOptions) (tools.Report, []string) {
	t.Helper()
	var out bytes.Buffer
	r, err := tools.Verify(&out, dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r, strings.Split(strings.TrimSpace(out.String()), "\n")
}

// One line per damaged place, with partition, file, byte, LSN and reason: in the same file, in
// later files and chapters, in other partitions.
func TestVerifyNamesEveryPlace(t *testing.T) {
	t.Parallel()
	dir := long(t, 50, 300)
	all := [][]log.CorruptError{frames(t, dir, 0), frames(t, dir, 1)}
	var want []string
	damage := func(c log.CorruptError, at int64, reason string) {
		flip(t, dir, c.File, c.Offset+at)
		want = append(want, fmt.Sprintf(`DAMAGED partition %d file "%s" byte %d LSN %d: "%s"`, c.Partition, c.File, c.Offset, c.LSN, reason))
	}
	const bodies, records, header = 100, 96 + 300 + 3, 20
	files := map[string]bool{}
	for _, i := range []int{2, 4, 20, 30} {
		c := all[0][i]
		files[c.File] = true
		damage(c, bodies, "checksum of the bodies does not match; segments follow, so it was durable")
	}
	damage(all[0][49], header, "no intact frame header; the last stop was clean")
	want = append(want, "refused partition 0: 5 damaged places, 46 good frames, 45 records, 19544 bytes")
	if len(files) < 3 {
		t.Fatalf("the damage is in %d files only", len(files))
	}
	damage(all[1][3], records, "checksum of the records does not match; segments follow, so it was durable")
	damage(all[1][40], 0, "entry prefix is wrong; segments follow, so it was durable")
	want = append(want, "refused partition 1: 2 damaged places, 49 good frames, 48 records, 20840 bytes")

	r, got := verify(t, dir, tools.VerifyOptions{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Places != 7 || len(r.Damaged) != 7 || r.All || len(r.Refused) != 2 {
		t.Errorf("%+v; want r.Places == 7 && len(r.Damaged) == 7 && !r.All && len(r.Refused) == 2", r)
	}

	_, lines := verify(t, dir, tools.VerifyOptions{JSON: true})
	var places []log.CorruptError
	for _, line := range lines {
		var v struct {
			Found     string
			Partition *uint16
			File      string
			Byte      int64
			LSN       event.LSN
			Reason    string
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err, line)
		}
		if v.Found == "damage" {
			places = append(places, log.CorruptError{Partition: log.PartitionID(*v.Partition), File: v.File, Offset: v.Byte, LSN: v.LSN, Reason: v.Reason})
		}
	}
	for i, c := range r.Damaged {
		if i >= len(places) || places[i] != *c {
			t.Errorf("in JSON %v, want %v", places, *c)
		}
	}
}

// Tests the lines for a directory without damage, and for one with a damaged clean marker, which
// concerns all partitions.
func TestVerifyLines(t *testing.T) {
	t.Parallel()
	dir := long(t, 3, 100)
	_, good := verify(t, dir, tools.VerifyOptions{})
	want := []string{
		"ok partition 0 LSN 8 to 808 epoch 1: 4 frames, 3 records, 800 bytes, newest 1970-01-01T00:00:02.000Z",
		"ok partition 1 LSN 8 to 808 epoch 1: 4 frames, 3 records, 800 bytes, newest 1970-01-01T00:00:02.000Z",
	}
	if diff := cmp.Diff(want, good); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c := frames(t, dir, 1)[0]
	flip(t, dir, "clean", 40)
	flip(t, dir, c.File, c.Offset+90)
	r, got := verify(t, dir, tools.VerifyOptions{})
	if !r.All || r.Places != 2 || len(got) != 4 || got[0] != `DAMAGED partition all file "clean" byte 0 LSN 0: "the ends of the logs are unknown: damaged: checksum"` ||
		!strings.HasPrefix(got[1], fmt.Sprintf(`DAMAGED partition 1 file "%s" byte %d LSN %d: "`, c.File, c.Offset, c.LSN)) && !strings.HasPrefix(got[1], "refused partition 0: 0 damaged places") {
		t.Errorf("%+v\n%s", r, strings.Join(got, "\n"))
	}
	_, lines := verify(t, dir, tools.VerifyOptions{JSON: true})
	if !strings.HasPrefix(lines[0], `{"Found":"damage","Partition":null,"File":"clean","Byte":0,"LSN":0,"Reason":"the ends `) {
		t.Errorf("%+v; want strings.HasPrefix(lines[0], `{\"Found\":\"damage\",\"Partition\":null,\"File\":\"clean\",\"Byte\":0,\"LSN\":0,\"Reason\":\"the ends `)", lines[0])
	}
	if err := os.Remove(filepath.Join(dir, "namespace.json")); err != nil {
		t.Fatal(err)
	}
	r, got = verify(t, dir, tools.VerifyOptions{})
	if !r.All || r.Places != 2 || len(r.Refused) != 2 || got[0] != `DAMAGED partition all file "namespace.json" byte 0 LSN 0: "damaged: missing, but the clean marker exists"` {
		t.Errorf("without namespace.json: %+v\n%s", r, strings.Join(got, "\n"))
	}
}

// Unusable checkpoints and notes of a damaged partition are listed too.
func TestVerifyUnusedOfDamaged(t *testing.T) {
	t.Parallel()
	records := [][]event.Event{}
	for i := range 5 {
		records = append(records, []event.Event{&event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}},
			Sequence: event.SequenceNumber(i + 1), EnqueuedAt: 2000, Body: event.Blob{Data: []byte("body")}}})
	}
	dir := write(t, records, true)
	all := frames(t, dir, 0)
	flip(t, dir, all[1].File, all[1].Offset+30)
	saved, err := filepath.Glob(filepath.Join(dir, "partitions", "00", "checkpoints", "*.ckpt"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("%+v %+v; want len(saved) == 1", saved, err)
	}
	if r, got := verify(t, dir, tools.VerifyOptions{}); len(r.Discarded) != 0 {
		t.Errorf("%+v\n%s; want len(r.Discarded) == 0", r, strings.Join(got, "\n"))
	}
	for _, at := range []int64{2, 60} { // its header, its state
		name, err := filepath.Rel(dir, saved[0])
		if err != nil {
			t.Fatal(err)
		}
		flip(t, dir, name, at)
		r, got := verify(t, dir, tools.VerifyOptions{})
		if r.Places != 1 || len(r.Discarded) != 1 || len(got) != 3 || !strings.HasPrefix(got[2], `unused file "`+name+`": "`) {
			t.Errorf("%+v\n%s; want r.Places == 1 && len(r.Discarded) == 1 && len(got) == 3 && strings.HasPrefix(got[2], `unused file \"`+name+`\": \"`)", r, strings.Join(got, "\n"))
		}
		flip(t, dir, name, at)
	}
}

// The result of kill -9, including reserved space, is not damage and has no tail. Here it is a copy
// made while nothing was being written.
func TestVerifyAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1, Manual: true}) // nothing happens by itself
	_, w := d.Lead(0)
	for i := range 20 {
		b := w.Batch()
		b.AppendRecord(2000, []event.Event{&event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: event.SequenceNumber(i + 1),
			EnqueuedAt: 2000, Body: event.Blob{Data: []byte("body")}}}, log.Durable)
		w.Append(b)
		for w.(log.ManualWriter).Work() {
		}
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	d.Close()
	room := false
	for _, content := range contents(t, copied) {
		room = room || strings.HasSuffix(content, strings.Repeat("\xff", 1000))
	}
	if !room {
		t.Error("there is no room in the copy, so nothing was shown")
	}
	before := contents(t, copied)
	r, got := verify(t, copied, tools.VerifyOptions{})
	if r.Places != 0 || r.Tail != 0 || len(r.Discarded) != 0 || r.Records != 20 || len(got) != 1 || !strings.HasPrefix(got[0], "ok partition 0 LSN 8 to ") {
		t.Errorf("%+v\n%s; want r.Places == 0 && r.Tail == 0 && len(r.Discarded) == 0 && r.Records == 20 && len(got) == 1 && strings.HasPrefix(got[0], \"ok partition 0 LSN 8 to \")", r, strings.Join(got, "\n"))
	}
	var out bytes.Buffer
	if err := tools.Dump(&out, copied, tools.DumpOptions{Partition: -1}); err != nil || strings.Count(out.String(), "\n") != 20 {
		t.Errorf("%v\n%s; want strings.Count(out.String(), \"\\n\") == 20", err, out.String())
	}
	if diff := cmp.Diff(before, contents(t, copied)); diff != "" {
		t.Error("the copy was changed")
	}
}

// allocated returns the number of bytes that f allocates in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// S33: dump and verify hold a window of the log, regardless of its length, also for a damaged log.
// Not parallel: it counts the process's allocations.
func TestBoundedMemory(t *testing.T) {
	dir := long(t, 200, 160<<10) // 64 MB
	const bound = 24 << 20
	check := func(what string, f func()) {
		t.Helper()
		f() // fills the pools
		if n := allocated(f); n > bound {
			t.Errorf("%s asked for %d bytes", what, n)
		} else {
			t.Logf("%s asked for %d bytes", what, n)
		}
	}
	check("dump", func() {
		if err := tools.Dump(io.Discard, dir, tools.DumpOptions{Partition: -1}); err != nil {
			t.Error(err)
		}
	})
	check("verify", func() { verify(t, dir, tools.VerifyOptions{}) })
	broken := [][]log.CorruptError{frames(t, dir, 0), frames(t, dir, 1)}
	places := uint64(0)
	for _, all := range broken {
		for i := 3; i < len(all); i += 7 {
			flip(t, dir, all[i].File, all[i].Offset+5000)
			places++
		}
	}
	check("verify of a damaged log", func() {
		if r, _ := verify(t, dir, tools.VerifyOptions{}); r.Places != places {
			t.Errorf("%d places, want %d", r.Places, places)
		}
	})
}

// After a ClockSet time starts again at an earlier value. Such a log is valid, its newest record is
// the last one, and a state after the ClockSet matches its replay.
func TestVerifyClockSetBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := index.New()
	env := event.Envelope{Slice: event.Slice{Entity: 4}}
	for run, records := range [][]event.Event{
		{&event.MessageEnqueued{Envelope: env, Sequence: 1, EnqueuedAt: 2_000_000_000_000, ExpiresAt: 2_000_000_060_000}},
		{&event.ClockSet{Number: 1, Basis: event.BasisWall, From: 2_000_000_000_000, To: 1_900_000_000_000, Wall: 1_900_000_000_000},
			&event.MessageEnqueued{Envelope: env, Sequence: 2, EnqueuedAt: 1_900_000_000_000}},
	} {
		d := logdir.Open(t, dir, log.Options{Partitions: 1})
		p, w := d.Lead(0)
		at := []event.Time{2_000_000_000_000, 1_900_000_000_000}[run]
		last := len(records) - 1
		for _, ev := range records[:last] {
			w.Batch().AppendRecord(at, []event.Event{ev}, log.Durable)
		}
		end := d.Append(w, at, records[last])
		for _, ev := range records {
			x.Apply(at, ev)
		}
		d.Save(p, end, x.Encode(nil))
		d.Close()
	}
	var out bytes.Buffer
	r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
	if err != nil || len(r.Damaged) != 0 || len(r.Discarded) != 0 || !strings.Contains(out.String(), "newest 2030-03-17T17:46:40.000Z") {
		t.Errorf("%v, %+v\n%s; want len(r.Damaged) == 0 && len(r.Discarded) == 0 && strings.Contains(out.String(), \"newest 2030-03-17T17:46:40.000Z\")", err, r, out.String())
	}
	out.Reset()
	if err := tools.Dump(&out, dir, tools.DumpOptions{Partition: -1}); err != nil || !strings.Contains(out.String(), "2030-03-17T17:46:40.000Z 0/0 ClockSet  Number=1 Basis=\"wall\" From=\"2033-") {
		t.Errorf("%v\n%s; want strings.Contains(out.String(), \"2030-03-17T17:46:40.000Z 0/0 ClockSet  Number=1 Basis=\\\"wall\\\" From=\\\"2033-\")", err, out.String())
	}
}
