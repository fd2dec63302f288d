package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/ledgerbus/ledgerbus/log"
)

// logs are a broker's logs, as entries by partition.
type logs struct {
	namespace string
	first     uint64
	all       [][]string // each entry of a partition
	lsn       [][]uint64
	breaks    int // after that many entries the source fails; 0: it does not
}

// grow adds frames of one to three events.
func (b *logs) grow(frames int) {
	for id := range b.all {
		at := uint64(8)
		if n := len(b.lsn[id]); n > 0 {
			at = b.lsn[id][n-1] + 100
		}
		for i := range frames {
			for k := range i%3 + 1 {
				b.all[id] = append(b.all[id], fmt.Sprintf(`{"Partition":%d,"LSN":%d,"Time":"2026-11-0%dT00:00:00.000Z","Entity":"1/0","Event":"MessageEnqueued","Sequence":%d,"MessageID":"%s"}`,
					id, at, 1+len(b.all[id])/20%9, k, strings.Repeat("ü", i%40)))
				b.lsn[id] = append(b.lsn[id], at)
			}
			at += 100
		}
	}
}

var errBroken = errors.New("broken")

func (b *logs) read(_ context.Context, id int, from uint64, head func(Head) error, entry func([]byte) error) (Tail, error) {
	if err := head(Head{b.namespace, len(b.all), b.first}); err != nil {
		return Tail{}, err
	}
	told := 0
	for i, text := range b.all[id] {
		if b.lsn[id][i] < max(from, b.first) {
			continue
		}
		if told++; b.breaks != 0 && told > b.breaks {
			return Tail{}, errBroken
		}
		if err := entry([]byte(text)); err != nil {
			return Tail{}, err
		}
	}
	if n := len(b.lsn[id]); n > 0 {
		return Tail{Next: b.lsn[id][n-1] + 50}, nil
	}
	return Tail{Next: from}, nil
}

func newLogs(frames int) *logs {
	b := &logs{namespace: "one", first: 8, all: make([][]string, 2), lsn: make([][]uint64, 2)}
	b.grow(frames)
	return b
}

// mirrored runs a round of a mirror that it opens and closes.
func mirrored(dir string, b *logs, o Options) error {
	m, err := Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(m.Round(context.Background(), b.read), m.Close())
}

