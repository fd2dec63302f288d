package tools_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
)

// directory returns a stopped data directory with two partitions that contain hostile text.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 2})
	for _, id := range d.Partitions() {
		_, w := d.Lead(id)
		d.Append(w, 1000, &event.OriginDefined{ID: 7, Origin: event.Origin{
			Connection: 1, RemoteAddress: "10.0.0.1:99", ContainerID: "evil\x1b[2J\u202e", Principal: "RootManage",
		}})
		d.Append(w, 2000, &event.MessageEnqueued{
			Envelope: event.Envelope{Slice: event.Slice{Entity: 4}, Origin: 7}, Sequence: 1, MessageID: []byte("m\xff\x9b1\n"),
			EnqueuedAt: 2000, TimeToLive: event.Forever, Body: event.Blob{Data: []byte("secret \x1b]0;x\x07 body")},
		}, &event.MessageExpired{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: 1})
	}
	d.Close()
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			files[path] = ""
			return err
		}
		p, err := os.ReadFile(path)
		files[path] = string(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDump(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	before := contents(t, dir)
	var text, bodies, lines bytes.Buffer
	for out, opts := range map[*bytes.Buffer]tools.DumpOptions{
		&text: {Partition: -1}, &bodies: {Bodies: true}, &lines: {Partition: 1, JSON: true, Bodies: true},
	} {
		if err := tools.Dump(out, dir, opts); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if r != '\n' && (r < 0x20 || r > 0x7e) {
				t.Errorf("%q in the output", r)
			}
		}
	}
	if strings.Contains(text.String(), "secret") || !strings.Contains(bodies.String(), "secret") {
		t.Error("bodies")
	}
	want := `0 152 1970-01-01T00:00:02.000Z 4/0 MessageEnqueued  Sequence=1`
	if got := strings.Split(text.String(), "\n"); len(got) != 7 || !strings.Contains(got[1], "MessageEnqueued  Sequence=1 ") ||
		!strings.Contains(got[1], "RootManage 10.0.0.1:99") {
		t.Errorf("%s\nwant like %s", text.String(), want)
	}
	n := 0
	for sc := bufio.NewScanner(&lines); sc.Scan(); n++ {
		var v map[string]any
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err, sc.Text())
		}
		if n == 1 && (v["Body"] != "secret \x1b]0;x\x07 body" || v["TimeToLive"] != "forever" || v["Event"] != "MessageEnqueued" || v["LSN"] == nil) {
			t.Errorf("%v; want MessageEnqueued with an LSN, a TimeToLive of forever, and the body as it was sent", v)
		}
	}
	if n != 3 {
		t.Errorf("%d lines", n)
	}
	if err := tools.Dump(&text, dir, tools.DumpOptions{Partition: 9}); err == nil {
		t.Error("partition 9")
	}
	for name, p := range contents(t, dir) {
		if q, ok := before[name]; !ok || p != q {
			t.Errorf("%s was changed", name)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	var out bytes.Buffer
	r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
	if err != nil || len(r.Damaged) != 0 || r.Records != 4 {
		t.Fatalf("%+v %+v %+v; want len(r.Damaged) == 0 && r.Records == 4", err, r, out.String())
	}
	for _, part := range []string{"00", "01"} { // both are reported
		flip(t, dir, filepath.Join("partitions", part, "wal", "0000000001", "00000000000000000001"), 250)
	}
	out.Reset()
	r, err = tools.Verify(&out, dir, tools.VerifyOptions{})
	if err != nil || len(r.Damaged) != 2 || r.Damaged[1].Partition != 1 || strings.Count(out.String(), "DAMAGED") != 2 {
		t.Fatalf(`%+v %+v %+v; want len(r.Damaged) == 2 && r.Damaged[1].Partition == 1 && strings.Count(out.String(), "DAMAGED") == 2`, err, r, out.String())
	}
	if err := tools.Dump(&out, dir, tools.DumpOptions{Partition: -1}); err == nil {
		t.Fatal("dump of a damaged directory says nothing")
	}
}

// F6 and 3.4 step 7: a checkpoint with correct checksums and a wrong state would mislead the next
// start.
func TestVerifyComparesStates(t *testing.T) {
	t.Parallel()
	for _, honest := range []bool{true, false} {
		dir := t.TempDir()
		d := logdir.Open(t, dir, log.Options{Partitions: 1})
		p, w := d.Lead(0)
		x := index.New()
		sent := &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: 1, EnqueuedAt: 2000,
			Body: event.Blob{Data: []byte("body")}}
		end := d.Append(w, 2000, sent)
		if honest {
			x.Apply(2000, sent)
		}
		d.Save(p, end, x.Encode(nil))
		d.Close()
		r, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{})
		if err != nil || (len(r.Damaged) == 0) != honest {
			t.Errorf("honest %t: %v, %v", honest, err, r.Damaged)
		}
	}
}

