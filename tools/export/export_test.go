package export

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

func discard(ledger.Line) error { return nil }

// export exports a directory and returns the path of the export.
func export(t testing.TB, dir string, o Options) (string, Summary) {
	t.Helper()
	s, err := log.Open(t.Context(), dir, log.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "out")
	}
	sum, err := Export(t.Context(), s, discard, o)
	if err != nil {
		t.Fatal(err)
	}
	return o.Dir, sum
}

// odd returns a directory with texts and sequences of events that are difficult for formats.
func odd(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "data")
	dir := logdir.Open(t, name, log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}, Origin: 1}
	dir.Append(w, 1000, &event.OriginDefined{ID: 1, Origin: event.Origin{ContainerID: "=cmd|'/c calc'!A1", Principal: "key"}})
	dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
	for i, id := range []string{"plain", "a,\"b\"\n", "\x1b[2J", "\xff\xfe", "é\u202e😀", "=1+1"} {
		n := event.SequenceNumber(i + 1)
		dir.Append(w, event.Time(2000+i), &event.MessageEnqueued{Envelope: own, Sequence: n, MessageID: []byte(id), EnqueuedAt: event.Time(2000 + i), Body: event.Blob{Data: []byte{0, 1, byte(i)}}})
	}
	lock := func(at event.Time, n event.SequenceNumber) event.LockToken {
		token := event.LockToken{byte(at), byte(n), 1}
		dir.Append(w, at, &event.MessageLocked{Envelope: own, Sequence: n, Token: token, LockedUntil: at + 30_000})
		return token
	}
	token := lock(3000, 1)
	dir.Append(w, 3001, &event.LockRenewed{Envelope: own, Sequence: 1, Token: token, LockedUntil: 40_000})
	dir.Append(w, 3002, &event.MessageCompleted{Envelope: own, Sequence: 1, Token: token})
	dir.Append(w, 3004, &event.LockExpired{Envelope: own, Sequence: 2, Token: lock(3003, 2), DeliveryCount: 1})
	lock(3005, 3) // is held
	dir.Append(w, 3006, &event.SessionAccepted{Envelope: own, SessionID: []byte("s\x00"), LockedUntil: 9000, Token: event.LockToken{9}})
	dir.Append(w, 3007, &event.MessagesBatchDeleted{Envelope: own, Before: 9000, Sequences: []event.SequenceNumber{4, 5}})
	return name
}

// The three forms have the same rows with the same values, and no text can control a terminal or a
// spreadsheet.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	data := odd(t)
	parquetDir, sum := export(t, data, Options{Format: Parquet, Bodies: true})
	jsonDir, _ := export(t, data, Options{Format: JSONLines, Bodies: true})
	csvDir, _ := export(t, data, Options{Format: CSV, Bodies: true})
	if want := map[string]int64{"events": 16, "messages": 6, "locks": 3, "sessions": 1, "origins": 1}; !cmp.Equal(sum.Rows, want) {
		t.Errorf("%v, want %v (-want +got):\n%s", sum.Rows, want, cmp.Diff(want, sum.Rows))
	}
	agree[eventRow](t, "events", parquetDir, jsonDir, csvDir)
	agree[messageRow](t, "messages", parquetDir, jsonDir, csvDir)
	agree[sessionRow](t, "sessions", parquetDir, jsonDir, csvDir)
	agree[originRow](t, "origins", parquetDir, jsonDir, csvDir)
	locks := agree[lockRow](t, "locks", parquetDir, jsonDir, csvDir)
	var got []string
	for _, l := range locks {
		got = append(got, fmt.Sprintf("%d %s %d %d", l.Number, l.Ended, l.Renewals, l.Until))
	}
	if want := []string{"1 completed 1 40000", "2 lost 0 33003", "3  0 33005"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, dir := range []string{jsonDir, csvDir} {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range files {
			p, err := os.ReadFile(f)
			if err != nil || len(files) != 6 {
				t.Fatalf("%+v %+v; want len(files) == 6", files, err)
			}
			for _, c := range p {
				if c != '\n' && (c < ' ' || c >= 0x7f) {
					t.Fatalf("%s has the byte %#x", f, c)
				}
			}
			if strings.Contains(string(p), ",=") || strings.Contains(string(p), ",\"=") {
				t.Errorf("%s has a formula", f)
			}
		}
	}
}

