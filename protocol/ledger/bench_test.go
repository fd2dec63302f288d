package ledger

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/history"
)

var benchDir = flag.String("day", "", "a data directory whose longest log is told, in place of one that the benchmark makes")

// discarded is a client that accepts everything at once.
type discarded struct {
	head         http.Header
	lines, bytes int
}

func (d *discarded) Header() http.Header { return d.head }
func (d *discarded) WriteHeader(int)     {}
func (d *discarded) Flush()              {}

func (d *discarded) SetReadDeadline(time.Time) error  { return nil }
func (d *discarded) SetWriteDeadline(time.Time) error { return nil }

func (d *discarded) Write(p []byte) (int, error) {
	d.lines, d.bytes = d.lines+bytes.Count(p, []byte{'\n'}), d.bytes+len(p)
	return len(p), nil
}

// BenchmarkFollowers measures the broker's work for each event that a follower gets: the event is
// read, and sent as a line.
func BenchmarkFollowers(b *testing.B) {
	dir := *benchDir
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "day")
		if err := history.Make(b.Context(), dir, history.Options{Events: 90_000, Partitions: 1, Queues: 1, Span: 6 * time.Second, Raw: true}); err != nil {
			b.Fatal(err)
		}
	}
	s, err := log.Open(b.Context(), dir, log.Options{Shared: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	longest, most := log.PartitionID(0), event.LSN(0)
	for _, id := range s.Partitions() {
		p, err := s.Open(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		if _, end := p.Bounds(); end > most {
			longest, most = id, end
		}
	}
	h := &handler{Options: Options{Past: s, Logger: slog.New(slog.DiscardHandler)}, questions: make(slots, mostQuestions), shorts: make(slots, mostShort)}
	for _, q := range [][2]string{{"log", fmt.Sprintf("partition=%d&lsn=0", longest)}, {"events", "after=beginning"}} {
		b.Run(q[0], func(b *testing.B) {
			w := &discarded{head: make(http.Header)}
			ask := func() {
				c := &call{Request: httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/?"+q[1], http.NoBody), h: h, w: w}
				answer, err := question(q[0]).answer(c)
				if err != nil {
					b.Fatal(err)
				}
				answer.(stream).send(c)
			}
			ask()
			w.lines, w.bytes = 0, 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				ask()
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(w.lines), "ns/line")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(w.lines), "allocs/line")
			b.ReportMetric(float64(w.bytes)/float64(w.lines), "B/line")
		})
	}
}
