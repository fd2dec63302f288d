package ledger

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// between returns a query for a range in ms.
func between(from, to event.Time, buckets int) StripQuery {
	return StripQuery{From: &Instant{At: from}, To: &Instant{At: to}, Buckets: buckets}
}

// wantBytes computes the bytes of each bucket of a strip from all frames, without any index.
func wantBytes(t *testing.T, d *logdir.Dir, s *rows.Strip) []uint64 {
	t.Helper()
	from, to := event.TimeOf(s.From), event.TimeOf(s.To)
	want := make([]uint64, len(s.Buckets))
	for _, id := range d.Partitions() {
		p, err := d.Store.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range p.Read(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Count > 0 && f.Time >= from && f.Time <= to {
				i := min(int(f.Time-from)/int(s.Step*1000), len(want)-1)
				want[i] += uint64(f.Next-f.LSN) - uint64(f.Bodies[1]-f.Bodies[0])
			}
		}
	}
	return want
}

// The bytes of every bucket are those of its frames, whether they are sealed or not. The marks are
// the rows of audit.
func TestStrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		m := newModelWith(t, seed, func(m *model) {
			m.dir.Append(m.writer[0], m.now, &event.HistoryPolicySet{Pattern: "orders"})
		})
		for _, q := range []StripQuery{between(1_000_000, m.now, 7), between(1_000_000, m.now, 200), between(1_100_000, 1_150_000, 11), between(m.now-1000, m.now, 1)} {
			s, err := New(m.dir, nil).Strip(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range wantBytes(t, m.dir, s) {
				b := s.Buckets[i]
				// a sealed block also has its table, and a part of the frame before
				if b.Bytes == nil || *b.Bytes < want || *b.Bytes > want+want/10+200 || b.Passes != nil {
					t.Errorf("seed %d: %d buckets: %d has %v, want about %d", seed, len(s.Buckets), i, *b.Bytes, want)
				}
			}
			var lines []Line
			since, until := Instant{At: event.TimeOf(s.From)}, Instant{At: event.TimeOf(s.To)}
			if err := New(m.dir, keep(&lines)).Audit(t.Context(), Range{Since: &since, Until: &until}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range s.Marks {
				got = append(got, k.Place)
				if k.Type == "" || !strings.HasPrefix(k.Text, event.TimeOf(k.At).String()+"  "+k.Type) {
					t.Errorf("mark %+v", k)
				}
			}
			if want := column(lines, "Place"); !slices.Equal(got, want) || s.More != 0 || s.Missing != nil || s.Horizon != nil {
				t.Errorf("marks at %v, want %v; %d more, missing %v, horizon %v", got, want, s.More, s.Missing, s.Horizon)
			}
		}
	}
}