// agree reads a table in each of its forms.
func agree[T any](t *testing.T, name, parquetDir, jsonDir, csvDir string) []T {
	t.Helper()
	rows, err := parquet.ReadFile[T](filepath.Join(parquetDir, name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(dir, file string) []string {
		p, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	}
	objects := lines(jsonDir, name+".jsonl")
	records, err := csv.NewReader(strings.NewReader(strings.Join(lines(csvDir, name+".csv"), "\n"))).ReadAll()
	if err != nil || len(records) != len(rows)+1 || len(objects) != len(rows) && len(rows) > 0 {
		t.Fatalf("%s: %d rows, %d objects, %d records, %v", name, len(rows), len(objects), len(records), err)
	}
	for i := range rows {
		var object map[string]any
		if err := json.Unmarshal([]byte(objects[i]), &object); err != nil {
			t.Fatal(err, objects[i])
		}
		v := reflect.ValueOf(rows[i])
		for k := range v.NumField() {
			options := strings.Split(v.Type().Field(k).Tag.Get("parquet"), ",")
			null := slices.Contains(options, "optional") && v.Field(k).IsZero()
			value, there := object[options[0]]
			if there == null || null != (records[i+1][k] == "") {
				t.Errorf("%s row %d: %s is %v, %v and %q", name, i, options[0], v.Field(k), value, records[i+1][k])
			}
			if s, ok := v.Field(k).Interface().(string); ok && there && s != value {
				t.Errorf("%s row %d: %s is %q and %q", name, i, options[0], s, value)
			}
		}
	}
	return rows
}

// An export has every event of a larger log once, in order, sealed or not, and the rows of other
// tables that result from them.
func TestExportHasAll(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{false, true} {
		data := filepath.Join(t.TempDir(), "data")
		if err := history.Make(t.Context(), data, history.Options{Events: 30_000, Dead: 50, Lost: 100, Raw: raw}); err != nil {
			t.Fatal(err)
		}
		out, _ := export(t, data, Options{Format: Parquet})
		rows, err := parquet.ReadFile[eventRow](filepath.Join(out, "events.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := log.Open(t.Context(), data, log.Options{Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		i, locked := 0, 0
		for _, id := range s.Partitions() {
			p, err := s.Open(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for rec, err := range replay.Records(t.Context(), p, 0) {
				if err != nil {
					t.Fatal(err)
				}
				for k, ev := range rec.Events {
					if ev.Kind() == event.KindOriginDefined {
						continue
					}
					if ev.Kind() == event.KindMessageLocked {
						locked++
					}
					if i >= len(rows) || rows[i].LSN != int64(rec.LSN) || rows[i].Record != int32(rec.Number) || rows[i].Position != int32(k+1) || rows[i].Event != ev.Kind().String() || rows[i].At != int64(rec.At) {
						t.Fatalf("row %d of %d is not record %d of frame %d of partition %d", i, len(rows), rec.Number, rec.LSN, id)
					}
					i++
				}
			}
		}
		s.Close()
		locks, err := parquet.ReadFile[lockRow](filepath.Join(out, "locks.parquet"))
		if i != len(rows) || err != nil || len(locks) != locked {
			t.Errorf("%d events, %d rows; %d locks, %d rows, %v", i, len(rows), locked, len(locks), err)
		}
	}
}

// A second export into the same directory is refused, and the files of an interrupted export do not
// have final names.
func TestExportIsWholeOrNot(t *testing.T) {
	t.Parallel()
	data := odd(t)
	s, err := log.Open(t.Context(), data, log.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(t.Context(), s, discard, Options{Dir: full, Format: CSV}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into a directory that is not empty: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "out")
	stop := errors.New("stop")
	_, err = Export(t.Context(), failingSource{s, stop, 0}, discard, Options{Dir: broken, Format: Parquet})
	files, _ := filepath.Glob(filepath.Join(broken, "*"))
	if !errors.Is(err, stop) || len(files) != 5 {
		t.Fatalf("%+v %+v; want errors.Is(err, stop) && len(files) == 5", err, files)
	}
	for _, f := range files {
		if !strings.HasSuffix(f, partName) {
			t.Errorf("%s has the name of a table that is complete", f)
		}
	}
}

// failingSource is a source whose logs cannot be read a second time, except for the first frames.
type failingSource struct {
	ledger.Source
	err    error
	frames int
}

func (b failingSource) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := b.Source.Open(ctx, id)
	return &failingPartition{Partition: p, err: b.err, frames: b.frames}, err
}

// A log that cannot be read to its end is an error, and there is no export. With Partial the other
// logs are exported, and the summary says where the log is missing.
func TestPartialExport(t *testing.T) {
	t.Parallel()
	data := odd(t)
	s, err := log.Open(t.Context(), data, log.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, frames := range []int{0, 5} {
		damage := &log.CorruptError{Partition: 0, File: "wal", LSN: 99, Reason: "rotten"}
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := Export(t.Context(), failingSource{s, damage, frames}, discard, Options{Dir: dir, Format: JSONLines}); !errors.Is(err, damage) || !strings.Contains(err.Error(), "--partial") {
			t.Errorf("after %d frames: %v; want the damage, and --partial", frames, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "export.json")); err == nil {
			t.Error("there is an export.json")
		}
		dir = filepath.Join(t.TempDir(), "out")
		var notes []string
		tell := func(l ledger.Line) error { notes = append(notes, l.Text); return nil }
		sum, err := Export(t.Context(), failingSource{s, damage, frames}, tell, Options{Dir: dir, Format: JSONLines, Partial: true})
		if err != nil || len(sum.Missing) != 1 || len(notes) != 1 || !strings.Contains(notes[0], "rotten") {
			t.Fatalf("after %d frames: %+v, %q, %v; want one note about one log", frames, sum, notes, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		last := struct{ LSN uint64 }{8}
		for line := range strings.Lines(string(text)) {
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatal(err)
			}
		}
		if (len(text) > 0) != (frames > 0) || sum.Missing[0].From != last.LSN || sum.Partitions[0].End != last.LSN || !strings.Contains(sum.Missing[0].Error, "rotten") {
			t.Errorf("after %d frames: %+v, want the rest missing from LSN %d on:\n%s", frames, sum, last.LSN, text)
		}
	}
}

// BenchmarkExport measures events per second of one core: export does all of its work in one
// goroutine.
func BenchmarkExport(b *testing.B) {
	data := filepath.Join(b.TempDir(), "data")
	if err := history.Make(b.Context(), data, history.Options{Events: 300_000, Dead: 3, Lost: 20}); err != nil {
		b.Fatal(err)
	}
	for _, f := range []Format{JSONLines, CSV, Parquet} {
		b.Run(string(f), func(b *testing.B) {
			events, began := int64(0), processor(b)
			for b.Loop() {
				_, sum := export(b, data, Options{Format: f, Dir: filepath.Join(b.TempDir(), fmt.Sprint("out", b.N, events))})
				events += sum.Rows["events"]
			}
			b.ReportMetric(float64(events)/(processor(b)-began).Seconds(), "events/processor-s")
		})
	}
}

// processor returns the CPU time of the program: the cost of an export on a machine that other
// programs use too.
func processor(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// failingPartition is a log that returns an error when it is read for its rows.
type failingPartition struct {
	log.Partition
	err    error
	frames int // that can be read all the same
	reads  int
}

func (u *failingPartition) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	return func(yield func(log.Frame, error) bool) {
		u.reads++
		left := u.frames
		for f, err := range u.Partition.Read(ctx, from) {
			if u.reads > 1 && left == 0 { // the first one is that of the catalogue
				yield(log.Frame{}, u.err)
				return
			}
			if left--; !yield(f, err) {
				return
			}
		}
	}
}