// A checkpoint of a clean stop is before the first frame of the next run, which has no events. Its
// state is compared like any other.
func TestVerifyComparesStatesBetweenRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var end event.LSN
	for run := range event.SequenceNumber(2) {
		d := logdir.Open(t, dir, log.Options{Partitions: 1})
		p, w := d.Lead(0)
		env := event.Envelope{Slice: event.Slice{Entity: 4}}
		next := d.Append(w, 2000, &event.MessageEnqueued{Envelope: env, Sequence: run + 1, EnqueuedAt: 2000})
		if run == 0 {
			end = next
			d.Save(p, end, index.New().Encode(nil))
		}
		d.Close()
	}
	r, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{})
	if err != nil || len(r.Damaged) != 1 || r.Damaged[0].LSN != end {
		t.Errorf("%v, damaged: %v", err, r.Damaged)
	}
}

// unknownEvent is an event of a kind that this program does not know.
type unknownEvent struct{ *event.MessageExpired }

func (unknownEvent) Kind() event.Kind { return 200 }

// Intact frames contain records that no start accepts. Both tools name partition, frame and record,
// as the start does. A record that does not fit the state is damage, but dump, which has no state,
// prints it. A record of a newer program is an error of both.
func TestRecordsThatNoStartTakes(t *testing.T) {
	t.Parallel()
	env := event.Envelope{Slice: event.Slice{Entity: 4}}
	sent := &event.MessageEnqueued{Envelope: env, Sequence: 1, EnqueuedAt: 2000}
	made := func(bad event.Event) (dir string, at log.CorruptError) {
		dir = t.TempDir()
		d := logdir.Open(t, dir, log.Options{Partitions: 2})
		_, w := d.Lead(1)
		w.Batch().AppendRecord(2000, []event.Event{sent}, log.Durable)
		d.Append(w, 2000, sent, bad)
		d.Close()
		return dir, frames(t, dir, 1)[0]
	}

	dir, at := made(sent)
	_, got := verify(t, dir, tools.VerifyOptions{})
	want := []string{
		"ok partition 0 LSN 8 to 8 epoch 0: 0 frames, 0 records, 0 bytes, newest -",
		fmt.Sprintf(`DAMAGED partition 1 file "%s" byte %d LSN %d: "record 2: index: message 1 stored in slice 4/0 after 1"`, at.File, at.Offset, at.LSN),
		"unsound partition 1: 1 damaged places, though all 2 frames are good",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var out bytes.Buffer
	if err := tools.Dump(&out, dir, tools.DumpOptions{Partition: -1}); err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%v\n%s; want strings.Count(out.String(), \"\\n\") == 3", err, out.String())
	}

	dir, at = made(unknownEvent{&event.MessageExpired{Envelope: env, Sequence: 1}})
	text := fmt.Sprintf("tools: partition 1: frame %d: record 2: event: unknown event: kind 200 version 1", at.LSN)
	if _, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{}); !errors.Is(err, event.ErrUnknown) || err.Error() != text {
		t.Errorf("verify: %v, want %s", err, text)
	}
	out.Reset()
	err := tools.Dump(&out, dir, tools.DumpOptions{Partition: -1})
	if !errors.Is(err, event.ErrUnknown) || err.Error() != text || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("dump: %v, want %s\n%s", err, text, out.String())
	}
}

// A checkpoint in another encoding is unusable but not damage: the replay starts earlier.
func TestVerifyOtherEncoding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	p, w := d.Lead(0)
	x := index.New()
	for i := range event.SequenceNumber(2) {
		sent := &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: i + 1, EnqueuedAt: 2000,
			Body: event.Blob{Data: []byte("body")}}
		end := d.Append(w, 2000, sent)
		x.Apply(2000, sent)
		state := x.Encode(nil)
		if i == 0 {
			state[0] = index.EncodingVersion - 1
		}
		d.Save(p, end, state)
	}
	d.Close()
	var out bytes.Buffer
	r, err := tools.Verify(&out, dir, tools.VerifyOptions{})
	if err != nil || len(r.Damaged) > 0 || len(r.Discarded) != 1 || !strings.Contains(out.String(), "unused file") ||
		!strings.Contains(out.String(), fmt.Sprintf("encoding version %d", index.EncodingVersion-1)) {
		t.Errorf("%v, %+v\n%s", err, r, out.String())
	}
}