// Sealed files have many blocks, some frames are in two of them, and buckets end within blocks.
func TestStripOfManyBlocks(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1, ChapterBytes: 300_000, SealAfter: -1})
	p, w := dir.Lead(0)
	const frames, every = 500, 1000
	var last log.Ticket
	for i := range event.Time(frames) {
		for range 20 {
			w.Batch().AppendRecord(1000+i*every, []event.Event{&event.EntityTouched{Envelope: queue(0)}, &event.ReasonGiven{Reason: strings.Repeat(fmt.Sprint(i), 30)}}, log.Durable)
		}
		last = w.Append(w.Batch())
	}
	if <-last.Done(); last.Err() != nil {
		t.Fatal(last.Err())
	}
	for more := true; more; {
		var err error
		if more, err = p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, end := p.Bounds()
	frame := uint64(end) / frames
	for _, q := range []StripQuery{between(0, 600_000, 200), between(0, 600_000, 13), between(0, 600_000, 1), between(77_000, 78_500, 2), between(300_001, 500_000, 50)} {
		s, err := New(dir, nil).Strip(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range wantBytes(t, dir, s) {
			if got := *s.Buckets[i].Bytes; got+frame < want || got > want+want/20+frame {
				t.Errorf("%d buckets: %d has %d bytes, want %d; a frame has %d", len(s.Buckets), i, got, want, frame)
			}
		}
	}
	list := 0
	if err := log.Volumes(t.Context(), p, 0, event.EndOfTime, func(log.Volume) error { list++; return nil }); err != nil || list < 5 {
		t.Errorf("%d volumes, %v", list, err)
	}
}

// Only the newest changes are marks, and the others are counted.
func TestStripOfManyChanges(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	_, w := dir.Lead(0)
	for i := range event.Time(3*rows.Max + 7) {
		w.Batch().AppendRecord(1000+i, []event.Event{&event.HistoryPolicySet{Pattern: fmt.Sprint("q", i)}}, log.Durable)
	}
	dir.Append(w, 5000, &event.HistoryPolicySet{Pattern: strings.Repeat("long", 500)})
	s, err := New(dir, nil).Strip(t.Context(), between(0, 10_000, 3))
	if err != nil {
		t.Fatal(err)
	}
	if first, last := s.Marks[0], s.Marks[rows.Max-1]; len(s.Marks) != rows.Max || s.More != 2*rows.Max+8 || event.TimeOf(first.At) != 1000+2*rows.Max+8 || event.TimeOf(last.At) != 5000 || len(last.Text) > 1010 {
		t.Errorf("%d marks from %v to %v, %d more; the last text has %d bytes", len(s.Marks), first.At, last.At, s.More, len(last.Text))
	}
}

// Times that occurred twice are the sum of both, and the answer says so. Times over which a clock
// was set forward are no quiet times either.
func TestStripOfTimesThatWereTwice(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	_, w := dir.Lead(0)
	policy := &event.HistoryPolicySet{Pattern: "a"}
	dir.Append(w, 1000, policy)
	dir.Append(w, 9000, policy)
	dir.Append(w, 5000, &event.ClockSet{Number: 1, Basis: event.BasisWall, From: 10_000, To: 5000, Wall: 5000})
	dir.Append(w, 9000, policy)
	dir.Append(w, 30_000, &event.ClockSet{Number: 2, Basis: event.BasisWall, From: 12_000, To: 30_000, Wall: 30_000})
	s, err := New(dir, nil).Strip(t.Context(), between(0, 32_000, 8))
	if err != nil {
		t.Fatal(err)
	}
	passes := ""
	for _, b := range s.Buckets {
		n := 1
		if b.Passes != nil {
			n = *b.Passes
		}
		passes += fmt.Sprint(n)
	}
	var types []string
	for _, k := range s.Marks {
		types = append(types, fmt.Sprint(k.At.Unix(), " ", k.Type))
	}
	if got := wantBytes(t, dir, s); passes != "12210001" || *s.Buckets[2].Bytes != got[2] || fmt.Sprint(types) != "[1 history-kept 9 history-kept 5 clock-set 9 history-kept 30 clock-set]" {
		t.Errorf("passes %s, %d bytes of %v, marks %v", passes, *s.Buckets[2].Bytes, got, types)
	}
}

// Times before the horizon of any partition are unknown, not quiet.
func TestStripOfRemovedHistory(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	d.do(1, &event.HistoryPolicySet{Pattern: "bills"})
	begins := d.cut(0)
	for range 10 {
		d.do(0, &event.HistoryPolicySet{Pattern: "orders"})
	}
	for _, c := range []struct {
		q       StripQuery
		unknown bool
	}{{between(0, d.now, 10), true}, {StripQuery{To: &Instant{At: d.now}}, false}} {
		s, err := New(d, nil).Strip(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		if s.Horizon == nil || event.TimeOf(*s.Horizon) > begins || event.TimeOf(*s.Horizon) == 0 {
			t.Fatalf("horizon %v, not %s", s.Horizon, begins)
		}
		for _, b := range s.Buckets {
			if (b.Bytes == nil) != b.At.Before(*s.Horizon) {
				t.Errorf("bucket %+v, horizon %s", b, s.Horizon)
			}
		}
		if (s.Buckets[0].Bytes == nil) != c.unknown {
			t.Errorf("%+v", s.Buckets[0])
		}
	}
}

// A partition that cannot be read is missing, and named.
func TestStripWithoutAPartition(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	s, err := New(&lacking{m.dir, 1, errors.New("rotten")}, nil).Strip(t.Context(), between(1_000_000, m.now, 7))
	if err != nil || !slices.Equal(s.Missing, []int{1}) || *s.Buckets[0].Bytes == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Invalid arguments are refused, and the error says what is valid.
func TestParseStrip(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for query, want := range map[string]string{
		"buckets=0": "1 to 200", "buckets=201": "1 to 200", "buckets=x": "1 to 200", "from=noon": "from: invalid question", "to=@0/x": "to: ",
		"from=-2h&to=now&buckets=200": "", "": "", "to=2999-01-01": "",
	} {
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseStrip(v, now)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
		if v.Has("to") && err == nil && q.To.At != event.TimeOf(now) {
			t.Errorf("%s: to is %s", query, q.To)
		}
	}
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	dir.Lead(0)
	if _, err := New(dir, nil).Strip(t.Context(), StripQuery{}); !errors.Is(err, ErrNothing) {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := New(dir, nil).Strip(t.Context(), between(2000, 1000, 1)); !errors.Is(err, ErrQuestion) {
		t.Errorf("backwards: %v", err)
	}
}
