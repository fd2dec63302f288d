package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Checkpoints that cannot be used are passed over, and told; without any a replay begins at the
// first byte.
func TestNewest(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	lost := &withStates{Partition: h.part, states: map[event.LSN]string{}}
	newest := func(limit event.LSN) (from event.LSN, told []string) {
		s := replay.Newest(lost, limit, func(c log.CheckpointInfo, err error) { told = append(told, fmt.Sprintf("%d: %v", c.LSN, err)) })
		run(t, s, replay.Watch{})
		if s.Hash() != h.hash() {
			t.Errorf("another state from %d on", s.From)
		}
		return s.From, told
	}
	wantFrom := func(limit, want event.LSN, texts ...string) {
		t.Helper()
		if from, told := newest(limit); from != want || !slices.Equal(told, texts) {
			t.Errorf("up to %d: from %d, told %q; want %d and %q", limit, from, told, want, texts)
		}
	}
	a, b := h.saved[0], h.saved[1]
	wantFrom(0, b)
	wantFrom(b, b)
	wantFrom(b-1, a)
	wantFrom(a-1, 0)
	version := fmt.Sprintf("the state has encoding version 1, this program reads and writes %d", index.EncodingVersion)
	lost.states[b] = "\x01state"
	wantFrom(0, a, fmt.Sprintf("%d: %s", b, version))
	wantFrom(b-1, a)
	lost.states[a] = string([]byte{index.EncodingVersion}) + "\xff"
	wantFrom(0, 0, fmt.Sprintf("%d: %s", b, version), fmt.Sprintf("%d: index: bad encoding: 1 bytes before the end: bad number", a))
	replay.Newest(lost, 0, nil) // without a callback

	for state, want := range map[string]string{"\x01state": version, "": "EOF", string([]byte{index.EncodingVersion}): "<nil>"} {
		if got := fmt.Sprint(replay.Usable(strings.NewReader(state))); got != want {
			t.Errorf("%q: %s, want %s", state, got, want)
		}
	}
	broken := io.MultiReader(strings.NewReader(string([]byte{index.EncodingVersion})+"st"), unreadable{})
	if err := replay.Usable(broken); !errors.Is(err, log.ErrChecksum) {
		t.Errorf("an end with another sum: %v", err)
	}
}

// unreadable is where a reader finds another sum.
type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, log.ErrChecksum }

// withStates is a log with other states in its checkpoints.
type withStates struct {
	log.Partition
	states map[event.LSN]string
}

func (p *withStates) OpenCheckpoint(at event.LSN) (io.ReadCloser, error) {
	if state, ok := p.states[at]; ok {
		return io.NopCloser(strings.NewReader(state)), nil
	}
	return p.Partition.OpenCheckpoint(at)
}

// withFrames is a log with frames that were changed.
type withFrames struct {
	log.Reader
	change func(*log.Frame)
}

func (r withFrames) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	return func(yield func(log.Frame, error) bool) {
		for f, err := range r.Reader.Read(ctx, from) {
			if err == nil && f.Kind == log.Events {
				r.change(&f)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// What is wrong with a record is told with its place, to who reads records and to who replays; and
// nothing follows.
func TestErrors(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	i := slices.IndexFunc(h.records, func(r written) bool { return r.number == 3 && r.last })
	bad, first := h.records[i], h.records[i-2]
	at := func(what func(*log.Frame)) log.Reader {
		return withFrames{h.part, func(f *log.Frame) {
			if f.LSN == bad.lsn {
				f.Records = bytes.Clone(f.Records)
				what(f)
			}
		}}
	}
	for _, c := range []struct {
		name    string
		reader  log.Reader
		record  int
		reason  string
		unknown bool
	}{
		{"an unknown kind", at(func(f *log.Frame) { f.Records[3] = 250 }), 1, "event: unknown event: kind 250 version ", true},
		{"a record is cut off", at(func(f *log.Frame) { f.Records = f.Records[:len(f.Records)-1] }), 3, "event: record at byte ", false},
		{"a record is missing", at(func(f *log.Frame) { f.Count++ }), 4, "event: record at byte 0: bad number", false},
		{"no record, and bytes", at(func(f *log.Frame) { f.Count, f.Records = 0, []byte{1, 2} }), 0, "2 bytes follow the last record", false},
		{"a record too many", at(func(f *log.Frame) { f.Records = append(f.Records, 1) }), 3, "1 bytes follow the last record", false},
	} {
		place := fmt.Sprintf("partition 0: frame %d: record %d: ", bad.lsn, c.record)
		n := 0
		var got error
		for _, err := range replay.Records(t.Context(), c.reader, 0) {
			if got != nil {
				t.Errorf("%s: something follows the error", c.name)
			}
			if got = err; err == nil {
				n++
			}
		}
		var e *replay.Error
		if !errors.As(got, &e) || !strings.HasPrefix(e.Error(), place+c.reason) || e.Stack != nil || errors.Is(got, event.ErrUnknown) != c.unknown || n != i-2+max(c.record-1, 0) {
			t.Errorf("%s: %v behind %d records, want %s", c.name, got, n, place+c.reason)
		}
		s := replay.Begin(c.reader)
		if err := s.Run(t.Context(), replay.Watch{}); fmt.Sprint(err) != fmt.Sprint(got) {
			t.Errorf("%s: a run says %v", c.name, err)
		}
		if c.record == 1 && (s.At() > first.lsn || s.Hash() != first.before()) {
			t.Errorf("%s: the run stopped at %d with another state", c.name, s.At())
		}
	}

	// An event that does not fit the state names the place as well, and the stack says which rule
	// it was.
	s := replay.Begin(withFrames{h.part, func(f *log.Frame) {
		if f.LSN == bad.lsn { // its first record twice
			f.Count = 2
			f.Records = slices.Concat(firstRecord(f), firstRecord(f))
		}
	}})
	err := s.Run(t.Context(), replay.Watch{})
	var e *replay.Error
	if !errors.As(err, &e) || e.LSN != bad.lsn || e.Number != 2 || !strings.HasPrefix(e.Reason.Error(), "index: ") || !bytes.Contains(e.Stack, []byte("index.(*slice)")) {
		t.Errorf("an event that does not fit: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := replay.Begin(h.part).Run(ctx, replay.Watch{}); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("cancelled: %v", err)
	}
}

// firstRecord is the bytes of the first record of a frame.
func firstRecord(f *log.Frame) []byte {
	var dec event.Decoder
	_, rest, err := dec.Record(f.Base, f.Bodies, f.Records)
	if err != nil {
		panic(err)
	}
	return f.Records[:len(f.Records)-len(rest)]
}