// entries reads a mirror with the library.
func entries(t *testing.T, dir string, id int) (list []string) {
	t.Helper()
	l, err := wal.Open(filepath.Join(dir, fmt.Sprintf("%02d", id)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	for i := first; i <= last && i > 0; i++ {
		text, err := l.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(text))
	}
	return list
}

func same(t *testing.T, dir string, b *logs, what string) {
	t.Helper()
	for id := range b.all {
		if got := entries(t, dir, id); !slices.Equal(got, b.all[id]) {
			t.Fatalf("%s: partition %d has %d entries, not %d", what, id, len(got), len(b.all[id]))
		}
	}
}

// newest returns the last file of a log with its contents.
func newest(t *testing.T, dir string) (string, []byte) {
	t.Helper()
	names, err := files(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, names[len(names)-1])
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, data
}

// Whatever part of the last file is lost, or replaced by zeros or half an entry, the mirror
// continues without a missing or duplicate entry.
func TestTornTail(t *testing.T) {
	t.Parallel()
	b := newLogs(40)
	dir := t.TempDir()
	if err := mirrored(dir, b, Options{FileBytes: 3000}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, b, "at first")
	if names, _ := files(filepath.Join(dir, "00")); len(names) < 3 {
		t.Fatalf("%d files", len(names))
	}
	for cut := 0; cut < 700; cut += 1 + cut/40 {
		name, data := newest(t, filepath.Join(dir, "00"))
		if cut > len(data) {
			break
		}
		tail := [][]byte{nil, make([]byte, cut%50), []byte("\x7f{\"Partition\":0,"), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}[cut%4]
		if err := os.WriteFile(name, append(slices.Clone(data[:len(data)-cut]), tail...), 0o600); err != nil {
			t.Fatal(err)
		}
		if cut%2 == 0 { // the note may be older than the entries, or gone
			_ = os.Remove(filepath.Join(dir, noteFile))
		} else if err := os.WriteFile(filepath.Join(dir, noteFile), []byte(`{"namespace":"one","next":[108,8]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := mirrored(dir, b, Options{FileBytes: 3000}); err != nil {
			t.Fatalf("%d bytes: %v", cut, err)
		}
		same(t, dir, b, fmt.Sprintf("%d bytes cut, %d added", cut, len(tail)))
	}
}

// After an interruption of the source at any point, the mirror continues there, even within a
// frame.
func TestSourceBreaksOff(t *testing.T) {
	t.Parallel()
	b := newLogs(10)
	dir := t.TempDir()
	for i := range 40 {
		// a frame of 3 needs at least 3 at a time, because existing entries arrive again
		b.breaks = i%4 + 1
		if err := mirrored(dir, b, Options{}); err != nil && !errors.Is(err, errBroken) {
			t.Fatalf("%v; want no error or errBroken", err)
		}
		if i%10 == 0 {
			b.grow(1)
		}
	}
	b.breaks = 0
	if err := mirrored(dir, b, Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, b, "at the end")
}

// Removed history that was not mirrored has one entry; without a gap there is none.
func TestGap(t *testing.T) {
	t.Parallel()
	b := newLogs(10)
	dir := t.TempDir()
	now := func() time.Time { return time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC) }
	if err := mirrored(dir, b, Options{}); err != nil {
		t.Fatal(err)
	}
	had, upTo := len(b.all[0]), b.lsn[0][len(b.lsn[0])-1]+50
	b.first = upTo // removes all mirrored entries
	if err := mirrored(dir, b, Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, b, "nothing is missing")
	b.grow(6)
	b.first = b.lsn[0][len(b.lsn[0])-1]
	var said strings.Builder
	for range 2 {
		if err := mirrored(dir, b, Options{Now: now, Notes: &said}); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(dir, noteFile))
	if err := mirrored(dir, b, Options{Now: now}); err != nil {
		t.Fatal(err)
	}
	kept := b.all[0][len(b.all[0])-3:]
	want := append(slices.Clone(b.all[0][:had]), fmt.Sprintf(`{"Partition":0,"LSN":%d,"Time":"2026-11-09T00:00:00.000Z","Event":"MirrorGap","From":%d,"To":%d}`, upTo, upTo, b.first))
	if got := entries(t, dir, 0); !slices.Equal(got, append(want, kept...)) {
		t.Errorf("%q; want slices.Equal(got, append(want, kept...))", got[had:])
	}
	// of two partitions
	if strings.Count(said.String(), "was removed before it was mirrored") != 2 {
		t.Errorf(`%q; want strings.Count(said.String(), "was removed before it was mirrored") == 2`, said.String())
	}
}

// Damage that is not a torn tail, another log, and a second mirror are refused, and nothing is
// changed.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newLogs(20)
	dir := t.TempDir()
	if err := mirrored(dir, b, Options{}); err != nil {
		t.Fatal(err)
	}
	other := newLogs(20)
	other.namespace = "two"
	if err := mirrored(dir, other, Options{}); !errors.Is(err, ErrOther) {
		t.Errorf("another namespace: %v", err)
	}
	if err := mirrored(dir, newLogs(10), Options{}); !errors.Is(err, ErrOther) {
		t.Errorf("a log that ends before: %v", err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, log.ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, dir, b, "after refusals")
	name, data := newest(t, filepath.Join(dir, "00"))
	data[bytes.Index(data, []byte(`"Event"`))] = '}'
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mirrored(dir, b, Options{}); err == nil || !strings.Contains(err.Error(), "is damaged at byte") {
		t.Errorf("damage: %v", err)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(data) {
		t.Error("a damaged file was changed")
	}
}

// Old entries are removed by whole files, and the rest stays as it is.
func TestKeep(t *testing.T) {
	t.Parallel()
	b := newLogs(60)
	dir := t.TempDir()
	o := Options{FileBytes: 2000, Keep: 24 * time.Hour, Now: func() time.Time { return time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC) }}
	for range 2 {
		if err := mirrored(dir, b, o); err != nil {
			t.Fatal(err)
		}
	}
	got := entries(t, dir, 0)
	if n := len(b.all[0]) - len(got); n == 0 || len(got) == 0 || !slices.Equal(got, b.all[0][n:]) || strings.Contains(got[30], "2026-11-01") {
		t.Errorf("%d of %d are there, from %.80s on", len(got), len(b.all[0]), got[0])
	}
}