// TestCopy: a copy of a directory in use is not in use.
func TestCopy(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	s, err := log.Open(context.Background(), dir, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := tools.Dump(&out, copied, tools.DumpOptions{Partition: 64}); !errors.Is(err, tools.ErrNoPartition) || out.Len() > 0 {
		t.Fatalf("%+v %+v; want errors.Is(err, tools.ErrNoPartition) && out.Len() <= 0", err, out.String())
	}
	if r, err := tools.Verify(&out, copied, tools.VerifyOptions{}); err != nil || len(r.Damaged) > 0 {
		t.Fatalf("%+v; want len(r.Damaged) <= 0", err)
	}
}

// FuzzVerify reads a segment with arbitrary contents: no panic, nothing written, no control
// characters in the output.
func FuzzVerify(f *testing.F) {
	f.Add([]byte("LBFR"), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		dir := directory(t)
		name := filepath.Join(dir, "partitions", "00", "wal", "0000000001", "00000000000000000001")
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(p[:min(int(at), len(p))], data...), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := tools.Verify(&out, dir, tools.VerifyOptions{}); err != nil && !errors.Is(err, log.ErrFormat) {
			t.Fatalf("%v; want no error or log.ErrFormat", err)
		}
		tools.Dump(&out, dir, tools.DumpOptions{Bodies: true})
		for _, r := range out.String() {
			if r != '\n' && (r < 0x20 || r > 0x7e) {
				t.Fatalf("%q in the output", r)
			}
		}
	})
}

// With bodies, property changes are printed in their form; changes of format 1 and damaged ones are
// printed as text.
func TestDumpChanges(t *testing.T) {
	t.Parallel()
	set := event.Changes{{Name: "color", Value: event.Value{Type: event.String, Text: "blau\x1b"}}, {Name: "n", Value: event.Value{Type: event.Encoded, Text: "\x54\xff"}}}
	rule := event.RuleChanges{Removed: []string{"x"}, Set: set[:1], System: event.Changes{{Name: "To"}, {Name: "TimeToLive", Value: event.Value{Type: event.Span, Bits: 10_000_000}}}}
	dir := t.TempDir()
	d := logdir.Open(t, dir, log.Options{Partitions: 1})
	_, w := d.Lead(0)
	for i, b := range [][]byte{set.Append(nil), rule.Append(nil), event.Changes(nil).Append(nil), []byte("\xc1\x06\x02\xa1\x01a\xa1\x00"), []byte("\x01\x00\x09")} {
		d.Append(w, 1000, &event.MessageAbandoned{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, Sequence: event.SequenceNumber(i + 1), Changes: event.Blob{Data: b}})
	}
	d.Close()
	for _, c := range []struct {
		opts tools.DumpOptions
		want []string
	}{
		{tools.DumpOptions{Bodies: true}, []string{
			`Changes.Set=[{Name="color" Type="string" Value="blau\x1b"} {Name="n" Type="encoded" Value="T\\xff"}]`,
			`Changes.Removed=["x"] Changes.Set=[{Name="color" Type="string" Value="blau\x1b"}] Changes.System=[{Name="To" Type="null" Value="null"} {Name="TimeToLive" Type="span" Value="0.00:00:01"}]`,
			``, `Changes="\\xc1\x06\x02\\xa1\x01a\\xa1\x00"`, `Changes="\x01\x00\t"`}},
		{tools.DumpOptions{Bodies: true, JSON: true}, []string{
			`,"Changes":{"Set":[{"Name":"color","Type":"string","Value":"blau\u001b"},{"Name":"n","Type":"encoded","Value":"T\\xff"}]}}`,
			`,"Changes":{"Removed":["x"],"Set":[{"Name":"color","Type":"string","Value":"blau\u001b"}],"System":[{"Name":"To","Type":"null","Value":"null"},{"Name":"TimeToLive","Type":"span","Value":"0.00:00:01"}]}}`,
			`,"Changes":{}}`, `,"Changes":"\\xc1\u0006\u0002\\xa1\u0001a\\xa1\u0000"}`, `,"Changes":"\u0001\u0000\t"}`}},
	} {
		var out bytes.Buffer
		if err := tools.Dump(&out, dir, c.opts); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(c.want) {
			t.Fatalf("%d lines: %s", len(lines), out.String())
		}
		for i, line := range lines {
			if !strings.HasSuffix(line, c.want[i]) {
				t.Errorf("got  %s\nwant %s", line, c.want[i])
			}
		}
	}
}
